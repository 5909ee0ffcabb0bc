from __future__ import annotations

import copy
import doctest
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unire import documents
from unire.documents import Document, Entity, Relation, Sentence
from unire.errors import UnireError

ADA = Document.from_words(
    [["Ada", "met", "Max"], [], ["He", "left"]],
    entities=[(0, 1, "Peop"), (2, 3, "Peop", 0.5), (4, 5, "Peop"), (2, 5, "Odd"), (3, 4, "Peop")],
    relations=[(0, 1, "Met", 0.9), (1, 2, "Is"), (3, 0, "Odd")],
    id="ada",
)


def test_the_example_in_the_documentation_holds() -> None:
    assert doctest.testmod(documents).failed == 0


def test_annotation_lies_in_the_sentence_that_holds_it() -> None:
    first, empty, last = ADA.sentences
    assert [e.text for e in first.entities] == ["Ada", "Max"]
    assert [str(r) for r in first.relations] == ["Ada [Peop] –Met→ Max [Peop]"]
    assert [e.text for e in last.entities] == ["left", "He"]
    assert (len(empty), empty.start, empty.end, empty.entities) == (0, 3, 3, ())


def test_annotation_across_sentences_is_listed_last() -> None:
    assert [e.label for e in ADA.spanning_entities] == ["Odd"]
    assert [r.label for r in ADA.spanning_relations] == ["Is", "Odd"]
    assert [e.text for e in ADA.entities] == ["Ada", "Max", "left", "He", "Max\n\nHe left"]
    assert [r.label for r in ADA.relations] == ["Met", "Is", "Odd"]


def test_scores_are_kept_and_absent_on_gold() -> None:
    assert [e.score for e in ADA.sentences[0].entities] == [None, 0.5]
    assert [r.score for r in ADA.relations] == [0.9, None, None]


def test_words_are_joined_by_spaces_and_sentences_by_line_ends() -> None:
    assert ADA.text == "Ada met Max\n\nHe left"
    assert ADA.words == ("Ada", "met", "Max", "He", "left")
    assert ADA.n_words == 5


@pytest.mark.no_cover
@given(st.lists(st.lists(st.text(max_size=5), max_size=4), max_size=4))
def test_offsets_index_the_text(sentences: list[list[str]]) -> None:
    document = Document.from_words(sentences)
    assert [document.text[start:end] for start, end in document.offsets] == [w for words in sentences for w in words]
    assert document.n_words == len(document.words) == sum(map(len, sentences))


def test_an_entity_of_a_given_text_has_its_characters() -> None:
    document = Document.from_words(
        [["Ada", "left", "."]], [(0, 3, "All")], text=" Ada left.", offsets=[(1, 4), (5, 9), (9, 10)]
    )
    entity = document.entities[0]
    assert (entity.char_start, entity.char_end, entity.text, entity.span) == (1, 10, "Ada left.", (0, 3))


@pytest.mark.parametrize("offsets", [None, [(0, 3)]])
def test_a_text_without_a_span_for_every_word_is_refused(offsets: list[tuple[int, int]] | None) -> None:
    with pytest.raises(UnireError, match="'ada': `text` needs `offsets`"):
        Document.from_words([["Ada", "left"]], text="Ada left", offsets=offsets, id="ada")


@pytest.mark.parametrize("span", [(5, 99), (2, 9), (-1, 4), (7, 6), (0, 2), (4.0, 8.0), ("4", "8"), (4,), 4, None])
def test_a_word_that_does_not_lie_in_the_text_behind_the_one_before_is_refused(span: tuple[int, int]) -> None:
    with pytest.raises(UnireError, match=r"'ada': offset .* of word 1 must be \(start, end\), in a text of 8 c"):
        Document.from_words([["Ada", "left"]], text="Ada left", offsets=[(0, 3), span], id="ada")


def test_words_may_be_empty_or_share_characters() -> None:
    words, offsets = [["can", "not", "", "cannot"]], [(0, 3), (2, 6), (6, 6), (6, 6)]
    assert Document.from_words(words, text="cannot", offsets=offsets).offsets == tuple(offsets)


@pytest.mark.parametrize(("start", "end"), [(-1, 1), (1, 1), (2, 1), (4, 6)])
def test_an_entity_outside_the_document_is_refused(start: int, end: int) -> None:
    with pytest.raises(UnireError, match=f"'ada': entity 'Peop' spans words {start} to {end}, .* words 0 to 5"):
        ADA.entity(start, end, "Peop")


