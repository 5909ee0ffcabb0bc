"""α and relation odds tuned on dev: they belong to the model, and are saved with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np

from unire.config import ModelConfig
from unire.decoding.assemble import DocumentAssembler
from unire.decoding.backend import to_host
from unire.decoding.decoders import SPAN_SCORERS
from unire.decoding.kernels import Decoded, SpanScorer, label_spans
from unire.documents import Document
from unire.evaluation.counts import Scores
from unire.evaluation.scorer import tallies, total
from unire.extractor import Extractor
from unire.windows.spans import TableSpan

__all__ = ["ALPHAS", "ODDS", "sweep", "tune_alpha", "tune_odds", "tuned"]

ALPHAS = {
    "split": tuple(round(0.4 + 0.05 * step, 2) for step in range(33)),
    "likely": tuple(0.25 * step for step in range(1, 33)),
}
"""0.4 to 2: √2·p is the distance at a lone entity's edge that has probability p. Up to 8: e⁸ is 3,000 to 1."""

ODDS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0)
NEAR = 0.001
"""A difference in F1 that says nothing: a tenth of a point."""


def sweep(
    extractor: Extractor,
    documents: Sequence[Document],
    alphas: Sequence[float] | None = None,
    *,
    see: Callable[[Sequence[TableSpan], Any], None] = lambda places, prepared: None,
) -> list[Scores]:
    """Scores on `documents` for every α, from one pass of the encoder.

    From one α to the next few tables are cut otherwise. Only these are decoded, and only their documents counted, anew.

    Args:
        extractor: The model, whose own α does not matter; it decodes by cutting tables.
        documents: The annotated documents.
        alphas: The thresholds; those of `ALPHAS` when left out.
        see: Shown where the tables of every batch belong, and what their decoder has prepared.
    """
    alphas = ALPHAS[extractor.config.decoder] if alphas is None else alphas
    rising = sorted(set(alphas))
    changes = [DocumentAssembler(documents, extractor.labels) for _ in rising]
    for batch, P in extractor.tables(documents):
        prepared = SPAN_SCORERS[extractor.config.decoder](P, batch.lengths, extractor.labels)
        see(batch.tables, prepared)
        _decode(batch.tables, prepared, rising, changes, extractor)
    found = DocumentAssembler(documents, extractor.labels)
    tallied = list(tallies(documents, found.documents(), extractor.labels))
    scores = {}
    for alpha, changed in zip(rising, changes, strict=True):
        for place in found.update(changed):
            (tallied[place],) = tallies([documents[place]], [found.document(place)], extractor.labels)
        scores[alpha] = total(tallied, extractor.labels)
    return [scores[alpha] for alpha in alphas]


def _decode(
    places: Sequence[TableSpan],
    prepared: SpanScorer,
    rising: Sequence[float],
    changes: Sequence[DocumentAssembler],
    extractor: Extractor,
) -> None:
    """Decode a batch for every α, but only the tables that are cut otherwise than for the one before."""
    before = np.zeros(prepared.P.shape[:2], np.bool_)
    for alpha, changed in zip(rising, changes, strict=True):
        begins = to_host(prepared.begins(alpha))
        anew = np.flatnonzero((begins != before).any(1))
        if len(anew):
            some = [places[k] for k in anew.tolist()]
            changed.add(some, _decoded(prepared.only(anew), extractor, alpha, extractor.config.relation_odds))
        before = begins


def _decoded(prepared: SpanScorer, extractor: Extractor, alpha: float, odds: float) -> Decoded:
    return label_spans(prepared, alpha, extractor.permits, odds)


def tune_alpha(extractor: Extractor, documents: Sequence[Document], alphas: Sequence[float] | None = None) -> float:
    """The α with the best Ent + Rel F1; of several equally good ones the middle one; as it was if all are."""
    decoder = extractor.config.decoder
    if decoder not in SPAN_SCORERS:
        return extractor.config.alpha
    alphas = ALPHAS[decoder] if alphas is None else alphas
    totals = [scores.ent_plus_rel for scores in sweep(extractor, documents, alphas)]
    if min(totals) == max(totals):
        return extractor.config.alpha
    best = [alpha for alpha, total in zip(alphas, totals, strict=True) if total == max(totals)]
    return best[len(best) // 2]


def tune_odds(extractor: Extractor, documents: Sequence[Document], odds: Sequence[float] = ODDS) -> float:
    """The least relation odds whose Rel F1 is, for the model's α, as good as any or `NEAR` it; as they were if all are.

    ⊥ has by far the most cells, yet a relation that has little more than ⊥ is seldom right. From some odds on, F1
    changes little, for precision rises as recall falls.
    """
    settings, labels = extractor.config, extractor.labels
    if settings.decoder not in SPAN_SCORERS:
        return settings.relation_odds
    found = {value: DocumentAssembler(documents, labels) for value in odds}
    for batch, P in extractor.tables(documents):
        prepared = SPAN_SCORERS[settings.decoder](P, batch.lengths, labels)
        for value, findings in found.items():
            findings.add(batch.tables, _decoded(prepared, extractor, settings.alpha, value))
    rates = {
        value: total(tallies(documents, findings.documents(), labels), labels).relations.f1
        for value, findings in found.items()
    }
    best = max(rates.values())
    if min(rates.values()) == best:
        return settings.relation_odds
    return min(value for value, rate in rates.items() if rate >= best - NEAR)


def tuned(extractor: Extractor, documents: Sequence[Document], *, alpha: bool = True, odds: bool = True) -> ModelConfig:
    """The model's settings with what does best on `documents`: first α, then relation odds."""
    other = copy(extractor)
    if alpha:
        other.config = other.config.with_(alpha=tune_alpha(other, documents))
    if odds:
        other.config = other.config.with_(relation_odds=tune_odds(other, documents))
    return other.config
