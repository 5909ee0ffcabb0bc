"""Views: a document with its predictions, its gold annotation if there is any, and the tables of its sentences."""

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
from unire.documents import Document, restrict_clusters
from unire.extractor import Extractor, OnBatch
from unire.tables import TableSpan
from unire.windows.collator import Batch

__all__ = ["SentenceTable", "View", "decode_again", "gold_views", "views"]


MAX_TABLE_WORDS = 2**13
"""Tables beyond this word of a document are dropped by default: without full stops they become huge."""


@dataclass(frozen=True)
class SentenceTable:
    """The table of a sentence, or of a part of a very long one."""

    place: TableSpan
    P: NDArray[np.float32] | None = None
    """[n, n, |Y|]; `None` for gold annotation without a model."""
    distances: NDArray[np.float64] | None = None
    """[n - 1]: between each word and the next; `None` if the decoder does not split tables."""
    alpha: float | None = None
    """The distance above which the decoder split the table; `None` for other decoders."""


@dataclass(frozen=True)
class View:
    """A document to render."""

    document: Document
    """With the predictions, or with gold annotation if there are none."""
    gold: Document | None = None
    """With its gold annotation, if there are predictions too."""
    tables: tuple[SentenceTable, ...] = ()
    """The tables of its sentences, in text order."""


def views(
    extractor: Extractor,
    documents: Iterable[Document],
    *,
    notes: Counter[str] | None = None,
    max_words: int | None = MAX_TABLE_WORDS,
    on_batch: OnBatch | None = None,
) -> Iterator[View]:
    """Annotate documents as `Extractor.annotate` does, and keep their tables. Their own annotation becomes gold.

    >>> html.write(views(extractor, documents), "page.html", extractor.labels)  # doctest: +SKIP

    Args:
        extractor: The model.
        documents: The documents. Of a stream, a bounded number is in memory at a time.
        notes: Counts special cases, and tables that were dropped.
        max_words: Drop tables that end after this word of a document. `None` keeps all.
        on_batch: Called after each batch.

    Yields:
        A view for each document, in order.
    """
    inputs: deque[Document] = deque()
    tables: dict[int, list[SentenceTable]] = defaultdict(list)

    def read() -> Iterator[Document]:
        for document in documents:
            inputs.append(document)
            yield document

    def keep_tables(batch: Batch, P: Any) -> None:
        for table in _sentence_tables(extractor, batch, P):
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


def _sentence_tables(extractor: Extractor, batch: Batch, P: Any) -> Iterator[SentenceTable]:
    decoder = extractor.config.decoder
    distances = (
        decoders.BoundaryDecoder(P, batch.lengths, extractor.labels).distances if decoder in SPAN_DECODERS else None
    )
    for i, place in enumerate(batch.table_spans):
        n = len(place)
        yield SentenceTable(
            place,
            to_host(to_float(P[i, :n, :n])),
            None if distances is None else distances[i, : n - 1],
            extractor.config.alpha if decoder == "split" else None,
        )


def decode_again(extractor: Extractor, view: View, alpha: float) -> View:
    """Decode the same tables again with another α. Clusters keep the mentions that are still found."""
    other = extractor.with_alpha(alpha)
    assembler = DocumentAssembler([view.document], extractor.labels)
    tables = []
    for table in view.tables:
        if table.P is not None:
            decoded = other.decode(table.P[None], [len(table.place)])
            assembler.add([replace(table.place, document=0)], decoded)
        tables.append(replace(table, alpha=None if table.alpha is None else alpha))
    document = assembler.documents()[0]
    clusters = restrict_clusters(view.document.clusters, {entity.span for entity in document.entities})
    return View(replace(document, clusters=clusters), view.gold, tuple(tables))


def gold_views(documents: Iterable[Document]) -> Iterator[View]:
    """Yield annotated documents with their gold tables, without a model.

    >>> html.write(gold_views(documents), "page.html", labels)  # doctest: +SKIP
    """
    for document in documents:
        places = (TableSpan(0, i, sentence.start, sentence.end) for i, sentence in enumerate(document.sentences))
        yield View(document, document, tuple(SentenceTable(place) for place in places if len(place)))
