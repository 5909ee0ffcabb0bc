"""α tuned on dev: it belongs to the model, and is saved with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from unire.decoding import split
from unire.decoding.arrays import to_host
from unire.decoding.findings import Findings
from unire.documents import Document
from unire.extractor import Extractor
from unire.scoring import Scores
from unire.scoring.scorer import tallies, total
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

    From one α to the next few tables are cut otherwise. Only these are decoded, and only their documents counted, anew.

    Args:
        extractor: The model, whose own α does not matter.
        documents: The annotated documents.
        alphas: The thresholds.
        see: Shown the tables of every batch, and where they belong.
    """
    rising = sorted(set(alphas))
    changes = [Findings(documents, extractor.labels) for _ in rising]
    for batch, P in extractor.tables(documents):
        prepared = split.prepare(P, batch.lengths, extractor.labels)
        see(batch.tables, prepared)
        _decode(batch.tables, prepared, rising, changes, extractor.permits)
    found = Findings(documents, extractor.labels)
    tallied = list(tallies(documents, found.documents(), extractor.labels))
    scores = {}
    for alpha, changed in zip(rising, changes, strict=True):
        for place in found.update(changed):
            (tallied[place],) = tallies([documents[place]], [found.document(place)], extractor.labels)
        scores[alpha] = total(tallied, extractor.labels)
    return [scores[alpha] for alpha in alphas]


def _decode(
    places: Sequence[Stretch],
    prepared: split.Prepared,
    rising: Sequence[float],
    changes: Sequence[Findings],
    permits: NDArray[np.bool_] | None,
) -> None:
    """Decode a batch for every α, but only the tables that are cut otherwise than for the one before."""
    before = np.zeros(prepared.apart.shape, np.bool_)
    for alpha, changed in zip(rising, changes, strict=True):
        begins = to_host(prepared.begins(alpha))
        anew = np.flatnonzero((begins != before).any(1))
        if len(anew):
            some = [places[k] for k in anew.tolist()]
            changed.add(some, split.decode_prepared(prepared.only(anew), alpha, permits))
        before = begins


def tune_alpha(extractor: Extractor, documents: Sequence[Document], alphas: Sequence[float] = ALPHAS) -> float:
    """The α with the best Ent + Rel F1; of several equally good ones the middle one; as it was if all are."""
    if extractor.settings.decoder != "split":
        return extractor.settings.alpha
    totals = [scores.ent_plus_rel for scores in sweep(extractor, documents, alphas)]
    if min(totals) == max(totals):
        return extractor.settings.alpha
    best = [alpha for alpha, total in zip(alphas, totals, strict=True) if total == max(totals)]
    return best[len(best) // 2]
