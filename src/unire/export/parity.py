"""Parity of two engines: how closely they agree on the same documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unire.documents import Document
from unire.extractor import Extractor
from unire.windows.collator import bucket_batches, collate

__all__ = ["SENTENCES", "Parity", "compare_engines"]

SENTENCES = (
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
    difference: float
    """The largest difference of two probabilities of a cell."""
    mean_difference: float
    findings: float
    """F1 of the entities and relations of one engine against those of the other; 1 if there are none."""

    def __str__(self) -> str:
        return (
            f"probabilities differ by {self.difference:.2g} at most and {self.mean_difference:.2g} on average, "
            f"{100 * self.findings:.1f}% of the findings are the same ({self.sentences:,} sentences)"
        )


def compare_engines(one: Extractor, other: Extractor, documents: Sequence[Document]) -> Parity:
    """Compare the tables and predictions of two extractors with the same windows, labels and configuration."""
    groups = one.window_builder.build(documents)
    largest, total, cells = 0.0, 0.0, 0
    max_cells = min(one.engine.max_cells, other.engine.max_cells)
    max_tokens = min(one.engine.max_tokens, other.engine.max_tokens)
    for bucket in bucket_batches(groups, max_cells=max_cells, max_tokens=max_tokens):
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
        findings=2 * n_common / n_total if n_total else 1.0,
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
