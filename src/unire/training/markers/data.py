"""Texts with typed markers around a pair of entities, or with the markers of many pairs behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from unire.config import EncoderSpec
from unire.documents import Document
from unire.extractor import notes_of
from unire.windows.spans import TableSpan
from unire.windows.windows import WindowBuilder, WindowGroup

__all__ = [
    "MARKERS",
    "PAD",
    "MarkerInput",
    "MarkerReader",
    "Markers",
    "Row",
    "approximate_rows",
    "collate",
    "exact_rows",
    "visible",
]

MARKERS = 4
"""Of a pair: where the subject begins and ends, and where the object does."""
PAIRS = 128
"""The most pairs behind one text. Those of a sentence that has more stand behind several copies of it, which changes
nothing: pairs do not see each other."""
PAD = -1
"""Whose token padding is; the text's are 0's, those of pair k are k's, counted from 1."""

ALIGNED = 8
"""L is a multiple of it: the fastest kernels ask for that."""

Spans = NDArray[np.int64]
"""[P, 3]: first token, last token and type of an entity, in tokens of its window."""


@dataclass(frozen=True)
class Markers:
    """The ids of the markers: new rows behind the encoder's vocabulary, four for each entity type."""

    first: int
    """Size of the encoder's own vocabulary."""
    n_types: int

    def __len__(self) -> int:
        return MARKERS * self.n_types

    def of(self, subjects: Spans, objects: Spans) -> NDArray[np.int64]:
        """[P, 4]: `<S:type>`, `</S:type>`, `<O:type>`, `</O:type>` of every pair."""
        roles = np.arange(MARKERS)
        types = np.stack([subjects[:, 2], subjects[:, 2], objects[:, 2], objects[:, 2]], 1)
        return self.first + MARKERS * types + roles


@dataclass(frozen=True, eq=False, slots=True)
class Row:
    """An encoder input and the pairs that are read off it."""

    ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    """Where each token stands; markers behind the text stand where the words do that they belong to."""
    owners: NDArray[np.int64]
    """Whose token it is: all see the text's, and those of a pair each other."""
    reads: NDArray[np.int64]
    """[P, 2]: the markers at the beginning of subject and object."""
    pairs: NDArray[np.int64]
    """[P, 2]: subject and object among the entities of the sentence."""


def exact_rows(
    text: NDArray[np.int64], subjects: Spans, objects: Spans, pairs: NDArray[np.int64], markers: Markers
) -> list[Row]:
    """A row for each pair, with the markers in the text."""
    n_pairs, length = len(pairs), len(text)
    ids = markers.of(subjects, objects)
    # before which token each stands; of several before one token those come first that end a span
    before = np.stack([subjects[:, 0], subjects[:, 1] + 1, objects[:, 0], objects[:, 1] + 1], 1)  # [P, 4]
    order = MARKERS * before + np.array([2, 0, 3, 1])
    places = before + (order[:, None, :] < order[:, :, None]).sum(2)
    rows = np.empty((n_pairs, length + MARKERS), np.int64)
    tokens = np.arange(length)
    shifted = tokens + (before[:, :, None] <= tokens).sum(1)  # [P, length]
    np.put_along_axis(rows, shifted, np.broadcast_to(text, shifted.shape), 1)
    np.put_along_axis(rows, places, ids, 1)
    positions, owners = np.arange(length + MARKERS), np.zeros(length + MARKERS, np.int64)
    return [Row(rows[p], positions, owners, places[p : p + 1, ::2], pairs[p : p + 1]) for p in range(n_pairs)]


def approximate_rows(
    text: NDArray[np.int64], subjects: Spans, objects: Spans, pairs: NDArray[np.int64], markers: Markers
) -> list[Row]:
    """The text once (or, with very many pairs, several times), with the markers of all pairs behind it."""
    length = len(text)
    ids = markers.of(subjects, objects)
    stands = np.stack([subjects[:, 0], subjects[:, 1], objects[:, 0], objects[:, 1]], 1)  # [P, 4]
    rows = []
    for start in range(0, len(pairs), PAIRS):
        chosen = slice(start, start + PAIRS)
        numbers = np.arange(len(pairs[chosen]))
        rows.append(
            Row(
                np.concatenate([text, ids[chosen].ravel()]),
                np.concatenate([np.arange(length), stands[chosen].ravel()]),
                np.concatenate([np.zeros(length, np.int64), np.repeat(numbers + 1, MARKERS)]),
                length + MARKERS * numbers[:, None] + np.array([0, 2]),
                pairs[chosen],
            )
        )
    return rows


