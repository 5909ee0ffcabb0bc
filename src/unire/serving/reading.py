"""What callers order, and a batch of orders read by one model. Answers are JSON, as it is sent."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from threading import Lock
from typing import Any

from unire.documents import Document
from unire.extractor import Extractor
from unire.formats import native
from unire.graph import triples
from unire.rendering.html import live
from unire.rendering.palette import Palette
from unire.rendering.views import View, decoded_at, views
from unire.segment import segment

__all__ = ["Extraction", "Look", "Order", "Reader"]

LEAST = 64
"""Characters that a text counts for at least: a short one takes its time too."""


class Order(ABC):
    """What one caller asks for."""

    @property
    @abstractmethod
    def texts(self) -> int:
        """How many there are to read."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How much there is to read, in characters."""


@dataclass(frozen=True)
class Extraction(Order):
    """Entities and relations of some texts, or of the sentences of one document, which are words already."""

    sources: Sequence[str | Sequence[Sequence[str]]] = field(repr=False)
    min_score: float = 0.0

    @property
    def texts(self) -> int:
        return len(self.sources)

    @property
    def size(self) -> int:
        return sum(map(_size, self.sources))

    def documents(self) -> Iterator[Document]:
        return (segment(source) if isinstance(source, str) else Document.from_words(source) for source in self.sources)

    def answer(self, found: Sequence[Document]) -> bytes:
        """As `unire extract` writes it: documents that came as words keep them."""
        kept = (document.confident(self.min_score) if self.min_score else document for document in found)
        forms = (
            document.to_dict() if isinstance(source, str) else next(native.to_json(document))
            for source, document in zip(self.sources, kept, strict=True)
        )
        return _json({"documents": list(forms)})


@dataclass(frozen=True)
class Look(Order):
    """All that a page shows of a text."""

    text: str = field(repr=False)
    alpha: float | None = None
    """The distance above which tables are cut; the model's own where there is none."""
    cells: frozenset[int] = frozenset()
    """Sentences whose probabilities are asked for."""

    texts = 1

    @property
    def size(self) -> int:
        return _size(self.text)


class Reader:
    """Reads batches of orders; threads may share it.

    The tables of the texts that were looked at last are kept, to be decoded again.

    Args:
        extractor: Reads and decodes.
        memory: Bytes of tables to keep.
    """

    def __init__(self, extractor: Extractor, *, memory: int = 2**26) -> None:
        self.extractor = extractor
        self.palette = Palette(extractor.labels)
        self._kept = _Kept(memory)

    def __call__(self, orders: Sequence[Order]) -> list[bytes]:
        """An answer for each order, the same as if it had come alone."""
        extractions = [order for order in orders if isinstance(order, Extraction)]
        found = iter(list(self.extractor.annotate(each for order in extractions for each in order.documents())))
        answers = {id(order): order.answer(list(islice(found, order.texts))) for order in extractions}
        looks = [order for order in orders if isinstance(order, Look)]
        for look, view in zip(looks, self._views(looks), strict=True):
            answers[id(look)] = self._shown(look, view)
        return [answers[id(order)] for order in orders]

    def _views(self, looks: Sequence[Look]) -> list[View]:
        kept = {look.text: self._kept.get(look.text) for look in looks}
        new = [text for text, view in kept.items() if view is None]
        for text, seen in zip(new, views(self.extractor, map(segment, new), max_words=None), strict=True):
            kept[text] = self._kept.put(text, seen)
        return [view for look in looks if (view := kept[look.text])]

    def _shown(self, look: Look, view: View) -> bytes:
        if look.alpha is not None and self.extractor.settings.decoder == "split":
            view = decoded_at(self.extractor, view, look.alpha)
        document = view.document
        return _json(
            {
                **live.of_view(view, self.extractor.labels, self.palette, cells=look.cells),
                "document": document.to_dict(),
                "tsv": triples.head(triples.TSV) + triples.lines(document, triples.TSV),
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


def _size(source: str | Sequence[Sequence[str]]) -> int:
    if isinstance(source, str):
        return max(LEAST, len(source))
    return max(LEAST, sum(len(word) + 1 for sentence in source for word in sentence))


def _json(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
