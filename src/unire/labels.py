"""The unified label space: Y = Y_e ∪ Y_r ∪ {⊥}."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from unire.documents import Document
from unire.errors import UnireError, describe_error, shorten
from unire.files import open_text_output
from unire.model_files import load_json, parse_json, read_bytes

__all__ = ["LabelSpace"]

T = TypeVar("T")

MAX_LABELS = 4096
"""|Y| of the largest label space."""
MAX_CONSTRAINED_LABELS = 512
"""|Y| of the largest label space with type constraints, which take |Y|³ bytes."""
MAX_LABEL_CHARACTERS = 1000
MAX_NAMES_SHOWN = 20
"""Names that an error lists."""
UNREADABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, which could change what a terminal shows, and halves of surrogate pairs."""


def _enumerate(names: Collection[str]) -> str:
    """List names for an error message; of many, the first ones."""
    shown = ", ".join(islice(names, MAX_NAMES_SHOWN)) or "none"
    return shown if len(names) <= MAX_NAMES_SHOWN else f"{shown} and {len(names) - MAX_NAMES_SHOWN:,} more"


@dataclass(frozen=True)
class LabelSpace:
    """Entity types, relation types, and which relations are symmetric.

    Label ids: 0 is ⊥ (no label), then come the entity types and the relation types, in the given order. An entity type
    and a relation type may have the same name.

    >>> labels = LabelSpace.load("conll04")
    >>> labels.entity_types
    ('Loc', 'Org', 'Other', 'Peop')
    """

    entity_types: tuple[str, ...]
    """The entity types Y_e."""
    relation_types: tuple[str, ...] = ()
    """The relation types Y_r."""
    symmetric: frozenset[str] = frozenset()
    """Relation types whose two directions mean the same. Y_sym consists of these and of all entity types."""
    generic: frozenset[str] = field(default=frozenset(), compare=False)
    """Entity types of mentions that name nothing, such as "our method". A knowledge graph leaves them out."""

    NONE = 0
    """The id of ⊥."""

    def __post_init__(self) -> None:
        for kind, names in (("entity", self.entity_types), ("relation", self.relation_types)):
            if repeated := sorted(name for name, count in Counter(names).items() if count > 1):
                raise UnireError(f"the label space names the {kind} type {repeated[0]!r} twice; name each type once")
            if wrong := [name for name in names if len(name) > MAX_LABEL_CHARACTERS or UNREADABLE.search(name)]:
                raise UnireError(
                    f"the {kind} type {shorten(wrong[0])} is no name; use up to {MAX_LABEL_CHARACTERS} characters, and "
                    "no control characters"
                )
        if len(self) > MAX_LABELS:
            raise UnireError(f"a label space has at most {MAX_LABELS:,} labels, not {len(self):,}")
        if unknown := sorted(self.generic - set(self.entity_types)):
            raise UnireError(
                f"generic type {shorten(unknown[0])} is not an entity type of the label space; "
                f"it has {_enumerate(self.entity_types)}"
            )
        if unknown := sorted(self.symmetric - set(self.relation_types)):
            raise UnireError(
                f"symmetric relation type {shorten(unknown[0])} is not a relation type of the label space; "
                f"it has {_enumerate(self.relation_types)}"
            )

    @classmethod
    def learn(cls, documents: Iterable[Document], symmetric: Iterable[str] = ()) -> LabelSpace:
        """Collect the types that occur in documents, in alphabetical order.

        >>> LabelSpace.learn(documents, symmetric=["COMPARE"])  # doctest: +SKIP

        Args:
            documents: The annotated documents.
            symmetric: The relation types whose two directions mean the same. Data cannot show this.

        Returns:
            The label space.

        Raises:
            UnireError: A symmetric type does not occur.
        """
        entity_types: set[str] = set()
        relation_types: set[str] = set()
        for document in documents:
            entity_types.update(entity.label for entity in document.entities)
            relation_types.update(relation.label for relation in document.relations)
        return cls(tuple(sorted(entity_types)), tuple(sorted(relation_types)), frozenset(symmetric))

    @classmethod
    def resolve(cls, name: str | None, symmetric: str | None, documents: Iterable[Document]) -> LabelSpace:
        """Load a label space by name, or learn it from the documents if `name` is `None`.

        `symmetric` is a comma-separated list of relation types, for a space that is learnt.
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
        """Load a built-in label space, or one from a JSON file or a model folder.

        >>> sorted(LabelSpace.load("scierc").symmetric)
        ['COMPARE', 'CONJUNCTION']

        Args:
            name: `ace04`, `ace05`, `ade`, `conll04`, `scierc`, a model folder, or a JSON file with `entity_types`,
                `relation_types`, `symmetric` and `generic`.

        Returns:
            The label space.

        Raises:
            UnireError: There is no such label space, or the file cannot be read.
        """
        if str(name) in cls.built_in():
            built_in = resources.files("unire") / "label_spaces" / f"{name}.json"
            return cls.from_dict(parse_json(built_in.read_bytes()))
        try:
            return cls.from_dict(load_json(Path(name) / "labels.json" if Path(name).is_dir() else Path(name)))
        except FileNotFoundError:
            if Path(name).is_dir():
                raise UnireError(
                    f"model folder {str(name)!r} has no labels.json; it is incomplete, or not a unire model"
                ) from None
            raise UnireError(
                f"unknown label space {str(name)!r}; give one of {', '.join(cls.built_in())}, or a JSON file with "
                '"entity_types", "relation_types" and "symmetric"'
            ) from None
        except UnireError as error:
            raise UnireError(f"label space {str(name)!r} cannot be used: {error}") from None

    @staticmethod
    def built_in() -> tuple[str, ...]:
        """The names of the label spaces in the package."""
        files = (resources.files("unire") / "label_spaces").iterdir()
        return tuple(sorted(file.name.removesuffix(".json") for file in files if file.name.endswith(".json")))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LabelSpace:
        """Build a label space from plain JSON values: `entity_types`, `relation_types`, `symmetric` and `generic`."""
        if not isinstance(data, Mapping) or "entity_types" not in data:
            raise UnireError('a label space is a JSON object with "entity_types", "relation_types" and "symmetric"')
        lists = {key: data.get(key, []) for key in ("entity_types", "relation_types", "symmetric", "generic")}
        for key, names in lists.items():
            if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
                raise UnireError(f'"{key}" of a label space must be a list of names')
        entity_types, relation_types, symmetric, generic = lists.values()
        return cls(tuple(entity_types), tuple(relation_types), frozenset(symmetric), frozenset(generic))

    def to_dict(self) -> dict[str, list[str]]:
        """Convert to plain JSON values. `generic` is left out if no type is."""
        return {
            "entity_types": list(self.entity_types),
            "relation_types": list(self.relation_types),
            "symmetric": sorted(self.symmetric),
            **({"generic": sorted(self.generic)} if self.generic else {}),
        }

    def save(self, path: str | Path) -> None:
        """Write a JSON file that `load` reads.

        >>> LabelSpace.learn(documents).save("labels.json")  # doctest: +SKIP

        Args:
            path: The file, which is replaced if it exists.

        Raises:
            UnireError: The file cannot be written.
        """
        with open_text_output(path) as file:
            file.write(json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n")

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
        """Return the label id of an entity type."""
        return self._id(self._entity_ids, "entity", name)

    def relation_id(self, name: str) -> int:
        """Return the label id of a relation type."""
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
            raise UnireError(
                f"unknown {kind} type {shorten(name)}; the label space has {_enumerate(ids)}; "
                "correct the name, or use another model or label space"
            ) from None

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
            return self._parse_signatures(parse_json(read_bytes(Path(constraints))))
        except (OSError, ValueError) as error:
            raise UnireError(
                f"type constraints {str(constraints)!r} cannot be read: {describe_error(error)}; "
                "give none, learnt or a JSON file"
            ) from None
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
                raise UnireError(f"{shorten(relation)} must have a list of type pairs; {form}")
            for pair in pairs:
                if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not all(isinstance(t, str) for t in pair):
                    raise UnireError(
                        f"{shorten(relation)} has {shorten(pair)} instead of the types of head and tail; {form}"
                    )
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
        if len(self) > MAX_CONSTRAINED_LABELS:
            raise UnireError(
                f"type constraints need a label space with at most {MAX_CONSTRAINED_LABELS} labels, not {len(self):,}"
            )
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
        """Check that the label space has all types of the documents.

        Raises:
            UnireError: A document has another type.
        """
        for document in documents:
            try:
                for entity in document.entities:
                    self.entity_id(entity.label)
                for relation in document.relations:
                    self.relation_id(relation.label)
            except UnireError as error:
                raise UnireError(f"document {document.id!r}: {error}") from None
