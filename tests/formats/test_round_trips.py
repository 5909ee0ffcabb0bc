"""Write ⇄ read: what a format holds comes back as it was, and what it does not hold is counted."""

from __future__ import annotations

import contextlib
import functools
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unire import formats
from unire.documents import Document, Entity, Relation
from unire.errors import UnireError
from unire.formats.base import ALL_CAPABILITIES, LOST_ARGUMENT, Capability, project

SLOW = {"spacy", "datasets", "parquet", "brat"}
WRITTEN = [name for name, form in formats.FORMATS.items() if form.write]
WORDY = [name for name in WRITTEN if name != "brat"]

values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
described = st.just({}) | st.dictionaries(
    st.text(max_size=4).filter(lambda name: name != "characters"), values, max_size=2
)
scores = st.none() | st.floats(0, 1)
names = st.sampled_from(["A", "B", "Live_In", "Ö"]) | st.text(max_size=3)


@pytest.fixture(scope="module", autouse=True)
def known_packers() -> Iterator[None]:
    """What packs a `Doc`, spaCy seeks among all packages that are installed, several times for each; here once."""
    if find_spec("spacy") is None:
        yield
        return
    from srsly import msgpack

    with pytest.MonkeyPatch.context() as patch:
        for registry in (msgpack.msgpack_encoders, msgpack.msgpack_decoders):
            patch.setattr(registry, "get_all", functools.cache(registry.get_all))
        yield


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """Any document: empty words and sentences, overlaps, repeats, odd characters, every kind of annotation."""
    word = st.sampled_from(["Ada", ",", "a/b", "in", "\\", "COMMA", "x", ""]) | st.text(min_size=1, max_size=3)
    split = draw(st.lists(st.lists(word, max_size=4), max_size=3))
    n = sum(map(len, split))
    entities: list[Any] = []
    if n:
        for _ in range(draw(st.integers(0, 4))):
            start = draw(st.integers(0, n - 1))
            entities.append((start, draw(st.integers(start + 1, n)), draw(names), draw(scores), draw(described)))
    argument = st.integers(0, len(entities) - 1)
    relations = draw(st.lists(st.tuples(argument, argument, names, scores, described), max_size=3)) if entities else []
    meta = draw(described)
    start = st.integers(0, n - 1)
    mention = start.flatmap(lambda first: st.tuples(st.just(first), st.integers(first + 1, n)))
    clusters = draw(st.lists(st.lists(mention, max_size=3), max_size=2)) if n else []
    name = draw(st.sampled_from(["a", "b/c", "../x", "."]) | st.text(max_size=3))
    if draw(st.booleans()):
        return Document.from_words(split, entities, relations, clusters=clusters, id=name, meta=meta)
    gap = draw(st.text(max_size=2))
    text, offsets = gap, []
    for word in (word for words in split for word in words):
        offsets.append((len(text), len(text) + len(word)))
        text += word + gap
    spread = Document.from_words(split, entities, relations, text=text, offsets=offsets, id=name, meta=meta)
    cuts = [draw(st.none() | st.lists(st.integers(s.start, s.end), max_size=2).map(tuple)) for s in spread.sentences]
    return spread.annotated(spread.entities, spread.relations, cuts, clusters)


def again(given: list[Document], format: str, **how: Any) -> tuple[list[Document], list[UnireError]]:
    """What is read of what is written, and what was refused."""
    refused: list[UnireError] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "written"
        count = formats.write(given, path, format, lost=Counter(), on_error=refused.append)
        assert count <= len(given)
        found = []
        with contextlib.suppress(UnireError) if not count else contextlib.nullcontext():
            found = list(formats.read(path, format, **how))
    return found, refused


def plain(item: Entity | Relation) -> str:
    if isinstance(item, Entity):
        return repr(replace(item, attributes={}))
    return f"{plain(item.head)} {plain(item.tail)} {item.label!r} {item.score}"


def everything(item: Entity | Relation) -> str:
    """An entity or a relation in full; dataclasses compare all but its attributes."""
    ends = [everything(item.head), everything(item.tail)] if isinstance(item, Relation) else []
    return json.dumps([plain(item), dict(item.attributes), ends], sort_keys=True)


def in_order(items: Iterable[Entity | Relation]) -> list[str]:
    return sorted(map(everything, items))


