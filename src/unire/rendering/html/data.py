"""What the scripts of a page need to know, as JSON; numbers are rounded, so that a page stays small.

Probabilities are whole thousandths: a table of them is compressed and written in base64.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Container, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unire.documents import Document, Relation
from unire.labels import LabelSpace
from unire.rendering.common import Palette, visible
from unire.rendering.html.text import relation_list, sentences
from unire.rendering.views import SentenceTable, View
from unire.tables import fill_sentence, read_table

__all__ = ["SCALE", "of_document", "of_labels", "of_view", "script"]

SCALE = 1000
"""What a probability of 1 is written as."""

Json = dict[str, Any]


def script(data: Json, attributes: str) -> str:
    """Data in a page. Within a script, `<` is all that could end it or open a comment."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" {attributes}>{text}</script>'


def of_labels(labels: LabelSpace, palette: Palette) -> list[Json]:
    """Names and colours by id; ⊥ has none."""
    coloured = [{"name": visible(name), "colour": palette[name]} for name in labels.names[1:]]
    return [{"name": labels.names[LabelSpace.NONE], "colour": None}, *coloured]


def of_document(view: View, labels: LabelSpace | None, palette: Palette, cells: Container[int] | None = None) -> Json:
    """Relations for the arcs, and tables by sentence.

    Args:
        view: The document.
        labels: The label space of its tables; without it there are none.
        palette: Of the labels.
        cells: The sentences whose tables come with all probabilities; every one when left out.
    """
    document = view.document
    return {
        "relations": [
            {
                "head": head,
                "tail": tail,
                "label": visible(r.label),
                "colour": palette[r.label],
                "score": _rounded(r.score),
            }
            for r, head, tail in _numbered(document)
        ],
        "tables": [] if labels is None else [_table(view, table, labels, cells) for table in view.tables],
    }


def _numbered(document: Document) -> Iterable[tuple[Relation, int, int]]:
    """Relations with the positions of their arguments."""
    positions = {entity: i for i, entity in enumerate(document.entities)}
    return ((relation, positions[relation.head], positions[relation.tail]) for relation in document.relations)


def _table(view: View, table: SentenceTable, labels: LabelSpace, cells: Container[int] | None) -> Json:
    place = table.place
    filled = cells is None or place.sentence in cells
    return {
        "sentence": place.sentence,
        "words": [visible(word) for word in view.document.words[place.start : place.end]],
        "model": None if table.P is None else (_cells(table.P) if filled else {}) | _decoded(view, table, labels),
        "gold": None if view.gold is None else _gold(view.gold, table, labels),
    }


def _cells(P: NDArray[np.float32]) -> Json:
    """What the model said of every cell."""
    # the largest before rounding: afterwards two may be equal
    return {"P": _packed(np.rint(P * SCALE)), "argmax": _packed(P.argmax(2))}


def _decoded(view: View, table: SentenceTable, labels: LabelSpace) -> Json:
    """What the decoder made of the cells."""
    place = table.place
    sentence = view.document.sentences[place.sentence]
    entities = [entity for entity in sentence.entities if place.start <= entity.start < place.end]
    positions = {entity: i for i, entity in enumerate(entities)}
    return {
        "distances": None if table.distances is None else [round(d, 4) for d in table.distances.tolist()],
        "alpha": table.alpha,
        "cuts": [cut - place.start for cut in sentence.cuts or () if place.start < cut < place.end],
        "entities": [
            [e.start - place.start, e.end - place.start, labels.entity_id(e.label), _rounded(e.score)] for e in entities
        ],
        "relations": [
            [positions[r.head], positions[r.tail], labels.relation_id(r.label), _rounded(r.score)]
            for r in sentence.relations
            if r.head in positions
        ],
    }


def _gold(gold: Document, table: SentenceTable, labels: LabelSpace) -> Json:
    """The gold table, read back: squares and rectangles as a table holds them."""
    place = table.place
    filled = fill_sentence(gold.sentences[place.sentence], labels, place.start, place.end)
    entities, relations = read_table(filled.labels, labels)
    return {"entities": entities, "relations": relations, "unheld": len(filled.omitted)}


def _packed(numbers: NDArray[Any]) -> str:
    """Whole numbers below 2¹⁶, two bytes each, compressed."""
    return base64.b64encode(zlib.compress(numbers.astype("<u2").tobytes(), 6)).decode()


def _rounded(score: float | None) -> float | None:
    return None if score is None else round(score, 4)


def of_view(view: View, labels: LabelSpace, palette: Palette, cells: Container[int] = ()) -> dict[str, Any]:
    """A document for `DocumentView` in `document.js`; the probabilities only of the sentences `cells`."""
    return {
        "sentences": list(sentences(view.document, palette)),
        "triples": relation_list(view.document, palette),
        **of_document(view, labels, palette, cells),
    }
