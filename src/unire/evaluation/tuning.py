"""Tuning on dev, without training: the threshold α, the relation odds, and the calibration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unire import pretrained
from unire.analysis.checks import count_types
from unire.calibration import Calibration, CalibrationCurve, IdentityCurve
from unire.config import ModelConfig
from unire.decoding.assemble import DocumentAssembler
from unire.decoding.backend import to_host
from unire.decoding.decoders import DECODERS, SPAN_DECODERS, SpanDecoder, default_alpha
from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.calibration_error import CalibrationErrors, Outcomes, collect_outcomes
from unire.evaluation.scorer import count_matches, score, sum_scores
from unire.evaluation.scores import Scores
from unire.evaluation.thresholds import MIN_F1_DIFFERENCE, with_thresholds
from unire.extractor import Extractor
from unire.hub.model_dir import ModelDir, locate_local_model
from unire.labels import LabelSpace
from unire.output_files import check_output_folder
from unire.tables import TableSpan

__all__ = [
    "RELATION_ODDS_GRID",
    "CalibrationEffect",
    "CalibrationReport",
    "calibrate",
    "check_has_predictions",
    "collect_log_odds",
    "fit_calibration",
    "fit_curves",
    "sweep_alphas",
    "tune_alpha",
    "tune_config",
    "tune_relation_odds",
]

RELATION_ODDS_GRID = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0)
SMALL_DEV_ITEMS = 500
"""With fewer annotated entities and relations, tuning has a prior."""
PRIOR_WEIGHT = 2.0
"""Correct annotations by which a value of α or of the odds must win, for each factor e between it and the prior."""
PRIOR_ODDS = 3.0
"""Relation odds that are near the best for most models."""

# α and relation odds


def sweep_alphas(
    extractor: Extractor,
    documents: Sequence[Document],
    alphas: Sequence[float] | None = None,
    *,
    on_batch: Callable[[Sequence[TableSpan], Any], None] = lambda tables, decoder: None,
) -> list[Scores]:
    """Score the model for every α, with one pass of the encoder.

    Few tables change from one α to the next. Only these are decoded again, and only their documents counted again.

    Args:
        extractor: The model. It decodes by `split` or `likely`; its own α does not matter.
        documents: The annotated documents.
        alphas: The thresholds. [default: the decoder's `alpha_grid`]
        on_batch: Called for every batch, with its tables and their decoder.
    """
    labels = extractor.labels
    alphas = SPAN_DECODERS[extractor.config.decoder].alpha_grid if alphas is None else alphas
    increasing = sorted(set(alphas))
    changes = [DocumentAssembler(documents, labels) for _ in increasing]
    for batch, P in extractor.predict_tables(documents):
        decoder = SPAN_DECODERS[extractor.config.decoder](P, batch.lengths, labels)
        on_batch(batch.table_spans, decoder)
        _decode_changes(batch.table_spans, decoder, increasing, changes, extractor)
    current = DocumentAssembler(documents, labels)
    counts = list(count_matches(documents, current.documents(), labels))
    scores = {}
    for alpha, changed in zip(increasing, changes, strict=True):
        for index in current.update(changed):
            (counts[index],) = count_matches([documents[index]], [current.document(index)], labels)
        scores[alpha] = sum_scores(counts, labels)
    return [scores[alpha] for alpha in alphas]


def _decode_changes(
    tables: Sequence[TableSpan],
    decoder: SpanDecoder,
    alphas: Sequence[float],
    changes: Sequence[DocumentAssembler],
    extractor: Extractor,
) -> None:
    """Decode a batch for every α, but only the tables whose spans differ from those of the α before."""
    previous = np.zeros(decoder.P.shape[:2], np.bool_)
    for alpha, assembler in zip(alphas, changes, strict=True):
        starts = to_host(decoder.span_starts(alpha))
        changed = np.flatnonzero((starts != previous).any(1))
        if len(changed):
            selected = decoder.select(changed)
            decoded = selected.decode(alpha, extractor.allowed_relations, extractor.config.relation_odds)
            assembler.add([tables[k] for k in changed.tolist()], decoded)
        previous = starts


def tune_alpha(
    extractor: Extractor,
    documents: Sequence[Document],
    alphas: Sequence[float] | None = None,
    *,
    prior_weight: float = 0.0,
) -> float:
    """Find the α with the best Ent + Rel F1: the middle one of several, or the current one if all are equal.

    With a weight of the prior, values far from the decoder's default must win by more; see `PRIOR_WEIGHT`.
    """
    alphas = DECODERS[extractor.config.decoder].alpha_grid if alphas is None else alphas
    if not alphas or extractor.config.decoder not in SPAN_DECODERS:
        return extractor.config.alpha
    totals = [scores.ent_plus_rel for scores in sweep_alphas(extractor, documents, alphas)]
    if min(totals) == max(totals):
        return extractor.config.alpha
    if prior_weight:
        prior = default_alpha(extractor.config.decoder)
        totals = [
            total - prior_weight * abs(math.log(alpha / prior)) for total, alpha in zip(totals, alphas, strict=True)
        ]
    best = [alpha for alpha, total in zip(alphas, totals, strict=True) if total == max(totals)]
    return best[len(best) // 2]


def tune_relation_odds(
    extractor: Extractor,
    documents: Sequence[Document],
    odds: Sequence[float] = RELATION_ODDS_GRID,
    *,
    prior_weight: float = 0.0,
) -> float:
    """Find the smallest relation odds whose Rel F1 is at most `MIN_F1_DIFFERENCE` below the best.

    With a weight of the prior, values far from `PRIOR_ODDS` must win by more; see `PRIOR_WEIGHT`.

    If all are equal, the current odds stay. Most cells are ⊥, and a relation that is barely more probable than ⊥ is
    seldom correct. Beyond some odds F1 changes little, because precision rises as recall falls.
    """
    config, labels = extractor.config, extractor.labels
    if config.decoder not in SPAN_DECODERS:
        return config.relation_odds
    predicted = {value: DocumentAssembler(documents, labels) for value in odds}
    for batch, P in extractor.predict_tables(documents):
        decoder = SPAN_DECODERS[config.decoder](P, batch.lengths, labels)
        for value, assembler in predicted.items():
            assembler.add(batch.table_spans, decoder.decode(config.alpha, extractor.allowed_relations, value))
    f1 = {
        value: sum_scores(count_matches(documents, assembler.documents(), labels), labels).relations.f1
        for value, assembler in predicted.items()
    }
    best = max(f1.values())
    if min(f1.values()) == best:
        return config.relation_odds
    if prior_weight:
        return max(f1, key=lambda value: f1[value] - prior_weight * abs(math.log(value / PRIOR_ODDS)))
    return min(value for value, rate in f1.items() if rate >= best - MIN_F1_DIFFERENCE)


def tune_config(
    extractor: Extractor, documents: Sequence[Document], *, alpha: bool = True, relation_odds: bool = True
) -> ModelConfig:
    """The model's config with the values that are best on `documents`: first α, then the relation odds.

    On few annotations, values near the defaults are preferred, because the best ones are largely chance.
    """
    other = copy(extractor)
    n_entities, n_relations = (sum(counts.values()) for counts in count_types(documents).values())
    is_small = n_entities + n_relations < SMALL_DEV_ITEMS
    if alpha:
        weight = PRIOR_WEIGHT / max(1, n_entities + n_relations) if is_small else 0.0
        other.config = other.config.with_(alpha=tune_alpha(other, documents, prior_weight=weight))
    if relation_odds:
        weight = PRIOR_WEIGHT / max(1, n_relations) if is_small else 0.0
        other.config = other.config.with_(relation_odds=tune_relation_odds(other, documents, prior_weight=weight))
    return other.config


# Calibration


def collect_log_odds(extractor: Extractor, documents: Sequence[Document]) -> Outcomes:
    """Predict annotated documents; the scores are the decoder's log-odds, before any calibration."""
    raw = copy(extractor)
    raw.config = extractor.config.with_(calibration=Calibration(IdentityCurve(), IdentityCurve()))
    return collect_outcomes(documents, raw.annotate(documents), extractor.labels)


def check_has_predictions(outcomes: Outcomes) -> None:
    """Refuse to calibrate a model that predicts nothing."""
    if not any(kind.scores.size for kind in outcomes):
        raise UnireError("the model predicts nothing on this data, so its scores cannot be calibrated; give other data")


def fit_curves(log_odds: Outcomes, labels: LabelSpace) -> Calibration:
    """Fit the curve of entities, that of relations, and how far each relation type is from it."""
    entities, relations = (CalibrationCurve.fit(kind.scores, kind.correct) for kind in log_odds)
    shifts = {}
    for label in np.unique(log_odds.relations.labels):
        of_type = log_odds.relations.labels == label
        shift = relations.fit_shift(log_odds.relations.scores[of_type], log_odds.relations.correct[of_type])
        shifts[labels.names[label]] = shift
    return Calibration(entities, relations, shifts)


def fit_calibration(config: ModelConfig, log_odds: Outcomes, data: Sequence[str], labels: LabelSpace) -> ModelConfig:
    """The model's config with a calibration fitted on the files `data`, whose outcomes are `log_odds`."""
    calibration = fit_curves(log_odds, labels)
    record = {"data": list(data), "errors": CalibrationEffect.of(calibration, log_odds, labels).to_dict()}
    return config.with_(calibration=calibration, provenance={**config.provenance, "calibration": record})


# Calibration of a saved model


@dataclass(frozen=True)
class CalibrationEffect:
    """The calibration error without and with a calibration."""

    before: CalibrationErrors
    after: CalibrationErrors

    @classmethod
    def of(cls, calibration: Calibration, log_odds: Outcomes, labels: LabelSpace) -> CalibrationEffect:
        before, after = (
            CalibrationErrors.of(_calibrate(each, log_odds, labels)) for each in (Calibration(), calibration)
        )
        return cls(before, after)

    def to_dict(self) -> dict[str, Any]:
        """Expected calibration errors, and the number of predictions."""
        return {
            name: {"n": before.n, "before": before.error, "after": after.error}
            for name, before, after in (
                ("entities", self.before.entities, self.after.entities),
                ("relations", self.before.relations, self.after.relations),
            )
        }


def _calibrate(calibration: Calibration, log_odds: Outcomes, labels: LabelSpace) -> Outcomes:
    """The outcomes with probabilities instead of log-odds."""
    entities, relations = log_odds
    shifts = calibration.shift_relations(labels)[relations.labels]
    return Outcomes(
        entities._replace(scores=calibration.entities(entities.scores)),
        relations._replace(scores=calibration.relations(relations.scores, shifts)),
    )


@dataclass(frozen=True, repr=False)
class CalibrationReport:
    """What `calibrate` changed, and the calibration error before and after.

    >>> print(calibrate("models/mine", dev))  # doctest: +SKIP
    Calibrated model in 'models/mine' [likely, α = 4.25, relation odds = 6]
      Expected calibration error of entities on data: 27.4% → 3.4% (n = 858)
      Expected calibration error of relations on data: 50.6% → 2.6% (n = 492)
    """

    out: Path
    """The folder of the calibrated model."""
    config: ModelConfig
    """The configuration with the fitted calibration and thresholds."""
    effects: Mapping[str, CalibrationEffect]
    """The calibration error before and after, on `data` and, if given, on `test`."""
    scores: Mapping[str, Any]
    """P, R and F1 on `dev` and `test` with the tuned thresholds, as the model card shows them; empty if not tuned."""

    def to_dict(self) -> dict[str, Any]:
        """Convert the report to plain JSON values, as `unire calibrate` prints them."""
        config = self.config
        return {
            "out": str(self.out),
            "decoder": config.decoder,
            "alpha": config.alpha,
            "relation_odds": config.relation_odds,
            **({"scores": self.scores} if self.scores else {}),
            **{part: effect.to_dict() for part, effect in self.effects.items()},
        }

    def __repr__(self) -> str:
        config = self.config
        thresholds = f"{config.decoder}, α = {config.alpha:g}, relation odds = {config.relation_odds:g}"
        lines = [f"Calibrated model in {str(self.out)!r} [{thresholds}]"]
        for part, effect in self.effects.items():
            for kind, errors in effect.to_dict().items():
                change = f"{100 * errors['before']:.1f}% → {100 * errors['after']:.1f}%"
                lines.append(f"  Expected calibration error of {kind} on {part}: {change} (n = {errors['n']:,})")
        return "\n".join(lines)


def calibrate(
    model: str | Path,
    data: Sequence[Document],
    *,
    test: Sequence[Document] = (),
    out: str | Path | None = None,
    tune: bool = False,
    decoder: str | None = None,
    device: str | None = None,
    data_names: Sequence[str] = (),
) -> CalibrationReport:
    """Fit a model's scores to annotated documents, so that a score of 0.8 means that 80% are correct.

    The weights do not change. Without `tune`, neither do the predictions and their order.

    >>> calibrate("models/mine", dev, test=test)  # doctest: +SKIP

    Args:
        model: The folder or name of a model.
        data: Annotated documents that the model was not trained on.
        test: Other annotated documents, on which the effect is measured too.
        out: A new folder for the calibrated model. [default: change the model's own folder]
        tune: First tune α and the relation odds on `data`.
        decoder: With `tune`, the decoder to tune for: `split` or `likely`. [default: the model's own]
        device: `cpu`, `cuda`, … [default: a GPU if there is one]
        data_names: Names of the files of `data`, for the model card.

    Returns:
        The calibration errors before and after.

    Raises:
        UnireError: The model is not a folder that may be changed, `out` is not empty, the documents have unknown
            labels, or the model predicts nothing in them.
    """
    if decoder is not None and (not tune or decoder not in SPAN_DECODERS):
        raise UnireError(f"decoder=... needs tune=True and takes {' or '.join(SPAN_DECODERS)}")
    if out is None and ((isinstance(model, str) and pretrained.get(model)) or locate_local_model(model) is None):
        raise UnireError(f"the model {str(model)!r} cannot be changed in place; give a new folder with out=...")
    if out is not None:
        check_output_folder(out)
    extractor = Extractor.load(model, device=device, decoder=decoder)
    parts = {"data": list(data), **({"test": list(test)} if test else {})}
    for documents in parts.values():
        extractor.labels.check(documents)
    if tune:
        extractor.config = tune_config(extractor, parts["data"])
        extractor.config = _with_scores(extractor, {"dev": parts["data"], "test": parts.get("test", ())})
    outcomes = {part: collect_log_odds(extractor, documents) for part, documents in parts.items()}
    check_has_predictions(outcomes["data"])
    labels = extractor.labels
    extractor.config = fit_calibration(extractor.config, outcomes["data"], data_names, labels)
    config = with_thresholds(extractor, parts["data"])
    effects = {part: CalibrationEffect.of(config.calibration, found, labels) for part, found in outcomes.items()}
    ModelDir.open(model).save(config, None if out is None else Path(out))
    return CalibrationReport(Path(out or model), config, effects, config.provenance["scores"] if tune else {})


def _with_scores(extractor: Extractor, parts: Mapping[str, Sequence[Document]]) -> ModelConfig:
    """Return the configuration with the scores under its new thresholds; the recorded ones hold for the old."""
    scores = {
        part: score(documents, extractor.annotate([document.bare for document in documents]), extractor.labels)
        for part, documents in parts.items()
        if documents
    }
    now = {part: each.to_dict() for part, each in scores.items()}
    return extractor.config.with_(provenance={**extractor.config.provenance, "scores": now})
