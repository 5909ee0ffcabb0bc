"""Options that several commands share, and functions that interpret them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from unire import formats
from unire.cli import console
from unire.documents import Document
from unire.files import check_output_file
from unire.labels import LabelSpace

__all__ = [
    "Constraints", "Device", "Format", "Json", "Labels", "Symmetric", "Words", "check_output", "documents_from",
    "input_path", "label_space",
]  # fmt: skip

Labels = Annotated[
    str | None,
    typer.Option(
        "--labels",
        help=f"Label space: {', '.join(LabelSpace.built_in())}, or a JSON file.",
        show_default="learnt from the data",
    ),
]
Symmetric = Annotated[
    str | None,
    typer.Option(
        "--symmetric",
        metavar="A,B",
        help="Symmetric relation types, if the label space is learnt from the data.",
        show_default=False,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help=f"Format of the data: {', '.join(formats.FORMATS)}.",
        show_default="guessed",
    ),
]
Constraints = Annotated[
    str | None,
    typer.Option(
        "--constraints",
        metavar="none|learnt|FILE",
        help="Entity types that a relation may join: any, those of the training data, or those of a JSON file such as "
        '{"Work_For": [["Peop", "Org"]]}.',
        show_default="the model's own choice",
    ),
]
Device = Annotated[str | None, typer.Option("--device", help="`cpu`, `cuda`, …", show_default="a GPU if there is one")]
Words = Annotated[
    bool,
    typer.Option(
        "--words",
        help="Split text (brat, jsonl, labelstudio, prodigy) into sentences at line ends and into words at spaces.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object and nothing else.")]


def input_path(path: Path) -> Path:
    """Return the file to read for a path on the command line; `-` is standard input."""
    return Path("/dev/stdin") if path == Path("-") else path


def check_output(out: Path, data: Iterable[Path], format: str | None) -> None:
    """Refuse an output that would overwrite the data, or be read as part of a folder of them."""
    paths = [input_path(path) for path in data]
    folders = [path for path in paths if path.is_dir()]
    kinds = {path: formats.FORMATS.get(format or formats.guess(path)) for path in folders}
    check_output_file(
        out, paths, [path for path, kind in kinds.items() if kind and out.suffix.lower() in kind.folder_suffixes]
    )


def documents_from(
    paths: Iterable[Path], format: str | None, *, predicted: bool = False, notes: Counter[str] | None = None
) -> list[Document]:
    """Read all documents of some files.

    `notes` counts what the readers changed or left out. Without it, the counts are printed.
    """
    counts: Counter[str] = Counter() if notes is None else notes
    documents = formats.read_documents(map(input_path, paths), format, predicted=predicted, notes=counts)
    if notes is None:
        console.print_notes(counts)
    return documents


def label_space(name: str | None, symmetric: str | None, documents: Iterable[Document]) -> LabelSpace:
    """Return the label space that the options choose."""
    return LabelSpace.resolve(name, symmetric, documents)
