"""A row for every entity that was found, in a relation or not.

`sentence` is the text of the sentence; `start` and `end` are characters of the document's text, the end exclusive.
`score` is empty in gold annotation.
"""

from __future__ import annotations

from collections.abc import Iterator

from unire.documents import Document
from unire.graph.rows import Table, evidence, rounded

__all__ = ["ENTITIES"]


def _rows(document: Document) -> Iterator[tuple[object, ...]]:
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


ENTITIES = Table(("entity", "label", "score", "document", "sentence", "start", "end"), _rows)
