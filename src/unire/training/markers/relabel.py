"""Relabel stored soft labels with marker models.

    relabel("abstracts.soft", ["markers/1", "markers/2"], "relabelled.soft")

Entities stay as the teachers predict them: their mean tables are decoded. Every rectangle of two entities of a sentence
is then filled with a weighted mean of the marker models' and the teachers' distributions. All other cells are copied.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from unire.decoding.assemble import DocumentAssembler
from unire.decoding.decoders import decode
from unire.decoding.kernels import Decoded
from unire.documents import Document
from unire.errors import UnireError
from unire.inference.streaming import Prefetcher
from unire.labels import LabelSpace
from unire.output_files import check_output_folder, locks_output
from unire.tables import TableSpan
from unire.training.callbacks import Callback, CallbackList, Interrupt
from unire.training.distillation.soft_labels import (
    RELATIONS_BY,
    SCALE,
    SoftLabelStore,
    locate_cells,
    normalize_cells,
    write_soft_labels,
)
from unire.training.distillation.teachers import align_labels
from unire.training.distributed import require_single_process
from unire.training.markers.classifier import PairScores, RelationClassifier, TrainedMarker, load_marker
from unire.training.markers.model import MarkerEnsemble
from unire.utils import concat_ranges, copy_to_device
from unire.windows.collator import bucket_items

__all__ = ["RelabelCounts", "relabel"]

MARKER_WEIGHT = 0.75
"""Default weight of the marker models against the teachers."""
MAX_DECODED_CELLS = 2**20
"""Padded cells that are decoded in one batch."""
SPLIT = "sentence of several tables, kept unchanged"
TOO_LONG = "sentence longer than the input of a marker model, kept unchanged"


@dataclass(frozen=True)
class RelabelCounts:
    """What `relabel` wrote."""

    documents: int
    """Documents."""
    tables: int
    """Tables of all sentences."""
    sentences: int
    """Sentences with entity pairs, all of which were relabelled."""
    pairs: int
    """Entity pairs in these sentences."""
    bytes: int
    """Size of the tables alone."""
    seconds: float
    """Time of the whole run."""
    notes: Mapping[str, int]
    """Counts of sentences that were not relabelled, by reason."""


@locks_output
def relabel(
    soft_labels: str | Path,
    markers: Sequence[str | Path | TrainedMarker],
    out: str | Path,
    *,
    share: float = MARKER_WEIGHT,
    device: str | None = None,
    callbacks: Sequence[Callback] = (),
) -> RelabelCounts:
    """Write soft labels whose relations come from marker models. After an error or Ctrl-C there is no output.

    >>> relabel("abstracts.soft", ["markers/1", "markers/2"], "relabelled.soft")  # doctest: +SKIP

    Args:
        soft_labels: A folder that `teach` or `relabel` wrote.
        markers: Marker models, or their folders. They have the labels of the soft labels, in any order, and are on one
            device.
        out: A new folder.
        share: Weight of the marker models when averaging with the teachers' relation probabilities, from 0 to 1.
        device: `cpu` or `cuda`, for marker models that are given as folders. [default: a GPU if there is one]
        callbacks: Their `on_documents_labelled` is called in the course of the run.

    Returns:
        How many documents, sentences and entity pairs were relabelled, and notes on sentences that were not.

    Raises:
        UnireError: `out` exists, or the labels of a marker model differ from those of the soft labels.
    """
    require_single_process("relabelling")
    start = time.monotonic()
    out = Path(out)
    check_output_folder(out)
    if not markers:
        raise UnireError("pass at least one marker model; `unire markers` trains them")
    if not 0 < share <= 1:
        raise UnireError(f"share must be above 0 and at most 1, not {share:g}")
    store = SoftLabelStore(soft_labels)
    models = [each if isinstance(each, TrainedMarker) else load_marker(each, device) for each in markers]
    relabeller = _Relabeller.of(store, models, share)
    n_sentences = n_pairs = 0
    notes: Counter[str] = Counter()
    callback = CallbackList(callbacks)
    with Interrupt() as interrupt, interrupt.immediate(), write_soft_labels(out) as writer:
        with closing(relabeller.relabel(store)) as chunks:
            for chunk in chunks:
                writer.add(chunk.documents, chunk.tables, chunk.cells)
                n_sentences, n_pairs = n_sentences + chunk.n_sentences, n_pairs + chunk.n_pairs
                notes.update(chunk.notes)
                callback.on_documents_labelled(writer.n_documents, len(store.texts))
        before = [_scale_share(info, 1 - share) for info in store.info.get(RELATIONS_BY, ())]
        now = [{**marker.info, "share": round(share / len(models), 4)} for marker in models]
        all_notes = Counter(store.info.get("notes", {})) + notes
        writer.finish(store.all_examples(), {**store.info, RELATIONS_BY: [*before, *now], "notes": all_notes})
    seconds = round(time.monotonic() - start, 1)
    counts = writer.n_documents, writer.n_tables, n_sentences, n_pairs, writer.n_bytes
    return RelabelCounts(*counts, seconds, dict(+notes))


def _scale_share(info: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Reduce the share of earlier marker models. Older files do not have it."""
    return {**info, "share": round(info["share"] * factor, 4)} if "share" in info else dict(info)