@pytest.mark.parametrize("parts", [[], [[40, 90]], [[0, 3], [2, 5]], [[3, 3]], [[-1, 2]], [[0]], [[0, True]], 7, None])
def test_exact_characters_that_are_not_in_the_text_are_refused(parts: object) -> None:
    with pytest.raises(UnireError, match=r"'ada': `characters` of entity 'P' is .*, but must be .* 20 characters"):
        ADA.entity(0, 1, "P", None, {"characters": parts})


def test_an_entity_has_the_characters_that_a_format_says_or_those_of_its_words() -> None:
    assert ADA.entity(0, 1, "P", None, {"characters": [[0, 1], [2, 3]]}).fragments == [(0, 1), (2, 3)]
    assert ADA.entity(2, 3, "P").fragments == [(8, 11)]


@pytest.mark.parametrize("sentences", ["Ada left", ["Ada left"], [["Ada"], "left"], [["Ada", 3]], [["Ada"], None]])
def test_a_sentence_that_is_not_split_into_words_is_refused(sentences: list[list[str]]) -> None:
    with pytest.raises(UnireError, match=r"'ada': a sentence is a list of words, but ('.*left'|.*3.|None) was given"):
        Document.from_words(sentences, id="ada")


def test_a_word_may_have_a_space_inside() -> None:
    assert Document.from_words([["New York", "grows"]]).words == ("New York", "grows")


@pytest.mark.parametrize("relation", [(0, 5, "R"), (0, -1, "R"), (2, 0, "R", 0.5)])
def test_a_relation_of_an_entity_that_is_not_there_is_refused(relation: tuple[int, int, str]) -> None:
    with pytest.raises(UnireError, match=r"'ada': relation 'R' joins entities -?\d and -?\d, but there are 2, counted"):
        Document.from_words([["Ada", "left"]], [(0, 1, "X"), (1, 2, "Y")], [relation], id="ada")
    with pytest.raises(UnireError, match="there are 0"):
        Document.from_words([["Ada", "left"]], relations=[relation])


@pytest.mark.parametrize("item", [(0, 1), (0, 1, "X", 0.5, {}, 1), ("0", "1", "X"), (0, 1, 2), "011", 7])
def test_annotation_of_another_form_is_refused(item: tuple[int, int, str]) -> None:
    with pytest.raises(UnireError, match=r"'ada': entity .* must be \(start, end, label\) or \(start, end, label, sc"):
        Document.from_words([["Ada", "left"]], [item], id="ada")
    with pytest.raises(UnireError, match=r"'ada': relation .* must be \(head, tail, label\) or"):
        Document.from_words([["Ada", "left"]], [(0, 1, "X"), (1, 2, "Y")], [item], id="ada")


def test_other_annotation_replaces_the_first_and_leaves_the_text() -> None:
    entities = [ADA.entity(3, 4, "X"), ADA.entity(4, 5, "Y")]
    cuts = [(0, 3), None, (3, 4, 5)]
    other = ADA.annotated(entities, [Relation(entities[0], entities[1], "Z")], cuts)
    assert (other.text, other.words, other.id) == (ADA.text, ADA.words, ADA.id)
    assert other.entities == tuple(entities)
    assert [str(r) for r in other.relations] == ["He [X] –Z→ left [Y]"]
    assert [sentence.cuts for sentence in other.sentences] == cuts


def test_annotation_of_another_document_on_words_that_this_one_lacks_is_refused() -> None:
    short = Document.from_words([["Ada"], ["left"]], id="short")
    first, crossing, beyond = short.entity(0, 1, "X"), ADA.entity(1, 3, "Y"), ADA.entity(4, 5, "Z")
    for entity in (crossing, beyond):
        refused = f"'short': entity '{entity.label}' spans words {entity.start} to {entity.end}, .* has words 0 to 2"
        for entities, relations in (
            ([first, entity], []),
            ([first], [Relation(entity, first, "R")]),
            ([first], [Relation(first, entity, "R")]),
        ):
            with pytest.raises(UnireError, match=refused):
                short.annotated(entities, relations)
    with pytest.raises(UnireError, match="has words 0 to 0"):
        Document.from_words([]).annotated([first])


def test_a_bare_document_has_its_text_alone() -> None:
    assert ADA.bare == Document.from_words([["Ada", "met", "Max"], [], ["He", "left"]], id="ada")


def test_a_document_without_sentences_has_no_words() -> None:
    empty = Document.from_words([])
    assert (empty.n_words, empty.text, empty.words, empty.entities) == (0, "", (), ())


def test_metadata_do_not_affect_equality() -> None:
    assert Document.from_words([["a"]], meta={"clusters": []}) == Document.from_words([["a"]])


