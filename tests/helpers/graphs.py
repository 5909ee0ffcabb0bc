"""Documents for tests of graphs."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from unire.documents import Document, Relation
from unire.labels import LabelSpace

HOSTILE = [
    'it\'s "quoted"',
    "back\\slash \\' \\u0027 \\\\u0060",
    "two\nlines\r\nand\ta tab",
    "`}) DETACH DELETE n;//",
    "</data><b>&amp;",
    "=HYPERLINK(1)",
    "naïve 王小明 👩‍👩‍👧 \u2028 \u202e",
    "-1",
]

texts = st.text(st.sampled_from("\\u'`0\n\r\t=+-@,\"<&") | st.characters(exclude_categories=["Cs"]), max_size=20)


def met(head: str, tail: str, *, id: str = "", score: float | None = 0.5, relation: str = "knows") -> Document:
    """A sentence with two people and a relation between them."""
    words = [[head, "met", tail]]
    return Document.from_words(words, [(0, 1, "Peop", score), (2, 3, "Peop", score)], [(0, 1, relation, score)], id=id)


def stated(sentence: str, entities: list[tuple[int, int, str]], relation: tuple[int, int, str], score: float, id: str):
    """A sentence that states a relation between two of its entities."""
    document = Document.from_words([sentence.split()], entities, id=id)
    head, tail = (replace(document.entities[i], score=score) for i in relation[:2])
    return document.annotated([head, tail], [Relation(head, tail, relation[2], score)])


LABELS = LabelSpace(("Person", "Place", "Tool"), ("MET", "WAS-IN", "USED"), frozenset({"MET"}))
DOCUMENTS = [
    stated("Ada met Charles .", [(0, 1, "Person"), (2, 3, "Person")], (0, 1, "MET"), 0.9, "a"),
    stated("Charles met Ada again .", [(0, 1, "Person"), (2, 3, "Person")], (0, 1, "MET"), 0.8, "b"),
    stated("Ada was in London .", [(0, 1, "Person"), (3, 4, "Place")], (0, 1, "WAS-IN"), 0.7, "c"),
    stated("Ada used the engine .", [(0, 1, "Person"), (3, 4, "Tool")], (0, 1, "USED"), 0.3, "d"),
    stated("Mary 😀 was in London .", [(0, 1, "Person"), (4, 5, "Place")], (0, 1, "WAS-IN"), 0.6, "e"),
    stated("Grace used COBOL .", [(0, 1, "Person"), (2, 3, "Tool")], (0, 1, "USED"), 0.5, "f"),
]
