"""Tables drawn on a terminal: what is drawn is what was decoded."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from unire.documents import Document
from unire.rendering import Palette, abbreviate_labels
from unire.rendering.terminal import Grid, render_text
from unire.tables import fill_sentence


def drawn(document: Document, width: int = 100, sentence: int = 0, **console) -> str:
    file = io.StringIO()
    Console(file=file, width=width, **console).print(Grid(document.sentences[sentence]))
    return file.getvalue()


@given(st.lists(st.text(max_size=6), unique=True))
def test_different_labels_have_different_codes(labels):
    found = abbreviate_labels(labels)
    assert list(found) == labels
    assert len(set(found.values())) == len(labels)
    assert all(found.values())


@given(st.lists(st.text(max_size=6), unique=True))
def test_a_palette_has_the_same_codes(labels):
    palette = Palette(labels)
    assert {label: palette.code(label) for label in labels} == abbreviate_labels(labels)


def test_a_code_is_short(scierc_labels):
    found = abbreviate_labels(scierc_labels.names[1:])
    assert (found["Task"], found["OtherScientificTerm"], found["USED-FOR"]) == ("T", "OST", "UF")
    assert all(len(code) <= 3 for code in found.values())


def test_the_drawn_table_is_the_one_that_is_filled(twenty, scierc_labels):
    for document in twenty:
        for i, sentence in enumerate(document.sentences):
            if not sentence.entities:
                continue
            *rows, key = drawn(document, 200, i).splitlines()
            pairs = key.split()
            names = {**dict(zip(pairs[::2], pairs[1::2], strict=True)), "·": "⊥"}
            table = fill_sentence(sentence, scierc_labels).labels
            expected = [[scierc_labels.names[cell] for cell in row] for row in table]
            # a symmetric relation is filled in both ways, and drawn as it was found
            for row, drawn_row, word in zip(expected, rows, sentence.words, strict=True):
                shown, *cells = drawn_row.split()
                assert shown == word
                assert all(
                    names[cell] in (name, "⊥" if name in scierc_labels.symmetric else name)
                    for cell, name in zip(cells, row, strict=True)
                )


def test_a_table_too_wide_or_without_entities_gets_a_note():
    wide = Document.from_words([["a"] * 50], [(0, 1, "X")])
    assert "the table of 50 words is too wide" in drawn(wide, 80).replace("\n", " ")
    assert drawn(wide, 120).count("\n") == 51
    assert "(no entities in a table of 3 words)" in drawn(Document.from_words([["a", "b", "c"]]))


def test_words_are_cut_and_do_no_harm():
    document = Document.from_words([["x" * 40, "\x1b[31m", "[red]"]], [(0, 1, "X")])
    assert max(map(len, drawn(document).splitlines())) < 30
    assert "␛[31m" in drawn(document)
    assert "[red]" in drawn(document)


def test_a_document_has_its_tables_below_the_relations():
    document = Document.from_words([["Ada", "lives"], ["in", "London"]], [(0, 1, "Peop"), (3, 4, "Loc")])
    assert render_text(document, tables=True).splitlines()[2:] == [
        *("", "  Ada   P ·", "  lives · ·", "  P Peop"),
        *("", "  in     · ·", "  London · L", "  L Loc", ""),
    ]
