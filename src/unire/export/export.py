"""`export_onnx`: write a trained model as a folder that runs in both engines, with one file of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import unire
from unire.documents import Document
from unire.evaluation.scorer import score
from unire.evaluation.scores import Scores
from unire.export.onnx_graph import Precision, write_graph
from unire.extractor import Extractor
from unire.inference.onnx_engine import OnnxEngine
from unire.inference.torch_engine import TorchEngine
from unire.models.checkpoint import dequantize, load_checkpoint, write_checkpoint
from unire.output_files import check_output_folder, locks_output
from unire.windows.collator import bucket_groups, collate

__all__ = ["ExportReport", "Parity", "compare_engines", "export_onnx"]


PARITY_SENTENCES = (
    "We present a chart parser for dependency analysis and evaluate it on the Penn Treebank .",
    "The proposed method outperforms conditional random fields on named entity recognition by 2.3 points of F1 .",
    "Hidden Markov models are used for speech recognition , and neural networks for machine translation .",
    "Aspirin reduced the risk of stroke , but two patients developed severe gastric bleeding after three weeks .",
    "Ada Lovelace , who was born in London , worked with Charles Babbage .",
    "The Reuters office in New York said on Tuesday that Mr. Johnson had left the company .",
    "No .",
    "In this paper we describe a system which extracts entities and the relations between them from long texts , in "
    "which a sentence may have many words , several clauses ( some of them in brackets ) , and more than one verb .",
)
"""Sentences for the comparison if there are no documents: enough to notice a graph that computes something else."""


@dataclass(frozen=True)
class Parity:
    """How closely two engines agree."""

    sentences: int
    """Sentences that were compared."""
    difference: float
    """The largest difference of two probabilities of a cell."""
    mean_difference: float
    """The mean difference over all cells."""
    prediction_f1: float
    """F1 of the entities and relations of one engine against those of the other; 1 if there are none."""

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain JSON values, as `unire export` prints them and as checkpoints hold them."""
        return {
            "sentences": self.sentences,
            "difference": self.difference,
            "mean_difference": self.mean_difference,
            "findings": self.prediction_f1,
        }

    def __str__(self) -> str:
        return (
            f"probabilities differ by {self.difference:.2g} at most and {self.mean_difference:.2g} on average, "
            f"{100 * self.prediction_f1:.1f}% of the predictions are the same ({self.sentences:,} sentences)"
        )


@dataclass(frozen=True, repr=False)
class ExportReport:
    """What `export_onnx` wrote, and how closely it computes what the model computes."""

    folder: Path
    """The folder of the exported model."""
    precision: Precision
    """Precision of the stored weights."""
    size: int
    """Bytes of the whole folder."""
    engines: Parity
    """onnxruntime against PyTorch, both from the exported weights."""
    model: Parity
    """onnxruntime against the model as it was, in PyTorch."""
    scores: Scores | None
    """Of the exported model, by onnxruntime, on the test documents; `None` without any."""

    def to_dict(self) -> dict[str, Any]:
        """Convert the report to plain JSON values, as `unire export` prints them."""
        scores = self.scores and self.scores.to_dict()
        return {
            "folder": str(self.folder),
            "precision": self.precision,
            "size": self.size,
            "engines": self.engines.to_dict(),
            "model": self.model.to_dict(),
            "scores": scores,
        }

    def __repr__(self) -> str:
        lines = [f"Exported model in {str(self.folder)!r}: {self.size / 1e6:.1f} MB of {self.precision}"]
        lines += [f"  {self.scores}"] if self.scores else []
        lines += [f"  onnxruntime against PyTorch with the same weights: {self.engines}"]
        lines += [f"  onnxruntime against the model itself: {self.model}"]
        return "\n".join(lines)


