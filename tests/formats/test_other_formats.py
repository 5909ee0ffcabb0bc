"""What the paper's authors and Roth and Yih have; what spaCy, Parquet and `datasets` hold; how formats are guessed."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from unire import formats
from unire.documents import Document
from unire.errors import UnireError
from unire.formats.base import raise_error

ADA = Document.from_words(
    [["Ada", "lives", "in", "London"], ["She", "writes"]],
    [(0, 1, "Peop"), (3, 4, "Loc"), (4, 5, "Peop")],
    [(0, 1, "Live_In")],
    id="ada",
)

# unire-released


def line(**more: Any) -> dict[str, Any]:
    mentions = [
        {"emId": "E1", "text": "Ada", "offset": [0, 1], "label": "Peop"},
        {"emId": "E2", "text": "London", "offset": [3, 4], "label": "Loc"},
    ]
    relation = {"em1Id": "E1", "em1Text": "Ada", "em2Id": "E2", "em2Text": "London", "label": "Live_In"}
    item = {"sentId": 0, "articleId": "a", "sentText": "Ada lives in London"}
    return {**item, "entityMentions": mentions, "relationMentions": [relation], **more}


def released(folder: Path, *items: Any, notes: Counter[str] | None = None) -> list[Document]:
    path = folder / "train.json"
    path.write_text("".join(f"{json.dumps(item)}\n" for item in items), encoding="utf-8")
    assert formats.guess(path) == "unire-released"
    return list(formats.read(path, notes=notes))


def test_sentences_of_an_article_are_one_document(tmp_path: Path) -> None:
    documents = released(tmp_path, line(), line(sentId="1"), line(), line(articleId="b", sentId=1))
    assert [(d.id, len(d.sentences)) for d in documents] == [("a", 2), ("a", 1), ("b", 1)]
    assert [str(r) for r in documents[0].relations] == ["Ada [Peop] –Live_In→ London [Loc]"] * 2
    assert documents[0].relations[1].head.start == 4


def test_subword_fields_are_skipped_and_noted(tmp_path: Path) -> None:
    notes: Counter[str] = Counter()
    released(tmp_path, line(wordpieceSentText="x", wordpieceTokensIndex=[]), line(sentId=1), notes=notes)
    assert notes == {
        '"wordpieceSentText" of a sentence, left out': 1,
        '"wordpieceTokensIndex" of a sentence, left out': 1,
    }


def test_exact_characters_in_a_later_sentence_are_those_of_the_whole_document(tmp_path: Path) -> None:
    entities: list[Any] = [(1, 2, "X", None, {"characters": [[4, 7]]})]
    document = Document.from_words([["a"], ["b-cde"]], entities, id="d")
    for name in ("unire-released", "spert"):
        lost: Counter[str] = Counter()
        formats.write([document], tmp_path / name, name, lost=lost)
        found = [entity.attributes for some in formats.read(tmp_path / name, name) for entity in some.entities]
        kept = lost["exact characters of an entity"] == 0
        assert (kept, found) == (name != "spert", [{"characters": [[4, 7]]}] if kept else [{}])
    text = (tmp_path / "unire-released").read_text(encoding="utf-8").replace("[[4, 7]]", "[[4, 70]]")
    (tmp_path / "broken.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(UnireError, match=r"broken\.jsonl: document 'd': `characters` of entity 'X'"):
        list(formats.read(tmp_path / "broken.jsonl"))


def test_the_released_form_is_written_as_the_authors_have_it(tmp_path: Path) -> None:
    formats.write([ADA], tmp_path / "out", "unire-released")
    first = json.loads((tmp_path / "out").read_text(encoding="utf-8").splitlines()[0])
    assert first == line(articleId="ada")


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (line(sentText=7), '"sentText" must be a string'),
        (line(sentId="x"), '"sentId" must be a whole number, but is "x"'),
        (line(entityMentions=[{"emId": "E1", "offset": [0], "label": "X"}]), "is not [start, end]"),
        (line(entityMentions=[{"emId": "E1", "offset": [0, 9], "label": "X"}]), "is outside the document"),
        (line(entityMentions=line()["entityMentions"] * 2), 'has the same "emId" as another one'),
        (line(relationMentions=[{"em1Id": "E1", "em2Id": "E9", "label": "R"}]), 'missing entity by its "em2Id"'),
    ],
)
def test_a_broken_sentence_is_refused_by_line(tmp_path: Path, item: Any, reason: str) -> None:
    with pytest.raises(UnireError, match=re.escape(reason)) as caught:
        released(tmp_path, line(), item)
    assert "line 2: " in str(caught.value)


# conll04

COLUMNS = """7\tPeop\t0\tO\tNNP/NNP\tAda/Lovelace\tO\tO\tO
7\tO\t1\tO\t,\tCOMMA\tO\tO\tO
7\tO\t2\tO\tCC\tand/or\tO\tO\tO
7\tLoc\t3\tO\tNNP\tLondon\tO\tO\tO

