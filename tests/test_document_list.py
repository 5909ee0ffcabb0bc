"""Lists of documents: what they print, show in a notebook, and become."""

from __future__ import annotations

import sys

import pytest

from unire import Document, Documents, to_dataframe
from unire.errors import UnireError
from unire.graph.rows import ENTITIES, TRIPLES

ADA = Document.from_words(
    [["Ada", "lives", "in", "London"], ["She", "writes"]],
    entities=[(0, 1, "Peop", 0.9), (3, 4, "Loc", 0.8)],
    relations=[(0, 1, "Live_In", 0.7)],
    id="ada",
)
EMPTY = Document("Nothing\nhere.")


@pytest.fixture
def documents() -> Documents:
    return Documents([ADA, EMPTY])


# Documents


def test_a_document_has_a_short_repr():
    assert repr(ADA) == "<Document 'ada': 'Ada lives in London\\nShe writes' (2 entities, 1 relation)>"
    assert repr(EMPTY) == "<Document: 'Nothing\\nhere.' (0 entities, 0 relations)>"
    assert repr(Document("a" * 100)) == f"<Document: '{'a' * 59}…' (0 entities, 0 relations)>"


def test_both_directions_of_a_symmetric_relation_count_as_one():
    entities = [(0, 1, "Peop"), (2, 3, "Peop")]
    both = Document.from_words([["Ada", "met", "Bob"]], entities, [(0, 1, "met", 0.5), (1, 0, "met", 0.5)])
    assert repr(both).endswith("(2 entities, 1 relation)>")
    assert "1 document, 2 entities, 1 relation" in repr(Documents([both]))
    other = Document.from_words([["Ada", "met", "Bob"]], entities, [(0, 1, "met", 0.5), (1, 0, "saw", 0.5)])
    assert repr(other).endswith("(2 entities, 2 relations)>")


def test_a_document_prints_its_text_and_what_was_found():
    assert str(ADA).splitlines() == [
        "Ada lives in London",
        "She writes",
        "entities:",
        "  Ada [Peop] (0.90)",
        "  London [Loc] (0.80)",
        "relations:",
        "  Ada [Peop] –Live_In→ London [Loc] (0.70)",
    ]
    assert str(EMPTY) == "Nothing\nhere."
    assert str(Document.from_words([["a"]], [(0, 1, "X")])).endswith("  a [X]")


def test_a_document_is_written_as_a_page(tmp_path):
    assert ADA.to_html(tmp_path / "page.html") is None
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "Live_In" in page
    assert ADA.to_html() == page
    with pytest.raises(UnireError, match="cannot be written"):
        ADA.to_html(tmp_path / "page.html" / "inside.html")


# Lists


def test_a_list_of_documents_is_a_list(documents):
    assert documents == [ADA, EMPTY]
    assert isinstance(documents, list)
    assert documents[0] is ADA
    assert documents[:1] == [ADA]
    assert isinstance(documents[1:], Documents)


def test_a_list_of_documents_has_a_short_repr(documents):
    assert repr(documents).splitlines() == [
        "<Documents: 2 documents, 2 entities, 1 relation>",
        f"  {ADA!r}",
        f"  {EMPTY!r}",
    ]
    many = repr(Documents(1000 * [ADA])).splitlines()
    assert many[0] == "<Documents: 1,000 documents, 2,000 entities, 1,000 relations>"
    assert many[-1] == "  … and 995 more"
    assert len(many) == 7
    assert repr(Documents()) == "<Documents: 0 documents, 0 entities, 0 relations>"


def test_a_notebook_shows_the_first_documents(documents):
    html = documents._repr_html_()
    assert html.count('<div class="unire">') == 2
    assert "Live_In" in html
    assert "more documents" not in html
    many = Documents(12 * [ADA])._repr_html_()
    assert many.count('<div class="unire">') == 10
    assert "… and 2 more documents" in many


def test_a_list_is_written_as_a_page(documents, tmp_path):
    documents.to_html(str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == documents.to_html()
    assert documents.to_html().count('<details class="document"') == 2


def test_a_list_becomes_one_graph(documents):
    pytest.importorskip("networkx")
    assert len(documents.to_networkx()) == 2


# Data frames


def test_relations_become_the_rows_of_a_data_frame(documents):
    pytest.importorskip("pandas")
    frame = documents.to_dataframe()
    assert tuple(frame.columns) == TRIPLES.columns
    assert frame.to_dict("records") == [
        {
            "head": "Ada",
            "head_label": "Peop",
            "relation": "Live_In",
            "tail": "London",
            "tail_label": "Loc",
            "score": 0.7,
            "document": "ada",
            "sentence": "Ada lives in London",
            "head_start": 0,
            "head_end": 3,
            "tail_start": 13,
            "tail_end": 19,
        }
    ]
    assert documents.to_pandas().equals(frame)
    assert to_dataframe(iter(documents)).equals(frame)
    assert to_dataframe(ADA).equals(frame)


def test_entities_become_the_rows_of_a_data_frame(documents):
    pytest.importorskip("pandas")
    nameless = Document.from_words([["Bob"]], [(0, 1, "Peop")])
    frame = Documents([*documents, nameless]).to_dataframe("entities")
    assert tuple(frame.columns) == ENTITIES.columns
    assert frame["entity"].tolist() == ["Ada", "London", "Bob"]
    assert frame["document"].tolist() == ["ada", "ada", 2]  # without an id, the position
    assert frame["score"].isna().tolist() == [False, False, True]


def test_nothing_gives_a_data_frame_with_columns():
    pytest.importorskip("pandas")
    assert tuple(to_dataframe([]).columns) == TRIPLES.columns
    assert len(Documents().to_pandas("entities")) == 0


def test_bad_arguments_are_refused(documents):
    with pytest.raises(UnireError, match="has relations or entities, not 'words'"):
        documents.to_dataframe("words")
    with pytest.raises(UnireError, match="not str"):
        to_dataframe(["text"])


def test_without_pandas_one_sentence_says_what_to_install(documents, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UnireError, match="data frames need pandas: pip install pandas"):
        documents.to_dataframe()
