"""What a student learns from beside gold: teachers who are asked now, or lessons that they once gave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from torch import Tensor, nn

from unire.documents import Document
from unire.labels import LabelSpace
from unire.modeling.model import UniRE
from unire.modeling.recording import Recorder
from unire.training.held_out import HeldOut
from unire.training.texts import Texts
from unire.training.unlabelled import Shelf, SoftStep
from unire.windows import Windower

__all__ = ["EXAMPLES", "Tutor"]

EXAMPLES = 1000
"""Unlabelled sentences on which α is tuned where there is no dev."""


class Tutor(Protocol):
    """What the mean of some teachers is, on unlabelled text."""

    labels: LabelSpace
    """The first teacher's."""
    teachers: Sequence[dict[str, Any]]
    """Who they are, and the F1 that they had."""
    decoder: str
    """The first teacher's."""
    alpha: float
    """The mean of those that decode in the same way."""
    texts: Texts
    corpus: Sequence[str]
    """Names of the files that the texts are from."""
    lessons: str | None
    """A digest of the lessons, if they are read."""
    shelf: Shelf | None
    """Where tables are found, if they are read."""
    encoders: Sequence[nn.Module]
    """Of the teachers, if they are asked."""

    def start(self, student: UniRE, beside: Recorder, *, bf16: bool) -> Sequence[Windower]:
        """Be ready to teach a student, whose gradients `beside` computes; the ways to lay documents out but for its."""

    def targets(self, step: SoftStep) -> Callable[[], list[Tensor]]:
        """What is to be learnt of every batch of the student's, `[T, N, N, |Y|]` each. Padding holds garbage.

        Another thread asks for it, ahead of the step: what takes the host time is done then. What takes the device
        time is done when the result is called.
        """

    def distribution(self, target: Tensor) -> Tensor:
        """A target as a distribution per cell, in the student's order of labels; on the device, amid a recording."""

    def examples(self, held_out: HeldOut) -> Callable[[], list[Document]]:
        """Some of the texts, with what each teacher finds in them; what is wrong with them is said before the call.

        Not with what the mean of their tables holds: it is less sure of a cell than each teacher is, so that α like
        theirs would find less in it than any of them does.
        """
