"""`calibrate`: turn a model's scores into probabilities of being correct, and optionally tune its thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unire import pretrained
from unire.config import ModelConfig
from unire.decoding.decoders import SPAN_DECODERS
from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.scorer import score
from unire.evaluation.tuning import (
    CalibrationEffect,
    check_has_predictions,
    collect_log_odds,
    fit_calibration,
    tune_config,
)
from unire.extractor import Extractor
from unire.files import check_output_folder
from unire.hub.model_dir import ModelDir

__all__ = ["CalibrationReport", "calibrate"]


@dataclass(frozen=True, repr=False)
class CalibrationReport:
    """What `calibrate` changed, and how much better the scores are."""

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

    The weights stay as they are. Without `tune`, the predictions and their ranking stay too.

    >>> calibrate("models/mine", dev, test=test)  # doctest: +SKIP

    Args:
        model: The folder or name of a model.
        data: Annotated documents that the model was not trained on.
        test: Other annotated documents, on which the effect is measured too.
        out: A new folder for the calibrated model. By default the model's own folder is changed.
        tune: First tune α and the relation odds on `data`.
        decoder: With `tune`, the decoder to tune for: `split` or `likely`. By default the model's own.
        device: `cpu`, `cuda`, …; a GPU by default if there is one.
        data_names: Names of the files of `data`, for the model card.

    Returns:
        The calibration errors before and after.

    Raises:
        UnireError: The model is not a folder that may be changed, `out` is not empty, the documents have unknown
            labels, or the model finds nothing in them.
    """
    if decoder is not None and (not tune or decoder not in SPAN_DECODERS):
        raise UnireError(f"decoder=... needs tune=True and takes {' or '.join(SPAN_DECODERS)}")
    if out is None and (model in pretrained.names() or not Path(model).is_dir()):
        raise UnireError(f"{str(model)!r} is not a folder that can be changed; give a new folder with out=...")
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
    config = fit_calibration(extractor.config, outcomes["data"], data_names)
    effects = {part: CalibrationEffect.of(config.calibration, found) for part, found in outcomes.items()}
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
