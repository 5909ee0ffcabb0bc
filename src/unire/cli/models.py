"""`unire models`: what is in the box."""

from __future__ import annotations

from typing import Annotated

import typer

from unire import pretrained
from unire.cli import printing
from unire.cli.options import Json
from unire.hub.model_dir import push_to_hub

__all__ = ["models", "push"]


def models(json: Json = False) -> None:
    """List the models in the box: what they find, how well, and how large they are.

    \b
        unire models
        unire extract --model NAME …
    """
    bundled = pretrained.list_models()
    if json:
        printing.print_json({"models": [model.to_dict() for model in bundled]})
        return
    if not bundled:
        printing.say("There is no model in the box; ", ("unire train", "bold"), " makes one.", to=printing.out)
        return
    rows = [(model.name, *_f1(model), f"{model.bytes / 1e6:.1f} MB", model.base) for model in bundled]
    printing.table("Models in the box", ("", "Ent F1", "Rel F1", "on", "size", "base checkpoint"), rows)
    for model in bundled:
        printing.say((model.name, "bold"), to=printing.out)
        for types in (model.labels.entity_types, model.labels.relation_types):
            printing.say(f"  {', '.join(types)}", to=printing.out)


def _f1(model: pretrained.ModelInfo) -> tuple[str, str, str]:
    if model.f1 is None:
        return "–", "–", "–"
    entities, relations, part = model.f1
    return f"{100 * entities:.1f}", f"{100 * relations:.1f}", part


def push(
    model: Annotated[str, typer.Argument(help="A model's folder, or its name in the box.", show_default=False)],
    name: Annotated[str, typer.Argument(help="USER/MODEL on the Hub; made if it is not there.", show_default=False)],
    private: Annotated[
        bool | None,
        typer.Option("--private/--public", help="Of a new one; as your account has it when left out."),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option("--base", help="For the card: the checkpoint that the encoder comes from.", show_default=False),
    ] = None,
    licence: Annotated[
        str | None, typer.Option("--licence", help="For the card: `mit`, `apache-2.0`, …", show_default=False)
    ] = None,
    language: Annotated[
        str | None, typer.Option("--language", help="For the card: `en`, `de`, …", show_default=False)
    ] = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option("--dataset", help="For the card: the training data, by its name on the Hub.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Publish a model on the Hugging Face Hub.

    \b
        hf auth login
        unire push models/mine USER/MODEL --licence mit --language en
        unire extract --model USER/MODEL …

    The folder goes up as it is, in one commit, with a card that the Hub can
    read: safetensors, JSON, the tokenizer, and the graph if it was exported.
    """
    about = {"base": base, "licence": licence, "language": language, "datasets": dataset}
    known = {key: value for key, value in about.items() if value}
    with printing.errors.status("uploading", spinner="dots"):
        address = push_to_hub(model, name, private=private, about=known)
    if json:
        printing.print_json({"model": name, "address": address})
        return
    printing.say(address, to=printing.out)
