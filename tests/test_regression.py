"""The regression set: valid annotation, a scorer that counts as described, and bundled models that do not get worse."""

from __future__ import annotations

import json
import sys
from collections import defaultdict

import pytest

from helpers.paths import FIXTURES, ROOT
from unire import Extractor, LabelSpace, formats, pretrained
from unire.documents import CHARACTERS, Document, Relation
from unire.segmentation import segment

SENTENCES = FIXTURES / "regression"
LABELS = {
    "general": ROOT / "recipes" / "general_labels.json",
    "news": "conll04",
    "science": "scierc",
    "medicine": "ade",
}
MAX_WORSE = {
    "entities_found": -2,
    "entities_wrong": 2,
    "relations_found": -1,
    "mislabelled": 1,
    "unrelated": 1,
    "invented": 1,
    "claimed": 1,
}
"""How far the counts of a model may be from the recorded ones, because CPUs round 8-bit weights differently."""


@pytest.fixture(scope="module")
def regression():
    """The scorer as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        import regression

        yield regression
    sys.modules.pop("regression")


@pytest.fixture(scope="module")
def annotated():
    """The documents of each file."""
    return {name: list(formats.read(SENTENCES / f"{name}.jsonl")) for name in LABELS}


def test_sixty_sentences_are_annotated_and_in_twenty_nothing_is_related(annotated):
    texts = {document.id: document.text for document in annotated["general"]}
    assert len(texts) == len(set(texts.values())) == 60
    related = defaultdict(bool)
    for name, documents in annotated.items():
        for document in documents:
            assert texts[document.id] == document.text
            assert name in ("general", document.id.split("-")[0])
            related[document.id] |= bool(document.relations)
    assert sum(not value for value in related.values()) == 20
    assert sum(len(documents) for documents in annotated.values()) == 120


@pytest.mark.parametrize("name", LABELS)
def test_annotation_is_of_the_label_space_and_at_the_characters_that_it_names(annotated, name):
    labels = LabelSpace.load(LABELS[name])
    labels.check(annotated[name])
    for document in annotated[name]:
        assert [s.words for s in document.sentences] == [s.words for s in segment(document.text).sentences]
        assert len({(e.fragments[0], e.fragments[-1]) for e in document.entities}) == len(document.entities)
        pairs = {(relation.head, relation.tail) for relation in document.relations}
        assert len(pairs) == len(document.relations), "one annotation per pair; other types are in `also`"
        for entity in document.entities:
            assert entity.text == document.text[entity.char_start : entity.char_end]
            assert entity.char_start <= entity.fragments[0][0] < entity.fragments[-1][1] <= entity.char_end
            assert {"optional", "also", CHARACTERS} >= set(entity.attributes)
            assert set(entity.attributes.get("also", ())) <= {*labels.entity_types} - {entity.label}
        for relation in document.relations:
            assert {"optional", "also"} >= set(relation.attributes)
            assert set(relation.attributes.get("also", ())) <= {*labels.relation_types} - {relation.label}
            assert relation.attributes.get("optional") or not any(
                argument.attributes.get("optional") for argument in (relation.head, relation.tail)
            ), "a required relation has required arguments"


SPACE = LabelSpace(("Peop", "Org", "Loc"), ("Work_For", "Live_In", "Knows"), frozenset({"Knows"}))
WORDS = ["Ada", "Berg", "of", "Oslo-based", "Nordlys", "knows", "Bo", "from", "Rome", "."]
ADA, OSLO, NORDLYS, BO, ROME = (0, 2, "Peop"), (3, 4, "Loc"), (4, 5, "Org"), (6, 7, "Peop"), (8, 9, "Loc")


def gold() -> Document:
    """Ada works for Nordlys and knows Bo, who may live in Rome; Nordlys may be a place."""
    document = Document.from_words([WORDS])
    ada, bo = document.entity(*ADA), document.entity(*BO)
    oslo = document.entity(*OSLO, attributes={CHARACTERS: [[12, 16]]})
    nordlys = document.entity(*NORDLYS, attributes={"also": ["Loc"]})
    rome = document.entity(*ROME, attributes={"optional": True})
    relations = [
        Relation(ada, nordlys, "Work_For", attributes={"also": ["Live_In"]}),
        Relation(ada, bo, "Knows"),
        Relation(bo, rome, "Live_In", attributes={"optional": True}),
    ]
    return document.annotated([ada, oslo, nordlys, bo, rome], relations)


def predict(*entities, relations=()) -> Document:
    return Document.from_words([WORDS], entities, relations)


def counts(tally) -> dict[str, int]:
    return {name: value for name, value in vars(tally).items() if value and name not in ("entities", "relations")}


def test_the_annotation_itself_is_found_and_right(regression):
    relations = [(0, 2, "Work_For"), (0, 3, "Knows"), (3, 4, "Live_In")]
    predicted = predict(ADA, OSLO, NORDLYS, BO, ROME, relations=relations)
    tally = regression.compare(gold(), predicted, SPACE)
    assert (tally.entities, tally.relations) == (4, 2)
    assert counts(tally) == {"entities_found": 4, "entities_right": 4, "relations_found": 2, "relations_right": 2}


def test_no_predictions_give_zero_counts(regression):
    assert counts(regression.compare(gold(), predict(), SPACE)) == {}


def test_other_accepted_types_and_parts_of_names_are_right(regression):
    predicted = predict((1, 2, "Peop"), (4, 5, "Loc"), relations=[(0, 1, "Live_In")])
    expected = {"entities_found": 2, "entities_right": 2, "relations_found": 1, "relations_right": 1}
    assert counts(regression.compare(gold(), predicted, SPACE)) == expected


def test_symmetric_relations_have_no_direction_and_count_once(regression):
    both = predict(ADA, BO, relations=[(0, 1, "Knows"), (1, 0, "Knows")])
    back = predict(ADA, BO, relations=[(1, 0, "Knows")])
    for predicted in (both, back):
        tally = regression.compare(gold(), predicted, SPACE)
        assert (tally.relations_found, tally.relations_right, tally.mislabelled, tally.unrelated) == (1, 1, 0, 0)


def test_errors_on_related_pairs_are_counted_apart_from_invented_relations(regression):
    wrong_way = predict(ADA, NORDLYS, relations=[(1, 0, "Work_For")])
    wrong_type = predict(BO, ROME, relations=[(0, 1, "Work_For")])
    wrong_entity = predict((0, 2, "Org"), NORDLYS, relations=[(0, 1, "Work_For")])
    for predicted in (wrong_way, wrong_type, wrong_entity):
        tally = regression.compare(gold(), predicted, SPACE)
        assert (tally.relations_found, tally.mislabelled, tally.unrelated) == (0, 1, 0)
    unrelated = predict(BO, NORDLYS, (2, 3, "Loc"), relations=[(0, 1, "Work_For"), (0, 2, "Live_In")])
    expected = {"entities_found": 2, "entities_right": 2, "entities_wrong": 1, "unrelated": 2}
    assert counts(regression.compare(gold(), unrelated, SPACE)) == expected
    without = gold().annotated(gold().entities)
    claims = {"invented": 2, "without": 1, "claimed": 1}
    assert counts(regression.compare(without, unrelated, SPACE)) == {**expected, **claims}
    assert counts(regression.compare(without, predict(), SPACE)) == {"without": 1}


def test_an_entity_in_a_part_of_a_word_is_met_at_its_own_characters(regression):
    oslo = gold().entities[1]
    assert oslo.fragments == [(12, 16)]
    assert regression.overlap(oslo, Document.from_words([WORDS]).entity(*OSLO))
    document = Document.from_words([WORDS[:3], ["Oslo", "-based"]], text=" ".join(WORDS[:4]), offsets=[
        (0, 3), (4, 8), (9, 11), (12, 16), (16, 22)
    ])  # fmt: skip
    assert regression.overlap(oslo, document.entity(3, 4, "Loc"))
    assert not regression.overlap(oslo, document.entity(4, 5, "Loc"))


@pytest.mark.slow
@pytest.mark.parametrize("name", pretrained.names())
def test_no_bundled_model_is_worse_than_recorded(regression, name):
    recorded = json.loads(regression.RECORD.read_text(encoding="utf-8"))[name]
    extractor = Extractor.load(name)
    tally = vars(regression.score(extractor, regression.find_file(extractor.labels)))
    assert (tally["entities"], tally["relations"]) == (recorded["entities"], recorded["relations"])
    for count, margin in MAX_WORSE.items():
        worse = (tally[count] - recorded[count]) * (1 if margin > 0 else -1)
        assert worse <= abs(margin), f"{count} was {recorded[count]} and is {tally[count]}"


def test_a_table_is_printed_and_recorded(regression, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(regression, "RECORD", tmp_path / "scores.json")
    regression.RECORD.write_text('{"other": {}}', encoding="utf-8")
    tally = regression.Tally(4, 3, 3, 1, 2, 1, 1, 1, 2, 1, 5, 1)
    monkeypatch.setattr(regression, "score", lambda *_: tally)
    regression.main(["news", "--record"])
    assert capsys.readouterr().out.splitlines()[-1] == (
        "| news | news | 0 | 75% (3/4) | 75% (3/4) | 50% (1/2) | 25% (1/4) | 50% (2/4) | 20% (1/5) |"
    )
    assert json.loads(regression.RECORD.read_text(encoding="utf-8")) == {"other": {}, "news": vars(tally)}
