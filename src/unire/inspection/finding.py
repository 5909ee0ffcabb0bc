"""Findings, and the kinds of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from unire import tables

__all__ = ["Finding", "Kind"]


class Kind(Enum):
    """Something that can be odd about data, as `(name, what the table does with it, whether it is only a hint)`."""

    UNREADABLE = ("document that cannot be read", "it is left out")
    SPLIT_WORD = ("entity that splits a word", "its square covers the whole words")
    IN_PARTS = ("entity in several parts", "its square covers the words between the parts too")
    ENTITY_ACROSS = (tables.OUTSIDE, "no table holds it; it counts as a miss")
    OVERLAP = (tables.OVERLAP, "the table keeps the longer one; the other counts as a miss")
    TWO_TYPES = ("two types on the same words", "the table keeps the first; the other counts as a miss")
    REPEATED_ENTITY = ("entity annotated twice", "its square is filled once")
    NO_ARGUMENT = (tables.NO_ARGUMENT, "no table holds it; it counts as a miss")
    RELATION_ACROSS = (tables.ACROSS, "no table holds it; it counts as a miss")
    TWO_LABELS = (tables.TWO_LABELS, "the table keeps the first; the other counts as a miss")
    REFLEXIVE = (tables.REFLEXIVE, "no table holds it; it counts as a miss")
    REPEATED_RELATION = ("relation annotated twice", "its rectangle is filled once")
    UNKNOWN_TYPE = ("type that the label space lacks", "training and scoring refuse the data")
    UNSEEN_TYPE = ("type that only files after the first have", "training on the first cannot learn it")
    SHARED_ID = ("id of several documents", "folds and split lists refuse the data")
    LEAK = ("sentence in two files", "it is learnt and tested on; scores come out too high")
    NEAR_LEAK = ("almost the same sentence in two files", "it is learnt and almost tested on; scores may be too high")
    TOO_LONG = ("sentence longer than the encoder's input", "it is read in overlapping windows")
    ALIKE = ("types whose names differ by case or spaces only", "they are different labels", True)
    RARE = ("type with few examples", "its cells are too few to be learnt well", True)
    BOTH_WAYS = ("relation type annotated both ways", "two rectangles; if it is symmetric, --symmetric says so", True)

    def __init__(self, what: str, effect: str, hint: bool = False) -> None:
        self.what = what
        self.effect = effect
        self.hint = hint

    @classmethod
    def of_unheld(cls, reason: str) -> Kind:
        """The kind for a reason of `tables`."""
        return next(kind for kind in cls if kind.what == reason)


@dataclass(frozen=True)
class Finding:
    kind: Kind
    file: str
    place: str
    """Where in the file: a document, and a sentence of it."""
    detail: str

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "kind": self.kind.what, "effect": self.kind.effect, "hint": self.kind.hint}

    def __str__(self) -> str:
        where = f"{self.file}, {self.place}" if self.place else self.file
        return f"{where}: {self.kind.what}: {' '.join(self.detail.split())}; {self.kind.effect}"
