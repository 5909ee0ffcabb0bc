"""`evaluate`: run a model on annotated documents and report its scores.

`evaluate` runs a model, `evaluate_predictions` takes the predictions of any system, and `evaluate_oracle` decodes the
gold tables. All three return a `Report`, which prints, renders in a notebook and becomes JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unire.calibration import Calibration
from unire.config import check_alpha
from unire.decoding.assemble import DocumentAssembler
from unire.decoding.decoders import decode
from unire.documents import Document
from unire.errors import UnireError, require_extra
from unire.evaluation.bootstrap import Intervals, bootstrap_counts
from unire.evaluation.calibration_error import CalibrationErrors, outcomes_of_matches
from unire.evaluation.coreference import CoreferenceScores, score_coreference
from unire.evaluation.error_analysis import ERROR_KINDS, diagnose
from unire.evaluation.scorer import (
    Matches,
    align_documents,
    count_document,
    count_one_way,
    match_documents,
    sum_scores,
)
from unire.evaluation.scores import DEFAULT_PROTOCOL, Counts, Protocol, Scores, TypedCounts
from unire.extractor import Extractor
from unire.labels import LabelSpace
from unire.tables import TableSpan, fill_sentence

if TYPE_CHECKING:
    from unire.models.unire import UniRE

__all__ = ["ONE_WAY_NOTE", "Report", "evaluate", "evaluate_oracle", "evaluate_predictions", "to_extractor"]

ONE_WAY_NOTE = (
    "symmetric relation predicted one way only: `doubled` counts the other way as missed; "
    'symmetric="once" compares systems that predict a pair once'
)


@dataclass(frozen=True, repr=False)
class Report:
    """The scores of one system on annotated documents.

    >>> report = evaluate("science", documents)  # doctest: +SKIP
    >>> report.scores.relations.f1  # doctest: +SKIP
    0.407
    """

    scores: Scores
    """Counts and rates under the chosen protocol, overall and by type."""
    gold: Sequence[Document]
    """The annotated documents."""
    predicted: Sequence[Document]
    """The gold documents with the predictions in place of their annotation."""
    labels: LabelSpace
    """The types that are counted."""
    protocols: Sequence[Scores] = ()
    """Scores under each of the six ways to count relations, if requested."""
    intervals: Intervals | None = None
    """95% bootstrap confidence intervals, if requested."""
    confidence: CalibrationErrors | None = None
    """Expected calibration error of the model's scores, under the default protocol; `None` without a model."""
    coreference: CoreferenceScores | None = None
    """MUC, B³ and CEAF-φ4 of the clusters; `None` if gold or the predictions have none."""
    notes: Mapping[str, int] = field(default_factory=dict)
    """What needed special care, and how often."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """What was evaluated, for the JSON: the model and the names of the files, as far as known."""

    @cached_property
    def errors(self) -> dict[str, int]:
        """How many gold relations are missed for each of the paper's five reasons (Figure 6).

        Raises:
            UnireError: Gold and predictions do not have the same words.
        """
        kinds: Counter[str] = Counter()
        for gold, predicted in align_documents(self.gold, self.predicted):
            if gold.words != predicted.words:
                raise UnireError("the error analysis compares words; predict on the gold words")
            kinds.update(diagnosis.kind for diagnosis in diagnose(gold, predicted, self.labels))
        return {kind: kinds[kind] for kind in ERROR_KINDS}

    def to_dict(self) -> dict[str, Any]:
        """Convert the report to plain JSON values, as `unire evaluate` prints them; rates are fractions."""
        optional = {
            "protocols": [scores.to_dict() for scores in self.protocols],
            "intervals": self.intervals and self.intervals.to_dict(),
        }
        return {
            **self.inputs,
            "notes": {note: count for note, count in self.notes.items() if count},
            **({"confidence": self.confidence.to_dict()} if self.confidence else {}),
            "scores": self.scores.to_dict(),
            **({"coreference": self.coreference.to_dict()} if self.coreference else {}),
            **{key: value for key, value in optional.items() if value},
        }

    def __repr__(self) -> str:
        parts = [("Entities", self.scores.entities), ("Relations", self.scores.relations)]
        intervals = self.intervals and (self.intervals.entities, self.intervals.relations)
        lines = [f"Report on {len(self.gold):,} documents [{self.scores.protocol}]"]
        for i, (name, counts) in enumerate(parts):
            f1 = intervals and intervals[i].f1
            interval = f" [{100 * f1.low:.1f}, {100 * f1.high:.1f}]" if f1 else ""
            lines.append(f"  {name:<10} {_percentages(counts)}{interval}")
        if self.coreference:
            lines.append(f"  {self.coreference}")
        if self.confidence:
            lines.append(f"  Expected calibration error: {self.confidence}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Render the scores as a table, for notebooks."""
        rows = []
        for name, counts in (("Entities", self.scores.entities), ("Relations", self.scores.relations)):
            rows.append((f"<b>{name}</b>", *_cells(counts, counts.total)))
            rows += [(escape(label), *_cells(typed, typed)) for label, typed in counts.by_type.items()]
        head = "".join(f"<th>{column}</th>" for column in ("", "P", "R", "F1", "correct", "predicted", "gold"))
        body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
        below = f"<p>{escape(str(self.coreference))}</p>" if self.coreference else ""
        below += f"<p>Expected calibration error: {self.confidence}</p>" if self.confidence else ""
        caption = f"{len(self.gold):,} documents [{escape(str(self.scores.protocol))}]"
        return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def evaluate(
    model: Extractor | UniRE | str | Path,
    documents: Iterable[Document],
    protocol: Protocol = DEFAULT_PROTOCOL,
    *,
    all_protocols: bool = False,
    bootstrap: int = 0,
    notes: Counter[str] | None = None,
) -> Report:
    """Run a model on annotated documents and compare its predictions with the annotation.

    >>> evaluate("science", documents, bootstrap=1000)  # doctest: +SKIP

    Args:
        model: An `Extractor`, a `UniRE` model, or the name or folder of a model. Load an `Extractor` to choose the
            device, the decoder or α.
        documents: The annotated documents, as `unire.read_documents` returns them.
        protocol: What counts as correct.
        all_protocols: Also score under each of the six ways to count relations.
        bootstrap: The number of bootstrap resamples for 95% confidence intervals; 0 for none.
        notes: Counts from reading the documents, to which those of the model are added.

    Returns:
        The scores, the calibration error and the predictions.

    Raises:
        UnireError: There are no documents, or they have labels that the model does not know.
    """
    gold = _check_documents(documents)
    extractor = to_extractor(model)
    extractor.labels.check(gold)
    notes = Counter() if notes is None else notes
    predicted = list(extractor.annotate(gold, notes=notes))
    return _compare(
        gold,
        predicted,
        extractor.labels,
        protocol,
        all_protocols=all_protocols,
        resamples=bootstrap,
        calibrated=True,
        notes=notes,
        inputs={"model": str(extractor.model_dir.path if extractor.model_dir else "in memory"), "data": []},
    )


