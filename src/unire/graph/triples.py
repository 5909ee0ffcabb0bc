"""Triples, a row for every relation that was found: CSV for spreadsheets, TSV for programs.

`sentence` is the text of the sentence (of the run of sentences, if a relation crosses them); the columns `…_start` and
`…_end` are characters of the document's text, ends exclusive. `score` is empty in gold annotation.

CSV follows RFC 4180. A spreadsheet runs a cell that begins with `=`, `+`, `-`, `@`, a tab or a line end as a formula,
so such a text gets an apostrophe before it; and so that this can be undone, a text that begins with an apostrophe gets
another. Whoever reads the file strips one leading apostrophe.

TSV has a line for every row and nothing in quotes, so that `cut` and `awk` can read it: a tab, a line end or a
backslash in a text is written `\\t`, `\\n`, `\\r` or `\\\\`. Formulas are not guarded against: open it as text.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from unire.documents import Document, Relation
from unire.files import text_output

__all__ = ["COLUMNS", "CSV", "TSV", "Dialect", "head", "lines", "write"]

COLUMNS = (
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
)
FORMULA = tuple("=+-@＝＋－＠\t\r\n'")
"""What a cell may not begin with; the wide ones are formulas to some spreadsheets."""
ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


@dataclass(frozen=True)
class Dialect:
    """How rows become lines."""

    text: Callable[[str], str]
    """How a text is written in a cell."""
    delimiter: str
    line_end: str
    quoting: int


CSV = Dialect(
    text=lambda text: f"'{text}" if text.startswith(FORMULA) else text,
    delimiter=",",
    line_end="\r\n",
    quoting=csv.QUOTE_MINIMAL,
)
TSV = Dialect(text=lambda text: text.translate(ESCAPES), delimiter="\t", line_end="\n", quoting=csv.QUOTE_NONE)


def write(documents: Iterable[Document], target: str | Path | TextIO, dialect: Dialect = CSV) -> int:
    """Write the relations of a stream of documents, and return how many documents there were."""
    count = 0
    with text_output(target) as file:
        file.write(head(dialect))
        for document in documents:
            count += 1
            file.write(lines(document, dialect))
    return count


def head(dialect: Dialect = CSV) -> str:
    """The names of the columns, as a line."""
    return _lines([COLUMNS], dialect)


def lines(document: Document, dialect: Dialect = CSV) -> str:
    """The relations of a document, a line each; a text in CSV may have line ends, in quotes."""
    return _lines(_rows(document), dialect)


def _lines(rows: Iterable[tuple[object, ...]], dialect: Dialect) -> str:
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


def _rows(document: Document) -> Iterator[tuple[object, ...]]:
    for relation in document.relations:
        first, second = relation.head, relation.tail
        yield (
            first.text,
            first.label,
            relation.label,
            second.text,
            second.label,
            None if relation.score is None else round(relation.score, 6),
            document.id,
            _evidence(document, relation),
            first.char_start,
            first.char_end,
            second.char_start,
            second.char_end,
        )


def _evidence(document: Document, relation: Relation) -> str:
    """The text of the sentences from the one in which a relation begins to the one in which it ends."""
    first = min(relation.head.start, relation.tail.start)
    last = max(relation.head.end, relation.tail.end) - 1
    inside = [s for s in document.sentences if s.start <= last and first < s.end and s.words]
    return document.text[inside[0].offsets[0][0] : inside[-1].offsets[-1][1]]
