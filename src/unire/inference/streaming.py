"""From a stream of documents to batches that an engine is at work on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from unire.decoding.assemble import DocumentAssembler
from unire.documents import Document
from unire.inference.engine import Engine, PendingTables
from unire.labels import LabelSpace
from unire.prefetch import Chunker, ChunkSource, Prefetcher
from unire.windows.collator import Batch

__all__ = ["InferencePipeline", "count_characters"]

CHUNK_CHARACTERS = 2**17
"""Characters of the documents that are batched together while a stream is read; more where the engine reads more tokens
at once than other engines do."""
MIN_DOCUMENT_CHARACTERS = 2**7
"""Characters that a document counts for at least."""
BATCHES_IN_FLIGHT = 3
"""Batches that are begun before the first is waited for. The engine lives on them while the next chunk is laid out,
which takes a GPU's host longer than a batch takes the GPU."""


class InferencePipeline:
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
        documents: Iterable[Document] | ChunkSource[Document],
    ) -> None:
        self._engine = engine
        self._labels = labels
        self._make = batches
        self._source = _source(documents)
        self._enough = CHUNK_CHARACTERS * max(1, engine.max_tokens // 2**16)
        self._batches: Iterator[tuple[DocumentAssembler, Batch | None]] = iter(())
        self._begun: deque[tuple[DocumentAssembler, Batch | None, PendingTables]] = deque()
        self._ended = False
        self._error: Exception | None = None

    def __iter__(self) -> Iterator[tuple[DocumentAssembler, Batch | None, PendingTables]]:
        """Every batch of a chunk of documents with the findings that it belongs to, and `None` at the chunk's end."""
        while True:
            while sum(batch is not None for _, batch, _ in self._begun) < BATCHES_IN_FLIGHT and self._begin():
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
        started = PendingTables(lambda: None) if batch is None else self._engine.start(batch)
        self._begun.append((findings, batch, started))
        return True

    def _chunk(self) -> list[Document]:
        try:
            chunk = None if self._ended else self._source.take(self._enough, wait=not self._begun)
        except Exception as error:  # for whoever asks, when all that was read before has been given
            chunk, self._error = None, error
        self._ended = chunk is None
        return chunk or []

    def _batches_of(self, chunk: Sequence[Document]) -> Iterator[tuple[DocumentAssembler, Batch | None]]:
        findings = DocumentAssembler(chunk, self._labels)
        for batch in self._make(chunk):
            yield findings, batch
        yield findings, None


def count_characters(document: Document) -> int:
    """What a document counts for in a chunk."""
    return max(MIN_DOCUMENT_CHARACTERS, len(document.text))


def _source(documents: Iterable[Document] | ChunkSource[Document]) -> ChunkSource[Document]:
    if isinstance(documents, Iterable) and not isinstance(documents, Prefetcher):
        return Chunker(documents, count_characters, first=CHUNK_CHARACTERS // 32)
    return documents
