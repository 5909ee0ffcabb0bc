"""What there is to see of a document: what was found, gold if there is any, and the tables that it was found in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from unire.decoding import split
from unire.decoding.arrays import to_float, to_host
from unire.decoding.findings import Findings
from unire.documents import Document
from unire.extractor import Extractor
from unire.windows import Stretch

__all__ = ["SentenceTable", "View", "gold_views", "views"]

CHUNK = 16
"""Documents whose tables are in memory at a time."""


@dataclass(frozen=True)
class SentenceTable:
    """The table of a sentence, or of a part of a very long one."""

    place: Stretch
    P: NDArray[np.float32] | None = None
    """[n, n, |Y|]; `None` where there is gold annotation and no model."""
    distances: NDArray[np.float64] | None = None
    """[n - 1]: between each word and the next; `None` where the decoder does not look at them."""
    alpha: float | None = None
    """The distance above which the table was cut."""


@dataclass(frozen=True)
class View:
    """A document to look at."""

    document: Document
    """With what was found, or with gold annotation where there is nothing else."""
    gold: Document | None = None
    tables: tuple[SentenceTable, ...] = ()
    """In the order of the text."""


def views(extractor: Extractor, documents: Iterable[Document], *, notes: Counter[str] | None = None) -> Iterator[View]:
    """The documents, in order, as the extractor sees them. Annotation that they have is shown as gold.

    Finds what `Extractor.annotate` finds, and keeps the tables; a bounded number of documents is in memory at a time.
    """
    labels, settings = extractor.labels, extractor.settings
    stream = iter(documents)
    while chunk := list(islice(stream, CHUNK)):
        bare = [document.bare for document in chunk]
        findings = Findings(bare, labels)
        tables: list[list[SentenceTable]] = [[] for _ in chunk]
        for batch, P in extractor.tables(bare, notes=notes):
            findings.add(batch.tables, extractor.decode(batch, P))
            by_distance = settings.decoder == "split"
            distances = split.prepare(P, batch.lengths, labels).distances if by_distance else None
            for i, place in enumerate(batch.tables):
                n = len(place)
                tables[place.document].append(
                    SentenceTable(
                        place,
                        to_host(to_float(P[i, :n, :n])),
                        None if distances is None else distances[i, : n - 1],
                        settings.alpha if by_distance else None,
                    )
                )
        for document, found, seen in zip(chunk, findings.documents(), tables, strict=True):
            gold = document if document.entities else None
            yield View(found, gold, tuple(sorted(seen, key=lambda table: table.place.start)))


def gold_views(documents: Iterable[Document]) -> Iterator[View]:
    """Annotated documents with their gold tables."""
    for document in documents:
        places = (Stretch(0, i, sentence.start, sentence.end) for i, sentence in enumerate(document.sentences))
        yield View(document, document, tuple(SentenceTable(place) for place in places if len(place)))
