"""What callers order, and a batch of orders read by one model. What is made of them is JSON, as it is sent."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from threading import Lock
from typing import Any

from unire.decoding.decoders import SPAN_DECODERS
from unire.documents import Document
from unire.extractor import Extractor, OnBatch
from unire.formats import native
from unire.graph.rows import TRIPLES, TSV
from unire.rendering.common import Palette
from unire.rendering.html import data
from unire.rendering.views import View, decoded_at, views
from unire.segmentation import segment

__all__ = ["CancelledError", "ExtractJob", "Job", "Source", "ViewJob", "Worker", "length"]

LEAST = 64
"""Characters that a text counts for at least: a short one takes its time too."""
TOKEN = 4
"""Characters of a token of a word, as English has them."""

Source = str | Sequence[Sequence[str]]
"""A text, or the sentences of a document whose words are split."""


class Job(ABC):
    """What one caller asks for, or a part of it."""

    @property
    @abstractmethod
    def sources(self) -> Sequence[Source]:
        """What there is to read."""

    @property
    def size(self) -> int:
        """What it takes to read it, in characters of a text that is not short."""
        return sum(map(_size, self.sources))

    @abstractmethod
    def parts(self, most: int) -> Sequence[Job]:
        """The order in parts of that size, as far as it can be cut: a text is not."""

    @abstractmethod
    def answer(self, parts: Sequence[bytes]) -> bytes:
        """What the caller is sent, from what was made for each of the parts."""


@dataclass(frozen=True)
class ExtractJob(Job):
    """Entities and relations of some texts, or of the sentences of one document, which are words already."""

    given: Sequence[Source] = field(repr=False)
    min_score: float = 0.0

    @property
    def sources(self) -> Sequence[Source]:
        return self.given

    def parts(self, most: int) -> Sequence[Job]:
        parts: list[list[Source]] = []
        room = 0
        for source in self.sources:
            room -= _size(source)
            if room < 0 or not parts:
                parts.append([])
                room = most - _size(source)
            parts[-1].append(source)
        return [ExtractJob(sources, self.min_score) for sources in parts]

    def answer(self, parts: Sequence[bytes]) -> bytes:
        return b'{"documents":[' + b",".join(parts) + b"]}"

    def documents(self) -> Iterator[Document]:
        return (segment(source) if isinstance(source, str) else Document.from_words(source) for source in self.sources)

    def written(self, found: Sequence[Document]) -> bytes:
        """As `unire extract` writes it: documents that came as words keep them."""
        kept = (document.confident(self.min_score) if self.min_score else document for document in found)
        forms = (
            document.to_dict() if isinstance(source, str) else next(native.to_json(document))
            for source, document in zip(self.sources, kept, strict=True)
        )
        return b",".join(map(_json, forms))


@dataclass(frozen=True)
class ViewJob(Job):
    """All that a page shows of a text."""

    text: str = field(repr=False)
    alpha: float | None = None
    """The distance above which tables are cut; the model's own where there is none."""
    cells: frozenset[int] = frozenset()
    """Sentences whose probabilities are asked for."""

    @property
    def sources(self) -> Sequence[Source]:
        return [self.text]

    def parts(self, most: int) -> Sequence[Job]:
        return [self]

    def answer(self, parts: Sequence[bytes]) -> bytes:
        return parts[0]


class CancelledError(Exception):
    """Nobody waits for what is being read."""


class Worker:
    """Reads batches of orders; threads may share it.

    The tables of the texts that were looked at last are kept, to be decoded again.

    Args:
        extractor: Reads and decodes.
        batch: Characters, about, that the engine is given at once, at most: so who asks for little does not wait behind
            more of a long text, and one that nobody wants any more is soon left.
        memory: Bytes of tables to keep.
    """

    def __init__(self, extractor: Extractor, *, batch: int = 2**13, memory: int = 2**26) -> None:
        self.extractor = copy(extractor)
        self.extractor.max_batch_tokens = -(-batch // TOKEN)
        self.palette = Palette(extractor.labels)
        self._kept = _Kept(memory)

    def __call__(self, orders: Sequence[Job], wanted: Callable[[], bool] = lambda: True) -> list[bytes]:
        """What is made of each order, the same as if it had come alone.

        Args:
            orders: To be read together; none is cut into parts.
            wanted: Whether somebody still waits.

        Raises:
            CancelledError: When nobody waits any more. Checked before the first batch and after each one.
        """

        def check_wanted(*_: object) -> None:
            if not wanted():
                raise CancelledError

        check_wanted()
        extractions = [order for order in orders if isinstance(order, ExtractJob)]
        documents = (document for order in extractions for document in order.documents())
        found = iter(list(self.extractor.annotate(documents, on_batch=check_wanted)))
        made = {id(order): order.written(list(islice(found, len(order.sources)))) for order in extractions}
        looks = [order for order in orders if isinstance(order, ViewJob)]
        for look, view in zip(looks, self._views(looks, check_wanted), strict=True):
            made[id(look)] = self._shown(look, view)
        return [made[id(order)] for order in orders]

    def _views(self, looks: Sequence[ViewJob], on_batch: OnBatch) -> list[View]:
        kept = {look.text: self._kept.get(look.text) for look in looks}
        new = [text for text, view in kept.items() if view is None]
        for text, seen in zip(
            new, views(self.extractor, map(segment, new), max_words=None, on_batch=on_batch), strict=True
        ):
            kept[text] = self._kept.put(text, seen)
        return [view for look in looks if (view := kept[look.text])]

    def _shown(self, look: ViewJob, view: View) -> bytes:
        if look.alpha is not None and self.extractor.config.decoder in SPAN_DECODERS:
            view = decoded_at(self.extractor, view, look.alpha)
        document = view.document
        return _json(
            {
                **data.of_view(view, self.extractor.labels, self.palette, cells=look.cells),
                "document": document.to_dict(),
                "tsv": TRIPLES.head(TSV) + TRIPLES.lines(document, TSV),
            }
        )


class _Kept:
    """Views by the texts that they are of, the last used ones, as many as there is room for."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._used = 0
        self._lock = Lock()
        self._views: OrderedDict[bytes, View] = OrderedDict()

    def get(self, text: str) -> View | None:
        key = _key(text)
        with self._lock:
            if key in self._views:
                self._views.move_to_end(key)
            return self._views.get(key)

    def put(self, text: str, view: View) -> View:
        key = _key(text)
        with self._lock:
            if key not in self._views:  # two may have asked for it at once
                self._views[key] = view
                self._used += _bytes(view)
            while self._used > self._memory:
                self._used -= _bytes(self._views.popitem(last=False)[1])
            return view


def _key(text: str) -> bytes:
    return sha256(text.encode()).digest()


def _bytes(view: View) -> int:
    return len(view.document.text) + sum(0 if table.P is None else table.P.nbytes for table in view.tables)


def length(source: Source) -> int:
    """Characters that are read."""
    return len(source) if isinstance(source, str) else len("\n".join(map(" ".join, source)))


def _size(source: Source) -> int:
    return max(LEAST, length(source))


def _json(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
