"""Lessons in which marker models have named the relations.

    relabel("near.lessons", ["markers/1", "markers/2"], "marked.lessons")

Entities stay as the joint teachers have them: their mean tables are decoded, and every rectangle of two entities of a
sentence is filled with what marker models say of the pair, on average, or with a mean of that and of what the teachers
say. All other cells are copied.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
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
from unire.files import check_output_folder
from unire.labels import LabelSpace
from unire.prefetch import Prefetcher
from unire.training.callbacks import Interrupt
from unire.training.distillation.soft_labels import RELATIONS_BY, WHOLE, SoftLabelStore, distributions, padded, writing
from unire.training.distillation.teachers import same_labels
from unire.training.distributed import require_single_process
from unire.training.markers.checkpoint import TrainedMarker, load_marker
from unire.training.markers.inference import in_parts
from unire.training.markers.model import MarkerEnsemble
from unire.training.markers.relations import PairScores, RelationClassifier
from unire.utils import concat_ranges, copy_to_device
from unire.windows.spans import TableSpan

__all__ = ["Relabelled", "relabel"]

CELLS = 2**20
"""Padded cells that are decoded at once."""
PARTED = "sentence of several tables, whose relations are left as they were"
UNREAD = "sentence longer than the encoder of a marker model, whose relations are left as they were"


@dataclass(frozen=True)
class Relabelled:
    """What was written."""

    documents: int
    tables: int
    sentences: int
    """Those with pairs of entities, which were all named anew."""
    pairs: int
    bytes: int
    """Of the tables alone."""
    seconds: float
    notes: Mapping[str, int]
    """What was left as it was, and why."""


def relabel(
    lessons: str | Path,
    markers: Sequence[str | Path | TrainedMarker],
    out: str | Path,
    *,
    share: float = 0.75,
    device: str | None = None,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> Relabelled:
    """Write lessons anew; nothing is left of them where that fails, or Ctrl-C or SIGTERM ends it.

    Args:
        lessons: A folder that `unire teach` has made.
        markers: Marker models of the lessons' labels, in any order of these, or their folders; all on one device.
        out: A new folder.
        share: What marker models count between entities; the teachers count the rest.
        device: That of marker models which are given by their folders: `cpu` or `cuda`; a GPU when there is one.
        on_progress: Told how many documents are done, of how many.
    """
    require_single_process("relabelling")
    began = time.monotonic()
    out = Path(out)
    check_output_folder(out)
    if not markers:
        raise UnireError("there is no marker model; give one or more that `unire markers` has trained")
    if not 0 < share <= 1:
        raise UnireError(f"marker models cannot count {share:g}; give a share above 0 and of 1 at most")
    given = SoftLabelStore(lessons)
    models = [each if isinstance(each, TrainedMarker) else load_marker(each, device) for each in markers]
    namer = _Namer.of(given, models, share)
    n_sentences = n_pairs = 0
    notes: Counter[str] = Counter()
    with Interrupt() as interrupt, interrupt.immediate(), writing(out) as writer:
        with closing(namer.named(given)) as parts:
            for part in parts:
                writer.add(part.documents, part.tables, part.cells)
                n_sentences, n_pairs = n_sentences + part.n_sentences, n_pairs + part.n_pairs
                notes.update(part.notes)
                on_progress(writer.n_documents, len(given.texts))
        before = [_sharing(about, 1 - share) for about in given.about.get(RELATIONS_BY, ())]
        now = [{**marker.about, "share": round(share / len(models), 4)} for marker in models]
        noted = Counter(given.about.get("notes", {})) + notes
        writer.finish(given.all_examples(), {**given.about, RELATIONS_BY: [*before, *now], "notes": noted})
    seconds = round(time.monotonic() - began, 1)
    return Relabelled(writer.n_documents, writer.n_tables, n_sentences, n_pairs, writer.n_bytes, seconds, dict(+notes))


def _sharing(about: Mapping[str, Any], rest: float) -> dict[str, Any]:
    """Who has named relations before: of what that counted, the rest is left. Older lessons do not say what it was."""
    return {**about, "share": round(about["share"] * rest, 4)} if "share" in about else dict(about)


class _Decoded(NamedTuple):
    """Some documents with the entities of their tables, and the tables."""

    documents: list[Document]
    tables: list[TableSpan]
    cells: NDArray[np.uint8]
    whole: dict[tuple[int, int], int]
    """By document and sentence, which table holds all of it."""
    n_parted: int
    """Sentences of which none does."""


class _Named(NamedTuple):
    """Some documents with tables whose relations were named anew."""

    documents: list[Document]
    tables: list[TableSpan]
    cells: NDArray[np.uint8]
    n_sentences: int
    n_pairs: int
    notes: Mapping[str, int]


@dataclass(frozen=True)
class _Namer:
    """Marker models that name the relations of lessons; those that read the same batches are asked as one."""

    finders: list[RelationClassifier]
    shares: list[float]
    """What each counts: how many of the models it is, of all."""
    classes: list[list[int]]
    """For each of them its class of none, and of every relation type of the lessons."""
    labels: LabelSpace
    decoder: str
    alpha: float
    share: float
    """What all of them count, beside the teachers."""
    device: torch.device

    @classmethod
    def of(cls, lessons: SoftLabelStore, markers: Sequence[TrainedMarker], share: float) -> _Namer:
        alike: dict[tuple[object, ...], list[RelationClassifier]] = {}
        classes: dict[tuple[object, ...], list[int]] = {}
        for marker in markers:
            way, labels = marker.finder.way, marker.finder.labels
            order = same_labels(lessons.labels, labels, f"marker model {marker.about['name']!r}", "lessons")
            first = labels.relation_ids.start
            classes[way] = [0, *(label - first + 1 for label in order[lessons.labels.relation_ids])]
            alike.setdefault(way, []).append(marker.finder)
        finders = [replace(some[0], model=MarkerEnsemble([one.model for one in some])) for some in alike.values()]
        shares = [len(some) / len(markers) for some in alike.values()]
        device = markers[0].finder.model.device
        return cls(
            finders, shares, list(classes.values()), lessons.labels, lessons.decoder, lessons.alpha, share, device
        )

    def named(self, lessons: SoftLabelStore) -> Generator[_Named]:
        """The parts of lessons; while marker models are asked about one, the next is read and decoded."""
        decoded = Prefetcher(self._decoded(lessons), room=1)
        try:
            for part in decoded:
                yield self._named(part)
        finally:
            decoded.close(wait=True)  # for it may have given a GPU something to do

    @torch.inference_mode()
    def _decoded(self, lessons: SoftLabelStore) -> Iterator[_Decoded]:
        # what is short, and waited for, does not queue behind the marker models
        on_gpu = self.device.type == "cuda"
        stream = torch.cuda.Stream(self.device, priority=-1) if on_gpu else None  # type: ignore[no-untyped-call]
        for documents, tables, cells in lessons.parts():
            whole, parted = {}, set()
            for place, table in enumerate(tables):
                sentence = table.document, table.sentence
                if len(table) == len(documents[table.document].sentences[table.sentence]):
                    whole[sentence] = place
                else:
                    parted.add(sentence)
            own = cells.copy()
            with torch.cuda.stream(stream):
                found = self._entities(documents, tables, own, list(whole.values()))
            yield _Decoded(found, tables, own, whole, len(parted))

    def _entities(
        self, documents: list[Document], tables: Sequence[TableSpan], cells: NDArray[np.uint8], chosen: Sequence[int]
    ) -> list[Document]:
        """The documents with what the teachers' decoder finds in some of their tables."""
        findings = DocumentAssembler(documents, self.labels)
        lengths = np.array([len(table) for table in tables], np.int64)
        firsts = (lengths**2).cumsum() - lengths**2
        stored = copy_to_device(cells, self.device)
        areas = (lengths**2).tolist()
        for some in in_parts(chosen, areas, CELLS):
            T, N = len(some), len(tables[some[0]])
            places, sources = padded(np.arange(T), firsts[some], lengths[some], N, self.device)
            P = torch.zeros(T * N * N, len(self.labels), device=self.device)
            P[places] = distributions(stored.index_select(0, sources))
            decoded = decode(P.view(T, N, N, -1), lengths[some], self.labels, decoder=self.decoder, alpha=self.alpha)
            findings.add([tables[place] for place in some], _without_relations(decoded))
        return findings.documents()

    def _named(self, part: _Decoded) -> _Named:
        """The part with what the marker models say on average, wherever all of them can say something."""
        asked = [
            {(one.place.document, one.place.sentence): one for one in finder.judge(part.documents)}
            for finder in self.finders
        ]
        sentences = [sentence for sentence in asked[0] if all(sentence in others for others in asked)]
        n_all = sum(len(sentence.entities) > 1 for document in part.documents for sentence in document.sentences)
        n_pairs = 0
        if sentences:
            chances = np.average(
                [
                    np.concatenate([judged[sentence].chances for sentence in sentences])[:, classes]
                    for judged, classes in zip(asked, self.classes, strict=True)
                ],
                axis=0,
                weights=self.shares,
            )
            n_pairs = len(chances)
            pairs = np.zeros((n_pairs, len(self.labels)), np.float32)
            pairs[:, 0], pairs[:, self.labels.relation_ids] = chances[:, 0], chances[:, 1:]
            where, areas = _rectangles([asked[0][sentence] for sentence in sentences], part)
            said = np.repeat(self.share * WHOLE * pairs, areas, axis=0)
            part.cells[where] = np.rint(said + (1 - self.share) * part.cells[where])
        notes = {PARTED: part.n_parted, UNREAD: n_all - len(sentences)}
        return _Named(part.documents, part.tables, part.cells, len(sentences), n_pairs, notes)


