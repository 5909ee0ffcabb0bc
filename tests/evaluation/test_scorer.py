"""The scorer against numbers worked out by hand, and against a naive one that knows no sets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.reference_scorer import naive_score
from helpers.scored_documents import (
    BOTH_WAYS,
    ENTITIES,
    GOLD,
    LABELS,
    NEITHER_WAY,
    ONE_WAY,
    OTHER_WAY,
    WORDS,
    WRONG_TYPE,
    predict,
)
from unire import formats
from unire.documents import Document, Relation
from unire.errors import UnireError
from unire.evaluation.bootstrap import bootstrap
from unire.evaluation.scorer import count_one_way, score
from unire.evaluation.scores import Counts, Protocol
from unire.labels import LabelSpace


def named(ids: str) -> list[Document]:
    """As many copies of the gold as there are letters, called by them."""
    return [replace(GOLD, id=letter) for letter in ids]


@pytest.mark.parametrize(
    ("relations", "symmetric", "predicted", "expected"),
    [
        # doubled: Used-for and both directions of Compare are gold, which makes three.
        ("strict", "doubled", ONE_WAY, Counts(2, 2, 3)),
        ("strict", "doubled", OTHER_WAY, Counts(2, 2, 3)),
        ("strict", "doubled", BOTH_WAYS, Counts(3, 3, 3)),
        ("strict", "doubled", NEITHER_WAY, Counts(1, 1, 3)),
        ("strict", "doubled", WRONG_TYPE, Counts(0, 2, 3)),
        ("boundaries", "doubled", WRONG_TYPE, Counts(2, 2, 3)),
        # once: Used-for and one unordered pair.
        ("strict", "once", ONE_WAY, Counts(2, 2, 2)),
        ("strict", "once", OTHER_WAY, Counts(2, 2, 2)),
        ("strict", "once", BOTH_WAYS, Counts(2, 2, 2)),
        ("strict", "once", NEITHER_WAY, Counts(1, 1, 2)),
        ("strict", "once", WRONG_TYPE, Counts(0, 2, 2)),
        ("boundaries", "once", WRONG_TYPE, Counts(2, 2, 2)),
        # as-annotated: Used-for and the annotated direction; the other direction is a mistake.
        ("strict", "as-annotated", ONE_WAY, Counts(2, 2, 2)),
        ("strict", "as-annotated", OTHER_WAY, Counts(1, 2, 2)),
        ("strict", "as-annotated", BOTH_WAYS, Counts(2, 3, 2)),
        ("strict", "as-annotated", NEITHER_WAY, Counts(1, 1, 2)),
        ("strict", "as-annotated", WRONG_TYPE, Counts(0, 2, 2)),
        ("boundaries", "as-annotated", WRONG_TYPE, Counts(2, 2, 2)),
    ],
)
def test_relations_are_counted_as_the_protocol_says(
    relations: str, symmetric: str, predicted: Document, expected: Counts
) -> None:
    protocol = Protocol(relations, symmetric)  # type: ignore[arg-type]
    assert score([GOLD], [predicted], LABELS, protocol).relations.total == expected


def test_a_directed_relation_predicted_backwards_is_wrong_under_every_protocol() -> None:
    backwards = predict(*ENTITIES, (0, 1, "Used-for"))
    for protocol in Protocol.all():
        assert score([GOLD], [backwards], LABELS, protocol).relations.total.true_positives == 0


def test_a_symmetric_pair_is_one_way_unless_both_directions_are_predicted() -> None:
    itself = predict(*ENTITIES, (1, 1, "Compare"), (1, 0, "Used-for"))
    assert [count_one_way([some], LABELS) for some in (ONE_WAY, OTHER_WAY, BOTH_WAYS, NEITHER_WAY, itself)] == [
        1,
        1,
        0,
        0,
        0,
    ]
    assert count_one_way([ONE_WAY, BOTH_WAYS, WRONG_TYPE], LABELS) == 2


def test_an_entity_is_its_boundaries_and_its_type() -> None:
    scores = score([GOLD], [predict((1, 2, "Method"), (3, 5, "Method"), (5, 6, "Method"))], LABELS)
    assert scores.entities.by_type == {"Task": Counts(0, 0, 1), "Method": Counts(1, 3, 2)}
    assert scores.entities.total == Counts(1, 3, 3)


def test_repeated_annotation_counts_once() -> None:
    gold = Document.from_words(WORDS, [*ENTITIES, (1, 2, "Task")], [(1, 0, "Used-for"), (1, 3, "Used-for")])
    predicted = Document.from_words(WORDS, [*ENTITIES, (1, 2, "Task")], [(1, 3, "Used-for"), (1, 3, "Used-for")])
    scores = score([gold], [predicted], LABELS)
    assert scores.entities.total == Counts(3, 3, 3)
    assert scores.relations.total == Counts(1, 1, 1)


def test_gold_that_no_table_holds_is_still_gold() -> None:
    nested = Document.from_words(
        WORDS,
        [(3, 6, "Method"), (3, 4, "Method"), (5, 7, "Method"), (6, 7, "Task")],
        [(1, 0, "Used-for"), (0, 3, "Used-for")],
    )
    scores = score([nested], [predict((3, 6, "Method"), (6, 7, "Task"))], LABELS)
    assert scores.entities.total == Counts(2, 2, 4)
    assert scores.relations.total == Counts(0, 0, 2)


def test_dropping_overlapping_sentences_leaves_out_all_that_touches_them() -> None:
    gold = Document.from_words(
        WORDS,
        [(1, 2, "Task"), (3, 6, "Method"), (3, 4, "Method"), (6, 7, "Method"), (7, 8, "Task")],
        [(1, 0, "Used-for"), (3, 1, "Compare"), (3, 4, "Used-for")],
    )
    predicted = Document.from_words(
        WORDS, [(0, 1, "Task"), (5, 7, "Task"), (6, 7, "Method")], [(0, 2, "Compare"), (2, 2, "Used-for")]
    )
    for spans in ("words", "characters"):
        scores = score([gold], [predicted], LABELS, Protocol(spans=spans, drop_overlapping=True))
        assert scores.dropped == 1
        assert scores.entities.total == Counts(1, 1, 2)
        assert scores.relations.total == Counts(0, 1, 1)
    assert score([gold], [predicted], LABELS, Protocol(drop_overlapping=True)).spans == Counts(1, 1, 1)


def test_entities_side_by_side_do_not_overlap() -> None:
    gold = Document.from_words(WORDS, [(1, 3, "Task"), (3, 4, "Task"), (3, 4, "Task")])
    assert score([gold], [gold], LABELS, Protocol(drop_overlapping=True)).dropped == 0


def test_two_types_on_one_span_overlap() -> None:
    gold = Document.from_words(WORDS, [(1, 3, "Task"), (1, 3, "Method")])
    assert score([gold], [gold], LABELS, Protocol(drop_overlapping=True)).dropped == 1


def test_span_f1_reads_the_cuts_that_a_decoder_made() -> None:
    # GOLD is cut at 1 | 2 | 3 | 4 | 5 in its first sentence, and nowhere in its second.
    cut = replace(
        GOLD, sentences=tuple(replace(s, cuts=c) for s, c in zip(GOLD.sentences, ((1, 2, 3), (7,)), strict=True))
    )
    assert score([GOLD], [cut], LABELS).spans == Counts(3, 4, 5)


def test_span_f1_falls_back_on_the_boundaries_of_predicted_entities() -> None:
    assert score([GOLD], [predict((0, 2, "Task"), (4, 6, "Task"))], LABELS).spans == Counts(2, 2, 5)


def test_cuts_recorded_in_gold_are_not_read() -> None:
    cut = replace(GOLD, sentences=tuple(replace(s, cuts=()) for s in GOLD.sentences))
    assert score([cut], [GOLD], LABELS).spans == Counts(5, 5, 5)


def test_ends_of_sentences_are_never_split_positions() -> None:
    gold = Document.from_words([["a", "b"], ["c"]], [(0, 2, "Task"), (2, 3, "Task")])
    cut = replace(gold, sentences=tuple(replace(s, cuts=(0, 2, 3)) for s in gold.sentences))
    assert score([gold], [cut], LABELS).spans == Counts(0, 0, 0)


def test_of_overlapping_gold_entities_only_the_longest_is_a_split_position() -> None:
    gold = Document.from_words(WORDS, [(3, 4, "Method"), (1, 5, "Task")])
    assert score([gold], [gold.bare], LABELS).spans == Counts(0, 0, 2)


def test_characters_are_compared_however_the_text_was_split() -> None:
    text = "Parsing-based tables."
    gold = Document.from_words(
        [["Parsing", "-", "based", "tables", "."]],
        [(0, 1, "Task"), (3, 4, "Method")],
        [(1, 0, "Used-for")],
        text=text,
        offsets=[(0, 7), (7, 8), (8, 13), (14, 20), (20, 21)],
    )
    predicted = Document.from_words(
        [["Parsing", "-based"], ["tables", "."]],
        [(0, 1, "Task"), (2, 3, "Method")],
        [(1, 0, "Used-for")],
        text=text,
        offsets=[(0, 7), (7, 13), (14, 20), (20, 21)],
    )
    scores = score([gold], [predicted], LABELS, Protocol(spans="characters"))
    assert (scores.entities.total, scores.relations.total) == (Counts(2, 2, 2), Counts(1, 1, 1))
    assert scores.spans is None
    assert (scores + scores).spans is None
    assert scores.to_dict()["spans"] is None
    assert "Span" not in str(scores)


def rally(*items: tuple[object, ...]) -> Document:
    """Words of one text, annotated."""
    return Document.from_words([["anti-Obama", "rally", "now"]], items)  # type: ignore[arg-type]


def test_characters_are_the_exact_ones_of_an_entity_that_is_no_whole_word() -> None:
    text, protocol = "anti-Obama rally now", Protocol(spans="characters")
    gold = rally((0, 1, "Task", None, {"characters": [[5, 10]]}))
    split = Document.from_words(
        [["anti-", "Obama", "rally", "now"]], [(1, 2, "Task")], text=text, offsets=[(0, 5), (5, 10), (11, 16), (17, 20)]
    )
    assert score([gold], [split], LABELS, protocol).entities.total == Counts(1, 1, 1)
    assert score([gold], [rally((0, 1, "Task"))], LABELS, protocol).entities.total == Counts(0, 1, 1)
    assert score([gold], [rally((0, 1, "Task"))], LABELS).entities.total == Counts(1, 1, 1)


def test_characters_in_parts_are_other_characters_than_all_between_them() -> None:
    protocol = Protocol("boundaries", spans="characters")
    parts: list[dict[str, object]] = [{"characters": [[0, 10], [17, 20]]}, {"characters": [[0, 10], [10, 20]]}, {}]
    documents = [rally((0, 3, "Task", None, attributes)) for attributes in parts]
    for i, gold in enumerate(documents):
        for j, found in enumerate(documents):
            assert score([gold], [found], LABELS, protocol).entities.total == Counts(i == j, 1, 1)


def test_parts_of_a_head_are_none_of_its_tail() -> None:
    one, two = [
        Document.from_words(
            [["abcde"]],
            [(0, 1, "Task", None, {"characters": parts}) for parts in (head, tail)],  # type: ignore[misc]
            [(0, 1, "Used-for")],
        )
        for head, tail in (([[0, 1], [2, 3]], [[4, 5]]), ([[0, 1]], [[2, 3], [4, 5]]))
    ]
    for protocol in Protocol.all(spans="characters"):
        assert score([one], [two], LABELS, protocol).relations.total == Counts(0, 1, 1)


def test_white_space_at_the_ends_of_an_annotation_is_not_of_its_characters() -> None:
    gold = rally((1, 2, "Task", None, {"characters": [[10, 17]]}))
    assert score([gold], [rally((1, 2, "Task"))], LABELS, Protocol(spans="characters")).entities.f1 == 1


def test_all_protocols_are_six_with_names_of_their_own() -> None:
    assert [protocol.name for protocol in Protocol.all()] == [
        "strict, doubled, micro",
        "strict, once, micro",
        "strict, as-annotated, micro",
        "boundaries, doubled, micro",
        "boundaries, once, micro",
        "boundaries, as-annotated, micro",
    ]
    assert str(Protocol(spans="characters", average="macro")) == "strict, doubled, macro, characters"


@pytest.mark.parametrize("field", ["relations", "symmetric", "spans", "average"])
def test_an_unknown_protocol_is_refused_with_the_choices(field: str) -> None:
    with pytest.raises(UnireError, match=rf"no {field}='loose'; choose from \S+, "):
        Protocol(**{field: "loose"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gold", "predicted", "message"),
    [
        ([GOLD, GOLD], [GOLD], "the number of documents differs: more in gold, 1 in the predictions"),
        ([GOLD], [GOLD, GOLD], "the number of documents differs: 1 in gold, more in the predictions"),
        (
            named("abc"),
            named("adce"),
            "document 'b' is not among the predictions; document 'd' and 1 more are predicted but not in the gold",
        ),
        (named("abcd"), named("ad"), "document 'b' and 1 more are not among the predictions; use the same documents"),
        (
            named("ab"),
            named("a"),
            "differs: more in gold, 1 in the predictions .the next is 'b'.; use the same documents",
        ),
        (
            named("abcb"),
            named("acbb"),
            "gold has 'b' where the predictions have 'c'.* in the gold 2 documents have the id 'b'; use the same order",
        ),
        (
            named("abc"),
            [*named("acb"), replace(GOLD, id="")],
            "in the predictions some documents have no id; use the same order",
        ),
        ([GOLD], [Document.from_words(WORDS[:1])], "document 'paper': 8 words in the gold but 6 in the predictions"),
        (
            [replace(GOLD, id="")],
            [Document.from_words([["we", "like"], ["with"]])],
            "document number 1: word 1 is 'parse' in the gold but 'like' in the predictions",
        ),
    ],
)
def test_predictions_for_other_documents_are_refused(
    gold: list[Document], predicted: list[Document], message: str
) -> None:
    with pytest.raises(UnireError, match=message):
        score(gold, predicted, LABELS)


def test_characters_need_the_same_text() -> None:
    protocol = Protocol(spans="characters")
    with pytest.raises(UnireError, match=r"character 2 is ' ' in the gold but '\\n' in the predictions"):
        score([GOLD], [Document.from_words([["we"], ["parse"]])], LABELS, protocol)


def test_documents_in_another_order_are_paired_by_their_ids() -> None:
    gold = [*named("abc"), replace(NEITHER_WAY, id="d")]
    found = [*named("a"), replace(NEITHER_WAY, id="d"), *named("cb")]
    assert score(iter(gold), iter(found), LABELS) == score(gold, gold, LABELS)
    assert bootstrap(gold, found, LABELS) == bootstrap(gold, gold, LABELS)


def test_documents_without_ids_are_paired_by_position() -> None:
    assert score([GOLD], [replace(BOTH_WAYS, id="")], LABELS).ent_plus_rel == 2


def test_an_unknown_label_is_refused_on_either_side() -> None:
    foreign = Document.from_words(WORDS, [(0, 1, "Peop")], id="paper")
    with pytest.raises(UnireError, match=r"document 'paper' of the predictions: unknown entity type 'Peop'; .* Task"):
        score([GOLD], [foreign], LABELS)
    with pytest.raises(UnireError, match="document 'paper' of the gold: unknown entity type 'Peop'"):
        score([foreign], [GOLD], LABELS)
    foreign = Document.from_words(WORDS, [(0, 1, "Task")], [(0, 0, "Live_In")], id="paper")
    with pytest.raises(UnireError, match="unknown relation type 'Live_In'"):
        score([GOLD], [foreign], LABELS)


def test_streams_are_scored_without_being_collected() -> None:
    read_so_far = {"gold": 0, "predicted": 0}

    def stream(name: str, document: Document) -> Iterable[Document]:
        for _ in range(3):
            read_so_far[name] += 1
            assert abs(read_so_far["gold"] - read_so_far["predicted"]) <= 1
            yield document

    scores = score(stream("gold", GOLD), stream("predicted", ONE_WAY), LABELS)
    assert scores.relations.total == Counts(6, 6, 9)


# Against a naive scorer, on random documents with overlaps, repetitions and relations across sentences.


@st.composite
def annotation(draw: st.DrawFn, document: Document) -> Document:
    n = document.n_words
    spans = st.tuples(st.integers(0, n - 1), st.integers(1, 3)).map(lambda s: (s[0], min(s[0] + s[1], n)))
    entities = draw(st.lists(st.tuples(spans, st.sampled_from(LABELS.entity_types)), max_size=6))
    pairs = st.integers(0, max(len(entities) - 1, 0))
    relations = draw(
        st.lists(st.tuples(pairs, pairs, st.sampled_from(LABELS.relation_types)), max_size=6 if entities else 0)
    )
    found = [document.entity(*span, label) for span, label in entities]
    cuts = [draw(st.none() | st.frozensets(st.integers(s.start, s.end)).map(tuple)) for s in document.sentences]
    return document.annotated(found, [Relation(found[h], found[t], label) for h, t, label in relations], cuts)


@st.composite
def scored_pair(draw: st.DrawFn) -> tuple[Document, Document]:
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    bare = Document.from_words([["w"] * length for length in lengths])
    return draw(annotation(bare)), draw(annotation(bare))


PROTOCOLS = [
    protocol
    for spans in ("words", "characters")
    for drop in (False, True)
    for protocol in Protocol.all(spans=spans, drop_overlapping=drop)
]


@pytest.mark.slow
@pytest.mark.no_cover
@settings(deadline=None)
@given(scored_pair())
def test_the_scorer_agrees_with_the_naive_one_under_every_protocol(pair: tuple[Document, Document]) -> None:
    gold, predicted = pair
    for protocol in PROTOCOLS:
        assert score([gold], [predicted], LABELS, protocol) == naive_score(gold, predicted, protocol)


@pytest.mark.slow
@pytest.mark.no_cover
@settings(deadline=None)
@given(scored_pair())
def test_perfect_predictions_score_100_under_every_protocol(pair: tuple[Document, Document]) -> None:
    gold, _ = pair
    mirrored = [Relation(r.tail, r.head, r.label) for r in gold.relations if r.label in LABELS.symmetric]
    for protocol in PROTOCOLS:
        extra = mirrored if protocol.symmetric == "doubled" else []
        scores = score([gold], [gold.annotated(gold.entities, [*gold.relations, *extra])], LABELS, protocol)
        for counts in (scores.entities.total, scores.relations.total, scores.spans or Counts()):
            assert counts.true_positives == counts.predicted == counts.gold


def test_seventeen_sentences_of_the_scierc_test_set_are_dropped_as_in_the_released_code(data_folder: Path) -> None:
    documents = [document.annotated(document.entities) for document in formats.read(data_folder / "scierc/test.json")]
    labels = LabelSpace.load("scierc")
    dropping = score(documents, documents, labels, Protocol(drop_overlapping=True))
    assert dropping.dropped == 17
    assert dropping.entities.f1 == 1
    assert score(documents, documents, labels).entities.total.gold == 1685
