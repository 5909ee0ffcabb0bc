"""Run teachers on a corpus once and store their mean tables as soft labels.

    teach(["models/seed-1", "models/seed-2"], ["abstracts.txt"], "abstracts.soft")

A student trains on stored soft labels as it would with the teachers themselves, which are no longer needed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unire.documents import Document
from unire.errors import UnireError
from unire.extractor import Extractor
from unire.inference.streaming import Chunker, chunk_weight
from unire.inference.torch_engine import TorchEngine, choose_device
from unire.models.unire import UniRE
from unire.output_files import check_output_folder, locks_output
from unire.tables import TableSpan
from unire.training.callbacks import Callback, CallbackList, Interrupt
from unire.training.distillation.soft_labels import CHUNK_CHARACTERS, SCALE, locate_cells, write_soft_labels
from unire.training.distillation.teachers import (
    MAX_EXAMPLE_SENTENCES,
    align_teachers,
    choose_decoder,
    layout_key,
    load_teachers,
    teacher_info,
)
from unire.training.distributed import require_single_process
from unire.training.text_corpus import OverlapFilter, UnlabelledCorpus
from unire.windows.collator import Batch

__all__ = ["SoftLabelCounts", "teach"]

SPLIT_DIFFERENTLY = "sentence that the teachers split differently, skipped"


@dataclass(frozen=True)
class SoftLabelCounts:
    """What `teach` wrote."""

    documents: int
    """Documents."""
    tables: int
    """Sentences, or parts of very long sentences."""
    words: int
    """Words of all tables."""
    bytes: int
    """Size of the tables alone."""
    seconds: float
    """Time of the whole run."""
    notes: Mapping[str, int]
    """Counts of skipped or truncated text."""


@locks_output
def teach(
    teachers: Sequence[str | Path],
    corpus: Sequence[str | Path],
    out: str | Path,
    *,
    documents: int | None = None,
    device: str | None = None,
    callbacks: Sequence[Callback] = (),
) -> SoftLabelCounts:
    """Run teachers on a corpus once, and write their soft labels. After an error or Ctrl-C there is no output.

    >>> teach(["models/seed-1", "models/seed-2"], ["abstracts.txt"], "abstracts.soft")  # doctest: +SKIP

    Args:
        teachers: Trained models of one label space. Tokenizers and layouts may differ.
        corpus: Files of plain text, a document per line, or of documents in one of our formats (`.json`, `.jsonl`).
        out: A new folder.
        documents: Use only this many documents, from the start of the corpus. `None` uses all.
        device: `cpu` or `cuda`. [default: a GPU if there is one]
        callbacks: Their `on_documents_labelled` is called in the course of the run.

    Returns:
        How many documents, tables and words were written, and notes on text that was not.

    Raises:
        UnireError: `out` exists, the label spaces of the teachers differ, or the corpus has no words.
    """
    require_single_process("teaching")
    start = time.monotonic()
    out = Path(out)
    check_output_folder(out)
    if not teachers:
        raise UnireError("there is no teacher; give one or more trained models")
    texts = UnlabelledCorpus.read(corpus, documents)
    models = load_teachers(teachers)
    ensemble = _BatchedTeachers.of(models, choose_device(device))
    notes: Counter[str] = Counter()
    callback = CallbackList(callbacks)
    with Interrupt() as interrupt, interrupt.immediate(), write_soft_labels(out) as writer:
        examples = ensemble.examples(texts)
        for chunk, tables, cells in _delay_by_one(_start_chunks(ensemble, texts, notes)):
            writer.add(chunk, tables, cells())
            callback.on_documents_labelled(writer.n_documents, len(texts))
        if not writer.n_tables:
            raise UnireError("no document of the corpus has words; use another corpus")
        decoder, alpha = choose_decoder(models)
        info = {
            "labels": models[0][1].labels.to_dict(),
            "teachers": [teacher_info(name, model.config) for name, model in models],
            "decoder": decoder,
            "alpha": alpha,
            "corpus": [Path(file).name for file in corpus],
            "notes": +notes,
        }
        writer.finish(examples, info)
    seconds = round(time.monotonic() - start, 1)
    counts = writer.n_documents, writer.n_tables, writer.n_words, writer.n_bytes
    return SoftLabelCounts(*counts, seconds, dict(+notes))


PendingChunk = tuple[Sequence[Document], Sequence[TableSpan], Callable[[], NDArray[np.uint8]]]
"""Documents, their tables, and a function that waits for the cells of the tables."""


def _start_chunks(ensemble: _BatchedTeachers, texts: UnlabelledCorpus, notes: Counter[str]) -> Iterator[PendingChunk]:
    source = Chunker(texts, chunk_weight)
    while chunk := source.next_chunk(CHUNK_CHARACTERS, wait=True):
        yield chunk, *ensemble.start(chunk, notes)


def _delay_by_one(chunks: Iterator[PendingChunk]) -> Iterator[PendingChunk]:
    """Yield each chunk after the next one has started, so that a GPU works while the host writes."""
    previous = None
    for chunk in chunks:
        if previous is not None:
            yield previous
        previous = chunk
    if previous is not None:
        yield previous


@dataclass(frozen=True)
class _TeacherGroup:
    """Teachers that share batches."""

    extractors: list[Extractor] = field(default_factory=list)
    orders: list[Tensor] = field(default_factory=list)
    """For each teacher, its id of every label of the first teacher."""


@dataclass(frozen=True)
class _BatchedTeachers:
    """Teachers that run on the batches of `unire extract`. Tables are averaged on the device."""

    groups: list[_TeacherGroup]
    device: torch.device
    n_labels: int

    @classmethod
    def of(cls, models: Sequence[tuple[str, UniRE]], device: torch.device) -> _BatchedTeachers:
        groups: dict[tuple[object, ...], _TeacherGroup] = {}
        for (_, model), order in zip(models, align_teachers(models), strict=True):
            group = groups.setdefault(layout_key(model), _TeacherGroup())
            group.orders.append(torch.tensor(order, device=device))
            engine = TorchEngine.for_inference(model.to(device).eval())
            group.extractors.append(Extractor(engine, model.tokenizer, model.config, model.labels))
        return cls(list(groups.values()), device, len(models[0][1].labels))

    def examples(self, texts: UnlabelledCorpus) -> list[Document]:
        """Some documents with the predictions of each teacher."""
        sample = [document.bare for document in texts.sample(MAX_EXAMPLE_SENTENCES, OverlapFilter(()))]
        return [
            document for group in self.groups for teacher in group.extractors for document in teacher.annotate(sample)
        ]

    @torch.inference_mode()
    def start(
        self, documents: Sequence[Document], notes: Counter[str]
    ) -> tuple[list[TableSpan], Callable[[], NDArray[np.uint8]]]:
        """Start to compute the tables of documents; a function that waits for the cells, `[cells, |Y|]`."""
        views = [
            list(group.extractors[0].build_batches(documents, notes=None if number else notes))
            for number, group in enumerate(self.groups)
        ]
        known = [{table for batch in batches for table in batch.table_spans} for batches in views]
        tables = sorted(set.intersection(*known), key=lambda table: (table.document, table.start))
        notes[SPLIT_DIFFERENTLY] += len(known[0]) - len(tables)
        sizes = np.array([len(table) ** 2 for table in tables], np.int64)
        firsts = dict(zip(tables, (sizes.cumsum() - sizes).tolist(), strict=True))
        mean = torch.zeros(int(sizes.sum()), self.n_labels, device=self.device)
        for group, batches in zip(self.groups, views, strict=True):
            for batch in batches:
                source, target = self._cells(batch, firsts)
                for extractor, order in zip(group.extractors, group.orders, strict=True):
                    P = extractor.engine.predict_tables(batch).flatten(0, 2)  # [T·N·N, |Y|]
                    mean.index_add_(0, target, P.index_select(0, source).index_select(1, order))
        n_teachers = sum(len(group.extractors) for group in self.groups)
        return tables, _copy_to_host(mean.mul_(SCALE / n_teachers).round_().to(torch.uint8))

    def _cells(self, batch: Batch, firsts: Mapping[TableSpan, int]) -> tuple[Tensor, Tensor]:
        """The indices of a padded batch's cells that are kept, and their indices in the mean."""
        rows = np.array([row for row, table in enumerate(batch.table_spans) if table in firsts], np.int64)
        to = np.array([firsts[batch.table_spans[row]] for row in rows.tolist()], np.int64)
        return locate_cells(rows, to, batch.lengths[rows], batch.words.shape[1], self.device)


def _copy_to_host(cells: Tensor) -> Callable[[], NDArray[np.uint8]]:
    """Start to copy cells to the host; a function that waits for the copy."""
    host = cells.to("cpu", non_blocking=True)  # into pinned memory, so that the copy is asynchronous
    copied = torch.cuda.current_stream(cells.device).record_event() if cells.is_cuda else None

    def wait() -> NDArray[np.uint8]:
        if copied is not None:
            copied.synchronize()
        array: NDArray[np.uint8] = host.numpy()
        return array

    return wait
