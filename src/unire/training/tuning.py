"""α tuned on dev: it belongs to the model, and is saved with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from unire.decoding import split
from unire.decoding.findings import Findings
from unire.documents import Document
from unire.extractor import Extractor
from unire.scoring import Scores, score
from unire.windows import Stretch

__all__ = ["ALPHAS", "sweep", "tune_alpha"]

ALPHAS = tuple(round(0.4 + 0.05 * step, 2) for step in range(33))
"""0.4 to 2: √2·p is the distance at a lone entity's edge that has probability p."""


def sweep(
    extractor: Extractor,
    documents: Sequence[Document],
    alphas: Sequence[float] = ALPHAS,
    *,
    see: Callable[[Sequence[Stretch], split.Prepared], None] = lambda places, prepared: None,
) -> list[Scores]:
    """Scores on `documents` for every α, from one pass of the encoder.

    Args:
        extractor: The model, whose own α does not matter.
        documents: The annotated documents.
        alphas: The thresholds.
        see: Shown the tables of every batch, and where they belong.
    """
    found = [Findings(documents, extractor.labels) for _ in alphas]
    for batch, P in extractor.tables(documents):
        prepared = split.prepare(P, batch.lengths, extractor.labels)
        see(batch.tables, prepared)
        for alpha, findings in zip(alphas, found, strict=True):
            findings.add(batch.tables, split.decode_prepared(prepared, alpha, extractor.permits))
    return [score(documents, findings.documents(), extractor.labels) for findings in found]


def tune_alpha(extractor: Extractor, documents: Sequence[Document], alphas: Sequence[float] = ALPHAS) -> float:
    """The α with the best Ent + Rel F1; of several equally good ones the middle one; as it was if all are."""
    if extractor.settings.decoder != "split":
        return extractor.settings.alpha
    totals = [scores.ent_plus_rel for scores in sweep(extractor, documents, alphas)]
    if min(totals) == max(totals):
        return extractor.settings.alpha
    best = [alpha for alpha, total in zip(alphas, totals, strict=True) if total == max(totals)]
    return best[len(best) // 2]
