"""`unire push`: a model on the Hugging Face Hub."""

from __future__ import annotations

from typing import Annotated

import typer

from unire.cli import printing
from unire.cli.options import Json
from unire.folders import push_to_hub

__all__ = ["push"]


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