def collate(rows: Sequence[Row], pad_id: int, first_position: int) -> dict[str, torch.Tensor]:
    """Rows as padded tensors, still on the host.

    Args:
        rows: At least one.
        pad_id: The encoder's.
        first_position: The encoder's position id of a token at position 0.
    """
    lengths = np.array([len(row.ids) for row in rows])
    filled = np.arange(-(-lengths.max() // ALIGNED) * ALIGNED) < lengths[:, None]  # [B, L]
    arrays = {}
    for name, padding in (("ids", pad_id), ("positions", 0), ("owners", PAD)):
        arrays[name] = np.full(filled.shape, padding, np.int64)
        arrays[name][filled] = np.concatenate([getattr(row, name) for row in rows])
    numbers = np.repeat(np.arange(len(rows)), [len(row.reads) for row in rows])
    reads = numbers[:, None] * filled.shape[1] + np.concatenate([row.reads for row in rows])
    return {
        "input_ids": torch.from_numpy(arrays["ids"]),
        "position_ids": torch.from_numpy(arrays["positions"] + first_position),
        "owners": torch.from_numpy(arrays["owners"]),
        "reads": torch.from_numpy(reads),
    }


def visible(owners: torch.Tensor) -> torch.Tensor:
    """Which token sees which: `[B, 1, L, L]`. The text sees itself; markers see the text and those of their pair."""
    column, row = owners.unsqueeze(1), owners.unsqueeze(2)
    return ((column == 0) | ((column == row) & (column > 0))).unsqueeze(1)


WHOLE = 2**31
"""Words of a table: no sentence is cut, for there are no tables here."""


@dataclass(frozen=True, eq=False, slots=True)
class MarkerInput:
    """A sentence as an encoder reads it."""

    place: TableSpan
    passage: WindowGroup
    """Its window; several, if it is longer than the encoder."""
    sizes: NDArray[np.int64]
    """Tokens of each word."""

    @property
    def whole(self) -> bool:
        """Whether one window holds all of it."""
        return len(self.passage.windows) == 1

    @property
    def tokens(self) -> NDArray[np.int64]:
        """Of the only window."""
        return self.passage.windows[0].tokens

    @property
    def firsts(self) -> NDArray[np.int64]:
        """The position of every word's first token in its window."""
        return self.passage.word_index[:, 1]

    @property
    def lasts(self) -> NDArray[np.int64]:
        """The position of every word's last token."""
        return self.firsts + self.sizes - 1


class MarkerReader:
    """Lays out sentences: each with words of its document to the left and right.

    Args:
        tokenizer: The encoder's.
        spec: What else is known of the encoder.
        window: Words of a window, the sentence included.
        spare: Tokens of a window that are left free, for markers.
    """

    def __init__(self, tokenizer: Tokenizer, spec: EncoderSpec, window: int, *, spare: int = 0) -> None:
        room = replace(spec, max_pieces=spec.max_pieces - spare)
        self.tokenizer = tokenizer
        self.spec = spec
        self.window_builder = WindowBuilder(tokenizer, room, layout="in-place", window=window, max_table=WHOLE)

    @property
    def way(self) -> tuple[object, ...]:
        """All that decides how documents are laid out: readers that agree in it lay out the same."""
        return self.tokenizer.to_str(), self.window_builder.spec, self.window_builder.window

    def read(self, documents: Sequence[Document], notes: Counter[str] | None = None) -> Iterator[MarkerInput]:
        """Every sentence that has words, in order; what needed special care is added to `notes`."""
        for index, document in enumerate(documents):
            bounds = self.window_builder.tokenize(document.words).bounds
            for passage in self.window_builder.build([document], index):
                (place,) = passage.tables
                if notes is not None:
                    notes.update(notes_of(passage))
                yield MarkerInput(place, passage, np.diff(bounds[place.start : place.end + 1]))
