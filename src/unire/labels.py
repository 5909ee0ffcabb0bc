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

    Label ids: 0 is ⊥ (no label), then come the entity types and the relation types, in the given order. An entity type
    and a relation type may have the same name.
    """

    entity_types: tuple[str, ...]
    relation_types: tuple[str, ...] = ()
    symmetric: frozenset[str] = frozenset()
    """Relation types whose two directions mean the same. Y_sym consists of these and of all entity types."""

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
        """Collect the types that occur in `documents`, in alphabetical order; symmetric types must be passed."""
        entity_types: set[str] = set()
        relation_types: set[str] = set()
        for document in documents:
            entity_types.update(entity.label for entity in document.entities)
            relation_types.update(relation.label for relation in document.relations)
        return cls(tuple(sorted(entity_types)), tuple(sorted(relation_types)), frozenset(symmetric))

    @classmethod
    def resolve(cls, name: str | None, symmetric: str | None, documents: Iterable[Document]) -> LabelSpace:
        """Load a label space by name, or learn it from the documents if `name` is `None`.

        `symmetric` is a comma-separated list of relation types, for a space that is learned.
        """
        if name is None:
            return cls.learn(documents, symmetric=[s.strip() for s in (symmetric or "").split(",") if s.strip()])
        if symmetric is not None:
            raise UnireError(
                "symmetric=... is only for labels learned from the data; a label space names its own symmetric types"
            )
        return cls.load(name)

    @classmethod
    def load(cls, name: str | Path) -> LabelSpace:
        """Load a built-in label space (`scierc`, `ace04`, `ace05`, `conll04`, `ade`), or one from a JSON file."""
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
        """The names of the label spaces in the package."""
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
        """The name of every label id."""
        return ("⊥", *self.entity_types, *self.relation_types)

    @property
    def entity_ids(self) -> slice:
        """Y_e as a slice of the label ids."""
        return slice(1, 1 + len(self.entity_types))

    @property
    def relation_ids(self) -> slice:
        """Y_r as a slice of the label ids."""
        return slice(1 + len(self.entity_types), len(self))

    @cached_property
    def symmetric_ids(self) -> tuple[int, ...]:
        """Y_sym: all entity types and the symmetric relation types, without ⊥."""
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
    def collect_signatures(documents: Iterable[Document]) -> tuple[tuple[str, str, str], ...]:
        """The distinct (head type, relation type, tail type) of the relations in `documents`."""
        relations = (relation for document in documents for relation in document.relations)
        return tuple(sorted({(r.head.label, r.label, r.tail.label) for r in relations}))

    def load_signatures(
        self, constraints: str | Path | Mapping[str, Iterable[Sequence[str]]]
    ) -> tuple[tuple[str, str, str], ...]:
        """Read type constraints: `{"Work_For": [["Peop", "Org"]]}`, or a JSON file with such an object."""
        if isinstance(constraints, Mapping):
            return self._parse_signatures(constraints)
        try:
            return self._parse_signatures(json.loads(Path(constraints).read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise UnireError(f"type constraints {str(constraints)!r} cannot be read: {error}") from None
        except UnireError as error:
            raise UnireError(f"{str(constraints)!r}: {error}") from None

    def _parse_signatures(self, constraints: object) -> tuple[tuple[str, str, str], ...]:
        form = 'type constraints are an object such as {"Work_For": [["Peop", "Org"]]}'
        if not isinstance(constraints, Mapping):
            raise UnireError(form)
        signatures = []
        for relation, pairs in constraints.items():
            self.relation_id(relation)
            if not isinstance(pairs, (list, tuple)) or not pairs:
                raise UnireError(f"{relation!r} has no list of the types that it joins; {form}")
            for pair in pairs:
                if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not all(isinstance(t, str) for t in pair):
                    raise UnireError(f"{relation!r} has {pair!r} where the types of head and tail should be; {form}")
                head, tail = pair
                self.entity_id(head)
                self.entity_id(tail)
                signatures.append((head, relation, tail))
        return tuple(sorted(set(signatures)))

    def allowed_relations(self, signatures: Collection[tuple[str, str, str]]) -> NDArray[np.bool_]:
        """[|Y|, |Y|, |Y|]: whether a relation may link two entities, by label ids of head, tail and relation.

        Args:
            signatures: The allowed (head type, relation type, tail type). Symmetric relations are allowed in both
                directions. A relation type without any signature is not restricted.
        """
        allowed = np.ones((len(self),) * 3, np.bool_)
        allowed[..., [self.relation_id(relation) for _, relation, _ in signatures]] = False
        for head, relation, tail in signatures:
            allowed[self.entity_id(head), self.entity_id(tail), self.relation_id(relation)] = True
            if relation in self.symmetric:
                allowed[self.entity_id(tail), self.entity_id(head), self.relation_id(relation)] = True
        return allowed

    def directions(self, relation: str, head: T, tail: T) -> list[tuple[T, T]]:
        """The (head, tail) pairs of a relation of this type: both directions if it is symmetric."""
        return [(head, tail), (tail, head)] if relation in self.symmetric else [(head, tail)]

    def check(self, documents: Iterable[Document]) -> None:
        """Refuse documents with a type that is not in the label space."""
        for document in documents:
            try:
                for entity in document.entities:
                    self.entity_id(entity.label)
                for relation in document.relations:
                    self.relation_id(relation.label)
            except UnireError as error:
                raise UnireError(f"document {document.id!r}: {error}") from None