def test_confident_drops_low_scores_and_relations_of_dropped_entities():
    document = Document.from_words(
        [["a", "b", "c", "d"]],
        entities=[(0, 1, "X", 0.9), (1, 2, "X", 0.5), (2, 3, "X", 0.4), (3, 4, "X")],
        relations=[(0, 1, "R", 0.6), (0, 1, "S", 0.4), (0, 2, "R", 0.9), (0, 3, "R")],
    )
    document = document.annotated(document.entities, document.relations, [(1, 2)])
    confident = document.confident(0.5)
    assert [entity.text for entity in confident.entities] == ["a", "b", "d"]
    assert [(r.head.text, r.tail.text, r.label) for r in confident.relations] == [("a", "b", "R"), ("a", "d", "R")]
    assert confident.sentences[0].cuts == (1, 2)
    assert document.confident(0) == document


def test_to_dict_gives_annotation_with_character_offsets():
    document = Document.from_words(
        [["Ada", "lives", "in", "London"]], [(0, 1, "Peop", 0.98765), (3, 4, "Loc")], [(0, 1, "Live_In", 0.5)], id="x"
    )
    ada = {"text": "Ada", "label": "Peop", "char_start": 0, "char_end": 3}
    london = {"text": "London", "label": "Loc", "char_start": 13, "char_end": 19}
    assert document.to_dict() == {
        "id": "x",
        "text": "Ada lives in London",
        "entities": [{**ada, "score": 0.9877}, {**london, "score": None}],
        "relations": [{"head": ada, "tail": london, "label": "Live_In", "score": 0.5}],
    }
    assert Document("").to_dict() == {"id": "", "text": "", "entities": [], "relations": []}


def test_entities_and_relations_are_frozen_and_can_be_copied_and_pickled() -> None:
    document = Document.from_words(
        [["Ada", "lives", "in", "London"]], [(0, 1, "Peop", 0.5), (3, 4, "Loc")], [(0, 1, "Live_In")]
    )
    for item in (*document.entities, *document.relations, document.sentences[0], document):
        assert type(item) in (Entity, Relation, Sentence, Document)
        for name in [field.name for field in fields(item)]:
            with pytest.raises(FrozenInstanceError):
                setattr(item, name, None)
            with pytest.raises(FrozenInstanceError):
                delattr(item, name)
        assert copy.deepcopy(item) == pickle.loads(pickle.dumps(item)) == replace(item) == item
        assert repr(pickle.loads(pickle.dumps(item))) == repr(item)
    assert Entity(0, 1, "Peop", 0, 3, "Ada").attributes == {}
    assert hash(document.relations[0]) == hash(replace(document.relations[0], attributes={"sure": True}))


def test_cached_properties_of_the_words_are_passed_on_and_stay_correct() -> None:
    joined = Document.from_words([["Ada", "lives"], [], ["here"]], [(0, 1, "Peop")])
    spread = Document.from_words([["Ada"]], [(0, 1, "Peop")], text=" Ada", offsets=[(1, 4)])
    assert joined.is_joined
    assert not spread.is_joined
    for document in (joined, spread):
        other = document.annotated(document.entities[:1])
        assert (other.words, other.offsets, other.is_joined) == (document.words, document.offsets, document.is_joined)
        assert document.bare.entities == ()
        assert other.entities == document.entities
    moved = replace(joined, text="Ada lives")
    assert not moved.is_joined


def test_a_subclass_makes_objects_of_its_own() -> None:
    class Mention(Entity):
        __slots__ = ()

    mention = Mention(0, 1, "Peop", 0, 3, "Ada")
    assert type(mention) is type(copy.copy(mention)) is Mention


def test_clusters_are_sorted_and_checked():
    words = [["Ada", "met", "Max", "."], ["She", "left", "him", "."]]
    clusters = [[(6, 7), (2, 3), (2, 3)], [], [[4, 5], [0, 1]]]
    document = Document.from_words(words, [(0, 1, "Peop")], clusters=clusters)
    assert document.clusters == (((0, 1), (4, 5)), ((2, 3), (6, 7)))
    assert document.annotated(document.entities).clusters == ()
    assert document.bare.clusters == ()
    assert document != document.annotated(document.entities)
    for wrong in [(0, 0), (7, 9), (-1, 1), (0,), "ab", None, (0.0, 1)]:
        with pytest.raises(
            UnireError, match=r"document 'a': mention .* of a cluster must be \(start, end\), inside the 8"
        ):
            Document.from_words(words, clusters=[[wrong]], id="a")
