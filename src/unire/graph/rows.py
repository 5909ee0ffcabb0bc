"""Findings as rows of a table: CSV for spreadsheets, TSV for programs.

CSV follows RFC 4180. A spreadsheet runs a cell that begins with `=`, `+`, `-`, `@`, a tab or a line end as a formula,
so such a text gets an apostrophe before it; and so that this can be undone, a text that begins with an apostrophe gets
another. Whoever reads the file strips one leading apostrophe.

TSV has a line for every row and nothing in quotes, so that `cut` and `awk` can read it: a tab, a line end or a
backslash in a text is written `\\t`, `\\n`, `\\r` or `\\\\`. Formulas are not guarded against: open it as text.
"""

from __future__ import annotations

import csv
import io
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TextIO

from unire.documents import Document
from unire.files import open_text_output

__all__ = ["CSV", "ENTITIES", "TRIPLES", "TSV", "RowDialect", "RowWriter", "evidence", "rounded"]

FORMULA = tuple("=+-@＝＋－＠\t\r\n'")
"""What a cell may not begin with; the wide ones are formulas to some spreadsheets."""
ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


@dataclass(frozen=True)
class RowDialect:
    """How rows become lines."""

    text: Callable[[str], str]
    """How a text is written in a cell."""
    delimiter: str
    line_end: str
    quoting: int


CSV = RowDialect(
    text=lambda text: f"'{text}" if text.startswith(FORMULA) else text,
    delimiter=",",
    line_end="\r\n",
    quoting=csv.QUOTE_MINIMAL,
)
TSV = RowDialect(text=lambda text: text.translate(ESCAPES), delimiter="\t", line_end="\n", quoting=csv.QUOTE_NONE)


@dataclass(frozen=True)
class RowWriter:
    """What columns there are, and which rows a document has."""

    columns: tuple[str, ...]
    rows: Callable[[Document], Iterable[tuple[object, ...]]]

    def head(self, dialect: RowDialect = CSV) -> str:
        """The names of the columns, as a line."""
        return _lines([self.columns], dialect)

    def lines(self, document: Document, dialect: RowDialect = CSV) -> str:
        """The rows of a document, a line each; a text in CSV may have line ends, in quotes."""
        return _lines(self.rows(document), dialect)

    def write(self, documents: Iterable[Document], target: str | Path | TextIO, dialect: RowDialect = CSV) -> int:
        """Write the rows of a stream of documents, and return how many documents there were."""
        count = 0
        with open_text_output(target) as file:
            file.write(self.head(dialect))
            for document in documents:
                count += 1
                file.write(self.lines(document, dialect))
        return count


def evidence(document: Document, first: int, last: int) -> str:
    """The text of the sentences from the one with the word `first` to the one with the word `last`."""
    # the last sentence that starts there or before: those without words come before it
    begin, end = (bisect_right(document.sentences, word, key=attrgetter("start")) - 1 for word in (first, last))
    return document.text[document.sentences[begin].offsets[0][0] : document.sentences[end].offsets[-1][1]]


def rounded(score: float | None) -> float | None:
    return None if score is None else round(score, 6)


def _lines(rows: Iterable[tuple[object, ...]], dialect: RowDialect) -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(
        out,
        delimiter=dialect.delimiter,
        lineterminator=dialect.line_end,
        quoting=dialect.quoting,  # type: ignore[arg-type]
        quotechar='"' if dialect.quoting == csv.QUOTE_MINIMAL else None,
    )
    for row in rows:
        writer.writerow([dialect.text(value) if isinstance(value, str) else value for value in row])
    return out.getvalue()


def _entity_rows(document: Document) -> Iterator[tuple[object, ...]]:
    for entity in document.entities:
        sentence = evidence(document, entity.start, entity.end - 1)
        yield (
            entity.text,
            entity.label,
            rounded(entity.score),
            document.id,
            sentence,
            entity.char_start,
            entity.char_end,
        )


ENTITIES = RowWriter(("entity", "label", "score", "document", "sentence", "start", "end"), _entity_rows)


def _triple_rows(document: Document) -> Iterator[tuple[object, ...]]:
    for relation in document.relations:
        head, tail = relation.head, relation.tail
        yield (
            head.text,
            head.label,
            relation.label,
            tail.text,
            tail.label,
            rounded(relation.score),
            document.id,
            evidence(document, min(head.start, tail.start), max(head.end, tail.end) - 1),
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
    _triple_rows,
)
