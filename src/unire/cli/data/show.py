"""`unire data show`: annotated documents, for reading."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from unire import formats
from unire.cli import printing
from unire.cli.options import Format, Words
from unire.documents import Document
from unire.exceptions import UnireError

__all__ = ["show"]


def show(
    file: Annotated[Path, typer.Argument(help="Annotated data.", show_default=False)],
    format: Format = None,
    words: Words = False,
    id: Annotated[str | None, typer.Option("--id", help="Only the document of this name.", show_default=False)] = None,
    label: Annotated[
        str | None,
        typer.Option("--label", help="Only documents with this entity or relation type.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many documents; 0 for all.")] = 10,
) -> None:
    """Print annotated documents for reading.

    \b
        unire data show train.jsonl --label COMPARE --limit 3
        unire data show train.jsonl --limit 0 | less
    """
    documents = (
        document
        for document in formats.read(file, format, spaces=words)
        if (id is None or document.id == id) and (label is None or label in _labels(document))
    )
    shown = 0
    for document in islice(documents, limit or None):
        _print(document)
        shown += 1
    if not shown:
        raise UnireError(f"{file} has no such document")


def _labels(document: Document) -> set[str]:
    return {item.label for item in document.entities} | {item.label for item in document.relations}


def _print(document: Document) -> None:
    """The text, and below it entities and relations."""
    printing.out.print(document.id, style="bold", markup=False, highlight=False)
    printing.out.print(document.text, markup=False, highlight=False)
    for item in (*map(str, document.entities), *map(str, document.relations)):
        printing.out.print(f"  {item}", markup=False, highlight=False)
    printing.out.print()