def evaluate_oracle(
    documents: Iterable[Document],
    labels: LabelSpace | str | None = None,
    protocol: Protocol = DEFAULT_PROTOCOL,
    *,
    decoder: str = "split",
    alpha: float | None = None,
    all_protocols: bool = False,
    bootstrap: int = 0,
    notes: Counter[str] | None = None,
) -> Report:
    """Decode the gold tables: what decoding alone misses, whatever the model.

    >>> evaluate_oracle(documents, "scierc").scores.entities.recall  # doctest: +SKIP

    Args:
        documents: The annotated documents.
        labels: A label space, the name of a built-in one, or `None` to learn it from the documents.
        protocol: What counts as correct.
        decoder: `split`, `likely` or `hard`.
        alpha: The threshold of the decoder. [default: 1.4 for `split`, 2 for `likely`]
        all_protocols: Also score under each of the six ways to count relations.
        bootstrap: The number of bootstrap resamples for 95% confidence intervals; 0 for none.
        notes: Counts from reading the documents.

    Returns:
        The scores and the decoded documents.
    """
    threshold = None if alpha is None else check_alpha(alpha)
    gold = _check_documents(documents)
    space = _to_labels(labels, gold)
    return _compare(
        gold,
        [_decode_gold(document, space, decoder, threshold) for document in gold],
        space,
        protocol,
        all_protocols=all_protocols,
        resamples=bootstrap,
        notes=notes or {},
        inputs={"model": "oracle", "data": []},
    )


def evaluate_predictions(
    gold: Iterable[Document],
    predicted: Iterable[Document],
    labels: LabelSpace | str | None = None,
    protocol: Protocol = DEFAULT_PROTOCOL,
    *,
    all_protocols: bool = False,
    bootstrap: int = 0,
    notes: Counter[str] | None = None,
) -> Report:
    """Compare the predictions of any system with the annotation; no model needed.

    >>> evaluate_predictions(gold, predicted, "scierc", all_protocols=True)  # doctest: +SKIP

    Args:
        gold: The annotated documents.
        predicted: The same documents with predicted annotation; in another order only if all have ids.
        labels: A label space, the name of a built-in one, or `None` to learn it from both.
        protocol: What counts as correct.
        all_protocols: Also score under each of the six ways to count relations.
        bootstrap: The number of bootstrap resamples for 95% confidence intervals; 0 for none.
        notes: Counts from reading the documents.

    Returns:
        The scores. A note counts symmetric relations that are predicted in one direction only, if that costs recall.

    Raises:
        UnireError: The two are not the same documents, or have labels that the label space does not know.
    """
    gold, predicted = _check_documents(gold), _check_documents(predicted)
    space = _to_labels(labels, [*gold, *predicted])
    notes = Counter() if notes is None else notes
    notes[ONE_WAY_NOTE] = count_one_way(predicted, space) if protocol.symmetric == "doubled" else 0
    return _compare(
        gold, predicted, space, protocol, all_protocols=all_protocols, resamples=bootstrap, notes=notes, inputs={}
    )


