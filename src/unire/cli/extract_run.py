"""One `unire extract`: what is read, what becomes of it, and how far it is."""

from __future__ import annotations

import gc
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, TypeVar

import typer
from rich.console import Console

from unire.cli import printing
from unire.cli.progress import ProgressMeter
from unire.documents import Document
from unire.errors import UnireError
from unire.extractor import Extractor
from unire.hub.model_dir import fingerprint, locate_model
from unire.inference.streaming import CHUNK_CHARACTERS, Prefetcher, count_characters
from unire.integrations.ray.connection import ADDRESS
from unire.integrations.ray.extract import extract
from unire.integrations.ray.output import Finished
from unire.integrations.ray.shards import Shard
from unire.labels import LabelSpace
from unire.rendering.views import View, views
from unire.sources.sources import TextItem, TextSources
from unire.writers.resumable import ResumableFile, so_many

__all__ = ["Run", "address_in", "extract_on_cluster", "tune_gc"]

GC_THRESHOLD = 100_000
"""New objects before Python looks for garbage among them; its own choice is 700 or 2,000, by its version."""

SKIPPED = "line, row or file that cannot be read, skipped"
MAX_LEADING_ERRORS = 100
"""So many of them before the first that can be read, and it is given up."""

Result = TypeVar("Result")
Screen = Console | Literal["raw"] | None
"""A console on which findings appear above a bar; or a terminal that gets them as they are, where a bar would be in
their midst, and so ends before the first; or none."""


@dataclass
class Run:
    """What is read, by which model, what is kept of its findings, and how far it is."""

    given: TextSources
    model: str
    device: str | None
    min_score: float
    constraints: str | None
    skip_errors: bool = False
    """Whether what cannot be read is told and passed over."""
    on_load: Callable[[], None] = lambda: None
    """Told when the input begins well and the model is there."""
    notes: Counter[str] = field(default_factory=Counter)
    count: int = 0
    """Documents done."""

    def __post_init__(self) -> None:
        self.notes.update(self.given.notes)

    @cached_property
    def folder(self) -> Path:
        """Of the model."""
        return locate_model(self.model)

    @cached_property
    def about(self) -> dict[str, Any]:
        """What findings depend on: a run that is resumed must have the same."""
        given: Any = self.constraints
        if given not in (None, "none", "learnt"):
            given = LabelSpace.load(self.folder).load_signatures(given)
        return {
            "input": asdict(self.given),
            "model": fingerprint(self.folder),
            "min-score": self.min_score,
            "constraints": given,
        }

    @cached_property
    def items(self) -> Iterator[TextItem]:
        """The input, of which the first is read at once: a wrong field or file is told before a model is loaded."""
        held: list[UnireError] = []
        begun = False

        def skip(error: UnireError) -> None:
            self.notes[SKIPPED] += 1
            if begun:
                _tell(error)
                return
            held.append(error)
            if len(held) == MAX_LEADING_ERRORS:
                raise _Hopeless

        items = self.given.items(skip if self.skip_errors else None)
        try:
            first = list(islice(items, 1))
        except _Hopeless:
            first = []
        if not first and held:  # it is not the input but the command that is wrong, such as the name of a field
            raise held[0]
        begun = True
        for error in held:
            _tell(error)
        return chain(first, items)

    @cached_property
    def extractor(self) -> Extractor:
        _ = self.items
        loaded = Extractor.load(self.folder, device=self.device, constraints=self.constraints)
        tune_gc()
        self.on_load()
        return loaded

    def documents(self, begun: ResumableFile | None = None, *, screen: Screen = None) -> Iterator[Document]:
        """The documents with what was found.

        Args:
            begun: The file to go on with, after the documents that it holds.
            screen: Where the findings are shown on the terminal too.
        """
        return map(self._kept, self._results(Extractor.annotate, begun, screen=screen))

    def views(self) -> Iterator[View]:
        """The same with the tables."""
        return (replace(view, document=self._kept(view.document)) for view in self._results(views))

    def _kept(self, document: Document) -> Document:
        return document.confident(self.min_score) if self.min_score else document

    def _results(
        self, of: Callable[..., Iterator[Result]], begun: ResumableFile | None = None, *, screen: Screen = None
    ) -> Iterator[Result]:
        items = self.items
        start = 0.0
        if begun is not None:
            _ = self.about  # the model as it is now, not as it may be when this is noted
        if begun is not None and begun.documents:
            self.count = begun.documents
            last = next(islice(items, self.count - 1, None), None)
            begun.refuse_another_last(last.id if last else None, last.text if last else "")
            start = last.position if last else 0.0
        positions: deque[float] = deque()

        def read() -> Iterator[Document]:
            for item in items:
                positions.append(item.position)
                document = item.document()
                meter.read(item.position, document.n_words)
                yield document
            meter.read_all()

        extractor = self.extractor
        console = screen if isinstance(screen, Console) else None
        with ProgressMeter(self.given.size, self.count, start=start, console=console) as meter:
            documents = Prefetcher(read(), count_characters, CHUNK_CHARACTERS)
            for result in of(extractor, documents, notes=self.notes, on_batch=meter.advance_batch):
                if screen == "raw":
                    meter.stop()
                yield result
                self.count += 1
                meter.advance(positions.popleft())


class _Hopeless(Exception):  # noqa: N818
    """Not for those who skip errors to skip."""


def _tell(error: UnireError) -> None:
    printing.say(("skipped:", "yellow"), f" {error}")


def tune_gc() -> None:
    """Have Python's search for garbage leave what is loaded alone, which stays, and look at findings seldom.

    Nothing in a document refers back to it, so it is freed without a search, as soon as it is written.
    """
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


def address_in(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The address of a cluster, if one of the words is one, and the other words."""
    found = [word for word in words if ADDRESS.fullmatch(word)]
    if len(found) > 1:
        raise UnireError(f"--ray takes one address, and not {' and '.join(found)}; a file of that name is ./{found[1]}")
    others = [word for word in words if word not in found]
    for word in others:
        is_name = word not in ("", "-") and not any(map(str.isspace, word))
        if is_name and not os.path.exists(word):  # noqa: PTH110  (a name may be too long for a path's own way)
            raise UnireError(f"there is no file or folder {word!r}; an address is HOST:PORT, auto or local")
    return next(iter(found), None), others


def extract_on_cluster(given: TextSources, out: Path | None, *, json: bool, model: str, **options: Any) -> None:
    """Extract into a folder of Parquet files, and say what was done."""
    if out is None:
        raise UnireError("--ray writes a folder of Parquet files; name one with --out")
    # standard output is for the result alone: Ray would print a paragraph there for every worker that ends
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), ProgressMeter(given.size) as meter:
        position = 0

        def advance(block: Shard, finished: Finished, earlier: bool) -> None:
            nonlocal position
            position += block.size
            meter.advance(position, finished.documents, earlier=earlier)

        try:
            done = extract(given, out, model=model, on_block=advance, **options)
        except KeyboardInterrupt:
            printing.say(f"stopped: {out} keeps what is done; the same command with --resume goes on")
            raise
    if json:
        summary = {"documents": done.documents, "failed": done.failed, "errors": done.errors}
        printing.print_json({**summary, "model": model, "out": str(out), "notes": dict(done.notes)})
    else:
        printing.say(f"{so_many(done.documents)}, read by {model}, written to {out}")
    printing.print_notes(done.notes)
    if done.failed:
        printing.print_notes({"document that could not be done; its row has an `error`": done.failed}, "failed")
        for reason in done.errors:
            printing.fail(reason)
        raise typer.Exit(1)
