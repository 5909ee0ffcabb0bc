"""The model card of a checkpoint, with the metadata of the Hugging Face Hub."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unire.config import ModelConfig
from unire.labels import LabelSpace

__all__ = ["model_card"]


def model_card(settings: ModelConfig, labels: LabelSpace, name: str | None = None) -> str:
    """Write the card in Markdown: labels, training, scores and limits.

    Args:
        settings: The configuration of the model.
        labels: The label space of the model.
        name: The name to load the model by, if it is bundled or on the Hub.
    """
    p = settings.provenance
    return "\n".join(
        [
            "---",
            *(f"{key}: {_yaml(value)}" for key, value in _metadata(p, name).items()),
            "---",
            "",
            f"# {p.get('title', 'A UniRE model')}",
            "",
            *([p["description"], ""] if "description" in p else []),
            "Finds entities and the relations between them by filling one table of word pairs ([UniRE](https://aclanthology.org/2021.acl-long.19/)).",
            "",
            "```python",
            "from unire import Extractor",
            "",
            f'extractor = Extractor.load("{name or "path/to/this/folder"}")',
            'document = extractor.extract("A text, as long as you like.")',
            "document.entities, document.relations",
            "```",
            "",
            "## Labels",
            "",
            f"- entities: {', '.join(labels.entity_types)}",
            f"- relations: {', '.join(labels.relation_types) or 'none'}",
            f"- symmetric: {', '.join(sorted(labels.symmetric)) or 'none'}",
            "",
            "## How it was made",
            "",
            "| | |",
            "|---|---|",
            *(f"| {key} | {value} |" for key, value in _facts(settings).items()),
            "",
            *_rebuilding(p),
            "## Scores",
            "",
            *_score_table(_scores(p)),
            "",
            "## Limits",
            "",
            *_limits(settings, labels),
            "",
        ]
    )


def _metadata(provenance: Mapping[str, Any], name: str | None) -> dict[str, Any]:
    """The metadata that the Hub reads, as far as they are known."""
    known = {
        "language": provenance.get("language"),
        "license": str(provenance.get("licence", "")).lower().replace(" ", "-"),  # `mit`, `apache-2.0`
        "base_model": provenance.get("base"),
        "datasets": provenance.get("datasets"),
        "model-index": _results(provenance, name),
    }
    return {
        "library_name": "unire",
        "pipeline_tag": "token-classification",
        "tags": ["relation-extraction", "named-entity-recognition", "information-extraction", "unire"],
        **{key: value for key, value in known.items() if value},
    }


def _results(provenance: Mapping[str, Any], name: str | None) -> list[dict[str, Any]]:
    """The scores, in the form of the Hub's leaderboards."""
    dataset = _dataset(provenance.get("datasets", []), provenance.get("data", []))
    results: list[dict[str, Any]] = [
        {
            "task": {"type": "token-classification", "name": "entities and relations"},
            "dataset": {**dataset, "split": split},
            "metrics": [
                {
                    "type": rate,
                    "name": f"{kind} {rate} ({score['protocol']['name']})",
                    "value": round(score[part][rate], 4),
                }
                for part, kind in (("entities", "Ent"), ("relations", "Rel"))
                for rate in ("precision", "recall", "f1")
            ],
        }
        for split, score in _scores(provenance).items()
    ]
    return [{"name": name or provenance.get("title", "a UniRE model"), "results": results}] if results else []


def _dataset(hub: Sequence[str], files: Sequence[str]) -> dict[str, str]:
    """The training data: data sets on the Hub, else the name of the folder of the first file."""
    if hub:
        return {"type": hub[0], "name": ", ".join(hub)}
    kind = Path(files[0]).parent.name or Path(files[0]).stem if files else "unknown"
    return {"type": kind, "name": kind}


def _scores(provenance: Mapping[str, Any]) -> Mapping[str, Any]:
    """The scores by split, without `test, exported` if they equal those of `test`.

    They do if the weights were quantized already before the export.
    """
    scores = provenance.get("scores", {})
    again = "test, exported"
    return {split: scores[split] for split in scores if split != again or scores[split] != scores.get("test")}


def _yaml(value: Any) -> str:
    """Format a value as YAML on one line: unquoted if that is unambiguous, else as JSON, which is YAML too."""
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w./-]*", value) and value not in ("no", "off", "null"):
        return value
    return json.dumps(value, ensure_ascii=False)


def _facts(settings: ModelConfig) -> dict[str, Any]:
    p = settings.provenance
    return {
        "encoder": _encoder(p),
        "base checkpoint": p.get("base", "the encoder itself"),
        "licence of the base checkpoint": p.get("licence", "unknown: see where it comes from"),
        "training data": ", ".join(p.get("data", [])) or "unknown",
        **_distillation(p),
        "preset": p.get("preset", "unknown"),
        "changed settings": ", ".join(f"{name} = {value}" for name, value in p.get("changes", {}).items()) or "none",
        "seed": p.get("seed", "unknown"),
        "epochs": p.get("epochs", "unknown"),
        "windows": f"{settings.layout}, W = {settings.window}",
        "decoding": f"{settings.decoder}, α = {settings.alpha:g}, relation odds = {settings.relation_odds:g}",
        "type constraints": _constraints(settings),
        **_calibration(p),
        **_export(p),
        "written by": f"unire {p.get('unire', 'unknown')}",
    }


