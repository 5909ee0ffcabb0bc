"""`unire models`, `unire export`, `unire package` and `unire push`: list, export and publish models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from unire import pretrained
from unire.cli import console
from unire.cli.options import CARD, INPUT, OUTPUT, Format, Json, documents_from, option
from unire.documents import count_annotations
from unire.hub.model_dir import push_to_hub

__all__ = ["export", "models", "package", "push"]

MAX_REGISTRY_BYTES = 100 * 2**20
"""The largest file that PyPI takes without a request."""

Base = Annotated[
    str | None, option("--base", metavar="NAME", help="Checkpoint that the encoder was trained from.", panel=CARD)
]
BaseLicence = Annotated[
    str | None, option("--base-licence", metavar="NAME", help="Licence of the base checkpoint.", panel=CARD)
]


def models(json: Json = False) -> None:
    """List bundled and installed models with their labels, scores and sizes.

    Examples:

        unire models
        unire extract --model NAME …

    `unire package` builds packages with models; pip installs them.
    `unire push` and `unire extract --model USER/MODEL` use the Hugging Face Hub.
    """
    available = pretrained.list_models()
    if json:
        console.print_json({"models": [model.to_dict() for model in available]})
        return
    if not available:
        console.say("No model is bundled; ", ("unire train", "bold"), " trains one.", to=console.out)
        return
    rows = [
        (model.name, *_f1(model), f"{model.bytes / 1e6:.1f} MB", model.base, model.package or "unire")
        for model in available
    ]
    console.table("Models", ("", "Ent F1", "Rel F1", "on", "size", "base checkpoint", "package"), rows)
    for model in available:
        console.say((model.name, "bold"), to=console.out)
        for types in (model.labels.entity_types, model.labels.relation_types):
            console.say(f"  {', '.join(types)}", to=console.out)


def _f1(model: pretrained.ModelInfo) -> tuple[str, str, str]:
    if model.f1 is None:
        return "–", "–", "–"
    entities, relations, part = model.f1
    return f"{100 * entities:.1f}", f"{100 * relations:.1f}", part


def export(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Folder, bundled model or Hub name.", show_default=False)
    ],
    *,
    test: Annotated[
        list[Path] | None,
        option(
            "--test",
            metavar="FILE",
            help="Annotated file, to compare the engines and to score the exported model.",
            panel=INPUT,
        ),
    ] = None,
    format: Format = None,
    out: Annotated[Path, option("--out", "-o", metavar="FOLDER", help="New folder for the model.", panel=OUTPUT)],
    precision: Annotated[
        Literal["int8", "fp32"],
        option("--precision", help="Quantized weights, a quarter of the size, or exact weights.", panel=OUTPUT),
    ] = "int8",
    json: Json = False,
    title: Annotated[str | None, option("--title", metavar="TEXT", help="Heading.", panel=CARD)] = None,
    description: Annotated[
        str | None, option("--description", metavar="TEXT", help="What the model is for.", panel=CARD)
    ] = None,
    base: Base = None,
    licence: Annotated[
        str | None,
        option(
            "--licence",
            metavar="NAME",
            help="Licence of the model, and of the base checkpoint if `--base-licence` is missing.",
            panel=CARD,
        ),
    ] = None,
    base_licence: BaseLicence = None,
    rebuild: Annotated[
        str | None, option("--rebuild", metavar="TEXT", help="Commands that train the model.", panel=CARD)
    ] = None,
) -> None:
    """Export a model to run in onnxruntime, without PyTorch.

    Examples:

        unire export models/mine --out models/mine-int8 --test test.jsonl
        unire extract --model models/mine-int8 …

    PyTorch can still load the exported model and train it further. Both engines
    use the same weights, and their predictions are compared first.
    """
    from unire.export.export import export_onnx

    facts = {"title": title, "description": description, "base": base, "licence": licence}
    facts |= {"base_licence": base_licence, "rebuild": rebuild}
    about = {key: value for key, value in facts.items() if value}
    documents = documents_from(test or [], format)
    with console.errors.status("exporting the graph and comparing the engines", spinner="dots"):
        exported = export_onnx(model, out, precision=precision, test=documents, about=about)
    if json:
        console.print_json(exported.to_dict())
        return
    if exported.scores is not None:
        console.print_scores(exported.scores)
    for what, agreement in (
        ("PyTorch with the same weights", exported.engines),
        ("the original model", exported.model),
    ):
        console.say(f"onnxruntime and {what}: {agreement}", to=console.out)
    console.say(f"{exported.size / 1e6:.1f} MB of {precision} in ", (str(exported.folder), "bold"))


def push(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Folder or bundled model.", show_default=False)],
    name: Annotated[
        str, typer.Argument(metavar="USER/MODEL", help="Name on the Hub; created if necessary.", show_default=False)
    ],
    private: Annotated[
        bool | None,
        option(
            "--private/--public",
            metavar="",
            help="Visibility of a new repository.",
            panel=OUTPUT,
            default="that of your account",
        ),
    ] = None,
    json: Json = False,
    base: Base = None,
    licence: Annotated[
        str | None,
        option("--licence", metavar="NAME", help="Licence of the model, such as `mit` or `apache-2.0`.", panel=CARD),
    ] = None,
    base_licence: BaseLicence = None,
    language: Annotated[
        str | None, option("--language", metavar="CODE", help="Language of the model, such as `en`.", panel=CARD)
    ] = None,
    dataset: Annotated[
        list[str] | None,
        option("--dataset", metavar="NAME", help="Hub name of the training data. May be repeated.", panel=CARD),
    ] = None,
) -> None:
    """Publish a model on the Hugging Face Hub.

    Examples:

        hf auth login
        unire push models/mine USER/MODEL --licence mit --language en
        unire extract --model USER/MODEL …

    All files of the folder are uploaded in one commit, with a model card.
    """
    about = {"base": base, "licence": licence, "base_licence": base_licence, "language": language, "datasets": dataset}
    known = {key: value for key, value in about.items() if value}
    with console.errors.status("uploading", spinner="dots"):
        address = push_to_hub(model, name, private=private, about=known)
    if json:
        console.print_json({"model": name, "address": address})
        return
    console.say(address, to=console.out)


def package(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Folder, bundled model or Hub name.", show_default=False)
    ],
    *,
    name: Annotated[str, option("--name", metavar="NAME", help="Name by which the model is loaded.", panel=OUTPUT)],
    version: Annotated[
        str, option("--version", metavar="V", help="Version of the package, such as 1.0.", panel=OUTPUT)
    ],
    out: Annotated[
        Path, option("--out", "-o", metavar="FOLDER", help="Folder for the wheel.", panel=OUTPUT, default="dist")
    ] = Path("dist"),
    json: Json = False,
    licence: Annotated[
        str | None,
        option(
            "--licence",
            metavar="NAME",
            help="Licence of the model.",
            panel=CARD,
            default="the one in the model card",
        ),
    ] = None,
    description: Annotated[
        str | None, option("--description", metavar="TEXT", help="What the model is for.", panel=CARD)
    ] = None,
) -> None:
    """Build a wheel from a model, which pip can install.

    Examples:

        unire package models/mine-int8 --name mine --version 1.0 --licence mit
        pip install dist/unire_model_mine-1.0-py3-none-any.whl
        unire extract --model mine …

    The wheel holds data only. The packaged model is loaded and run once, before
    the command reports success.
    """
    from unire.model_package import package_model

    with console.errors.status("building and testing the wheel", spinner="dots"):
        built = package_model(model, name=name, version=version, out=out, licence=licence, description=description)
    if json:
        console.print_json(built.to_dict())
        return
    found = count_annotations(built.entities, built.relations)
    console.say(f'Loaded the packaged model, and found {found} in "{built.text}"', to=console.out)
    console.say(f"{built.size / 1e6:.1f} MB, licence {built.licence}, in ", (str(built.wheel), "bold"), to=console.out)
    if built.size > MAX_REGISTRY_BYTES:
        console.say(("note:", "warning"), " PyPI takes files of up to 100 MB; export the model to int8")
