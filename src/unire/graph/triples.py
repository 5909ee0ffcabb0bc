"""Triples, a row for every relation that was found.

`sentence` is the text of the sentence (of the run of sentences, if a relation crosses them); the columns `…_start` and
`…_end` are characters of the document's text, ends exclusive. `score` is empty in gold annotation.
"""

from __future__ import annotations

from collections.abc import Iterator

from unire.documents import Document
from unire.graph.rows import Table, evidence, rounded

__all__ = ["TRIPLES"]


def _rows(document: Document) -> Iterator[tuple[object, ...]]:
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


TRIPLES = Table(
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
    _rows,
)
