"""Jobs of the server, and the worker that computes them in batches. Results are JSON bytes, as they are sent."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import chain, islice
from threading import Lock
from time import perf_counter
from typing import Any

from unire.decoding.decoders import SPAN_DECODERS
from unire.documents import Document
from unire.extractor import Extractor, OnBatch
from unire.formats import native
from unire.graph.rows import TRIPLES, TSV
from unire.rendering import Palette
from unire.rendering.html.page import encode_view
from unire.rendering.views import View, decode_again, views
from unire.result_filter import ResultFilter
from unire.segmentation import segment

__all__ = ["CancelledError", "ExtractJob", "Job", "Source", "ViewJob", "Worker", "count_characters"]

TEXT_COST_TOKENS = 16
"""Each text has a constant cost, besides that of its tokens."""
DECODING_SHARE = 1 / 4
"""Cost of showing a text whose tables are known, by the cost of computing them."""
WORDS = re.compile(r"\w+|[^\w\s]")
"""Words, about as they are tokenized, found fast."""
WARM_UP_TEXT = "We train a chart parser on the Penn Treebank, and compare it with a tagger for disambiguation. "
WARM_UP_SECONDS = 0.1
"""Least time of the computation whose speed counts at the start."""

Source = str | Sequence[Sequence[str]]
"""A text, or the sentences of a document whose words are split."""


class Job(ABC):
    """A request, or a part of it."""

    @property
    @abstractmethod
    def sources(self) -> Sequence[Source]:
        """What there is to read."""

    @property
    @abstractmethod
    def tokens(self) -> int:
        """Cost of a job that was split off another one, in tokens."""

    @abstractmethod
    def split(self, max_tokens: int, count: Callable[[Source], int]) -> Sequence[Job]:
        """Split into jobs of at most `max_tokens`, of which `count` returns the number. A single text is not split."""

    @abstractmethod
    def join(self, results: Sequence[bytes]) -> bytes:
        """Build the body of the answer from the results of all parts."""


@dataclass(frozen=True)
class ExtractJob(Job):
    """Entities and relations of some texts or pre-tokenized documents."""

    inputs: Sequence[Source] = field(repr=False)
    keep: ResultFilter = field(default_factory=ResultFilter)
    tokens: int = 0

    @property
    def sources(self) -> Sequence[Source]:
        return self.inputs

    def split(self, max_tokens: int, count: Callable[[Source], int]) -> Sequence[Job]:
        parts: list[list[Source]] = []
        sizes: list[int] = []
        for source in self.sources:
            size = count(source)
            if not parts or sizes[-1] + size > max_tokens:
                parts.append([])
                sizes.append(0)
            parts[-1].append(source)
            sizes[-1] += size
        return [ExtractJob(part, self.keep, size) for part, size in zip(parts, sizes, strict=True)]

    def join(self, results: Sequence[bytes]) -> bytes:
        return b'{"documents":[' + b",".join(results) + b"]}"

    def documents(self) -> Iterator[Document]:
        return (segment(source) if isinstance(source, str) else Document.from_words(source) for source in self.sources)

    def to_json(self, documents: Sequence[Document]) -> bytes:
        """Encode annotated documents as `unire extract` does: those that came as words keep their words."""
        encoded = (
            document.to_dict() if isinstance(source, str) else next(native.to_json(document))
            for source, document in zip(self.sources, map(self.keep, documents), strict=True)
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
    tokens: int = 0

    @property
    def sources(self) -> Sequence[Source]:
        return [self.text]

    def split(self, max_tokens: int, count: Callable[[Source], int]) -> Sequence[Job]:
        return [replace(self, tokens=count(self.text))]

    def join(self, results: Sequence[bytes]) -> bytes:
        return results[0]


class CancelledError(Exception):
    """No caller waits for the result."""


class Worker:
    """Computes batches of jobs. Threads may share it.

    Keeps the tables of the latest viewed texts, so that they can be decoded again with another α.

    Args:
        extractor: The model.
        batch_tokens: Tokens of a batch of the engine. Small batches let small requests overtake a long text, and
            cancelled ones end soon.
        cache_bytes: Size of the tables to keep.
    """

    def __init__(self, extractor: Extractor, *, batch_tokens: int = 2**11, cache_bytes: int = 2**26) -> None:
        self.extractor = copy(extractor)
        self.extractor.max_batch_tokens = batch_tokens
        self.palette = Palette(extractor.labels)
        self._views = _ViewCache(cache_bytes)

    def split(self, job: Job) -> Sequence[Job]:
        """Split a job into parts for batches, with their costs in tokens."""
        known = isinstance(job, ViewJob) and self._views.get(job.text) is not None
        share = DECODING_SHARE if known else 1.0
        return job.split(
            self.extractor.max_batch_tokens or 1, lambda source: TEXT_COST_TOKENS + int(share * self._count(source))
        )

    def _count(self, source: Source) -> int:
        words = WORDS.findall(source) if isinstance(source, str) else list(chain.from_iterable(source))
        return len(self.extractor.window_builder.tokenize(words).ids)

    def measure_speed(self) -> float:
        """Compute growing texts until it takes long enough to tell the speed, which also warms up the engine.

        Returns:
            Tokens per second.
        """
        text, seconds = WARM_UP_TEXT, 0.0
        self([ExtractJob([text])])  # the first run can be far slower than all others
        while seconds < WARM_UP_SECONDS:
            text += text
            started = perf_counter()
            self([ExtractJob([text])])
            seconds = perf_counter() - started
        return (TEXT_COST_TOKENS + self._count(text)) / seconds

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


def _json(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
