"""Convert Re-DocRED and CoNLL04 into the label space of the model `general`, which is `general_labels.json`.

    python recipes/general_data.py DATA OUT

DATA holds `redocred` and `conll04`, each with train, dev and test.json. Re-DocRED is in DyGIE's format, with a
list `evidence` too: whether the annotators named the sentence as evidence of each relation. OUT gets these folders,
each with train, dev and test.jsonl, and the script prints how often each type occurs in them:

    evidence   Re-DocRED, relations with evidence only
    all        Re-DocRED, all relations between entities of one sentence
    conll04    CoNLL04; it lacks most dates and numbers, and most relation types: see `fill_labels.py`

`score_everyday48.py` translates predictions back into relations of Re-DocRED.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from script import run

from unire import LabelSpace, formats
from unire.documents import Document, Entity, Relation
from unire.errors import UnireError

LABELS = LabelSpace.load(Path(__file__).with_name("general_labels.json"))
"""Of two relations with the same head and tail, the first in the order of this label space is kept."""

REDOCRED_ENTITIES = {
    "PER": "Person", "ORG": "Organization", "LOC": "Place", "TIME": "Date", "NUM": "Number", "MISC": "Other",
}  # fmt: skip
REDOCRED_RELATIONS = {
    "born_on": ("date of birth",),
    "died_on": ("date of death",),
    "born_in": ("place of birth",),
    "died_in": ("place of death",),
    "citizen_of": ("country of citizenship",),
    "lives_in": ("residence", "work location"),
    "spouse": ("spouse",),
    "child_of": ("father", "mother", "~child"),
    "sibling": ("sibling",),
    "works_for": ("employer",),
    "studied_at": ("educated at",),
    "plays_for": ("member of sports team",),
    "member_of": ("member of", "member of political party", "military branch"),
    "religion": ("religion or worldview",),
    "won_award": ("award received",),
    "took_part_in": ("participant in", "~participant", "conflict"),
    "directed_by": ("director",),
    "performed_by": ("performer",),
    "created_by": ("author", "creator", "screenwriter", "composer", "lyrics by"),
    "produced_by": ("producer", "production company"),
    "acted_in": ("~cast member",),
    "character_in": ("present in work", "~characters"),
    "made_by": ("developer", "manufacturer", "~product or material produced or service provided"),
    "record_label": ("record label",),
    "published_by": ("publisher", "original broadcaster"),
    "founded_by": ("founded by",),
    "owned_by": ("owned by", "parent organization", "~has subsidiary"),
    "plays_in": ("league",),
    "led_by": ("head of government", "head of state"),
    "happened_on": ("point in time",),
    "released_on": ("publication date",),
    "started_on": ("inception", "start time"),
    "ended_on": ("dissolved, abolished or demolished date", "end time"),
    "country_of_origin": ("country of origin",),
    "lies_on": ("located in or next to body of water",),
    "flows_into": ("mouth of the watercourse",),
    "located_in": (
        "country", "continent", "location", "headquarters location", "location of formation", "basin country",
        "located in the administrative territorial entity", "~contains the administrative territorial entity",
        "capital of", "~capital", "located in/on physical feature",
    ),
    "follows": ("follows", "~followed by", "replaces", "~replaced by"),
    "part_of": ("part of", "~has part(s)", "part of the series"),
}  # fmt: skip
"""The relations of Re-DocRED that become one of ours. Those with `~` have head and tail exchanged."""
BY_HEAD = {
    ("located_in", "Organization"): "based_in",
    ("part_of", "Person"): "member_of",
    ("started_on", "Organization"): "founded_on",
    ("started_on", "Place"): "founded_on",
}
"""Relations that have another name for some types of heads."""

CONLL04_ENTITIES = {"Peop": "Person", "Org": "Organization", "Loc": "Place"}
CONLL04_RELATIONS = {"Kill": "killed", "Work_For": "works_for", "OrgBased_In": "based_in", "Located_In": "located_in"}
DATE = re.compile(
    r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b|(January|February|March|April|June|July|August"
    r"|September|October|November|December|(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)s?\b"
    r"|^(1\d|20)\d\d(s|\.)?$|\b([ap]\.m\.|GMT\b|((hour|day|week|month|year|decade)s?|century)\b)"
)
NUMBER = re.compile(r"\d|\b(one|two|three|four|five|six|seven|eight|nine|ten|hundred|thousand|million|billion)\b", re.I)
EVENTS_OF_LIFE = {"born": "born_in", "died": "died_in"}
MAX_WORDS_BEFORE = 8
"""`born` and `died` count if they are at most this many words before the place, and after other places."""
MIN_COUNTRY_COUNT = 2
"""A name is that of a country if Re-DocRED says so this often."""


def convert_redocred(document: Document, *, evidence_only: bool, lost: Counter[str]) -> Document:
    """A document of Re-DocRED in our label space. Relations that it lacks are counted in `lost`."""
    entity_of = {entity: replace(entity, label=REDOCRED_ENTITIES[entity.label]) for entity in document.entities}
    found = []
    for sentence, evidence in zip(document.sentences, document.meta["evidence"], strict=True):
        for relation, has_evidence in zip(sentence.relations, evidence, strict=True):
            if not has_evidence and evidence_only:
                continue
            if relation.label not in _TARGETS:
                lost[relation.label] += 1
                continue
            label, exchanged = _TARGETS[relation.label]
            head, tail = entity_of[relation.head], entity_of[relation.tail]
            if exchanged:
                head, tail = tail, head
            found.append(Relation(head, tail, BY_HEAD.get((label, head.label), label)))
    return replace(document.annotated(entity_of.values(), _keep_one_per_pair(found)), meta={})


def convert_conll04(document: Document, countries: frozenset[str]) -> Document:
    """A sentence of CoNLL04 in our label space.

    `Live_In` also means births, deaths and citizenship there; trigger words distinguish them. Dates and numbers are
    `Other` there; their form distinguishes them.
    """
    entity_of = {
        entity: replace(entity, label=CONLL04_ENTITIES.get(entity.label) or _classify_other(entity.text))
        for entity in document.entities
    }
    found = [
        Relation(
            entity_of[relation.head],
            entity_of[relation.tail],
            CONLL04_RELATIONS.get(relation.label) or _classify_live_in(relation, document, countries),
        )
        for relation in document.relations
    ]
    return document.annotated(entity_of.values(), _keep_one_per_pair(found))


def collect_countries(documents: Iterable[Document]) -> frozenset[str]:
    """The names that are countries according to Re-DocRED."""
    relations = (relation for document in documents for relation in document.relations)
    names = Counter(r.tail.text for r in relations if r.label in ("country", "country of citizenship"))
    return frozenset(name for name, count in names.items() if count >= MIN_COUNTRY_COUNT)


def describe(folders: Mapping[str, Mapping[str, Sequence[Document]]], lost: Mapping[str, int]) -> Iterator[str]:
    """How often each type occurs, one column per file; and the relations of Re-DocRED that are left out."""
    files = {f"{folder}/{split}": parts[split] for folder, parts in folders.items() for split in parts}
    yield " ".join([f"{'':<18}", *(f"{name:>14}" for name in files)])
    for title, labels, kind in (
        ("entities", LABELS.entity_types, "entities"),
        ("relations", LABELS.relation_types, "relations"),
    ):
        counts = [Counter(a.label for d in documents for a in getattr(d, kind)) for documents in files.values()]
        for label in labels:
            yield " ".join([f"{label:<18}", *(f"{count[label]:>14,}" for count in counts)])
        yield " ".join([f"all {title:<14}", *(f"{count.total():>14,}" for count in counts)])
    listed = ", ".join(f"{label} {count}" for label, count in sorted(lost.items()))
    yield f"relations of Re-DocRED that the label space lacks: {sum(lost.values()):,} ({listed})"


def _keep_one_per_pair(relations: Iterable[Relation]) -> list[Relation]:
    """One relation for each head and tail, because a table has one label per cell; symmetric ones once per pair."""
    kept: dict[tuple[Entity, Entity], Relation] = {}
    for relation in relations:
        if relation.label in LABELS.symmetric and relation.tail.span < relation.head.span:
            relation = replace(relation, head=relation.tail, tail=relation.head)
        pair = relation.head, relation.tail
        if pair not in kept or _RANK[relation.label] < _RANK[kept[pair].label]:
            kept[pair] = relation
    return list(kept.values())


def _classify_other(text: str) -> str:
    return "Date" if DATE.search(text) else "Number" if NUMBER.search(text) else "Other"


def _classify_live_in(relation: Relation, document: Document, countries: frozenset[str]) -> str:
    place = relation.tail
    others = [e.end for e in document.entities if e.label == place.label and e.end <= place.start]
    for word in document.words[max(place.start - MAX_WORDS_BEFORE, 0, *others) : place.start]:
        if word.lower() in EVENTS_OF_LIFE:
            return EVENTS_OF_LIFE[word.lower()]
    return "citizen_of" if place.text in countries else "lives_in"


_TARGETS = {
    source.removeprefix("~"): (target, source.startswith("~"))
    for target, sources in REDOCRED_RELATIONS.items()
    for source in sources
}
_RANK = {label: rank for rank, label in enumerate(LABELS.relation_types)}


def main(data: str, out: str) -> None:
    splits = ("train", "dev", "test")
    redocred, conll04 = (
        {split: list(formats.read(Path(data) / name / f"{split}.json")) for split in splits}
        for name in ("redocred", "conll04")
    )
    for split, documents in redocred.items():
        if any("evidence" not in document.meta for document in documents):
            raise UnireError(f'{Path(data) / "redocred" / split}.json has documents without "evidence"')
    countries = collect_countries(redocred["train"])
    lost: Counter[str] = Counter()
    folders = {
        "evidence": {
            split: [convert_redocred(document, evidence_only=True, lost=Counter()) for document in documents]
            for split, documents in redocred.items()
        },
        "all": {
            split: [convert_redocred(document, evidence_only=False, lost=lost) for document in documents]
            for split, documents in redocred.items()
        },
        "conll04": {
            split: [convert_conll04(document, countries) for document in documents]
            for split, documents in conll04.items()
        },
    }
    for name, converted in folders.items():
        (Path(out) / name).mkdir(parents=True, exist_ok=True)
        for split, documents in converted.items():
            formats.write(documents, Path(out) / name / f"{split}.jsonl")
    print("\n".join(describe(folders, lost)))


if __name__ == "__main__":
    run(main, __doc__)
