"""Figures 4 and 5 of the paper: distances between adjacent rows and columns, and F1 over the threshold α; on dev.

The thresholds are those of the model's own decoder. The distances are those of the decoder `split`, for any model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unire import formats
from unire.config import PAPER_ALPHA
from unire.decoding.backend import to_host
from unire.decoding.decoders import SPAN_DECODERS, BoundaryDecoder, SpanDecoder
from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.tuning import sweep_alphas
from unire.extractor import Extractor
from unire.labels import LabelSpace
from unire.studies import charts as draw
from unire.studies.results import (
    Json,
    ResultTable,
    check_labels,
    check_result_folder,
    count_sentences,
    describe_inputs,
    format_percent,
    save_result,
)
from unire.tables import TableSpan, fill_sentence, read_table

__all__ = ["ALPHAS", "charts", "study_threshold", "tables", "threshold"]

ALPHAS = tuple(round(0.05 * step, 2) for step in range(1, 51))
"""0.05 to 2.5."""
EDGES = tuple(round(0.1 * step, 1) for step in range(51))
"""The bin edges of the histogram; the last bin also holds all larger distances."""
CURVES = {"span": "Span F1", "ent": "Ent F1", "rel": "Rel F1"}


def study_threshold(
    model: str,
    data: Sequence[Path],
    *,
    format: str | None = None,
    decoder: str | None = None,
    device: str | None = None,
    out: Path | None = None,
    notes: Counter[str] | None = None,
    log: Callable[[str], None] = lambda line: None,
) -> Json:
    """Study the threshold α of a model on annotated files.

    Args:
        model: Name or folder of the model.
        data: Annotated files.
        format: Format of the data. By default it is detected.
        decoder: `split` or `likely`. By default that of the model.
        device: `cpu` or `cuda`. By default a GPU if there is one.
        out: Folder of studies in which the numbers are saved.
        notes: Counts what the readers of the data changed or skipped.
        log: Called with a line if results of another model with the same name are replaced.
    """
    check_result_folder(out, "threshold", [model], data)
    documents = formats.read_documents(data, format, notes=notes)
    extractor = Extractor.load(model, device=device, decoder=decoder)
    check_labels(model, extractor.labels, documents)
    result = {**threshold(extractor, documents), **describe_inputs([model], data)}
    save_result(result, out, log)
    return result


def threshold(extractor: Extractor, documents: Sequence[Document]) -> Json:
    """Measure the distances at and off entity boundaries, and the scores for every α, with one pass of the encoder.

    The decoder, its relation odds and its α are those of the extractor.

    Raises:
        UnireError: The decoder has no threshold.
    """
    decoder, own = extractor.config.decoder, extractor.config.alpha
    if decoder not in SPAN_DECODERS:
        choices = " or ".join(f'decoder="{name}"' for name in SPAN_DECODERS)
        raise UnireError(f"the decoder {decoder!r} of the model has no threshold α; give {choices}")
    distances = _Distances(documents, extractor.labels)
    alphas = sorted({own, *(ALPHAS if decoder == "split" else SPAN_DECODERS[decoder].alpha_grid)})
    scores = sweep_alphas(extractor, documents, alphas, on_batch=distances.add)
    return {
        "study": "threshold",
        "sentences": count_sentences(documents),
        "decoder": decoder,
        "alpha": own,
        "distances": {"edges": list(EDGES), **{name: counts.tolist() for name, counts in distances.counts.items()}},
        "sweep": [
            {
                "alpha": alpha,
                "span": score.spans and score.spans.f1,
                "ent": score.entities.f1,
                "rel": score.relations.f1,
            }
            for alpha, score in zip(alphas, scores, strict=True)
        ],
    }


def tables(result: Json) -> list[ResultTable]:
    by_alpha = {point["alpha"]: point for point in result["sweep"]}
    own, decoder = result["alpha"], _decoder(result)
    rows_by_name = {
        **({"the paper's α": PAPER_ALPHA} if decoder == "split" else {}),
        **({} if own is None else {"the model's α": min(by_alpha, key=lambda alpha: abs(alpha - own))}),
        **{f"best {title}": _best(result, curve) for curve, title in CURVES.items()},
    }
    rows = [
        (name, f"{alpha:g}", *(format_percent(by_alpha[alpha][curve]) for curve in CURVES))
        for name, alpha in rows_by_name.items()
    ]
    edges = result["distances"]["edges"]
    distance_rows = [
        (
            name,
            f"{sum(counts):,}",
            *(
                format_percent(sum(counts[edges.index(edge) :]) / max(sum(counts), 1))
                for edge in (0.1, 1.0, PAPER_ALPHA)
            ),
        )
        for name, counts in (
            ("at a boundary", result["distances"]["boundary"]),
            ("elsewhere", result["distances"]["other"]),
        )
    ]
    return [
        ResultTable(
            f"F1 over the α of `{decoder}`: {result['sentences']:,} sentences (Figure 5 of the UniRE paper)",
            ("", "α", *CURVES.values()),
            rows,
        ),
        ResultTable(
            "Distances between adjacent words, % of n (Figure 4 of the UniRE paper)",
            ("", "n", "≥ 0.1", "≥ 1", "≥ 1.4"),
            distance_rows,
        ),
    ]


def charts(result: Json) -> dict[str, str]:
    counted = f"n = {result['sentences']:,} sentences; one model"
    own, decoder = result["alpha"], _decoder(result)
    paper_mark = (PAPER_ALPHA, f"the paper's α = {PAPER_ALPHA:g}")
    mark = paper_mark if own is None else (own, f"the model's α = {own:g}")
    distances = result["distances"]
    series = {"entity boundary": distances["boundary"], "elsewhere": distances["other"]}
    curves = {title: [100 * point[curve] for point in result["sweep"]] for curve, title in CURVES.items()}
    return {
        "distances": draw.histogram(
            distances["edges"],
            series,
            x="distance between adjacent rows and columns (the last bin: and more)",
            y="share of the positions, %",
            mark=mark if decoder == "split" else paper_mark,
            note=f"{counted}; n in the legend: positions between two words",
        ),
        "threshold": draw.lines(
            [point["alpha"] for point in result["sweep"]],
            curves,
            x=f"threshold α of {decoder}",
            y="F1, %",
            mark=mark,
            note=counted,
        ),
    }


def _decoder(result: Json) -> str:
    """The decoder of a study. Older results, all of `split`, do not name it."""
    return str(result.get("decoder", "split"))


def _best(result: Json, curve: str) -> float:
    """The α where a curve has its maximum."""
    return float(max(result["sweep"], key=lambda point: point[curve])["alpha"])


@dataclass
class _Distances:
    """Histograms of the distances at gold entity boundaries and elsewhere."""

    documents: Sequence[Document]
    labels: LabelSpace
    counts: dict[str, NDArray[np.int64]] = field(
        default_factory=lambda: {name: np.zeros(len(EDGES) - 1, np.int64) for name in ("boundary", "other")}
    )

    def add(self, tables: Sequence[TableSpan], decoder: SpanDecoder) -> None:
        if not isinstance(decoder, BoundaryDecoder):
            decoder = BoundaryDecoder(decoder.P, to_host(decoder.n_words), self.labels)
        for table, row in zip(tables, decoder.distances, strict=False):  # padding tables may follow
            distances = row[: len(table) - 1]
            at_boundary = np.zeros(len(table) + 1, bool)
            sentence = self.documents[table.document].sentences[table.sentence]
            entities, _ = read_table(fill_sentence(sentence, self.labels, table.start, table.end).labels, self.labels)
            at_boundary[[border for start, end, _ in entities for border in (start, end)]] = True
            for name, selected in (("boundary", at_boundary[1:-1]), ("other", ~at_boundary[1:-1])):
                self.counts[name] += np.histogram(np.minimum(distances[selected], EDGES[-1]), EDGES)[0]
