"""A document, what is in it, and predictions that are wrong in ways worked out by hand."""

from __future__ import annotations

from unire.documents import Document
from unire.labels import LabelSpace

LABELS = LabelSpace(("Task", "Method"), ("Used-for", "Compare"), frozenset({"Compare"}))
WORDS = [["we", "parse", "with", "tables", "and", "graphs"], ["graphs", "lose"]]

GOLD = Document.from_words(
    WORDS,
    [(1, 2, "Task"), (3, 4, "Method"), (5, 6, "Method")],
    [(1, 0, "Used-for"), (1, 2, "Compare")],
    id="paper",
)


def predict(*items: tuple[object, ...]) -> Document:
    """GOLD's words with other annotation: `(start, end, type)` for entities, then `(head, tail, type)` by position."""
    entities = [item for item in items if item[2] in LABELS.entity_types]
    relations = [item for item in items if item[2] in LABELS.relation_types]
    return Document.from_words(WORDS, entities, relations, id="paper")  # type: ignore[arg-type]


ENTITIES = ((1, 2, "Task"), (3, 4, "Method"), (5, 6, "Method"))
ONE_WAY = predict(*ENTITIES, (1, 0, "Used-for"), (1, 2, "Compare"))
OTHER_WAY = predict(*ENTITIES, (1, 0, "Used-for"), (2, 1, "Compare"))
BOTH_WAYS = predict(*ENTITIES, (1, 0, "Used-for"), (1, 2, "Compare"), (2, 1, "Compare"))
NEITHER_WAY = predict(*ENTITIES, (1, 0, "Used-for"))
WRONG_TYPE = predict((1, 2, "Task"), (3, 4, "Task"), (5, 6, "Method"), (1, 0, "Used-for"), (1, 2, "Compare"))
