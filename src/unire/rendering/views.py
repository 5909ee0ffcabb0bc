"""What there is to see of a document: what was found, gold if there is any, and the tables that it was found in."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unire.decoding import decoders
from unire.decoding.assemble import DocumentAssembler
from unire.decoding.backend import to_float, to_host
from unire.decoding.decoders import SPAN_DECODERS
from unire.documents import Document
from unire.extractor import Extractor, OnBatch
from unire.windows.collator import Batch
from unire.windows.spans import TableSpan

__all__ = ["SentenceTable", "View", "decoded_at", "gold_views", "views"]


MAX_WORDS = 2**13
"""Words of a document whose tables are kept, unless told otherwise.

Those of a text without full stops are huge, and nobody reads them."""


@dataclass(frozen=True)
class SentenceTable:
    """The table of a sentence, or of a part of a very long one."""

    place: TableSpan
    P: NDArray[np.float32] | None = None
    """[n, n, |Y|]; `None` where there is gold annotation and no model."""
    distances: NDArray[np.float64] | None = None
    """[n - 1]: between each word and the next; `None` where the decoder does not cut tables."""
    alpha: float | None = None
    """The distance above which the table was cut; `None` where it was cut by something else."""


@dataclass(frozen=True)
class View:
    """A document to look at."""

    document: Document
    """With what was found, or with gold annotation where there is nothing else."""
    gold: Document | None = None
    tables: tuple[SentenceTable, ...] = ()
    """In the order of the text."""


def views(
    extractor: Extractor,
    documents: Iterable[Document],
    *,
    notes: Counter[str] | None = None,
    max_words: int | None = MAX_WORDS,
    on_batch: OnBatch | None = None,
) -> Iterator[View]:
    """Annotate documents as `Extractor.annotate` does; yield them with their tables and, as gold, their annotation.

    Args:
        extractor: Finds and decodes.
        documents: May be a stream; a bounded number of them is in memory at a time.
        notes: Counts what needed special care, and tables that were left out.
        max_words: Tables that end after this word of a document are left out; none if `None`.
        on_batch: Called after each batch.
    """
    inputs: deque[Document] = deque()
    tables: dict[int, list[SentenceTable]] = defaultdict(list)

    def read() -> Iterator[Document]:
        for document in documents:
            inputs.append(document)
            yield document

    def keep_tables(batch: Batch, P: Any) -> None:
        for table in _tables(extractor, batch, P):
            if max_words is None or table.place.end <= max_words:
                tables[table.place.document].append(table)
            elif notes is not None:
                notes[f"table that is not shown, past word {max_words:,} of its document"] += 1
        if on_batch is not None:
            on_batch(batch, P)

    for index, document in enumerate(extractor.annotate(read(), notes=notes, on_batch=keep_tables)):
        gold = inputs.popleft()
        in_order = sorted(tables.pop(index, []), key=lambda table: table.place.start)
        yield View(document, gold if gold.entities else None, tuple(in_order))


def _tables(extractor: Extractor, batch: Batch, P: Any) -> Iterator[SentenceTable]:
    decoder = extractor.config.decoder
    distances = (
        decoders.BoundaryDecoder(P, batch.lengths, extractor.labels).distances if decoder in SPAN_DECODERS else None
    )
    for i, place in enumerate(batch.tables):
        n = len(place)
        yield SentenceTable(
            place,
            to_host(to_float(P[i, :n, :n])),
            None if distances is None else distances[i, : n - 1],
            extractor.config.alpha if decoder == "split" else None,
        )


def decoded_at(extractor: Extractor, view: View, alpha: float) -> View:
    """The same tables, decoded again with another α."""
    other = extractor.with_alpha(alpha)
    findings = DocumentAssembler([view.document], extractor.labels)
    tables = []
    for table in view.tables:
        if table.P is not None:
            decoded = other.decode(table.P[None], [len(table.place)])
            findings.add([replace(table.place, document=0)], decoded)
        tables.append(replace(table, alpha=None if table.alpha is None else alpha))
    return View(findings.documents()[0], view.gold, tuple(tables))


def gold_views(documents: Iterable[Document]) -> Iterator[View]:
    """Annotated documents with their gold tables."""
    for document in documents:
        places = (TableSpan(0, i, sentence.start, sentence.end) for i, sentence in enumerate(document.sentences))
        yield View(document, document, tuple(SentenceTable(place) for place in places if len(place)))
