"""Evaluation protocols, counts of correct, predicted and gold annotations, and their precision, recall and F1.

A protocol defines what counts as correct. Published numbers differ in it, so every score names its protocol. Counts
add. Rates are fractions between 0 and 1; only printed text shows percentages. A rate without predictions or without
gold is 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unire.errors import UnireError

__all__ = [
    "DEFAULT_PROTOCOL",
    "Average",
    "Counts",
    "Protocol",
    "RelationMatch",
    "Scores",
    "SpanUnit",
    "SymmetricGold",
    "TypedCounts",
    "average_rates",
    "compute_rates",
]

RelationMatch = Literal["strict", "boundaries"]
SymmetricGold = Literal["doubled", "once", "as-annotated"]
SpanUnit = Literal["words", "characters"]
Average = Literal["micro", "macro"]


@dataclass(frozen=True)
class Protocol:
    """How predictions are compared with gold. An entity is always compared by its boundaries and its type.

    >>> Protocol(symmetric="once").name
    'strict, once, micro'
    """

    relations: RelationMatch = "strict"
    """`strict`: relation type, both spans and both entity types. `boundaries`: entity types are ignored."""
    symmetric: SymmetricGold = "doubled"
    """How gold counts a symmetric relation. `doubled`: as two directed relations (the paper, PL-Marker). `once`: as an
    unordered pair, which is predicted if either direction is (SpERT). `as-annotated`: in the annotated direction only
    (PURE). Except for `once`, each predicted direction counts separately."""
    spans: SpanUnit = "words"
    """`words`: gold and predictions have the same words. `characters`: they have the same text, and exact character
    spans are compared."""
    average: Average = "micro"
    """`micro`: from the counts of all types (the paper). `macro`: the mean over types (usual for ADE)."""
    drop_overlapping: bool = False
    """Leave out sentences with overlapping gold entities, as the released code does."""

    def __post_init__(self) -> None:
        for field, choices in (
            ("relations", get_args(RelationMatch)),
            ("symmetric", get_args(SymmetricGold)),
            ("spans", get_args(SpanUnit)),
            ("average", get_args(Average)),
        ):
            if (value := getattr(self, field)) not in choices:
                raise UnireError(f"a scoring protocol has no {field}={value!r}; choose from {', '.join(choices)}")

    @classmethod
    def all(
        cls, *, spans: SpanUnit = "words", average: Average = "micro", drop_overlapping: bool = False
    ) -> Iterator[Protocol]:
        """Yield all six combinations of `relations` and `symmetric`, `strict` before `boundaries`."""
        for relations in get_args(RelationMatch):
            for symmetric in get_args(SymmetricGold):
                yield cls(relations, symmetric, spans, average, drop_overlapping)

    @property
    def name(self) -> str:
        """A short, unambiguous name. It omits the defaults `words` and "nothing dropped"."""
        parts: list[str] = [self.relations, self.symmetric, self.average]
        if self.spans != "words":
            parts.append(self.spans)
        if self.drop_overlapping:
            parts.append("overlapping dropped")
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain JSON values."""
        return {"name": self.name, **asdict(self)}

    def __str__(self) -> str:
        return self.name


DEFAULT_PROTOCOL = Protocol()
"""Strict, doubled, micro, nothing dropped."""


def compute_rates(counts: ArrayLike) -> NDArray[np.float64]:
    """`[..., 3]` true positives, predicted and gold → `[..., 3]` precision, recall and F1."""
    true_positives, predicted, gold = np.moveaxis(np.asarray(counts, dtype=np.float64), -1, 0)
    denominators = np.stack([predicted, gold, (predicted + gold) / 2], axis=-1)
    rates: NDArray[np.float64] = np.divide(
        true_positives[..., None], denominators, out=np.zeros_like(denominators), where=denominators > 0
    )
    return rates


def average_rates(counts: ArrayLike, average: Average) -> NDArray[np.float64]:
    """`[..., types, 3]` counts → `[..., 3]` precision, recall and F1 over all types.

    `micro` first adds up the counts of all types. `macro` is the mean of each rate over the types that occur in gold or
    in predictions. So macro F1 is the mean of the F1 of these types.
    """
    counts = np.asarray(counts)
    if average == "micro":
        return compute_rates(counts.sum(axis=-2))
    occurring = counts.any(axis=-1).sum(axis=-1)
    mean: NDArray[np.float64] = compute_rates(counts).sum(axis=-2) / np.maximum(occurring, 1)[..., None]
    return mean


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of true positives, of predictions and of gold annotations.

    >>> Counts(true_positives=1, predicted=2, gold=1).precision
    0.5
    """

    true_positives: int = 0
    """Predictions that are correct."""
    predicted: int = 0
    """All predictions."""
    gold: int = 0
    """All gold annotations."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.true_positives + other.true_positives, self.predicted + other.predicted, self.gold + other.gold
        )

    @property
    def row(self) -> tuple[int, int, int]:
        return self.true_positives, self.predicted, self.gold

    @property
    def precision(self) -> float:
        """The share of predictions that is correct."""
        return float(compute_rates(self.row)[0])

    @property
    def recall(self) -> float:
        """The share of gold annotations that is predicted."""
        return float(compute_rates(self.row)[1])

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return float(compute_rates(self.row)[2])

    def to_dict(self) -> dict[str, Any]:
        return {
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "true_positives": self.true_positives,
            "predicted": self.predicted,
            "gold": self.gold,
        }

    def __str__(self) -> str:
        return f"{100 * self.f1:.1f} (P {100 * self.precision:.1f}, R {100 * self.recall:.1f})"


