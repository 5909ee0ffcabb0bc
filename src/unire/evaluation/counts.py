"""True positives, predicted, gold: plain integers that add, and the rates they give.

Rates are fractions between 0 and 1; they are shown as percentages only in print. Nothing predicted, or nothing in gold,
gives a rate of 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unire.errors import UnireError
from unire.evaluation.protocol import Average, Protocol

__all__ = ["Counts", "Scores", "TypedCounts", "average_rates", "rates"]


def rates(counts: ArrayLike) -> NDArray[np.float64]:
    """Precision, recall and F1 of true positives, predicted and gold, along the last axis."""
    hits, predicted, gold = np.moveaxis(np.asarray(counts, dtype=np.float64), -1, 0)
    whole = np.stack([predicted, gold, (predicted + gold) / 2], axis=-1)
    divided: NDArray[np.float64] = np.divide(hits[..., None], whole, out=np.zeros_like(whole), where=whole > 0)
    return divided


def average_rates(counts: ArrayLike, average: Average) -> NDArray[np.float64]:
    """Precision, recall and F1 of many types, `[..., types, 3]` to `[..., 3]`.

    `micro` adds up the counts of all types first. `macro` is the mean of each rate over the types that occur in gold or
    in predictions: a type that nobody mentioned has no rate to average. Its F1 is thus the mean of the types' F1.
    """
    counts = np.asarray(counts)
    if average == "micro":
        return rates(counts.sum(axis=-2))
    occurring = counts.any(axis=-1).sum(axis=-1)
    mean: NDArray[np.float64] = rates(counts).sum(axis=-2) / np.maximum(occurring, 1)[..., None]
    return mean


@dataclass(frozen=True, slots=True)
class Counts:
    """What was right, what was predicted, what was there."""

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
        return float(rates(self.row)[0])

    @property
    def recall(self) -> float:
        return float(rates(self.row)[1])

    @property
    def f1(self) -> float:
        return float(rates(self.row)[2])

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
    """Counts of every type, and their rates overall: the micro or the macro average."""

    by_type: Mapping[str, Counts]
    average: Average = "micro"

    def __add__(self, other: TypedCounts) -> TypedCounts:
        none = Counts()
        types = {**self.by_type, **other.by_type}
        added = {name: self.by_type.get(name, none) + other.by_type.get(name, none) for name in types}
        return TypedCounts(added, self.average)

    @property
    def total(self) -> Counts:
        """The counts of all types together."""
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
        """The rates overall, the counts of all types together, and both for each type."""
        overall = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        types = {name: counts.to_dict() for name, counts in self.by_type.items()}
        return {**self.total.to_dict(), **overall, "types": types}

    def __str__(self) -> str:
        return f"{100 * self.f1:.1f} (P {100 * self.precision:.1f}, R {100 * self.recall:.1f})"


@dataclass(frozen=True)
class Scores:
    """Scores of predictions under one protocol.

    `a + b` are the scores of both sets of documents together (the counts add; rates follow from them), and `a > b`
    compares Ent F1 + Rel F1, by which models are selected.
    """

    protocol: Protocol
    entities: TypedCounts
    relations: TypedCounts
    spans: Counts | None
    """Split positions; `None` under `spans="characters"`, where the two sides need not have the same words."""
    dropped: int = 0
    """Sentences left out because their gold entities overlap; 0 unless the protocol asks for it."""

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
        """Ent F1 + Rel F1: what model selection looks at."""
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
        said = [f"Ent {self.entities}", f"Rel {self.relations}"]
        if self.spans is not None:
            said.append(f"Span {100 * self.spans.f1:.1f}")
        dropped = f": {self.dropped} sentences" if self.protocol.drop_overlapping else ""
        return "  ".join([*said, f"[{self.protocol}{dropped}]"])