class _DecodedChunk(NamedTuple):
    """Documents with the entities of their tables, and the tables."""

    documents: list[Document]
    tables: list[TableSpan]
    cells: NDArray[np.uint8]
    table_of: dict[tuple[int, int], int]
    """By document and sentence, the table that holds all of the sentence."""
    n_split: int
    """Sentences that have several tables."""


class _RelabelledChunk(NamedTuple):
    """Documents with relabelled tables."""

    documents: list[Document]
    tables: list[TableSpan]
    cells: NDArray[np.uint8]
    n_sentences: int
    n_pairs: int
    notes: Mapping[str, int]


@dataclass(frozen=True)
class _Relabeller:
    """Marker models that relabel the relations of soft labels. Models that share batches form one ensemble."""

    classifiers: list[RelationClassifier]
    weights: list[float]
    """The fraction of all models that each classifier holds."""
    classes: list[list[int]]
    """For each classifier, its class of none and of every relation type of the soft labels."""
    labels: LabelSpace
    decoder: str
    alpha: float
    share: float
    """Weight of all marker models against the teachers."""
    device: torch.device

    @classmethod
    def of(cls, store: SoftLabelStore, markers: Sequence[TrainedMarker], share: float) -> _Relabeller:
        groups: dict[tuple[object, ...], list[RelationClassifier]] = {}
        classes: dict[tuple[object, ...], list[int]] = {}
        for marker in markers:
            key, labels = marker.classifier.batch_key, marker.classifier.labels
            order = align_labels(store.labels, labels, f"marker model {marker.info['name']!r}", "soft labels")
            first = labels.relation_ids.start
            classes[key] = [0, *(label - first + 1 for label in order[store.labels.relation_ids])]
            groups.setdefault(key, []).append(marker.classifier)
        classifiers = [
            replace(group[0], model=MarkerEnsemble([one.model for one in group])) for group in groups.values()
        ]
        weights = [len(group) / len(markers) for group in groups.values()]
        device = markers[0].classifier.model.device
        return cls(
            classifiers, weights, list(classes.values()), store.labels, store.decoder, store.alpha, share, device
        )

    def relabel(self, store: SoftLabelStore) -> Generator[_RelabelledChunk]:
        """Relabel all chunks. A thread reads and decodes the next chunk while the marker models run."""
        decoded = Prefetcher(self._decode(store), max_size=1)
        try:
            for chunk in decoded:
                yield self._relabel(chunk)
        finally:
            decoded.close(wait=True)  # the thread may have started work on a GPU

    @torch.inference_mode()
    def _decode(self, store: SoftLabelStore) -> Iterator[_DecodedChunk]:
        # decoding is short, so a stream of high priority lets it overtake the marker models
        on_gpu = self.device.type == "cuda"
        stream = torch.cuda.Stream(self.device, priority=-1) if on_gpu else None  # type: ignore[no-untyped-call]
        for documents, tables, stored in store.chunks():
            table_of, split = {}, set()
            for place, table in enumerate(tables):
                sentence = table.document, table.sentence
                if len(table) == len(documents[table.document].sentences[table.sentence]):
                    table_of[sentence] = place
                else:
                    split.add(sentence)
            cells = stored.copy()
            with torch.cuda.stream(stream):
                annotated = self._decode_entities(documents, tables, cells, list(table_of.values()))
            yield _DecodedChunk(annotated, tables, cells, table_of, len(split))

    def _decode_entities(
        self, documents: list[Document], tables: Sequence[TableSpan], cells: NDArray[np.uint8], chosen: Sequence[int]
    ) -> list[Document]:
        """The documents with the entities that the teachers' decoder finds in the chosen tables."""
        assembler = DocumentAssembler(documents, self.labels)
        lengths = np.array([len(table) for table in tables], np.int64)
        firsts = (lengths**2).cumsum() - lengths**2
        stored = copy_to_device(cells, self.device)
        for batch in bucket_items(chosen, lambda place: len(tables[place]) ** 2, MAX_DECODED_CELLS):
            T, N = len(batch), len(tables[batch[0]])
            places, sources = locate_cells(np.arange(T), firsts[batch], lengths[batch], N, self.device)
            P = torch.zeros(T * N * N, len(self.labels), device=self.device)
            P[places] = normalize_cells(stored.index_select(0, sources))
            decoded = decode(P.view(T, N, N, -1), lengths[batch], self.labels, decoder=self.decoder, alpha=self.alpha)
            assembler.add([tables[place] for place in batch], _without_relations(decoded))
        return assembler.documents()

    def _relabel(self, chunk: _DecodedChunk) -> _RelabelledChunk:
        """Average the marker models and write the result into the rectangles, where all models could score a pair."""
        scores = [
            {(one.span.document, one.span.sentence): one for one in classifier.score_pairs(chunk.documents)}
            for classifier in self.classifiers
        ]
        sentences = [sentence for sentence in scores[0] if all(sentence in others for others in scores)]
        n_all = sum(len(sentence.entities) > 1 for document in chunk.documents for sentence in document.sentences)
        n_pairs = 0
        if sentences:
            probabilities = np.average(
                [
                    np.concatenate([by_sentence[sentence].probabilities for sentence in sentences])[:, classes]
                    for by_sentence, classes in zip(scores, self.classes, strict=True)
                ],
                axis=0,
                weights=self.weights,
            )
            n_pairs = len(probabilities)
            pairs = np.zeros((n_pairs, len(self.labels)), np.float32)
            pairs[:, 0], pairs[:, self.labels.relation_ids] = probabilities[:, 0], probabilities[:, 1:]
            where, areas = _rectangle_cells([scores[0][sentence] for sentence in sentences], chunk)
            by_markers = np.repeat(self.share * SCALE * pairs, areas, axis=0)
            chunk.cells[where] = np.rint(by_markers + (1 - self.share) * chunk.cells[where])
        notes = {SPLIT: chunk.n_split, TOO_LONG: n_all - len(sentences)}
        return _RelabelledChunk(chunk.documents, chunk.tables, chunk.cells, len(sentences), n_pairs, notes)


