"""Options that several commands share, and what they mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from unire import formats
from unire.cli import printing
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
        help=f"Label space: {', '.join(LabelSpace.built_in())}, or a JSON file. Learnt from the data when left out.",
        show_default=False,
    ),
]
Symmetric = Annotated[
    str | None,
    typer.Option(
        "--symmetric",
        metavar="A,B",
        help="Relation types whose two directions mean the same, where the label space is learnt from the data.",
        show_default=False,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help=f"Format of the data: {', '.join(formats.FORMATS)}. Guessed when left out.",
        show_default=False,
    ),
]
Constraints = Annotated[
    str | None,
    typer.Option(
        "--constraints",
        metavar="none|learnt|FILE",
        help='Types that relations may join: any, those of the training data, or a JSON file, {"Work_For": [["Peop", '
        '"Org"]]}. The model\'s own choice when left out.',
        show_default=False,
    ),
]
Device = Annotated[
    str | None, typer.Option("--device", help="`cpu`, `cuda`, …; a GPU when there is one.", show_default=False)
]
Words = Annotated[
    bool,
    typer.Option(
        "--words",
        help="Text without words (brat, jsonl, labelstudio, prodigy) has a sentence a line and words between spaces.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object and nothing else.")]


def input_path(path: Path) -> Path:
    """What is read for a path on the command line; `-` is standard input."""
    return Path("/dev/stdin") if path == Path("-") else path


def check_output(out: Path, data: Iterable[Path], format: str | None) -> None:
    """Refuse to write annotated data over, or what would be read with the rest of a folder of them."""
    paths = [input_path(path) for path in data]
    folders = [path for path in paths if path.is_dir()]
    kinds = {path: formats.FORMATS.get(format or formats.guess(path)) for path in folders}
    check_output_file(
        out, paths, [path for path, kind in kinds.items() if kind and out.suffix.lower() in kind.folder_suffixes]
    )


def documents_from(
    paths: Iterable[Path], format: str | None, *, predicted: bool = False, notes: Counter[str] | None = None
) -> list[Document]:
    """All documents of some files.

    What their readers changed or left out is counted in `notes`, for a command that tells it itself, or else printed.
    """
    found: Counter[str] = Counter() if notes is None else notes
    documents = formats.read_documents(map(input_path, paths), format, predicted=predicted, notes=found)
    if notes is None:
        printing.print_notes(found)
    return documents


def label_space(name: str | None, symmetric: str | None, documents: Iterable[Document]) -> LabelSpace:
    """The label space that the options ask for."""
    return LabelSpace.resolve(name, symmetric, documents)
