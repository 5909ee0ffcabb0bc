"""Entities of raw text: no punctuation at their ends, and whole names."""

from __future__ import annotations

import numpy as np
import pytest

from unire import Document, LabelSpace
from unire.decoding.assemble import DocumentAssembler
from unire.decoding.kernels import Decoded
from unire.segmentation import segment
from unire.tables import TableSpan

LABELS = LabelSpace(("Name",), ())


def assemble(document: Document, text: str) -> str:
    """The entity that is made from a span with these characters."""
    start = document.text.index(text)
    words = [i for i, (a, b) in enumerate(document.offsets) if start < b and a < start + len(text)]
    decoded = Decoded(
        np.array([[0, words[0], words[-1] + 1, 1]]),
        np.array([0.9]),
        np.empty((0, 3), np.int64),
        np.empty(0),
        np.empty((0, 2), np.int64),
    )
    assembler = DocumentAssembler([document], LABELS)
    assembler.add([TableSpan(0, 0, 0, document.n_words)], decoded)
    (entity,) = assembler.documents()[0].entities
    assert entity.text == document.text[entity.char_start : entity.char_end]
    assert entity.char_end == document.offsets[entity.end - 1][1]
    return entity.text


@pytest.mark.parametrize(
    ("text", "span", "expected"),
    [
        ("He saw Acme, twice.", "Acme,", "Acme"),
        ("It was July 8, 1987.", "July 8,", "July 8"),
        ('She read "The Times," twice.', '"The Times,"', "The Times"),
        ("Made by Acme (Oslo).", "Acme (Oslo).", "Acme (Oslo)"),
        ("Made by Acme (Oslo).", "(Oslo)", "Oslo"),
        ("Made by Acme (Oslo).", "(Oslo", "Oslo"),
        ("Made by (Acme) Oslo.", "(Acme) Oslo", "(Acme) Oslo"),
        ("In 1987, 14 June came.", ", 14 June", "14 June"),
        ("Reuters' man left.", "Reuters'", "Reuters"),
        ("He joined Acme Inc. in Oslo.", "Acme Inc.", "Acme Inc."),
        ("He uses Yahoo! and C++ daily.", "Yahoo!", "Yahoo!"),
        ("Toys 'R' Us opened.", "Toys 'R' Us", "Toys 'R' Us"),
        ("Wait, stop.", ",", ","),
    ],
)
def test_attached_punctuation_is_no_part_of_an_entity(text, span, expected):
    assert assemble(segment(text), span) == expected


def test_punctuation_between_spaces_is_kept_as_the_data_has_it():
    document = Document.from_words([["He", "lives", "in", "Ariz", ".", ",", "they", "say", "."]])
    assert assemble(document, "Ariz .") == "Ariz ."


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("The Bergen-based firm closed.", "Bergen"),
        ("The New York-based firm closed.", "New York"),
        ("A case of lithium-induced tremor.", "lithium"),
        ("Raymond O'Hara left.", "Raymond O'Hara"),
        ("Raymond O’Hara left.", "Raymond O’Hara"),
        ("They flew to N'Djamena.", "N'Djamena"),
        ("They flew to Hawai‘i.", "Hawai‘i"),
    ],
)
def test_a_name_is_made_of_whole_words(text, name):
    assert assemble(segment(text), name) == name