def _encoder(provenance: Mapping[str, Any]) -> str:
    name = str(provenance.get("encoder", "unknown"))
    if adaptation := provenance.get("adaptation"):
        corpus = ", ".join(adaptation["corpus"])
        name += f" ({adaptation['encoder']}, adapted on {adaptation['tokens'] / 1e6:,.0f}M tokens of {corpus})"
    return name


def _distillation(provenance: Mapping[str, Any]) -> dict[str, str]:
    """The teachers and the unlabelled text of a distillation."""
    if not (distillation := provenance.get("distillation")):
        return {}
    teachers = []
    for teacher in distillation["teachers"]:
        scores = [
            f"{split} Ent {100 * f1['ent']:.1f} Rel {100 * f1['rel']:.1f}" for split, f1 in teacher["scores"].items()
        ]
        about = "; ".join([str(teacher["encoder"] or "unknown encoder"), *scores])
        teachers.append(f"{teacher['name']} ({about})")
    return {"teachers": ", ".join(teachers), "unlabelled text": _unlabelled(distillation)}


def _unlabelled(distillation: Mapping[str, Any]) -> str:
    """The unlabelled sentences, and how often the student read each on average."""
    read, corpus = distillation["sentences"], ", ".join(distillation["corpus"])
    distinct = distillation.get("distinct")
    if not distinct:  # checkpoints of earlier versions have the sum only
        return f"{read:,} sentences of {corpus}, repeats included"
    return f"{distinct:,} sentences of {corpus}" + (f", {read / distinct:.1f} times" if read > distinct else "")


def _export(provenance: Mapping[str, Any]) -> dict[str, str]:
    """The precision of the weights, and the agreement of the engines after the export."""
    if not (export := provenance.get("export")):
        return {}
    rows = {"weights": export["precision"]}
    for what, key in (("these weights in PyTorch", "engines"), ("the model before export", "model")):
        parity = export[key]
        if key == "model" and parity == export["engines"]:  # the model had these weights before
            continue
        rows[f"onnxruntime against {what}"] = (
            f"probabilities differ by {parity['mean_difference']:.2g} on average "
            f"and {parity['difference']:.2g} at most, "
            f"{100 * parity['findings']:.1f}% of the findings are the same ({parity['sentences']:,} sentences)"
        )
    return rows


def _constraints(settings: ModelConfig) -> str:
    if not settings.signatures:
        return "none"
    return f"{len(settings.signatures)} learnt from the training data, {'on' if settings.constraints else 'off'}"


def _calibration(provenance: Mapping[str, Any]) -> dict[str, str]:
    """The data of the calibration, and the calibration error before and after it."""
    if not (calibration := provenance.get("calibration")):
        return {}
    errors = [
        f"{100 * part['before']:.1f}% → {100 * part['after']:.1f}% for {part['n']:,} {name}"
        for name, part in calibration["errors"].items()
    ]
    return {"scores": f"calibrated on {', '.join(calibration['data'])}: expected calibration error {', '.join(errors)}"}


def _rebuilding(provenance: Mapping[str, Any]) -> list[str]:
    if "rebuild" not in provenance:
        return []
    return ["To make one like it:", "", "```bash", str(provenance["rebuild"]), "```", ""]


def _limits(settings: ModelConfig, labels: LabelSpace) -> list[str]:
    """The limits of all such models, and of this one."""
    data = ", ".join(settings.provenance.get("data", [])) or "its training data"
    calibrated = "calibration" in settings.provenance
    kind = "chances on text like that of the calibration" if calibrated else "the model's own probabilities"
    limits = [
        f"It knows {len(labels.entity_types)} types of entities and {len(labels.relation_types)} of relations, and "
        f"text like that of {data}. On other kinds of text, and in other languages, expect less.",
        "Entities do not overlap, and relations do not cross the end of a sentence.",
        f"Scores are {kind}. They are not proof: what matters should be read by somebody.",
    ]
    if settings.provenance.get("export", {}).get("precision") == "int8":
        limits.append("Weights, and in onnxruntime activations too, are rounded to eight bits.")
    return [f"- {limit}" for limit in limits]


def _score_table(scores: Mapping[str, Any]) -> list[str]:
    if not scores:
        return ["Not scored yet: run `unire evaluate`."]
    rows = [
        "| split | protocol | Ent P | Ent R | Ent F1 | Rel P | Rel R | Rel F1 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for split, score in scores.items():
        figures = [
            f"{100 * score[part][x]:.1f}" for part in ("entities", "relations") for x in ("precision", "recall", "f1")
        ]
        rows.append(f"| {split} | {score['protocol']['name']} | {' | '.join(figures)} |")
    return rows
