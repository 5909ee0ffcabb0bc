"""The output formats of `unire extract`, by name.

A `LineWriter` converts one document at a time, so that it streams and a long run can be resumed. The other writers
write a whole file, from documents or, if the format shows tables, from views. Add a format to `WRITERS`.
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

from unire import formats
from unire.documents import Document
from unire.formats import native
from unire.formats.base import Capability
from unire.graph.build import Graph
from unire.graph.export import write_cypher, write_graphml, write_jsonld, write_turtle
from unire.graph.rows import CSV, ENTITIES, TRIPLES, TSV, RowDialect, RowWriter
from unire.labels import LabelSpace
from unire.rendering import html, terminal
from unire.rendering.views import View

__all__ = [
    "FORMAT_BY_SUFFIX",
    "WRITERS",
    "FileWriter",
    "GraphWriter",
    "LineWriter",
    "PageWriter",
]


@dataclass(frozen=True)
class LineWriter:
    """A format with one or more lines per document.

    Losses are not counted: a format of annotated data that is written so must support every `Capability`.
    """

    of: Callable[[Document], str]
    """Returns the lines of a document, each with its line end."""
    head: str = ""
    """The header line, with its line end."""


@dataclass(frozen=True)
class FileWriter:
    """A format that is written as a whole."""

    write: Callable[[Iterable[Document], Any, Counter[str]], object]
    """Takes the documents, which may be a stream, the output file, and a counter of what the format cannot hold."""
    streams: bool = False
    """Whether it can also write to an open text stream."""


@dataclass(frozen=True)
class GraphWriter:
    """A format of a graph of all documents."""

    write: Callable[[Iterable[Document], Any, LabelSpace, Counter[str]], object]
    """Takes the documents, the output, their label space, and a counter of what the graph leaves out."""
    streams: bool = True


@dataclass(frozen=True)
class PageWriter:
    """A format that shows the tables."""

    write: Callable[[Iterable[View], str | Path | TextIO, LabelSpace], html.PageSummary]
    streams: bool = True


def format_jsonl(document: Document) -> str:
    """Format a document as a JSON object, with entities at character positions."""
    return _json_line(document.to_dict())


def format_unire(document: Document) -> str:
    """Format a document in our own format, with its words."""
    return "".join(map(_json_line, native.to_json(document)))


def _json_line(item: dict[str, Any]) -> str:
    return json.dumps(item, ensure_ascii=False, allow_nan=False) + "\n"


def _row_writer(table: RowWriter, dialect: RowDialect) -> LineWriter:
    return LineWriter(partial(table.lines, dialect=dialect), table.head(dialect))


def _graph_writer(write: Callable[[Graph, Any], None]) -> GraphWriter:
    def write_documents(documents: Iterable[Document], target: Any, labels: LabelSpace, lost: Counter[str]) -> None:
        graph = Graph(documents, labels)
        lost.update(graph.notes)
        write(graph, target)

    return GraphWriter(write_documents)


def _annotation_writer(name: str) -> FileWriter:
    """A format of annotated data. Documents without an id get one, because some formats need it.

    Cuts are dropped without a note where the format cannot hold them: they are not predictions.
    """
    cuts = Capability.CUTS in formats.FORMATS[name].capabilities

    def prepare(document: Document, number: int) -> Document:
        annotation = document.entities, document.relations
        kept = document if cuts else document.annotated(*annotation, clusters=document.clusters)
        return kept if kept.id else replace(kept, id=f"text-{number}")

    def write(documents: Iterable[Document], path: Path, lost: Counter[str]) -> int:
        return formats.write(map(prepare, documents, count(1)), path, name, lost=lost)

    return FileWriter(write)


WRITERS: dict[str, LineWriter | FileWriter | GraphWriter | PageWriter] = {
    "text": LineWriter(terminal.render_text),
    "tables": LineWriter(partial(terminal.render_text, tables=True)),
    "jsonl": LineWriter(format_jsonl),
    "csv": _row_writer(TRIPLES, CSV),
    "tsv": _row_writer(TRIPLES, TSV),
    "entities-csv": _row_writer(ENTITIES, CSV),
    "entities-tsv": _row_writer(ENTITIES, TSV),
    "graphml": _graph_writer(write_graphml),
    "cypher": _graph_writer(write_cypher),
    "turtle": _graph_writer(write_turtle),
    "jsonld": _graph_writer(write_jsonld),
    "html": PageWriter(html.write),
    "unire": LineWriter(format_unire),
}
"""The writers by format. A format of annotated data without an entry is written as a whole by its `Format`."""
WRITERS |= {
    name: _annotation_writer(name) for name, form in formats.FORMATS.items() if form.write and name not in WRITERS
}

FORMAT_BY_SUFFIX = {"txt": "text", "ttl": "turtle", **{name: name for name in WRITERS if name != "jsonl"}}
"""The format for a file suffix. `jsonl` is missing, because two formats are JSON lines."""
