"""Teaching: trained models are asked about a text, and their mean tables are kept as lessons.

    teach(["models/seed-1", "models/seed-2"], ["abstracts.txt"], "abstracts.lessons")

Students learn from them as they would from the teachers themselves, who need not be there; and what a teacher says is
computed once, however many students there are and however often each reads it.
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
from unire.files import check_output_folder
from unire.inference.streaming import count_characters
from unire.inference.torch_engine import TorchEngine, choose_device
from unire.models.unire import UniRE
from unire.prefetch import Chunker
from unire.training.callbacks import Interrupt
from unire.training.distillation.soft_labels import CHUNK, WHOLE, padded, writing
from unire.training.distillation.teachers import (
    EXAMPLES,
    decoding_of,
    layout_of,
    load_teachers,
    orders_of,
    teacher_info,
)
from unire.training.distributed import require_single_process
from unire.training.text_corpus import OverlapFilter, UnlabelledCorpus
from unire.windows.collator import Batch
from unire.windows.spans import TableSpan

__all__ = ["Taught", "teach"]

PARTED = "sentence that the teachers split otherwise, left out"


@dataclass(frozen=True)
class Taught:
    """What was written."""

    documents: int
    tables: int
    """Sentences, or parts of very long ones."""
    words: int
    bytes: int
    """Of the tables alone."""
    seconds: float
    notes: Mapping[str, int]
    """What was left out or needed special care."""


def teach(
    teachers: Sequence[str | Path],
    corpus: Sequence[str | Path],
    out: str | Path,
    *,
    documents: int | None = None,
    device: str | None = None,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> Taught:
    """Write what teachers say of a text; nothing is left of it where that fails, or Ctrl-C or SIGTERM ends it.

    Args:
        teachers: Trained models of one label space. Tokenizers and layouts may differ.
        corpus: Files of plain text, a document per line, or of documents in one of our formats (`.json`, `.jsonl`).
        out: A new folder.
        documents: Take so many documents from the start of the corpus; all when left out.
        device: `cpu` or `cuda`; a GPU when there is one.
        on_progress: Told how many documents are done, of how many.
    """
    require_single_process("teaching")
    began = time.monotonic()
    out = Path(out)
    check_output_folder(out)
    if not teachers:
        raise UnireError("there is no teacher; give one or more trained models")
    texts = UnlabelledCorpus.read(corpus, documents)
    models = load_teachers(teachers)
    asked = _Asked.of(models, choose_device(device))
    notes: Counter[str] = Counter()
    with Interrupt() as interrupt, interrupt.immediate(), writing(out) as writer:
        examples = asked.examples(texts)
        for some, tables, cells in _one_behind(_begun(asked, texts, notes)):
            writer.add(some, tables, cells())
            on_progress(writer.n_documents, len(texts))
        if not writer.n_tables:
            raise UnireError("no document of the corpus has words; give other text")
        decoder, alpha = decoding_of(models)
        facts = {
            "labels": models[0][1].labels.to_dict(),
            "teachers": [teacher_info(name, model.config) for name, model in models],
            "decoder": decoder,
            "alpha": alpha,
            "corpus": [Path(file).name for file in corpus],
            "notes": +notes,
        }
        writer.finish(examples, facts)
    seconds = round(time.monotonic() - began, 1)
    return Taught(writer.n_documents, writer.n_tables, writer.n_words, writer.n_bytes, seconds, dict(+notes))


Begun = tuple[Sequence[Document], Sequence[TableSpan], Callable[[], NDArray[np.uint8]]]
"""Documents, their tables, and what waits for the cells of these."""


def _begun(asked: _Asked, texts: UnlabelledCorpus, notes: Counter[str]) -> Iterator[Begun]:
    source = Chunker(texts, count_characters)
    while chunk := source.take(CHUNK, wait=True):
        yield chunk, *asked.begin(chunk, notes)


def _one_behind(begun: Iterator[Begun]) -> Iterator[Begun]:
    """Each when the next has been begun: so a GPU has work while what it has done is written."""
    before = None
    for item in begun:
        if before is not None:
            yield before
        before = item
    if before is not None:
        yield before


@dataclass(frozen=True)
class _Alike:
    """Teachers who read the same batches."""

    extractors: list[Extractor] = field(default_factory=list)
    orders: list[Tensor] = field(default_factory=list)
    """Each one's id of every label of the first teacher's."""


@dataclass(frozen=True)
class _Asked:
    """Teachers who are asked as `unire extract` asks a model, each table by all of them before it leaves the device."""

    groups: list[_Alike]
    device: torch.device
    n_labels: int

    @classmethod
    def of(cls, models: Sequence[tuple[str, UniRE]], device: torch.device) -> _Asked:
        groups: dict[tuple[object, ...], _Alike] = {}
        for (_, model), order in zip(models, orders_of(models), strict=True):
            group = groups.setdefault(layout_of(model), _Alike())
            group.orders.append(torch.tensor(order, device=device))
            engine = TorchEngine.frozen(model.to(device).eval())
            group.extractors.append(Extractor(engine, model.tokenizer, model.config, model.labels))
        return cls(list(groups.values()), device, len(models[0][1].labels))

    def examples(self, texts: UnlabelledCorpus) -> list[Document]:
        """Some documents, with what each teacher finds in them."""
        some = [document.bare for document in texts.some(EXAMPLES, OverlapFilter(()))]
        return [found for group in self.groups for teacher in group.extractors for found in teacher.annotate(some)]

    @torch.inference_mode()
    def begin(
        self, documents: Sequence[Document], notes: Counter[str]
    ) -> tuple[list[TableSpan], Callable[[], NDArray[np.uint8]]]:
        """The tables of some documents, and what waits for their cells, `[cells, |Y|]`."""
        views = [
            list(group.extractors[0].batches(documents, None if number else notes))
            for number, group in enumerate(self.groups)
        ]
        known = [{table for batch in batches for table in batch.tables} for batches in views]
        tables = sorted(set.intersection(*known), key=lambda table: (table.document, table.start))
        notes[PARTED] += len(known[0]) - len(tables)
        sizes = np.array([len(table) ** 2 for table in tables], np.int64)
        firsts = dict(zip(tables, (sizes.cumsum() - sizes).tolist(), strict=True))
        mean = torch.zeros(int(sizes.sum()), self.n_labels, device=self.device)
        for group, batches in zip(self.groups, views, strict=True):
            for batch in batches:
                source, target = self._cells(batch, firsts)
                for extractor, order in zip(group.extractors, group.orders, strict=True):
                    P = extractor.engine.tables(batch).flatten(0, 2)  # [T·N·N, |Y|]
                    mean.index_add_(0, target, P.index_select(0, source).index_select(1, order))
        n_teachers = sum(len(group.extractors) for group in self.groups)
        return tables, _fetched(mean.mul_(WHOLE / n_teachers).round_().to(torch.uint8))

    def _cells(self, batch: Batch, firsts: Mapping[TableSpan, int]) -> tuple[Tensor, Tensor]:
        """Which cells of a padded batch are of tables that are kept, and where each goes."""
        rows = np.array([row for row, table in enumerate(batch.tables) if table in firsts], np.int64)
        to = np.array([firsts[batch.tables[row]] for row in rows.tolist()], np.int64)
        return padded(rows, to, batch.lengths[rows], batch.words.shape[1], self.device)


def _fetched(cells: Tensor) -> Callable[[], NDArray[np.uint8]]:
    """Begin to copy tables to the host, and what waits for them."""
    host = cells.to("cpu", non_blocking=True)  # into pinned memory, which a GPU writes by itself
    made = torch.cuda.current_stream(cells.device).record_event() if cells.is_cuda else None

    def wait() -> NDArray[np.uint8]:
        if made is not None:
            made.synchronize()
        found: NDArray[np.uint8] = host.numpy()
        return found

    return wait
