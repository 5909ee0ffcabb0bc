"""Score a model in the label space of `general` on Re-DocRED with 48 relations.

    python recipes/score_everyday48.py MODEL everyday48/test.json
    python recipes/score_everyday48.py MODEL everyday48/test.json MIN_SCORE

Predictions are translated first. In the data, many facts are annotated twice: as a relation, and as its inverse.
Inverses are added by rule if they hold for half or more of the training pairs. A relation that `general` lacks counts
as missed. Prints JSON: strict scores by type, with 95% intervals.
"""

from __future__ import annotations

import json
from dataclasses import replace

from general_data import REDOCRED_ENTITIES
from script import parse_number, run

from unire import Extractor, formats
from unire.documents import Document, Entity, Relation
from unire.evaluation.evaluate import evaluate_predictions

EVERYDAY48 = {
    "born_on": ("date of birth", ""),
    "died_on": ("date of death", ""),
    "born_in": ("place of birth", ""),
    "died_in": ("place of death", ""),
    "citizen_of": ("country of citizenship", ""),
    "spouse": ("spouse", "spouse"),
    "child_of": ("father", "child"),
    "sibling": ("sibling", "sibling"),
    "works_for": ("employer", ""),
    "studied_at": ("educated at", ""),
    "plays_for": ("member of sports team", ""),
    "member_of": ("member of", ""),
    "religion": ("religion or worldview", ""),
    "won_award": ("award received", ""),
    "took_part_in": ("participant in", "has participant"),
    "directed_by": ("director", "notable work"),
    "performed_by": ("performer", "notable work"),
    "created_by": ("author", "notable work"),
    "acted_in": ("", "cast member"),
    "character_in": ("present in work", "characters"),
    "made_by": ("developer", ""),
    "record_label": ("record label", ""),
    "founded_by": ("founded by", ""),
    "owned_by": ("owned by", ""),
    "plays_in": ("league", ""),
    "led_by": ("head of government", ""),
    "based_in": ("located in", ""),
    "happened_on": ("point in time", ""),
    "founded_on": ("inception", ""),
    "released_on": ("publication date", ""),
    "started_on": ("inception", ""),
    "ended_on": ("dissolved, abolished or demolished date", ""),
    "country_of_origin": ("country of origin", ""),
    "lies_on": ("located in or next to body of water", ""),
    "flows_into": ("mouth of the watercourse", ""),
    "located_in": ("located in", ""),
    "follows": ("follows", ""),
    "part_of": ("part of", "has part"),
}
"""For each of our relations, the one from head to tail and the one from tail to head; empty if there is none."""
CONTINENTS = frozenset(("Africa", "Antarctica", "Asia", "Europe", "North America", "Oceania", "South America"))
"""`located in` is `continent` with these tails."""

_ENTITIES = {ours: theirs for theirs, ours in REDOCRED_ENTITIES.items()}


def translate(document: Document) -> Document:
    """The document with entity types of Re-DocRED and its 48 relations, one for each head and tail."""
    entity_of = {entity: replace(entity, label=_ENTITIES[entity.label]) for entity in document.entities}
    found: dict[tuple[Entity, Entity], Relation] = {}
    for exchanged in (False, True):  # relations in their own direction come before inverses
        for relation in document.relations:
            label = EVERYDAY48.get(relation.label, ("", ""))[exchanged]
            head, tail = entity_of[relation.head], entity_of[relation.tail]
            if label == "located in" and tail.text in CONTINENTS:
                label = "continent"
            if exchanged:
                head, tail = tail, head
            if label:
                found.setdefault((head, tail), replace(relation, head=head, tail=tail, label=label))
    return document.annotated(entity_of.values(), found.values())


def main(model: str, data: str, min_score: str = "0") -> None:
    threshold = parse_number(float, "MIN_SCORE", min_score)
    gold = list(formats.read(data))
    predicted = Extractor.load(model).annotate([document.bare for document in gold])
    report = evaluate_predictions(
        gold, [translate(document.confident(threshold)) for document in predicted], bootstrap=1000
    )
    print(json.dumps({"model": model, "data": data, "min_score": threshold, **report.to_dict()}, ensure_ascii=False))


if __name__ == "__main__":
    run(main, __doc__)