@locks_output
def export_onnx(
    source: str | Path,
    out: str | Path,
    *,
    precision: Precision = "int8",
    test: Sequence[Document] = (),
    about: Mapping[str, str] | None = None,
) -> ExportReport:
    """Export a trained model to ONNX, and check that both engines compute the same.

    The new folder needs no PyTorch, and is still a model like any other: PyTorch can load it and train it further.

    >>> export_onnx("models/mine", "models/mine-int8", test=test)  # doctest: +SKIP

    Args:
        source: The model: a folder, the name of a bundled model, or a name on the Hub.
        out: A new folder.
        precision: Precision of the stored weights: `int8` (a quarter of the size) or `fp32` (exact).
        test: Annotated documents. The engines are compared on them, and the exported model is scored for its card.
            Without any, the engines are compared on a few sentences.
        about: Facts for the model card: `title`, `description`, `base` (the checkpoint that the encoder comes from),
            `licence` (of the model, and of that checkpoint if there is no `base_licence`), `base_licence`,
            `rebuild` (the commands that train the model again).

    Returns:
        Size, agreement of the engines, and scores.

    Raises:
        UnireError: `out` is not empty, there is no such model, or it cannot be exported.
    """
    out = Path(out)
    check_output_folder(out)
    model = load_checkpoint(source)
    sample = [document.bare for document in test] or [Document.from_words([text.split()]) for text in PARITY_SENTENCES]
    with write_checkpoint(model, out) as folder:
        stored = write_graph(model, folder, precision)

        settings, labels = model.config, model.labels
        as_it_was = Extractor(TorchEngine(model), model.tokenizer, settings, labels)
        exported = Extractor(OnnxEngine(folder), model.tokenizer, settings, labels)
        to_model = compare_engines(exported, as_it_was, sample)
        model.load_state_dict(dequantize(stored))
        to_weights = to_model if precision == "fp32" else compare_engines(exported, as_it_was, sample)
        scores = score(test, exported.annotate(test), labels) if test else None
        model.config = settings.with_(
            provenance={
                **settings.provenance,
                **(about or {}),
                "scores": {
                    **settings.provenance.get("scores", {}),
                    **({"test, exported": scores.to_dict()} if scores else {}),
                },
                "export": {
                    "unire": unire.__version__,
                    "precision": precision,
                    "engines": to_weights.to_dict(),
                    "model": to_model.to_dict(),
                },
            }
        )
    size = sum(file.stat().st_size for file in out.iterdir())
    return ExportReport(out, precision, size, to_weights, to_model, scores)


def compare_engines(one: Extractor, other: Extractor, documents: Sequence[Document]) -> Parity:
    """Compare the tables and predictions of two extractors with the same windows, labels and configuration."""
    groups = one.window_builder.build(documents)
    largest, total, cells = 0.0, 0.0, 0
    max_cells = min(one.engine.max_cells, other.engine.max_cells)
    max_tokens = min(one.engine.max_batch_tokens, other.engine.max_batch_tokens)
    for bucket in bucket_groups(groups, max_cells=max_cells, max_tokens=max_tokens):
        batch = collate(bucket, one.config.spec)
        tables = zip(one.engine.predict_tables(batch), other.engine.predict_tables(batch), batch.lengths, strict=True)
        for P, Q, n in tables:
            differences = np.abs(np.asarray(P[:n, :n]) - np.asarray(Q[:n, :n]))
            largest = max(largest, float(differences.max()))
            total, cells = total + float(differences.sum()), cells + differences.size
    first, second = (_collect_predictions(list(extractor.annotate(documents))) for extractor in (one, other))
    n_common, n_total = len(first & second), len(first) + len(second)
    return Parity(
        sentences=sum(len(document.sentences) for document in documents),
        difference=largest,
        mean_difference=total / max(cells, 1),
        prediction_f1=2 * n_common / n_total if n_total else 1.0,
    )


def _collect_predictions(documents: Sequence[Document]) -> set[tuple[object, ...]]:
    """The entities and relations of all documents, comparable across extractors."""
    entities = {(i, e.span, e.label) for i, document in enumerate(documents) for e in document.entities}
    relations = {
        (i, r.head.span, r.head.label, r.label, r.tail.span, r.tail.label)
        for i, document in enumerate(documents)
        for r in document.relations
    }
    return entities | relations
