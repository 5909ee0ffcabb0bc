"""How findings leave `unire extract`: formats by name.

A format of lines says what a document becomes, so that it streams and a long run can be resumed; any other writes all
documents at once. A new one is one more line in `OUTPUTS`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from unire import formats
from unire.documents import Document, Entity
from unire.formats import native
from unire.formats.fields import Json

__all__ = ["OUTPUTS", "Lines", "Whole"]


@dataclass(frozen=True)
class Lines:
    """A format that has lines for each document."""

    of: Callable[[Document], str]
    """The lines of a document, each with its line end."""
    head: str = ""
    """What stands before the first document, with its line end."""


Whole = Callable[[Iterable[Document], Path], object]
"""A format that is written at once: takes the documents, which may be a stream, and the file to write."""


def jsonl(document: Document) -> str:
    """The document as a JSON object: what was found, by its characters in the text."""
    item = {
        "id": document.id,
        "text": document.text,
        "entities": [{**_entity(entity), "score": _rounded(entity.score)} for entity in document.entities],
        "relations": [
            {
                "head": _entity(relation.head),
                "tail": _entity(relation.tail),
                "label": relation.label,
                "score": _rounded(relation.score),
            }
            for relation in document.relations
        ],
    }
    return _json_line(item)


def unire(document: Document) -> str:
    """The document in our own format, with its words."""
    return "".join(map(_json_line, native.to_json(document)))


OUTPUTS: dict[str, Lines | Whole] = {
    "jsonl": Lines(jsonl),
    "unire": Lines(unire),
    **{
        name: partial(formats.write, format=name)
        for name, form in formats.FORMATS.items()
        if form.write and name != "unire"
    },
}


def _entity(entity: Entity) -> Json:
    return {
        "text": entity.text,
        "label": entity.label,
        "char_start": entity.char_start,
        "char_end": entity.char_end,
    }


def _rounded(score: float | None) -> float | None:
    return None if score is None else round(score, 4)


def _json_line(item: Json) -> str:
    return json.dumps(item, ensure_ascii=False, allow_nan=False) + "\n"
