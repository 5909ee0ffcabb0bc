"""The model card of a checkpoint, with the metadata of the Hugging Face Hub."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unire.config import ModelConfig
from unire.labels import LabelSpace

__all__ = ["base_licence", "model_card"]


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
            "The model finds entities and the relations between them. It fills one table of word pairs per sentence "
            "([UniRE](https://aclanthology.org/2021.acl-long.19/)).",
            "",
            "```python",
            "from unire import Extractor",
            "",
            f'extractor = Extractor.load("{name or "path/to/this/folder"}")',
            'document = extractor.extract("A text of any length.")',
            "document.entities, document.relations",
            "```",
            "",
            "## Labels",
            "",
            f"- Entity types: {', '.join(labels.entity_types)}",
            f"- Relation types: {', '.join(labels.relation_types) or 'none'}",
            f"- Symmetric relation types: {', '.join(sorted(labels.symmetric)) or 'none'}",
            "",
            "## Scores",
            "",
            *_score_table(_scores(p)),
            "",
            *_type_table(_scores(p)),
            *_threshold_table(p),
            *_recommended_scores(settings),
            "## Training",
            "",
            "| | |",
            "|---|---|",
            *(f"| {key} | {value} |" for key, value in _facts(settings).items()),
            "",
            *_rebuilding(p),
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
        **({"licence": p["licence"]} if "licence" in p and "base_licence" in p else {}),
        "licence of the base checkpoint": base_licence(p),
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


def base_licence(provenance: Mapping[str, Any]) -> str:
    """The licence of the base checkpoint. A lone `licence` is that of model and base checkpoint."""
    return str(provenance.get("base_licence", provenance.get("licence", "unknown")))


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
            f"{100 * parity['findings']:.1f}% of the predictions are the same ({parity['sentences']:,} sentences)"
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
        f"{100 * part['before']:.1f}% → {100 * part['after']:.1f}% ({part['n']:,} {name})"
        for name, part in calibration["errors"].items()
    ]
    data = ", ".join(calibration["data"])
    return {"calibration of scores": f"on {data}; expected calibration error: {', '.join(errors)}"}


def _rebuilding(provenance: Mapping[str, Any]) -> list[str]:
    if "rebuild" not in provenance:
        return []
    return ["To train a similar model:", "", "```bash", str(provenance["rebuild"]), "```", ""]


def _limits(settings: ModelConfig, labels: LabelSpace) -> list[str]:
    """The limits of all models, and of this one."""
    data = ", ".join(settings.provenance.get("data", [])) or "its training data"
    calibrated = "calibration" in settings.provenance
    kind = "calibrated probabilities on text like the calibration data" if calibrated else "uncalibrated probabilities"
    limits = [
        f"The model knows {len(labels.entity_types)} entity types and {len(labels.relation_types)} relation types. "
        f"Expect lower scores on text that differs from {data}, and in other languages.",
        "Entities do not overlap, and relations do not cross sentence boundaries.",
        f"Scores are {kind}. They are no proof: let a person check what matters.",
    ]
    if settings.provenance.get("export", {}).get("precision") == "int8":
        limits.append("Weights are quantized to 8 bits, and so are activations in onnxruntime.")
    return [f"- {limit}" for limit in limits]


def _score_table(scores: Mapping[str, Any]) -> list[str]:
    if not scores:
        return ["Not scored yet: run `unire evaluate`."]
    rows = [
        "Precision, recall and F1 in percent:",
        "",
        "| split | protocol | Ent P | Ent R | Ent F1 | Rel P | Rel R | Rel F1 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for split, score in scores.items():
        figures = _percentages(score, ("entities", "relations"))
        rows.append(f"| {split} | {score['protocol']['name']} | {' | '.join(figures)} |")
    return rows


def _type_table(scores: Mapping[str, Any]) -> list[str]:
    """The scores per type on the last split, which is test if the model was tested."""
    if not scores:
        return []
    split, score = list(scores.items())[-1]
    rows = [f"### Scores per type ({split})", "", "| type | P | R | F1 | gold |", "|---|---|---|---|---|"]
    for kind in ("entities", "relations"):
        for name, counts in score[kind].get("types", {}).items():
            rows.append(f"| {name} | {' | '.join(_percentages({kind: counts}, [kind]))} | {counts['gold']:,} |")
    return [*rows, ""]


def _threshold_table(provenance: Mapping[str, Any]) -> list[str]:
    """The suggested thresholds and what they leave; models of earlier versions have none."""
    calibration = provenance.get("calibration", {})
    if len(thresholds := calibration.get("thresholds", [])) < 2:  # there is nothing to choose from
        return []
    return [
        "### Suggested thresholds",
        "",
        "The option `min_score` drops predictions with lower scores. These values keep all, three quarters, half and "
        f"a quarter of the relations that the model finds in {', '.join(calibration['data'])}:",
        "",
        "| `min_score` | Ent P | Ent R | Ent F1 | Rel P | Rel R | Rel F1 |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {row['min_score']:g} | {' | '.join(_percentages(row, ('entities', 'relations')))} |"
            for row in thresholds
        ),
        *(
            f"| auto | {' | '.join(_percentages(recommended, ('entities', 'relations')))} |"
            for recommended in [calibration.get("recommended")]
            if recommended
        ),
        "",
    ]


def _recommended_scores(settings: ModelConfig) -> list[str]:
    """The scores that `auto` stands for."""
    calibration = settings.calibration
    scores = {**calibration.entity_min_scores}, {**calibration.relation_min_scores}
    if not scores[0]:
        return []
    rows = [f"| {name} | {value:g} |" for kind in scores for name, value in kind.items()]
    return [
        "`auto` stands for the recommended values. They drop predictions of a type with lower scores:",
        "",
        "| type | `min_score` |",
        "|---|---|",
        *rows,
        "",
    ]


def _percentages(score: Mapping[str, Any], kinds: Sequence[str]) -> list[str]:
    return [f"{100 * score[kind][rate]:.1f}" for kind in kinds for rate in ("precision", "recall", "f1")]
