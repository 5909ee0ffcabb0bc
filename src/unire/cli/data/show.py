"""`unire data show`: annotated documents, for reading."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from unire import formats
from unire.cli import printing
from unire.cli.options import Format, Labels, Symmetric, Words, check_output, input_path, label_space
from unire.documents import Document
from unire.errors import UnireError
from unire.rendering import html as pages
from unire.rendering.common import Palette
from unire.rendering.terminal import TerminalView
from unire.rendering.views import gold_views

__all__ = ["show"]


def show(
    file: Annotated[Path, typer.Argument(help="Annotated data, - for standard input.", show_default=False)],
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write a page with texts and tables instead of printing.", show_default=False),
    ] = None,
    id: Annotated[str | None, typer.Option("--id", help="Only the document of this name.", show_default=False)] = None,
    label: Annotated[
        str | None,
        typer.Option("--label", help="Only documents with this entity or relation type.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many documents; 0 for all.")] = 10,
    labels: Labels = None,
    symmetric: Symmetric = None,
    format: Format = None,
    words: Words = False,
) -> None:
    """Show annotated documents, on the terminal or as a page.

    \b
        unire data show train.jsonl --label COMPARE --limit 3
        unire data show train.jsonl --html train.html --limit 100

    A page has the gold table of every sentence.
    """
    if html:
        check_output(html, [file], format)
    notes: Counter[str] = Counter()
    chosen = (
        document
        for document in formats.read(input_path(file), format, spaces=words, notes=notes)
        if (id is None or document.id == id) and (label is None or label in _labels(document))
    )
    documents = list(islice(chosen, limit or None))
    if not documents:
        raise UnireError(f"{file} has no such document")
    space = label_space(labels, symmetric, documents)
    if html:
        pages.write(gold_views(documents), html, space, title=file.name, limit=len(documents))
        printing.say(f"{len(documents):,} documents on the page {html}")
    else:
        palette = Palette(space)
        for document in documents:
            printing.out.print(TerminalView(document, palette))
    printing.print_notes(notes)


def _labels(document: Document) -> set[str]:
    return {item.label for item in document.entities} | {item.label for item in document.relations}
