"""Documents for tests of graphs."""

from __future__ import annotations

from hypothesis import strategies as st

from unire.documents import Document

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
