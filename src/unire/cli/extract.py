"""`unire extract`: documents in, the same documents with entities and relations out."""

from __future__ import annotations

import codecs
import json as json_module
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from unire import formats
from unire.cli import printing
from unire.documents import Document, Entity, Relation
from unire.exceptions import UnireError
from unire.extractor import Extractor
from unire.formats import native
from unire.formats import words as words_format

__all__ = ["extract"]


def extract(
    model: Annotated[
        str, typer.Option("--model", help="A model: in the box, a folder, or a Hub name.", show_default=False)
    ],
    input: Annotated[
        Path | None,
        typer.Argument(
            help="A file in a known format (its annotation is ignored), or with --words a text. Standard input else.",
            show_default=False,
        ),
    ] = None,
    words: Annotated[
        bool,
        typer.Option(
            "--words",
            help="Words already split: a sentence a line, words between spaces, an empty line between documents.",
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write to this file instead of standard output.", show_default=False)
    ] = None,
    format: Annotated[
        str | None,
        typer.Option("--from", help=f"Format of the input: {', '.join(formats.FORMATS)}. Guessed.", show_default=False),
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="`cpu`, `cuda`, …; a GPU when there is one.", show_default=False)
    ] = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print JSON lines, a document each, on a terminal too; with --out, a summary as one object."
        ),
    ] = False,
) -> None:
    """Find entities and relations in documents whose words are already split.

    \b
        echo "Ada lives in London ." | unire extract --words --model models/mine
        unire extract --model models/mine test.jsonl --out found.jsonl

    On a terminal the findings are listed for reading; otherwise, or with --json, they are JSON lines, a document each.
    """
    documents = _documents(input, words, format)
    extractor = Extractor.load(model, device=device)
    notes: Counter[str] = Counter()
    found = extractor.annotate(documents, notes=notes)
    if out is not None:
        count = formats.write(found, out)
        summary = {"documents": count, "out": str(out), "notes": dict(+notes)}
        printing.print_json(summary) if json else printing.errors.print(f"{count:,} documents written to {out}")
    else:
        _print(found, readable=sys.stdout.isatty() and not json)
    printing.print_notes(notes)


def _documents(input: Path | None, words: bool, format: str | None) -> Iterable[Document]:
    if words:
        if input is None and sys.stdin is None:
            raise UnireError("standard input is closed; pipe words into it, or give a file")
        return _of_words(input)
    if input is None:
        raise UnireError("give a file of documents, or --words for split words on standard input")
    return formats.read(input, format)


def _of_words(path: Path | None) -> Iterator[Document]:
    """Documents from a file of words, or from standard input; in UTF-8, whatever the terminal speaks."""
    name = "standard input" if path is None else path.name
    try:
        with nullcontext(sys.stdin.buffer) if path is None else path.open("rb") as file:
            yield from words_format.from_lines(codecs.iterdecode(file, "utf-8-sig"), name)
    except UnicodeDecodeError:
        raise UnireError(f"{path or name} is not UTF-8; convert it first") from None
    except OSError as error:
        raise UnireError(f"{path or name} cannot be read: {error.strerror or error}") from None


def _print(documents: Iterable[Document], *, readable: bool) -> None:
    for document in documents:
        if not readable:
            for item in native.to_json(document):
                sys.stdout.write(json_module.dumps(item, ensure_ascii=False) + "\n")
            continue
        printing.out.print(document.text, markup=False, highlight=False)
        findings: list[Entity | Relation] = [*document.entities, *document.relations]
        for found in findings:
            printing.out.print(f"  {found}  {found.score:.2f}", markup=False, highlight=False)
        printing.out.print()
