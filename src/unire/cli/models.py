"""`unire models`: what is in the box."""

from __future__ import annotations

from typing import Any

from unire import pretrained
from unire.cli import printing
from unire.cli.options import Json
from unire.labels import LabelSpace
from unire.settings import Settings

__all__ = ["models"]


def models(json: Json = False) -> None:
    """List the models in the box: what they find, how well, and how large they are.

    \b
        unire models
        unire extract --model NAME …
    """
    found = [_about(name) for name in pretrained.names()]
    if json:
        printing.print_json({"models": found})
        return
    if not found:
        printing.say("There is no model in the box; ", ("unire train", "bold"), " makes one.", to=printing.out)
        return
    rows = [
        (
            model["name"],
            *_f1(model["scores"]),
            f"{model['bytes'] / 1e6:.1f} MB",
            model["base"],
        )
        for model in found
    ]
    printing.table("Models in the box", ("", "Ent F1", "Rel F1", "on", "size", "base checkpoint"), rows)
    for model in found:
        printing.say((model["name"], "bold"), to=printing.out)
        for kind in ("entity_types", "relation_types"):
            printing.say(f"  {', '.join(model['labels'][kind])}", to=printing.out)


def _about(name: str) -> dict[str, Any]:
    folder = pretrained.find(name)
    made = Settings.load(folder).provenance
    return {
        "name": name,
        "base": str(made.get("base", made.get("encoder", "unknown"))),
        "licence": made.get("licence"),
        "data": made.get("data", []),
        "labels": LabelSpace.load(folder).to_dict(),
        "scores": made.get("scores", {}),
        "bytes": sum(file.stat().st_size for file in folder.iterdir()),
    }


def _f1(scores: dict[str, Any]) -> tuple[str, str, str]:
    """As exported, on the test set; the model that was exported, or dev, where that was not scored."""
    split = next((split for split in ("test, exported", "test", "dev") if split in scores), None)
    if split is None:
        return "–", "–", "–"
    entities, relations = (f"{100 * scores[split][part]['f1']:.1f}" for part in ("entities", "relations"))
    return entities, relations, split