def to_extractor(model: Extractor | UniRE | str | Path) -> Extractor:
    """Return the extractor of a model: itself, one around a `UniRE` in memory, or one loaded from a folder.

    Raises:
        UnireError: `model` is none of these.
    """
    if isinstance(model, Extractor):
        return model
    if isinstance(model, (str, Path)):
        return Extractor.load(model)
    with require_extra():
        from unire.inference.torch_engine import TorchEngine
        from unire.models.unire import UniRE
    if not isinstance(model, UniRE):
        raise UnireError(f"a model is an Extractor, a UniRE, a name or a folder, not {type(model).__name__}")
    return Extractor(TorchEngine(model), model.tokenizer, model.config, model.labels, model.coreference)


def _compare(
    gold: Sequence[Document],
    predicted: Sequence[Document],
    labels: LabelSpace,
    protocol: Protocol,
    *,
    all_protocols: bool,
    resamples: int,
    notes: Mapping[str, int],
    inputs: Mapping[str, Any],
    calibrated: bool = False,
) -> Report:
    """Compare gold and predictions once per protocol, and compute everything in a report from these matches."""

    @cache
    def match(protocol: Protocol) -> list[Matches]:
        return list(match_documents(gold, predicted, labels, protocol))

    def count(protocol: Protocol) -> Scores:
        return sum_scores((count_document(matches, labels, protocol) for matches in match(protocol)), labels, protocol)

    have_clusters = all(any(document.clusters for document in side) for side in (gold, predicted))
    others = Protocol.all(spans=protocol.spans, average=protocol.average, drop_overlapping=protocol.drop_overlapping)
    counts = [count_document(matches, labels, protocol) for matches in match(protocol)]
    return Report(
        sum_scores(counts, labels, protocol),
        gold,
        predicted,
        labels,
        [count(other) for other in others] if all_protocols else (),
        bootstrap_counts(counts, labels, protocol, samples=resamples) if resamples else None,
        CalibrationErrors.of(outcomes_of_matches(match(DEFAULT_PROTOCOL), labels)) if calibrated else None,
        score_coreference(gold, predicted, protocol.spans) if have_clusters else None,
        notes,
        inputs,
    )


def _decode_gold(document: Document, labels: LabelSpace, decoder: str, alpha: float | None) -> Document:
    """Replace the annotation of a document by what the decoder finds in its gold tables."""
    one_hot = np.eye(len(labels), dtype=np.float32)
    assembler = DocumentAssembler([document], labels)
    for index, sentence in enumerate(document.sentences):
        if sentence.words:
            table = fill_sentence(sentence, labels).labels
            decoded = decode(one_hot[table][None], [len(table)], labels, decoder=decoder, alpha=alpha)
            decoded = decoded.calibrated(Calibration(), labels)
            assembler.add([TableSpan(0, index, sentence.start, sentence.end)], decoded)
    return assembler.documents()[0]


def _check_documents(documents: Iterable[Document]) -> list[Document]:
    if isinstance(documents, (str, bytes, Path, Document, Mapping)) or not isinstance(documents, Iterable):
        raise UnireError(
            f"annotated documents are a list of Document, not {type(documents).__name__}; "
            "read files with unire.read_documents"
        )
    listed = list(documents)
    for document in listed:
        if not isinstance(document, Document):
            raise UnireError(f"annotated documents are a list of Document, but one is {type(document).__name__}")
    if not listed:
        raise UnireError("there are no documents to evaluate on")
    return listed


def _to_labels(labels: LabelSpace | str | None, documents: Iterable[Document]) -> LabelSpace:
    return labels if isinstance(labels, LabelSpace) else LabelSpace.resolve(labels, None, documents)


def _percentages(counts: Counts | TypedCounts) -> str:
    rates = (("P", counts.precision), ("R", counts.recall), ("F1", counts.f1))
    return "  ".join(f"{name} {100 * rate:.1f}" for name, rate in rates)


def _cells(rates: Counts | TypedCounts, counts: Counts) -> tuple[str, ...]:
    percentages = (f"{100 * rate:.1f}" for rate in (rates.precision, rates.recall, rates.f1))
    return (*percentages, *(f"{count:,}" for count in counts.row))