0\t3\tLive_In

8\tO\t0\tO\tX\tNothing\tO\tO\tO


9\tO\t0\tO\tX/X/X\ta/b\tO\tO\tO

"""


def columns(folder: Path, text: str) -> Path:
    path = folder / "conll04.corp"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_columns_of_roth_and_yih_are_read(tmp_path: Path) -> None:
    path = columns(tmp_path, COLUMNS)
    assert formats.guess(path) == "conll04"
    documents = list(formats.read(path, notes=(notes := Counter())))
    assert [(d.id, d.words) for d in documents] == [
        ("7", ("Ada", "Lovelace", ",", "and/or", "London")),
        ("8", ("Nothing",)),
        ("9", ("a", "b")),
    ]
    assert [str(r) for r in documents[0].relations] == ["Ada Lovelace [Peop] –Live_In→ London [Loc]"]
    assert notes == {"sentence whose part-of-speech tags are left out": 1}
    formats.write(documents, tmp_path / "ours", "conll04", lost=Counter())
    assert list(formats.read(tmp_path / "ours", notes=(ours := Counter()))) == documents
    assert not +ours  # there are no tags in a file of ours


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("7\tLoc\t3", "7\tLoc\t4"), "line 4 should be element 3, but is element '4'"),
        (("0\t3\tLive_In", "0\t1\tLive_In"), "line 6: element 1 of a relation is not an entity"),
        (("0\t3\tLive_In", "0\tx\tLive_In"), "line 6 is neither an element of nine columns nor a relation of three"),
        (("0\t3\tLive_In", "0\t3"), "line 6 is neither"),
    ],
)
def test_a_broken_sentence_of_columns_does_not_stop_the_rest(tmp_path: Path, change: Any, reason: str) -> None:
    path = columns(tmp_path, COLUMNS.replace(*change))
    errors: list[UnireError] = []
    assert [d.id for d in formats.read(path, "conll04", on_error=errors.append)] == ["8", "9"]
    assert [str(error) for error in errors] == [str(errors[0])]
    assert reason in str(errors[0])


def test_relations_without_a_sentence_and_invalid_bytes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnireError, match="no sentence before them"):
        list(formats.read(columns(tmp_path, "0\t1\tR\n"), "conll04"))
    path = tmp_path / "a"
    path.write_bytes(COLUMNS.encode() + b"\xff\n")
    with pytest.raises(UnireError, match="line 13: not UTF-8"):
        list(formats.read(path, "conll04"))


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (Document.from_words([["a", ""]], id="d"), "cannot represent empty words"),
        (Document.from_words([["a\tb"]], id="d"), "has a tab or a line end"),
        (Document.from_words([["a"]], [(0, 1, "O")], id="d"), "cannot represent an entity type 'O'"),
        (Document.from_words([["\ud83d"]], id="d"), "surrogates"),
    ],
)
def test_words_that_columns_cannot_represent_are_refused(tmp_path: Path, document: Document, reason: str) -> None:
    with pytest.raises(UnireError, match=re.escape(reason)):
        formats.write([document], tmp_path / "out", "conll04")


# spaCy


def docs(path: Path, *made: Any) -> Path:
    from spacy.tokens import DocBin

    DocBin(docs=made, store_user_data=True).to_disk(path)
    return path


def test_docs_of_others_are_read_without_white_space(tmp_path: Path) -> None:
    import spacy
    from spacy.tokens import Span

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    doc = nlp("Ada left.\n\nShe writes.")
    doc.ents = [Span(doc, 0, 1, label="Peop")]
    (document,) = formats.read(docs(tmp_path / "a.spacy", doc))
    assert [s.words for s in document.sentences] == [("Ada", "left", "."), ("She", "writes", ".")]
    assert [str(e) for e in document.entities] == ["Ada [Peop]"]
    assert document.text == "Ada left.\n\nShe writes."


def test_docs_without_sentences_and_with_unknown_groups_are_noted(tmp_path: Path) -> None:
    import spacy
    from spacy.tokens import Span

    doc = spacy.blank("en")("Ada left")
    doc.spans["one"] = [Span(doc, 0, 1, label="X")]
    single = spacy.blank("en")("Ada left")
    single.spans["one"] = [Span(single, 0, 1, label="X")]
    doc.spans["two"] = []
    notes: Counter[str] = Counter()
    documents = list(formats.read(docs(tmp_path / "a", doc, single), notes=notes))
    assert [len(d.entities) for d in documents] == [0, 1]
    assert notes == {
        "document without sentence boundaries, taken as one sentence": 2,
        "document with several groups of spans but no sc, of which `doc.ents` are taken": 1,
    }


def test_a_span_of_spacy_on_white_space_is_left_out_with_its_relations(tmp_path: Path) -> None:
    import spacy
    from spacy.tokens import Span

    doc = spacy.blank("en")("Ada  left London")
    assert doc[1].is_space
    doc.spans["sc"] = [Span(doc, 1, 2, "X"), Span(doc, 0, 1, "Peop"), Span(doc, 3, 4, "Loc")]
    pairs = [(0, 1), (1, 2), (2, 0)]
    doc.user_data["._.", "relations", None, None] = [{"head": a, "tail": b, "label": "Left"} for a, b in pairs]
    notes: Counter[str] = Counter()
    (document,) = formats.read(docs(tmp_path / "a.spacy", doc), notes=notes)
    assert [str(entity) for entity in document.entities] == ["Ada [Peop]", "London [Loc]"]
    assert [str(relation) for relation in document.relations] == ["Ada [Peop] –Left→ London [Loc]"]
    assert notes["entity that covers no word, skipped"] == 1
    assert notes["relation whose entity is left out"] == 2


def test_entities_that_do_not_overlap_are_spacys_own_too(tmp_path: Path) -> None:
    import spacy
    from spacy.tokens import DocBin

    document = Document.from_words([["a", "b", "c"]], [(0, 2, "X", 0.5), (1, 2, "Y"), (2, 3, "Z")], [(0, 2, "R")])
    formats.write([document], tmp_path / "a.spacy", "spacy")
    (doc,) = DocBin().from_disk(tmp_path / "a.spacy").get_docs(spacy.blank("en").vocab)
    assert [(e.text, e.label_) for e in doc.ents] == [("a b", "X"), ("c", "Z")]
    doc.spans["sc"] = list(doc.spans["sc"])[:1]
    doc.user_data.pop(("._.", "relations", None, None))
    notes: Counter[str] = Counter()
    (changed,) = formats.read(docs(tmp_path / "b", doc), notes=notes)
    assert [e.score for e in changed.entities] == [None]
    assert notes == {"document whose scores and attributes are left out, since its spans were changed": 1}


def test_a_file_that_is_not_a_docbin_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x78\x9cnonsense")
    with pytest.raises(UnireError, match="is not a DocBin that can be read"):
        list(formats.read(tmp_path / "a"))
    with pytest.raises(UnireError, match="spaCy cannot represent empty words"):
        formats.write([Document.from_words([[""]])], tmp_path / "b", "spacy")
    with pytest.raises(UnireError, match="cannot be written"):
        formats.write([Document.from_words([["\ud83d"]])], tmp_path / "b", "spacy")


# Parquet and datasets


def test_a_data_set_of_hugging_face_is_made_and_read() -> None:
    dataset = formats.to_dataset([ADA])
    assert dataset.column_names[:2] == ["id", "text"]
    assert list(formats.from_dataset(dataset)) == [ADA]
    assert list(formats.from_dataset(dataset.to_iterable_dataset())) == [ADA]


@pytest.mark.parametrize(
    "row",
    [
        {"doc_key": "a", "sentences": [["Ada", "left"]], "ner": [[[0, 0, "Peop"]]], "relations": [[]]},
        {"orig_id": "a", "tokens": ["Ada", "left"], "entities": [{"type": "Peop", "start": 0, "end": 1}]},
    ],
)
def test_rows_in_the_form_of_dygie_and_spert_are_read(row: dict[str, Any]) -> None:
    (document,) = formats.from_dataset([row])
    assert document == Document.from_words([["Ada", "left"]], [(0, 1, "Peop")], id="a")


def test_a_row_that_is_no_document_is_refused_by_its_number(tmp_path: Path) -> None:
    with pytest.raises(UnireError, match=r'the data set, row 1 \(counted from 0\): "sentences" is missing'):
        list(formats.from_dataset([{"tokens": []}, {"title": "x"}]))
    item = {
        "id": "a",
        "text": "a",
        "sentences": [["a"]],
        "entities": [{"start": 0, "end": 1, "label": "X", "attributes": "{"}],
    }
    with pytest.raises(UnireError, match='"attributes" is not JSON'):
        list(formats.from_dataset([item]))
    with pytest.raises(UnireError, match="must be a JSON object, but is 7"):
        list(formats.from_dataset([{**item, "entities": [7]}]))


def test_many_rows_are_written_and_read_in_chunks(tmp_path: Path) -> None:
    documents = [Document.from_words([[str(i)]], id=str(i)) for i in range(1200)]
    for name in ("parquet", "datasets"):
        assert formats.write(documents, tmp_path / name, name) == 1200
        assert formats.guess(tmp_path / name) == name
        assert list(formats.read(tmp_path / name)) == documents


def test_the_folder_of_several_data_sets_is_refused_with_their_names(tmp_path: Path) -> None:
    from datasets import DatasetDict

    DatasetDict({"train": formats.to_dataset([ADA]), "test": formats.to_dataset([ADA])}).save_to_disk(tmp_path / "d")
    with pytest.raises(UnireError, match="holds several data sets; give the folder of one: test, train"):
        list(formats.read(tmp_path / "d"))
    assert list(formats.read(tmp_path / "d" / "train")) == [ADA]


def test_a_list_of_data_files_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    formats.write([ADA], tmp_path / "d", "datasets")
    state = tmp_path / "d" / "state.json"
    state.write_text(json.dumps({"_data_files": [{"filename": "../../secret.arrow"}]}))
    with pytest.raises(UnireError, match="is outside the folder"):
        list(formats.read(tmp_path / "d"))


def test_broken_tables_are_refused(tmp_path: Path) -> None:
    formats.write([ADA], tmp_path / "a.parquet", "parquet")
    raw = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(raw[: len(raw) // 2])
    with pytest.raises(UnireError, match=r"a\.parquet cannot be read"):
        list(formats.read(tmp_path / "a.parquet"))


@pytest.mark.parametrize("name", ["parquet", "datasets", "spacy"])
def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for module in ("pyarrow", "datasets", "spacy"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UnireError, match=re.escape(f'pip install "unire[{name}]"')):
        formats.write([ADA], tmp_path / "a", name)


# Guessing


def test_a_long_first_item_does_not_keep_a_list_from_being_guessed(tmp_path: Path) -> None:
    text = "a " * 600_000
    (tmp_path / "a").write_text(json.dumps([{"annotations": [], "data": {"text": text}}]))
    assert formats.guess(tmp_path / "a") == "labelstudio"
    (tmp_path / "b").write_text(json.dumps([{"tokens": text.split()}]))
    assert formats.guess(tmp_path / "b") == "spert"


def rows_with_errors(path: Path, documents: list[Document], errors: list[str | None]) -> None:
    """A file as `unire extract --ray` writes it."""
    from pyarrow import parquet

    from unire.formats import arrow

    (table,) = arrow.iter_tables(documents, raise_error)
    for name, column in {"block": ["000000"] * len(errors), "error": errors}.items():
        table = table.append_column(name, [column])
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, path)


def test_a_folder_of_parquet_files_is_read_in_order_without_rows_of_errors(tmp_path: Path) -> None:
    nothing = Document.from_words([], id="papers/1.txt:1")
    first, second = (replace(ADA, id=name) for name in "ab")
    rows_with_errors(tmp_path / "found" / "000001.parquet", [second], [None])
    rows_with_errors(tmp_path / "found" / "000000.parquet", [nothing, first], ["not UTF-8", None])
    rows_with_errors(tmp_path / "found" / ".000002.partial.parquet", [first], [None])
    (tmp_path / "found" / "_manifest.json").write_text("{}")
    assert formats.guess(tmp_path / "found") == "parquet"
    for name in (None, "parquet"):
        notes: Counter[str] = Counter()
        assert list(formats.read(tmp_path / "found", name, notes=notes)) == [first, second]
        assert notes == {"row with an extraction error, skipped": 1}
    rows_with_errors(tmp_path / "one.parquet", [nothing], ["not UTF-8"])
    with pytest.raises(UnireError, match=r"one\.parquet holds no document"):
        list(formats.read(tmp_path / "one.parquet"))
    with pytest.raises(UnireError, match="found cannot be read: Is a directory"):
        list(formats.read(tmp_path / "found", "dygie"))
