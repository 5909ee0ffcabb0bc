"""The unified label space: Y = Y_e ∪ Y_r ∪ {⊥}."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from unire.documents import Document
from unire.errors import UnireError

__all__ = ["LabelSpace"]

T = TypeVar("T")


@dataclass(frozen=True)
class LabelSpace:
    """Entity types, relation types, and which relations are symmetric.

    Ids: 0 is ⊥ (no label), then the entity types, then the relation types, each in the order given. Entity and
    relation types are looked up apart, so they may share a name.
    """

    entity_types: tuple[str, ...]
    relation_types: tuple[str, ...] = ()
    symmetric: frozenset[str] = frozenset()
    """Relation types whose two directions mean the same (Y_sym holds them and every entity type)."""

    NONE = 0
    """The id of ⊥."""

    def __post_init__(self) -> None:
        for kind, names in (("entity", self.entity_types), ("relation", self.relation_types)):
            if repeated := sorted({name for name in names if names.count(name) > 1}):
                raise UnireError(f"the label space names the {kind} type {repeated[0]!r} twice; name each type once")
        if unknown := sorted(self.symmetric - set(self.relation_types)):
            raise UnireError(
                f"symmetric relation type {unknown[0]!r} is not a relation type of the label space; "
                f"it has {', '.join(self.relation_types) or 'none'}"
            )

    @classmethod
    def learn(cls, documents: Iterable[Document], symmetric: Iterable[str] = ()) -> LabelSpace:
        """The types that occur in `documents`, in alphabetical order; pass the symmetric ones explicitly."""
        entity_types: set[str] = set()
        relation_types: set[str] = set()
        for document in documents:
            entity_types.update(entity.label for entity in document.entities)
            relation_types.update(relation.label for relation in document.relations)
        return cls(tuple(sorted(entity_types)), tuple(sorted(relation_types)), frozenset(symmetric))

    @classmethod
    def asked(cls, name: str | None, symmetric: str | None, documents: Iterable[Document]) -> LabelSpace:
        """A space by name; without one that of the documents, with some symmetric types, parted by commas."""
        if name is None:
            return cls.learn(documents, symmetric=[s.strip() for s in (symmetric or "").split(",") if s.strip()])
        if symmetric is not None:
            raise UnireError(
                "symmetric types go with labels learnt from the data; a label space that is given says which they are"
            )
        return cls.load(name)

    @classmethod
    def load(cls, name: str | Path) -> LabelSpace:
        """A built-in label space by name (`scierc`, `ace04`, `ace05`, `conll04`, `ade`), or one from a JSON file."""
        if str(name) in cls.built_in():
            source: Any = resources.files("unire") / "label_spaces" / f"{name}.json"
        elif (source := Path(name)).is_dir():
            source = source / "labels.json"
        try:
            return cls.from_dict(json.loads(source.read_text(encoding="utf-8")))
        except FileNotFoundError:
            if Path(name).is_dir():
                raise UnireError(f"model folder {str(name)!r} has no labels.json; is it a whole unire model?") from None
            raise UnireError(
                f"no label space {str(name)!r}: give one of {', '.join(cls.built_in())}, or a JSON file with "
                '"entity_types", "relation_types" and "symmetric"'
            ) from None
        except (OSError, ValueError) as error:
            raise UnireError(f"label space {str(name)!r} cannot be read: {error}") from None

    @staticmethod
    def built_in() -> tuple[str, ...]:
        """Names of the label spaces that come with unire."""
        files = (resources.files("unire") / "label_spaces").iterdir()
        return tuple(sorted(file.name.removesuffix(".json") for file in files if file.name.endswith(".json")))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LabelSpace:
        if not isinstance(data, Mapping) or "entity_types" not in data:
            raise UnireError('a label space is a JSON object with "entity_types", "relation_types" and "symmetric"')
        lists = {key: data.get(key, []) for key in ("entity_types", "relation_types", "symmetric")}
        for key, names in lists.items():
            if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
                raise UnireError(f'"{key}" of a label space must be a list of names')
        return cls(tuple(lists["entity_types"]), tuple(lists["relation_types"]), frozenset(lists["symmetric"]))

    def to_dict(self) -> dict[str, list[str]]:
        return {
            "entity_types": list(self.entity_types),
            "relation_types": list(self.relation_types),
            "symmetric": sorted(self.symmetric),
        }

    def __len__(self) -> int:
        """|Y|"""
        return 1 + len(self.entity_types) + len(self.relation_types)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Name of every id; ⊥ is `⊥`."""
        return ("⊥", *self.entity_types, *self.relation_types)

    @property
    def entity_ids(self) -> slice:
        """Y_e as a slice of the ids."""
        return slice(1, 1 + len(self.entity_types))

    @property
    def relation_ids(self) -> slice:
        """Y_r as a slice of the ids."""
        return slice(1 + len(self.entity_types), len(self))

    @cached_property
    def symmetric_ids(self) -> tuple[int, ...]:
        """Y_sym: every entity type and the symmetric relation types. ⊥ is not in it."""
        entities = range(*self.entity_ids.indices(len(self)))
        return (*entities, *(self.relation_id(name) for name in self.relation_types if name in self.symmetric))

    def entity_id(self, name: str) -> int:
        return self._id(self._entity_ids, "entity", name)

    def relation_id(self, name: str) -> int:
        return self._id(self._relation_ids, "relation", name)

    @cached_property
    def _entity_ids(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.entity_types, start=self.entity_ids.start)}

    @cached_property
    def _relation_ids(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.relation_types, start=self.relation_ids.start)}

    @staticmethod
    def _id(ids: dict[str, int], kind: str, name: str) -> int:
        try:
            return ids[name]
        except KeyError:
            raise UnireError(f"unknown {kind} type {name!r}; the label space has {', '.join(ids) or 'none'}") from None

    @staticmethod
    def signatures(documents: Iterable[Document]) -> tuple[tuple[str, str, str], ...]:
        """Head type, relation type and tail type of all relations in `documents`, each once."""
        relations = (relation for document in documents for relation in document.relations)
        return tuple(sorted({(r.head.label, r.label, r.tail.label) for r in relations}))

    def given_signatures(
        self, given: str | Path | Mapping[str, Iterable[Sequence[str]]]
    ) -> tuple[tuple[str, str, str], ...]:
        """Signatures that somebody wrote down: `{"Work_For": [["Peop", "Org"]]}`, or a JSON file that holds this."""
        if isinstance(given, Mapping):
            return self._checked_signatures(given)
        try:
            return self._checked_signatures(json.loads(Path(given).read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise UnireError(f"type constraints {str(given)!r} cannot be read: {error}") from None
        except UnireError as error:
            raise UnireError(f"{str(given)!r}: {error}") from None

    def _checked_signatures(self, given: object) -> tuple[tuple[str, str, str], ...]:
        form = 'type constraints are an object such as {"Work_For": [["Peop", "Org"]]}'
        if not isinstance(given, Mapping):
            raise UnireError(form)
        found = []
        for relation, pairs in given.items():
            self.relation_id(relation)
            if not isinstance(pairs, (list, tuple)) or not pairs:
                raise UnireError(f"{relation!r} has no list of the types that it joins; {form}")
            for pair in pairs:
                if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not all(isinstance(t, str) for t in pair):
                    raise UnireError(f"{relation!r} has {pair!r} where the types of head and tail should be; {form}")
                head, tail = pair
                self.entity_id(head)
                self.entity_id(tail)
                found.append((head, relation, tail))
        return tuple(sorted(set(found)))

    def permits(self, signatures: Collection[tuple[str, str, str]]) -> NDArray[np.bool_]:
        """Which relations may join which entities, by ids: [head type, tail type, relation type].

        Args:
            signatures: Head type, relation type and tail type of what may be. A symmetric relation may go both ways,
                and a relation that none of them names may join anything.
        """
        permits = np.ones((len(self),) * 3, np.bool_)
        permits[..., [self.relation_id(relation) for _, relation, _ in signatures]] = False
        for head, relation, tail in signatures:
            permits[self.entity_id(head), self.entity_id(tail), self.relation_id(relation)] = True
            if relation in self.symmetric:
                permits[self.entity_id(tail), self.entity_id(head), self.relation_id(relation)] = True
        return permits

    def ways(self, relation: str, head: T, tail: T) -> list[tuple[T, T]]:
        """Head and tail of a relation of this type: both ways round if it is symmetric."""
        return [(head, tail), (tail, head)] if relation in self.symmetric else [(head, tail)]

    def check(self, documents: Iterable[Document]) -> None:
        """Refuse documents with a type that the space does not have."""
        for document in documents:
            try:
                for entity in document.entities:
                    self.entity_id(entity.label)
                for relation in document.relations:
                    self.relation_id(relation.label)
            except UnireError as error:
                raise UnireError(f"document {document.id!r}: {error}") from None
