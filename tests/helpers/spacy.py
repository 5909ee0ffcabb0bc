"""Pipelines of spaCy with the component in them, and what it says of texts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import spacy
    from spacy.tokens import Doc, Span

TEXTS = [
    "We train a chart parser on the Penn Treebank for dependency parsing. It isn't slow (see Fig. 2).",
    "",
    "  Word sense disambiguation helps machine translation,\n\nbut speech recognition does not!  ",
    "Parsing.",
]


def pipeline(model: object, **config: object) -> spacy.Language:
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("unire", config={"model": str(model), **config})
    return nlp


def found(doc: Doc) -> list[object]:
    """Everything that the component says of a text, as plain data."""
    return [
        doc.text,
        [[span.start_char, span.end_char, span.label_, span._.score] for span in doc.ents],
        [[*(place(span) for span in (r.head, r.tail)), r.label, r.score] for r in doc._.relations],
    ]


def place(span: Span) -> list[object]:
    return [span.start_char, span.end_char, span.label_]


def texts_of(doc: Doc) -> list[tuple[object, ...]]:
    return [(r.head.text, r.head.label_, r.label, r.tail.text, r.tail.label_, r.score) for r in doc._.relations]


def in_a_fresh_process(code: str, *arguments: object) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def nlp(exported: Path) -> spacy.Language:
    return pipeline(exported)


@pytest.fixture(scope="module")
def docs(nlp: spacy.Language) -> list[Doc]:
    return list(nlp.pipe(TEXTS))


def merged(words: list[str]) -> Doc:
    """A text whose tokens are these, with a space after each."""
    import spacy
    from spacy.tokens import Doc

    doc = Doc(spacy.blank("en").vocab, words=words)
    doc[0].is_sent_start = True
    return doc