def assert_same(found: list[Document], expected: list[Document]) -> None:
    """Equal in all that is compared and in what is not, but for the order in which annotation is listed."""
    assert [d.bare for d in found] == [d.bare for d in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.meta == other.meta
        assert one.clusters == other.clusters
        assert [s.cuts for s in one.sentences] == [s.cuts for s in other.sentences]
        assert in_order(one.entities) == in_order(other.entities)
        assert in_order(one.relations) == in_order(other.relations)


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("format", WORDY)
def test_annotation_that_a_format_holds_is_read_back_exactly(format: str) -> None:
    examples = 40 if format in SLOW else 150
    seen: Counter[bool] = Counter()

    @settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(documents())
    def check(document: Document) -> None:
        expected = project(
            document, formats.FORMATS[format].capabilities, Counter(), formats.FORMATS[format].reserved_keys
        )
        found, refused = again([document], format)
        seen[bool(refused)] += 1
        assert_same(found, [part for part in expected if not any(repr(part.id) in str(error) for error in refused)])

    check()
    assert seen[False]  # what no format of the kind can spell is refused, but not everything is


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("format", WRITTEN)
@given(documents())
def test_a_document_that_loses_something_is_counted_and_no_other(format: str, document: Document) -> None:
    lost: Counter[str] = Counter()
    held = project(document, formats.FORMATS[format].capabilities - {Capability.WORDS}, lost)
    if lost - Counter({Capability.WORDS.value: 1}):
        return
    assert_same(held, [document])


@given(documents())
def test_projection_on_all_capabilities_changes_nothing(document: Document) -> None:
    assert project(document, ALL_CAPABILITIES, lost := Counter()) == [document]
    assert not lost


@settings(max_examples=60, deadline=None)
@given(documents())
def test_brat_keeps_the_text_and_the_characters_of_everything(document: Document) -> None:
    (expected,) = project(document, formats.FORMATS["brat"].capabilities, Counter())
    found, refused = again([document], "brat")
    if refused:
        return
    assert [d.text for d in found] == [expected.text]
    assert [d.id for d in found] == [expected.id]
    kept = [e for e in expected.entities if expected.text[e.char_start : e.char_end].strip()]
    assert Counter(map(spelt, found[0].entities)) == Counter(map(spelt, kept))
    assert len(found[0].relations) == sum(r.head in kept and r.tail in kept for r in expected.relations)


def spelt(entity: Entity) -> str:
    attributes = {name: value for name, value in sorted(entity.attributes.items()) if name != "characters"}
    return repr((entity.fragments[0][0], entity.fragments[-1][1], entity.label, attributes))


@settings(max_examples=60, deadline=None)
@given(documents())
def test_words_between_spaces_come_back_from_brat(document: Document) -> None:
    plain = [["".join(word.split()) or "w" for word in sentence.words] or ["w"] for sentence in document.sentences]
    if not plain:
        return
    text = Document.from_words(plain, id="a").text
    entities = [(0, 1, "X", None, {"sub type": 1, "kind": "k", "sure": True}), (0, len(plain[0]), "Y")]
    document = Document.from_words(plain, entities, [(0, 1, "R")], id="a")
    assert document.text == text
    found, _ = again([document], "brat", spaces=True)
    assert_same(found, [document])


@pytest.mark.parametrize("format", WORDY)
def test_words_of_white_space_stand_where_they_stood(format: str) -> None:
    """The text is the words joined, and yet its one word stands elsewhere in it."""
    document = Document.from_words([["\n"], [], []], text="\n\n\n", offsets=[(1, 2)], id="d")
    expected = project(document, formats.FORMATS[format].capabilities, Counter(), formats.FORMATS[format].reserved_keys)
    found, refused = again([document], format)
    if not refused:
        assert_same(found, expected)
    if Capability.TEXT in formats.FORMATS[format].capabilities:
        assert found[0].offsets == ((1, 2),)


def test_documents_with_equal_ids_stay_separate_or_are_refused() -> None:
    document = Document.from_words([["a"], ["b"]], [(0, 1, "X")], id="d")
    for name in WORDY:
        expected = project(document, formats.FORMATS[name].capabilities, Counter())
        found, _ = again([document, document], name)
        assert_same(found, expected + expected)
    _, refused = again([document, document], "brat")
    assert "another document has the same id" in str(refused[0])


def test_losses_are_counted_by_kind() -> None:
    document = Document.from_words(
        [["Ada", "lives"], [], ["in", "London"]],
        [(0, 1, "Peop", 0.5, {"sure": True}), (0, 2, "Peop"), (1, 3, "Loc"), (3, 4, "Loc"), (3, 4, "City")],
        [(0, 3, "Live_In"), (0, 1, "R"), (2, 3, "R")],
        text="Ada lives. in London",
        offsets=[(0, 3), (4, 9), (11, 13), (14, 20)],
        meta={"source": "x"},
    )
    document = document.annotated(document.entities, document.relations, [(0, 1), None, None], [[(0, 1), (3, 4)]])
    lost: Counter[str] = Counter()
    parts = project(document, formats.FORMATS["conll04"].capabilities, lost)
    assert [part.words for part in parts] == [("Ada", "lives"), ("in", "London")]
    assert [str(e) for part in parts for e in part.entities] == ["Ada lives [Peop]", "London [Loc]"]
    assert lost == {
        "document with meta data": 1,
        "sentence with the cuts of a decoder": 1,
        "document with coreference clusters": 1,
        "entity across sentences": 1,
        "relation whose entity is left out": 2,
        "relation across sentences": 1,
        "entity that overlaps a longer one": 2,
        "text that is not the words joined by spaces": 1,
        "sentence without words": 1,
        "document of several sentences, written as one document for each": 1,
    }


REAL = [
    *(f"{corpus}/{part}.json" for corpus in ("scierc", "conll04") for part in ("train", "dev", "test")),
    "ade/ade_full.json",
]
LOSSES = {
    ("scierc", "spert"): {
        Capability.SENTENCES,
        Capability.CLUSTERS,
        Capability.SPANNING_ENTITIES,
        Capability.SPANNING_RELATIONS,
    },
    ("scierc", "conll04"): {
        Capability.SENTENCES,
        Capability.CLUSTERS,
        Capability.OVERLAPS,
        Capability.SPANNING_RELATIONS,
    },
    **{
        ("scierc", name): {Capability.CLUSTERS}
        for name in WRITTEN
        if name not in ("spert", "conll04") and Capability.CLUSTERS not in formats.FORMATS[name].capabilities
    },
    ("conll04", "conll04"): set(),
    ("ade", "conll04"): {Capability.OVERLAPS},
}
"""What formats have no place for in these corpora. All else must come back equal; brat's words stand between spaces."""


@functools.lru_cache(maxsize=1)
def real(path: Path) -> list[Document]:
    """The same documents for every format: they cannot be changed."""
    return list(formats.read(path))


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("format", WRITTEN)
@pytest.mark.parametrize("name", REAL)
def test_real_data_come_back_equal_from_every_format_that_holds_them(
    data_folder: Path, tmp_path: Path, name: str, format: str
) -> None:
    documents = real(data_folder / name)
    holds = formats.FORMATS[format].capabilities
    lost: Counter[str] = Counter()
    expected = [part for document in documents for part in project(document, holds, lost)]
    allowed = LOSSES.get((name.split("/")[0], format), set())
    assert lost.keys() <= {content.value for content in allowed} | {Capability.WORDS.value, LOST_ARGUMENT}, lost
    formats.write(documents, tmp_path / "out", format, lost=(counted := Counter()))
    assert counted == lost
    found = list(formats.read(tmp_path / "out", format, spaces=True))
    if format == "brat":  # a folder has an order of its own
        found.sort(key=lambda d: d.id)
        expected.sort(key=lambda d: d.id)
    assert_same(found, expected)


@pytest.mark.parametrize("format", ["spert", "unire-released", "unire"])
def test_of_equal_entities_a_relation_keeps_the_one_that_it_has(format: str) -> None:
    spread = Document.from_words([["Ada", "wrote"]], text="Ada  wrote", offsets=[(0, 3), (5, 10)], id="a")
    first, second = (spread.entity(0, 1, "A", None, attributes) for attributes in ({}, {"sure": True}))
    verb = spread.entity(1, 2, "A")
    (found,), refused = again([spread.annotated([first, second, verb], [Relation(verb, second, "R")])], format)
    assert not refused
    assert [dict(relation.tail.attributes) for relation in found.relations] == [{"sure": True}]


def test_a_relation_of_an_entity_that_is_only_equal_is_no_loss(tmp_path: Path) -> None:
    document = Document.from_words([["Ada", "wrote"]], id="a")
    ada, verb, again_ada = (document.entity(start, start + 1, "A") for start in (0, 1, 0))
    assert (
        formats.write([document.annotated([ada, verb], [Relation(verb, again_ada, "R")])], tmp_path / "d", "dygie") == 1
    )


def test_a_relation_has_the_entity_that_is_left_of_equal_ones() -> None:
    document = Document.from_words([["Ada", "wrote"]], id="a")
    first, second = (document.entity(0, 1, "A", None, attributes) for attributes in ({}, {"sure": True}))
    verb = document.entity(1, 2, "A")
    (found,), _ = again([document.annotated([first, second, verb], [Relation(verb, second, "R")])], "conll04")
    assert [(relation.head, relation.tail) for relation in found.relations] == [(verb, first)]


@pytest.mark.parametrize(("format", "name"), [("dygie", "ner"), ("spert", "tokens"), ("labelstudio", "text")])
def test_meta_data_under_a_name_of_the_format_is_counted_as_lost(format: str, name: str, tmp_path: Path) -> None:
    document = Document.from_words([["Ada"]], id="a", meta={name: "mine", "source": "x"})
    lost: Counter[str] = Counter()
    formats.write([document], tmp_path / "written", format, lost=lost)
    assert lost["meta data under a name that the format uses itself"] == 1
    assert [found.meta for found in formats.read(tmp_path / "written", format)] == [{"source": "x"}]
