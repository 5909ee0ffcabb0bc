"""Rows for spreadsheets (CSV, TSV): one per relation, or one per entity.

CSV follows RFC 4180. Spreadsheets run a cell that starts with `=`, `+`, `-`, `@`, a tab or a line end as a formula, so
the writer puts an apostrophe before such a text. It also puts one before a text that starts with an apostrophe. Readers
therefore strip one leading apostrophe.

TSV has one line per row and no quotes, so that `cut` and `awk` can read it. A tab, a line end or a backslash in a text
is written `\\t`, `\\n`, `\\r` or `\\\\`. Formulas are not escaped.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from unire.documents import Document
from unire.files import open_text_output
from unire.graph.facts import find_evidence

__all__ = ["CSV", "ENTITIES", "TRIPLES", "TSV", "RowDialect", "RowWriter", "get_evidence", "round_score"]

FORMULA_PREFIXES = tuple("=+-@＝＋－＠\t\r\n'")
"""Starts of cells that spreadsheets run as formulas. Some accept the full-width forms, too."""
TSV_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


@dataclass(frozen=True)
class RowDialect:
    """The syntax of rows."""

    text: Callable[[str], str]
    """Escapes a text for a cell."""
    delimiter: str
    line_end: str
    quoting: int


CSV = RowDialect(
    text=lambda text: f"'{text}" if text.startswith(FORMULA_PREFIXES) else text,
    delimiter=",",
    line_end="\r\n",
    quoting=csv.QUOTE_MINIMAL,
)
TSV = RowDialect(text=lambda text: text.translate(TSV_ESCAPES), delimiter="\t", line_end="\n", quoting=csv.QUOTE_NONE)


@dataclass(frozen=True)
class RowWriter:
    """Writes documents as rows of a CSV or TSV file."""

    columns: tuple[str, ...]
    rows: Callable[[Document], Iterable[tuple[object, ...]]]

    def head(self, dialect: RowDialect = CSV) -> str:
        """The header line."""
        return _dump_rows([self.columns], dialect)

    def lines(self, document: Document, dialect: RowDialect = CSV) -> str:
        """The rows of a document, one per line. A quoted text in CSV may contain line ends."""
        return _dump_rows(self.rows(document), dialect)

    def write(self, documents: Iterable[Document], target: str | Path | TextIO, dialect: RowDialect = CSV) -> int:
        """Write the rows of a stream of documents, and return the number of documents."""
        count = 0
        with open_text_output(target) as file:
            file.write(self.head(dialect))
            for document in documents:
                count += 1
                file.write(self.lines(document, dialect))
        return count


def get_evidence(document: Document, first: int, last: int) -> str:
    """The text of the sentences that contain the words `first` to `last`."""
    return find_evidence(document, first, last)[0]


def round_score(score: float | None) -> float | None:
    return None if score is None else round(score, 6)


def _dump_rows(rows: Iterable[tuple[object, ...]], dialect: RowDialect) -> str:
    buffer = io.StringIO(newline="")
    writer = csv.writer(
        buffer,
        delimiter=dialect.delimiter,
        lineterminator=dialect.line_end,
        quoting=dialect.quoting,  # type: ignore[arg-type]
        quotechar='"' if dialect.quoting == csv.QUOTE_MINIMAL else None,
    )
    for row in rows:
        writer.writerow([dialect.text(value) if isinstance(value, str) else value for value in row])
    return buffer.getvalue()


def _iter_entity_rows(document: Document) -> Iterator[tuple[object, ...]]:
    for entity in document.entities:
        sentence = get_evidence(document, entity.start, entity.end - 1)
        yield (
            entity.text,
            entity.label,
            round_score(entity.score),
            document.id,
            sentence,
            entity.char_start,
            entity.char_end,
        )


ENTITIES = RowWriter(("entity", "label", "score", "document", "sentence", "start", "end"), _iter_entity_rows)


def _iter_triple_rows(document: Document) -> Iterator[tuple[object, ...]]:
    for relation in document.relations:
        head, tail = relation.head, relation.tail
        yield (
            head.text,
            head.label,
            relation.label,
            tail.text,
            tail.label,
            round_score(relation.score),
            document.id,
            get_evidence(document, min(head.start, tail.start), max(head.end, tail.end) - 1),
            head.char_start,
            head.char_end,
            tail.char_start,
            tail.char_end,
        )


TRIPLES = RowWriter(
    (
        "head",
        "head_label",
        "relation",
        "tail",
        "tail_label",
        "score",
        "document",
        "sentence",
        "head_start",
        "head_end",
        "tail_start",
        "tail_end",
    ),
    _iter_triple_rows,
)
