"""A model before its training: a pretrained encoder, a head, and the record of where they come from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import unire
from unire.config import HeadConfig, ModelConfig
from unire.decoding.decoders import default_alpha
from unire.errors import UnireError, fits
from unire.hub.model_dir import is_model_dir, locate_model
from unire.labels import LabelSpace
from unire.models.encoder import digest_weights, load_encoder
from unire.models.unire import UniRE
from unire.training.config import PRESETS, TrainingConfig

__all__ = ["encoder_provenance", "init_model", "portable_config"]

ADAPTATION = {"encoder": str, "corpus": list, "tokens": int}
"""What a model card says of an adaptation."""


def init_model(
    encoder: str, labels: LabelSpace, config: TrainingConfig, data: Sequence[str] = (), fingerprint: str = ""
) -> UniRE:
    """An untrained head on a pretrained encoder; or, where it is kept, the head of the model that the encoder is of."""
    loaded, tokenizer, spec = load_encoder(encoder, case_marks=config.case_marks)
    settings = ModelConfig(
        spec=spec,
        encoder=portable_config(loaded.config),
        head=HeadConfig(config.d, config.mlp_dropout),
        layout=config.layout,
        window=config.window,
        max_table=config.max_table,
        decoder=config.decoder,
        alpha=config.alpha or default_alpha(config.decoder),
        relation_odds=config.relation_odds,
        constraints=config.constraints,
        provenance={
            "unire": unire.__version__,
            **encoder_provenance(encoder),
            "encoder_weights": digest_weights(loaded),
            "data": ["/".join(Path(name).parts[-2:]) for name in data],
            "fingerprint": fingerprint,
            "preset": config.preset,
            "changes": _changes(config),
            "seed": config.seed,
            "config": asdict(config),
        },
    )
    model = UniRE(settings, labels, tokenizer, loaded)
    if config.keep_head:
        _keep_head(model, encoder)
    return model


def _keep_head(model: UniRE, source: str) -> None:
    """Give a model the head of another one, for the same labels and of the same size, and what was fitted to it.

    The types that relations join in its training data stay known. How sure it is was measured for its own decoder.
    """
    trained = UniRE.from_pretrained(source)
    known = trained.config
    if trained.labels != model.labels:
        raise UnireError(
            f"the head of {source!r} can only be kept with its own labels; leave others out, or begin anew"
        )
    if known.head.d != model.config.head.d:
        raise UnireError(f"the head of {source!r} can only be kept as it is, with d = {known.head.d}")
    model.config = model.config.with_(signatures=known.signatures)
    if known.decoder == model.config.decoder:
        model.config = model.config.with_(calibration=known.calibration)
    for part in ("head_mlp", "tail_mlp", "biaffine"):
        getattr(model, part).load_state_dict(getattr(trained, part).state_dict())


def _changes(config: TrainingConfig) -> dict[str, Any]:
    """The settings in which a configuration departs from its preset, but for the seed."""
    preset = asdict(PRESETS[config.preset])
    return {name: value for name, value in asdict(config).items() if value != preset[name] and name != "seed"}


def encoder_provenance(encoder: str) -> dict[str, Any]:
    """The name of an encoder, and what is known of where it comes from and of the text that it has read."""
    if is_model_dir(encoder):
        made = ModelConfig.load(locate_model(encoder)).provenance
        known = {key: made[key] for key in ("adaptation", "licence") if key in made}
        return {"encoder": Path(encoder).name, "base": made.get("base", made.get("encoder", "unknown")), **known}
    if not Path(encoder).exists():
        return {"encoder": encoder}
    return {"encoder": Path(encoder).resolve().name, **_adaptation(Path(encoder) / "adaptation.json")}


def _adaptation(path: Path) -> dict[str, Any]:
    """What `adapt` has written beside an encoder, if it has."""
    if not path.exists():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        known = all(fits(record[name], kind) for name, kind in ADAPTATION.items())
        known = known and all(isinstance(file, str) for file in record["corpus"])
    except (OSError, ValueError, KeyError, TypeError):
        known = False
    if not known:
        raise UnireError(f"{str(path)!r} is damaged, or not what `unire adapt` wrote; remove it if it is another's")
    return {"adaptation": record}


def portable_config(config: Any) -> dict[str, Any]:
    """An encoder's configuration as JSON reads it back, without the paths of this machine."""
    settings = json.loads(config.to_json_string(use_diff=False))
    return {key: value for key, value in settings.items() if key not in ("_name_or_path", "name_or_path")}