@dataclass(frozen=True, slots=True)
class TypedCounts:
    """Counts by type, and their micro or macro averages."""

    by_type: Mapping[str, Counts]
    """The counts of each type."""
    average: Average = "micro"
    """How rates over all types are averaged."""

    def __add__(self, other: TypedCounts) -> TypedCounts:
        none = Counts()
        types = {**self.by_type, **other.by_type}
        added = {name: self.by_type.get(name, none) + other.by_type.get(name, none) for name in types}
        return TypedCounts(added, self.average)

    @property
    def total(self) -> Counts:
        """The sum of the counts of all types."""
        return sum(self.by_type.values(), start=Counts())

    @property
    def precision(self) -> float:
        """The share of predictions that is correct, by the average."""
        return float(self._rates[0])

    @property
    def recall(self) -> float:
        """The share of gold annotations that is predicted, by the average."""
        return float(self._rates[1])

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall, by the average."""
        return float(self._rates[2])

    @property
    def _rates(self) -> NDArray[np.float64]:
        rows = [counts.row for counts in self.by_type.values()]
        return average_rates(np.reshape(rows, (len(rows), 3)), self.average)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain JSON values: average rates, total counts, and both for each type."""
        overall = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        types = {name: counts.to_dict() for name, counts in self.by_type.items()}
        return {**self.total.to_dict(), **overall, "types": types}

    def __str__(self) -> str:
        return f"{100 * self.f1:.1f} (P {100 * self.precision:.1f}, R {100 * self.recall:.1f})"


@dataclass(frozen=True)
class Scores:
    """Scores of predictions under one protocol.

    `a + b` adds the counts of two sets of documents. `a > b` compares Ent F1 + Rel F1, by which models are selected.

    >>> scores.relations.f1, scores.entities.by_type["Method"].recall  # doctest: +SKIP
    (0.407, 0.76)
    """

    protocol: Protocol
    """What counts as correct."""
    entities: TypedCounts
    """Counts and rates of entities, overall and by type."""
    relations: TypedCounts
    """Counts and rates of relations, overall and by type."""
    spans: Counts | None
    """Split positions. `None` under `spans="characters"`, where the words of gold and predictions may differ."""
    dropped: int = 0
    """Sentences left out by `drop_overlapping`."""

    def __add__(self, other: Scores) -> Scores:
        self._require_same_protocol(other)
        return Scores(
            self.protocol,
            self.entities + other.entities,
            self.relations + other.relations,
            None if self.spans is None or other.spans is None else self.spans + other.spans,
            self.dropped + other.dropped,
        )

    @property
    def ent_plus_rel(self) -> float:
        """Ent F1 + Rel F1, the criterion of model selection."""
        return self.entities.f1 + self.relations.f1

    def __lt__(self, other: Scores) -> bool:
        self._require_same_protocol(other)
        return self.ent_plus_rel < other.ent_plus_rel

    def __gt__(self, other: Scores) -> bool:
        return other < self

    def _require_same_protocol(self, other: Scores) -> None:
        if self.protocol != other.protocol:
            raise UnireError(
                f"scores under different protocols cannot be added or compared: [{self.protocol}] and "
                f"[{other.protocol}]; score both under one"
            )

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain JSON values; rates are fractions."""
        return {
            "protocol": self.protocol.to_dict(),
            "entities": self.entities.to_dict(),
            "relations": self.relations.to_dict(),
            "spans": self.spans and self.spans.to_dict(),
            "dropped_sentences": self.dropped,
        }

    def __str__(self) -> str:
        parts = [f"Ent {self.entities}", f"Rel {self.relations}"]
        if self.spans is not None:
            parts.append(f"Span {100 * self.spans.f1:.1f}")
        dropped = f": {self.dropped} sentences" if self.protocol.drop_overlapping else ""
        return "  ".join([*parts, f"[{self.protocol}{dropped}]"])
