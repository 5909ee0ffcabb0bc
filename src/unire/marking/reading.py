"""Sentences in their context, and where each of their words stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from unire.documents import Document
from unire.extractor import notes_of
from unire.windows import EncoderSpec, Passage, Stretch, Windower

__all__ = ["Reader", "Reading"]

WHOLE = 2**31
"""Words of a table: no sentence is cut, for there are no tables here."""


@dataclass(frozen=True, eq=False, slots=True)
class Reading:
    """A sentence as an encoder reads it."""

    place: Stretch
    passage: Passage
    """Its window; several, if it is longer than the encoder."""
    sizes: NDArray[np.int64]
    """Pieces of each word."""

    @property
    def whole(self) -> bool:
        """Whether one window holds all of it."""
        return len(self.passage.windows) == 1

    @property
    def pieces(self) -> NDArray[np.int64]:
        """Of the only window."""
        return self.passage.windows[0].pieces

    @property
    def firsts(self) -> NDArray[np.int64]:
        """The position of every word's first piece in its window."""
        return self.passage.reads[:, 1]

    @property
    def lasts(self) -> NDArray[np.int64]:
        """The position of every word's last piece."""
        return self.firsts + self.sizes - 1


class Reader:
    """Lays out sentences: each with words of its document to the left and right.

    Args:
        tokenizer: The encoder's.
        spec: What else is known of the encoder.
        window: Words of a window, the sentence included.
        spare: Pieces of a window that are left free, for markers.
    """

    def __init__(self, tokenizer: Tokenizer, spec: EncoderSpec, window: int, *, spare: int = 0) -> None:
        room = replace(spec, max_pieces=spec.max_pieces - spare)
        self.tokenizer = tokenizer
        self.spec = spec
        self.windower = Windower(tokenizer, room, layout="in-place", window=window, max_table=WHOLE)

    @property
    def way(self) -> tuple[object, ...]:
        """All that decides how documents are laid out: readers that agree in it lay out the same."""
        return self.tokenizer.to_str(), self.windower.spec, self.windower.window

    def read(self, documents: Sequence[Document], notes: Counter[str] | None = None) -> Iterator[Reading]:
        """Every sentence that has words, in order; what needed special care is added to `notes`."""
        for index, document in enumerate(documents):
            bounds = self.windower.tokenize(document.words).bounds
            for passage in self.windower.passages(document, index):
                (place,) = passage.tables
                if notes is not None:
                    notes.update(notes_of(passage))
                yield Reading(place, passage, np.diff(bounds[place.start : place.end + 1]))
