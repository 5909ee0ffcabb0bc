"""`unire models`, `unire export` and `unire push`: list, export and publish models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from unire import pretrained
from unire.cli import console
from unire.cli.options import Format, Json, documents_from
from unire.hub.model_dir import push_to_hub

__all__ = ["export", "models", "push"]


def models(json: Json = False) -> None:
    """List the bundled models with their labels, scores and sizes.

    \b
        unire models
        unire extract --model NAME …
    """
    bundled = pretrained.list_models()
    if json:
        console.print_json({"models": [model.to_dict() for model in bundled]})
        return
    if not bundled:
        console.say("No model is bundled; ", ("unire train", "bold"), " trains one.", to=console.out)
        return
    rows = [(model.name, *_f1(model), f"{model.bytes / 1e6:.1f} MB", model.base) for model in bundled]
    console.table("Bundled models", ("", "Ent F1", "Rel F1", "on", "size", "base checkpoint"), rows)
    for model in bundled:
        console.say((model.name, "bold"), to=console.out)
        for types in (model.labels.entity_types, model.labels.relation_types):
            console.say(f"  {', '.join(types)}", to=console.out)


def _f1(model: pretrained.ModelInfo) -> tuple[str, str, str]:
    if model.f1 is None:
        return "–", "–", "–"
    entities, relations, part = model.f1
    return f"{100 * entities:.1f}", f"{100 * relations:.1f}", part


def export(
    model: Annotated[str, typer.Argument(help="A folder, a bundled model, or a Hub name.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="New folder for the exported model.")],
    precision: Annotated[
        Literal["int8", "fp32"],
        typer.Option("--precision", help="Weights at a quarter of the size, or exact."),
    ] = "int8",
    test: Annotated[
        list[Path] | None,
        typer.Option(
            "--test",
            help="Annotated file: compare the engines on it, and score the exported model for its card.",
            show_default=False,
        ),
    ] = None,
    format: Format = None,
    title: Annotated[str | None, typer.Option("--title", help="For the card: the heading.", show_default=False)] = None,
    description: Annotated[
        str | None,
        typer.Option("--description", help="For the card: what the model is and does.", show_default=False),
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
        typer.Option("--rebuild", help="For the card: the commands that train the model again.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Export a model: a folder that runs in onnxruntime, without PyTorch.

    \b
        unire export models/mine --out models/mine-int8 --test test.jsonl
        unire extract --model models/mine-int8 …

    The folder is still a model like any other: PyTorch can load it and train
    it further. Both engines use the same weights and are compared first.
    """
    from unire.export.export import export_onnx

    facts = {"title": title, "description": description, "base": base, "licence": licence, "rebuild": rebuild}
    about = {key: value for key, value in facts.items() if value}
    documents = documents_from(test or [], format)
    with console.errors.status("drawing the graph and comparing the engines", spinner="dots"):
        exported = export_onnx(model, out, precision=precision, test=documents, about=about)
    if json:
        console.print_json(exported.to_dict())
        return
    if exported.scores is not None:
        console.print_scores(exported.scores)
    for what, agreement in (("PyTorch with the same weights", exported.engines), ("the model itself", exported.model)):
        console.say(f"onnxruntime against {what}: {agreement}", to=console.out)
    console.say(f"{exported.size / 1e6:.1f} MB of {precision} in ", (str(exported.folder), "bold"))


def push(
    model: Annotated[str, typer.Argument(help="A folder, or a bundled model.", show_default=False)],
    name: Annotated[str, typer.Argument(help="USER/MODEL on the Hub; created if necessary.", show_default=False)],
    private: Annotated[
        bool | None,
        typer.Option("--private/--public", help="Visibility of a new repository.", show_default="that of your account"),
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

    All files of the folder are uploaded in one commit, with a model card.
    """
    about = {"base": base, "licence": licence, "language": language, "datasets": dataset}
    known = {key: value for key, value in about.items() if value}
    with console.errors.status("uploading", spinner="dots"):
        address = push_to_hub(model, name, private=private, about=known)
    if json:
        console.print_json({"model": name, "address": address})
        return
    console.say(address, to=console.out)