def _rectangles(judged: Sequence[PairScores], part: _Decoded) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The cells of the rectangles of all pairs, one rectangle after the other, and how many each has."""
    lengths = np.array([len(table) for table in part.tables], np.int64)
    table = np.array([part.whole[one.place.document, one.place.sentence] for one in judged])
    n_pairs = np.array([len(one.pairs) for one in judged])
    n_entities = np.array([len(one.entities) for one in judged])
    starts = np.repeat([one.place.start for one in judged], n_entities)
    spans = np.array([entity.span for one in judged for entity in one.entities]) - starts[:, None]  # in their tables
    numbers = np.concatenate([one.pairs for one in judged])
    head, tail = spans[numbers + np.repeat(n_entities.cumsum() - n_entities, n_pairs)[:, None]].swapaxes(0, 1)
    n = np.repeat(lengths[table], n_pairs)
    first = np.repeat(((lengths**2).cumsum() - lengths**2)[table], n_pairs) + head[:, 0] * n + tail[:, 0]
    height, width = head[:, 1] - head[:, 0], tail[:, 1] - tail[:, 0]
    pair = np.repeat(np.arange(len(first)), height)  # of every row of a rectangle
    row = np.arange(len(pair)) - (height.cumsum() - height)[pair]
    return concat_ranges(first[pair] + row * n[pair], width[pair]), height * width


def _without_relations(decoded: Decoded) -> Decoded:
    return replace(decoded, relations=decoded.relations[:0], relation_scores=decoded.relation_scores[:0])
