"""`unire export`: a trained model as a folder that runs without PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from unire.cli import printing
from unire.cli.options import Format, Json, documents_from

__all__ = ["export"]


def export(
    model: Annotated[str, typer.Argument(help="A trained model's folder, or its name.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="New folder for the exported model.")],
    precision: Annotated[
        Literal["int8", "fp32"], typer.Option("--precision", help="Of the weights: a quarter of the size, or exact.")
    ] = "int8",
    test: Annotated[
        list[Path] | None,
        typer.Option(
            "--test",
            help="Annotated file: the engines are compared on it, and the exported model is scored for its card.",
            show_default=False,
        ),
    ] = None,
    format: Format = None,
    title: Annotated[str | None, typer.Option("--title", help="For the card: its heading.", show_default=False)] = None,
    description: Annotated[
        str | None,
        typer.Option("--description", help="For the card: what the model is, and is made of.", show_default=False),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option("--base", help="For the card: the checkpoint that the encoder comes from.", show_default=False),
    ] = None,
    licence: Annotated[
        str | None, typer.Option("--licence", help="For the card: that checkpoint's licence.", show_default=False)
    ] = None,
    rebuild: Annotated[
        str | None,
        typer.Option("--rebuild", help="For the card: the commands that make the model again.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Export a model: a folder that runs in onnxruntime, without PyTorch.

    \b
        unire export models/mine --out models/mine-int8 --test test.jsonl
        unire extract --model models/mine-int8 …

    The folder still is a model like any other: it can be loaded in PyTorch,
    and its encoder trained further. Both engines use the same weights, and
    are compared before the folder is kept.
    """
    from unire.export.export import export_onnx

    given = {"title": title, "description": description, "base": base, "licence": licence, "rebuild": rebuild}
    about = {key: value for key, value in given.items() if value}
    documents = documents_from(test or [], format)
    with printing.errors.status("drawing the graph and comparing the engines", spinner="dots"):
        exported = export_onnx(model, out, precision=precision, test=documents, about=about)
    if json:
        printing.print_json(exported.to_dict())
        return
    if exported.scores is not None:
        printing.print_scores(exported.scores)
    for what, agreement in (("PyTorch with the same weights", exported.engines), ("the model itself", exported.model)):
        printing.say(f"onnxruntime against {what}: {agreement}", to=printing.out)
    printing.say(f"{exported.size / 1e6:.1f} MB of {precision} in ", (str(exported.folder), "bold"))