def _rectangle_cells(scores: Sequence[PairScores], chunk: _DecodedChunk) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The indices of the cells of all pairs' rectangles, one rectangle after the other, and the size of each."""
    lengths = np.array([len(table) for table in chunk.tables], np.int64)
    table = np.array([chunk.table_of[one.span.document, one.span.sentence] for one in scores])
    n_pairs = np.array([len(one.pairs) for one in scores])
    n_entities = np.array([len(one.entities) for one in scores])
    starts = np.repeat([one.span.start for one in scores], n_entities)
    spans = np.array([entity.span for one in scores for entity in one.entities]) - starts[:, None]  # in their tables
    numbers = np.concatenate([one.pairs for one in scores])
    head, tail = spans[numbers + np.repeat(n_entities.cumsum() - n_entities, n_pairs)[:, None]].swapaxes(0, 1)
    n = np.repeat(lengths[table], n_pairs)
    first = np.repeat(((lengths**2).cumsum() - lengths**2)[table], n_pairs) + head[:, 0] * n + tail[:, 0]
    height, width = head[:, 1] - head[:, 0], tail[:, 1] - tail[:, 0]
    pair = np.repeat(np.arange(len(first)), height)  # of every row of a rectangle
    row = np.arange(len(pair)) - (height.cumsum() - height)[pair]
    return concat_ranges(first[pair] + row * n[pair], width[pair]), height * width


def _without_relations(decoded: Decoded) -> Decoded:
    return replace(decoded, relations=decoded.relations[:0], relation_scores=decoded.relation_scores[:0])
