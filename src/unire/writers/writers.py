"""How findings leave `unire extract`: formats by name.

A format of lines says what a document becomes, so that it streams and a long run can be resumed. Any other is written
at once, from documents or, if it shows tables too, from views. A new one is one more line in `OUTPUTS`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TextIO

from unire import formats, graph
from unire.documents import Document
from unire.formats import native
from unire.formats.base import Capability
from unire.graph.export import CSV, ENTITIES, TRIPLES, TSV, RowDialect, RowWriter
from unire.labels import LabelSpace
from unire.rendering import html, terminal
from unire.rendering.views import View

__all__ = ["ENDINGS", "WRITERS", "FileWriter", "LineWriter", "PageWriter"]


@dataclass(frozen=True)
class LineWriter:
    """A format that has lines for each document."""

    of: Callable[[Document], str]
    """The lines of a document, each with its line end."""
    head: str = ""
    """What stands before the first document, with its line end."""


@dataclass(frozen=True)
class FileWriter:
    """A format that is written at once."""

    write: Callable[[Iterable[Document], Any, Counter[str]], object]
    """Takes the documents, which may be a stream, the file to write, and a counter of what it has no place for."""
    streams: bool = False
    """Whether it also writes to an open text stream."""


@dataclass(frozen=True)
class PageWriter:
    """A format that shows the tables."""

    write: Callable[[Iterable[View], str | Path | TextIO, LabelSpace], html.PageSummary]
    streams: bool = True


def jsonl(document: Document) -> str:
    """The document as a JSON object: what was found, by its characters in the text."""
    return _json_line(document.to_dict())


def unire(document: Document) -> str:
    """The document in our own format, with its words."""
    return "".join(map(_json_line, native.to_json(document)))


def _json_line(item: dict[str, Any]) -> str:
    return json.dumps(item, ensure_ascii=False, allow_nan=False) + "\n"


def _rows(table: RowWriter, dialect: RowDialect) -> LineWriter:
    return LineWriter(partial(table.lines, dialect=dialect), table.head(dialect))


def _graph(name: str) -> FileWriter:
    return FileWriter(lambda documents, target, lost: graph.WRITERS[name](documents, target), streams=True)


def _annotated(name: str) -> FileWriter:
    """A format of annotated data. Texts without a name get one, which some need; cuts, no findings, are not missed."""
    cuts = Capability.CUTS in formats.FORMATS[name].capabilities

    def ready(document: Document, number: int) -> Document:
        kept = document if cuts else document.annotated(document.entities, document.relations)
        return kept if kept.id else replace(kept, id=f"text-{number}")

    def write(documents: Iterable[Document], path: Path, lost: Counter[str]) -> int:
        return formats.write(map(ready, documents, count(1)), path, name, lost=lost)

    return FileWriter(write)


WRITERS: dict[str, LineWriter | FileWriter | PageWriter] = {
    "text": LineWriter(terminal.render_text),
    "tables": LineWriter(partial(terminal.render_text, tables=True)),
    "jsonl": LineWriter(jsonl),
    "csv": _rows(TRIPLES, CSV),
    "tsv": _rows(TRIPLES, TSV),
    "entities-csv": _rows(ENTITIES, CSV),
    "entities-tsv": _rows(ENTITIES, TSV),
    "graphml": _graph("graphml"),
    "cypher": _graph("cypher"),
    "html": PageWriter(html.write),
    "unire": LineWriter(unire),
    **{name: _annotated(name) for name, form in formats.FORMATS.items() if form.write and name != "unire"},
}

ENDINGS = {"txt": "text", **{name: name for name in WRITERS if name != "jsonl"}}
"""What the ending of a file says of its format. `jsonl` is not here: two of them are JSON lines."""
