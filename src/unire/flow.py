"""From a stream of documents to batches that an engine is at work on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from unire.decoding.findings import Findings
from unire.documents import Document
from unire.engines import Engine, Started
from unire.labels import LabelSpace
from unire.prefetch import Ahead, Pulled, Source
from unire.windows import Batch

__all__ = ["Flow", "characters"]

CHUNK = 2**17
"""Characters of the documents that are batched together while a stream is read; more where the engine reads more pieces
at once than other engines do."""
SMALLEST = 2**7
"""Characters that a document counts for at least."""
BEGUN = 3
"""Batches that are begun before the first is waited for. The engine lives on them while the next chunk is laid out,
which takes a GPU's host longer than a batch takes the GPU."""


class Flow:
    """The batches of a stream of documents. While one is decoded, the engine has others to work on.

    All of it is done by the thread that asks, but for what the engine does: two threads that both compute in Python
    would wait for each other at every call of the engine's library.

    Args:
        engine: What computes tables.
        labels: For the findings.
        batches: Makes batches of some documents.
        documents: The stream.
    """

    def __init__(
        self,
        engine: Engine,
        labels: LabelSpace,
        batches: Callable[[Sequence[Document]], Iterable[Batch]],
        documents: Iterable[Document] | Source[Document],
    ) -> None:
        self._engine = engine
        self._labels = labels
        self._make = batches
        self._source = _source(documents)
        self._enough = CHUNK * max(1, engine.max_pieces // 2**16)
        self._batches: Iterator[tuple[Findings, Batch | None]] = iter(())
        self._begun: deque[tuple[Findings, Batch | None, Started]] = deque()
        self._ended = False
        self._error: Exception | None = None

    def __iter__(self) -> Iterator[tuple[Findings, Batch | None, Started]]:
        """Every batch of a chunk of documents with the findings that it belongs to, and `None` at the chunk's end."""
        while True:
            while sum(batch is not None for _, batch, _ in self._begun) < BEGUN and self._begin():
                pass
            if self._begun:
                yield self._begun.popleft()
            elif self._error is not None:
                raise self._error
            else:
                return

    def close(self) -> None:
        """Read no more, and have the engine leave what it has not done."""
        self._source.close()
        for _, _, started in self._begun:
            started.cancel()

    def _begin(self) -> bool:
        """Begin with the next batch or the end of a chunk, if there is one; it is waited for if nothing has begun."""
        while (item := next(self._batches, None)) is None:
            if not (chunk := self._chunk()):
                return False
            self._batches = self._batches_of(chunk)
        findings, batch = item
        started = Started(lambda: None) if batch is None else self._engine.start(batch)
        self._begun.append((findings, batch, started))
        return True

    def _chunk(self) -> list[Document]:
        try:
            chunk = None if self._ended else self._source.take(self._enough, wait=not self._begun)
        except Exception as error:  # for whoever asks, when all that was read before has been given
            chunk, self._error = None, error
        self._ended = chunk is None
        return chunk or []

    def _batches_of(self, chunk: Sequence[Document]) -> Iterator[tuple[Findings, Batch | None]]:
        findings = Findings(chunk, self._labels)
        for batch in self._make(chunk):
            yield findings, batch
        yield findings, None


def characters(document: Document) -> int:
    """What a document counts for in a chunk."""
    return max(SMALLEST, len(document.text))


def _source(documents: Iterable[Document] | Source[Document]) -> Source[Document]:
    if isinstance(documents, Iterable) and not isinstance(documents, Ahead):
        return Pulled(documents, characters, first=CHUNK // 32)
    return documents
