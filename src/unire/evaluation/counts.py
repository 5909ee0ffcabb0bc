"""Counts of true positives, predicted and gold annotations, and their precision, recall and F1.

Counts add. Rates are fractions between 0 and 1; only printed text shows percentages. A rate without predictions or
without gold is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unire.errors import UnireError
from unire.evaluation.protocol import Average, Protocol

__all__ = ["Counts", "Scores", "TypedCounts", "average_rates", "compute_rates"]


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
    """The numbers of true positives, of predictions and of gold annotations."""

    true_positives: int = 0
    predicted: int = 0
    gold: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.true_positives + other.true_positives, self.predicted + other.predicted, self.gold + other.gold
        )

    @property
    def row(self) -> tuple[int, int, int]:
        return self.true_positives, self.predicted, self.gold

    @property
    def precision(self) -> float:
        return float(compute_rates(self.row)[0])

    @property
    def recall(self) -> float:
        return float(compute_rates(self.row)[1])

    @property
    def f1(self) -> float:
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
    average: Average = "micro"

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
        return float(self._rates[0])

    @property
    def recall(self) -> float:
        return float(self._rates[1])

    @property
    def f1(self) -> float:
        return float(self._rates[2])

    @property
    def _rates(self) -> NDArray[np.float64]:
        rows = [counts.row for counts in self.by_type.values()]
        return average_rates(np.reshape(rows, (len(rows), 3)), self.average)

    def to_dict(self) -> dict[str, Any]:
        """The average rates, the total counts, and both for each type."""
        overall = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        types = {name: counts.to_dict() for name, counts in self.by_type.items()}
        return {**self.total.to_dict(), **overall, "types": types}

    def __str__(self) -> str:
        return f"{100 * self.f1:.1f} (P {100 * self.precision:.1f}, R {100 * self.recall:.1f})"


@dataclass(frozen=True)
class Scores:
    """Scores of predictions under one protocol.

    `a + b` adds the counts of two sets of documents. `a > b` compares Ent F1 + Rel F1, by which models are selected.
    """

    protocol: Protocol
    entities: TypedCounts
    relations: TypedCounts
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
                f"scores under different protocols neither add nor compare: [{self.protocol}] and [{other.protocol}]; "
                "score both under one"
            )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON values, rates as fractions."""
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
