"""Confidence: a model's scores made the chances that its findings are right, on annotated documents."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from unire.calibration import AsItIs, Calibration, Curve
from unire.config import ModelConfig
from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.calibration_error import Confidence, Outcomes, outcomes
from unire.extractor import Extractor

__all__ = ["Effect", "check_found", "collect_log_odds", "fit", "fit_calibration"]


def collect_log_odds(extractor: Extractor, documents: Sequence[Document]) -> Outcomes:
    """What is found in annotated documents, with log-odds as they come from the tables, and whether it is right."""
    raw = copy(extractor)
    raw.config = extractor.config.with_(calibration=Calibration(AsItIs(), AsItIs()))
    return outcomes(documents, raw.annotate(documents), extractor.labels)


def check_found(found: Outcomes) -> None:
    """Refuse to calibrate a model that has found nothing."""
    if not any(kind.scores.size for kind in found):
        raise UnireError(
            "the model finds nothing in this data, so there is nothing to fit its scores to; give other data"
        )


def fit(found: Outcomes) -> Calibration:
    """The calibration that makes such `uncalibrated` outcomes most likely."""
    return Calibration(Curve.fit(*found.entities), Curve.fit(*found.relations))


@dataclass(frozen=True)
class Effect:
    """What a calibration does to the scores of some `uncalibrated` findings."""

    before: Confidence
    after: Confidence

    @classmethod
    def of(cls, calibration: Calibration, found: Outcomes) -> Effect:
        return cls(Confidence.of(_scored(Calibration(), found)), Confidence.of(_scored(calibration, found)))

    def to_dict(self) -> dict[str, Any]:
        """Expected calibration errors, and of how many findings."""
        return {
            name: {"n": before.n, "before": before.error, "after": after.error}
            for name, before, after in (
                ("entities", self.before.entities, self.after.entities),
                ("relations", self.before.relations, self.after.relations),
            )
        }


def _scored(calibration: Calibration, found: Outcomes) -> Outcomes:
    """Log-odds made chances."""
    curves = zip((calibration.entities, calibration.relations), found, strict=True)
    return Outcomes(*(scored._replace(scores=curve(scored.scores)) for curve, scored in curves))


def fit_calibration(settings: ModelConfig, found: Outcomes, data: Sequence[str]) -> ModelConfig:
    """A model's settings with the calibration that is fitted to its `uncalibrated` findings in the files `data`."""
    calibration = fit(found)
    made = {"data": list(data), "errors": Effect.of(calibration, found).to_dict()}
    return settings.with_(calibration=calibration, provenance={**settings.provenance, "calibration": made})
