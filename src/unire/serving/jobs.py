"""Jobs of the server, and the worker that computes them in batches. Results are JSON bytes, as they are sent."""

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
from unire.graph.export import TRIPLES, TSV
from unire.rendering.common import Palette
from unire.rendering.html.page import encode_view
from unire.rendering.views import View, decode_again, views
from unire.segmentation import segment

__all__ = ["CancelledError", "ExtractJob", "Job", "Source", "ViewJob", "Worker", "count_characters"]

MIN_TEXT_CHARACTERS = 64
"""A shorter text counts as this many characters, because each text has a cost of its own."""
CHARACTERS_PER_TOKEN = 4
"""As in English text."""

Source = str | Sequence[Sequence[str]]
"""A text, or the sentences of a document whose words are split."""


class Job(ABC):
    """What one request asks for, or a part of it."""

    @property
    @abstractmethod
    def sources(self) -> Sequence[Source]:
        """What there is to read."""

    @property
    def size(self) -> int:
        """Cost of the job, in characters."""
        return sum(map(_size, self.sources))

    @abstractmethod
    def split(self, max_size: int) -> Sequence[Job]:
        """Split into jobs of at most `max_size`. A single text is not split."""

    @abstractmethod
    def join(self, results: Sequence[bytes]) -> bytes:
        """Build the body of the answer from the results of all parts."""


@dataclass(frozen=True)
class ExtractJob(Job):
    """Entities and relations of some texts or pre-tokenized documents."""

    inputs: Sequence[Source] = field(repr=False)
    min_score: float = 0.0

    @property
    def sources(self) -> Sequence[Source]:
        return self.inputs

    def split(self, max_size: int) -> Sequence[Job]:
        parts: list[list[Source]] = []
        space = 0
        for source in self.sources:
            space -= _size(source)
            if space < 0 or not parts:
                parts.append([])
                space = max_size - _size(source)
            parts[-1].append(source)
        return [ExtractJob(sources, self.min_score) for sources in parts]

    def join(self, results: Sequence[bytes]) -> bytes:
        return b'{"documents":[' + b",".join(results) + b"]}"

    def documents(self) -> Iterator[Document]:
        return (segment(source) if isinstance(source, str) else Document.from_words(source) for source in self.sources)

    def to_json(self, documents: Sequence[Document]) -> bytes:
        """Encode annotated documents as `unire extract` does: those that came as words keep their words."""
        filtered = (document.confident(self.min_score) if self.min_score else document for document in documents)
        encoded = (
            document.to_dict() if isinstance(source, str) else next(native.to_json(document))
            for source, document in zip(self.sources, filtered, strict=True)
        )
        return b",".join(map(_json, encoded))


@dataclass(frozen=True)
class ViewJob(Job):
    """All that the page shows of a text."""

    text: str = field(repr=False)
    alpha: float | None = None
    """Threshold of the decoder. [default: the model's own]"""
    cells: frozenset[int] = frozenset()
    """Sentences whose probabilities are sent."""

    @property
    def sources(self) -> Sequence[Source]:
        return [self.text]

    def split(self, max_size: int) -> Sequence[Job]:
        return [self]

    def join(self, results: Sequence[bytes]) -> bytes:
        return results[0]


class CancelledError(Exception):
    """No caller waits for the result."""


class Worker:
    """Computes batches of jobs. Threads may share it.

    Keeps the tables of the latest viewed texts, so that they can be decoded again with another α.

    Args:
        extractor: The model.
        batch: Characters, about, of a batch of the engine. Small batches let small requests overtake a long text, and
            cancelled ones end soon.
        cache_bytes: Size of the tables to keep.
    """

    def __init__(self, extractor: Extractor, *, batch: int = 2**13, cache_bytes: int = 2**26) -> None:
        self.extractor = copy(extractor)
        self.extractor.max_batch_tokens = -(-batch // CHARACTERS_PER_TOKEN)
        self.palette = Palette(extractor.labels)
        self._views = _ViewCache(cache_bytes)

    def __call__(self, jobs: Sequence[Job], is_wanted: Callable[[], bool] = lambda: True) -> list[bytes]:
        """Compute jobs together; return the result of each, the same as if it were computed alone.

        Args:
            jobs: Not split any further.
            is_wanted: Whether a caller still waits.

        Raises:
            CancelledError: If no caller waits. Checked before the first batch and after each one.
        """

        def check_wanted(*_: object) -> None:
            if not is_wanted():
                raise CancelledError

        check_wanted()
        extractions = [job for job in jobs if isinstance(job, ExtractJob)]
        documents = (document for job in extractions for document in job.documents())
        annotated = iter(list(self.extractor.annotate(documents, on_batch=check_wanted)))
        results = {id(job): job.to_json(list(islice(annotated, len(job.sources)))) for job in extractions}
        view_jobs = [job for job in jobs if isinstance(job, ViewJob)]
        for job, view in zip(view_jobs, self._compute_views(view_jobs, check_wanted), strict=True):
            results[id(job)] = self._view_to_json(job, view)
        return [results[id(job)] for job in jobs]

    def _compute_views(self, jobs: Sequence[ViewJob], on_batch: OnBatch) -> list[View]:
        by_text = {job.text: self._views.get(job.text) for job in jobs}
        new_texts = [text for text, cached in by_text.items() if cached is None]
        new_views = views(self.extractor, map(segment, new_texts), max_words=None, on_batch=on_batch)
        for text, new_view in zip(new_texts, new_views, strict=True):
            by_text[text] = self._views.put(text, new_view)
        return [view for job in jobs if (view := by_text[job.text])]

    def _view_to_json(self, job: ViewJob, view: View) -> bytes:
        if job.alpha is not None and self.extractor.config.decoder in SPAN_DECODERS:
            view = decode_again(self.extractor, view, job.alpha)
        document = view.document
        return _json(
            {
                **encode_view(view, self.extractor.labels, self.palette, cells=job.cells),
                "document": document.to_dict(),
                "tsv": TRIPLES.head(TSV) + TRIPLES.lines(document, TSV),
            }
        )


class _ViewCache:
    """Least-recently-used cache of views by a hash of their text, bounded by the size of their tables."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._n_bytes = 0
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
            if key not in self._views:  # two threads may have computed it
                self._views[key] = view
                self._n_bytes += _count_bytes(view)
            while self._n_bytes > self._max_bytes:
                self._n_bytes -= _count_bytes(self._views.popitem(last=False)[1])
            return view


def _key(text: str) -> bytes:
    return sha256(text.encode()).digest()


def _count_bytes(view: View) -> int:
    return len(view.document.text) + sum(0 if table.P is None else table.P.nbytes for table in view.tables)


def count_characters(source: Source) -> int:
    """Characters of a text, or of words joined by spaces."""
    return len(source) if isinstance(source, str) else len("\n".join(map(" ".join, source)))


def _size(source: Source) -> int:
    return max(MIN_TEXT_CHARACTERS, count_characters(source))


def _json(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
