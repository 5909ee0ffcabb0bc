"""What commands print: tables and progress bars for people, JSON for programs."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from types import TracebackType
from typing import Any, BinaryIO, cast

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from unire.evaluation.bootstrap import Intervals
from unire.evaluation.calibration_error import CalibrationErrors
from unire.evaluation.scores import Counts, Scores, TypedCounts
from unire.training.callbacks import Callback
from unire.utils import escape_controls, escape_json_controls

__all__ = [
    "INTERRUPTED",
    "MAX_TYPES",
    "THEME",
    "ProgressMeter",
    "errors",
    "fail",
    "frequent",
    "more_types",
    "open_output",
    "out",
    "print_confidence",
    "print_intervals",
    "print_json",
    "print_notes",
    "print_scores",
    "say",
    "table",
]

THEME = Theme(
    {
        "error": "bold color(160)",
        "warning": "color(130)",
        "right": "color(28)",
        "wrong": "color(160)",
        # the defaults of Rich, yellow and cyan, are hard to read on white
        **dict.fromkeys(("progress.elapsed", "progress.remaining", "progress.percentage"), "default"),
    }
)
"""Styles that are readable on black and on white."""

out = Console(theme=THEME)
errors = Console(stderr=True, theme=THEME)
"""Progress, notes and errors; standard output is for results only."""

INTERRUPTED = 130
"""Exit status of a command that Ctrl-C stopped."""
MAX_TYPES = 10
"""Types that a table of scores or counts shows, unless all are asked for."""
MAX_FILE_WIDTH = 10_000
"""Width of tables, in columns, if the output is not a terminal."""


def say(*parts: str | tuple[str, str], to: Console | None = None) -> None:
    """Print a line literally: without Rich's markup, and with control characters made visible.

    Args:
        parts: Texts, or pairs of a text and a style. File names of users, such as `[red].txt`, are safe here.
        to: The console. [default: standard error]
    """
    shown = (escape_controls(part) if isinstance(part, str) else (escape_controls(part[0]), part[1]) for part in parts)
    console = errors if to is None else to
    console.print(Text.assemble(*shown), soft_wrap=not console.is_terminal)


def fail(sentence: str) -> None:
    """Print an error."""
    say(("error:", "error"), f" {sentence}")


def print_json(data: Mapping[str, Any]) -> None:
    """Print one JSON object on standard output, as one line."""
    line = json.dumps(data, ensure_ascii=False, allow_nan=False)
    try:
        line.encode(getattr(out.file, "encoding", None) or "utf-8")
    except UnicodeEncodeError:  # the terminal lacks a character, or a file name is not Unicode
        line = json.dumps(data, allow_nan=False)
    out.file.write((escape_json_controls(line) if out.is_terminal else line) + "\n")


def open_output(*, json: bool) -> BinaryIO:
    """Standard output for bytes in UTF-8. On a terminal, control characters are escaped.

    Args:
        json: Whether the bytes are JSON, in which escapes keep the meaning.
    """
    stream = sys.stdout.buffer
    return cast("BinaryIO", _TerminalOutput(stream, json=json)) if sys.stdout.isatty() else stream


class _TerminalOutput(io.RawIOBase):
    def __init__(self, stream: BinaryIO, *, json: bool) -> None:
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._escape = escape_json_controls if json else escape_controls

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        text = self._decode(data).replace("\r\n", "\n")
        self._stream.write(self._escape(text).encode())
        return len(data)

    def flush(self) -> None:
        self._stream.flush()


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, to: Console | None = None) -> None:
    """Print a table whose first column holds names and whose other columns hold numbers; by default on `out`."""
    console = out if to is None else to
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(file=console.file, width=MAX_FILE_WIDTH)
    cells = [[_cell(value) for value in row] for row in rows]
    heads = [Text(escape_controls(column), "bold") for column in columns]
    shown = Table(title=Text(escape_controls(title), "bold"), title_justify="left", box=None, pad_edge=False)
    widths = _widths([*zip_longest(heads, *cells, fillvalue=Text())], console.width)
    for i, (head, width) in enumerate(zip(heads, widths, strict=True)):
        shown.add_column(head, justify="left" if i == 0 else "right", overflow="fold", width=width)
    for row in cells:
        shown.add_row(*row)
    console.print(shown)
    console.print()


def print_scores(scores: Scores, *, by_type: bool = True, all_types: bool = False) -> None:
    """Print P, R and F1 of entities and relations, overall and by type: all types, or the most frequent ones."""
    rows: list[Sequence[object]] = []
    for name, counts in (("Entities", scores.entities), ("Relations", scores.relations)):
        rows.append((Text(name, "bold"), *_rates(counts)))
        if by_type:
            labels = list(counts.by_type)
            if not all_types:
                labels = frequent({label: typed.gold for label, typed in counts.by_type.items()})
            rows += [(f"  {label}", *_rates(counts.by_type[label])) for label in labels]
            rows += more_types(len(counts.by_type) - len(labels), columns=7)
    if scores.spans is not None:
        rows.append((Text("Split positions", "bold"), *_rates(scores.spans)))
    table(str(scores.protocol), ("", "P", "R", "F1", "correct", "predicted", "gold"), rows)


def frequent(counts: Mapping[str, int]) -> list[str]:
    """The `MAX_TYPES` types with the highest counts, in their own order."""
    kept = set(sorted(counts, key=lambda label: -counts[label])[:MAX_TYPES])
    return [label for label in counts if label in kept]


def more_types(number: int, columns: int) -> list[Sequence[object]]:
    """A row that says how many types a table does not show, if any."""
    return [(f"  … {number:,} more (--all-types)", *[""] * (columns - 1))] if number else []


def print_intervals(intervals: Intervals) -> None:
    """Print the confidence intervals of P, R and F1."""
    rows = [
        (name, str(rates.precision), str(rates.recall), str(rates.f1))
        for name, rates in (("Entities", intervals.entities), ("Relations", intervals.relations))
    ]
    title = f"{100 * intervals.confidence:g}% intervals from {intervals.samples} resamples of the documents"
    table(title, ("", "P", "R", "F1"), rows)


def print_confidence(confidence: CalibrationErrors, *, bins: bool) -> None:
    """Print the expected calibration error in one line and, with `bins`, a reliability table."""
    say(f"Expected calibration error of the scores: {confidence}", to=out)
    for name, part in (("Entities", confidence.entities), ("Relations", confidence.relations)):
        if bins:
            rows = [(f"{b.low:.1f}–{b.high:.1f}", b.n, f"{b.score:.2f}", f"{b.right:.2f}") for b in part.bins]
            out.print()
            table(f"{name} by score", ("", "n", "mean score", "share correct"), rows)


def print_notes(notes: Mapping[str, int], kind: str = "note") -> None:
    """Print what was counted, such as annotation that a format cannot hold."""
    for what, count in sorted(notes.items()):
        if count:
            say((f"{kind}:", "warning"), f" {count:,} × {what}")


def _widths(columns: Sequence[Sequence[Text]], max_width: int) -> list[int | None]:
    """Choose widths for columns that do not fit, so that no word is broken; `None` leaves the choice to Rich."""
    words = [max((cell_len(word) for cell in column for word in cell.plain.split()), default=0) for column in columns]
    whole = [max(cell.cell_len for cell in column) for column in columns]
    left = max_width - 2 * len(columns) - sum(words)
    if left < 0 or sum(whole) <= sum(words) + left:
        return [None] * len(columns)
    for _ in range(left):
        most = max(range(len(columns)), key=lambda i: whole[i] - words[i])
        words[most] += 1
    return [*words]


def _rates(counts: Counts | TypedCounts) -> tuple[object, ...]:
    total = counts.total if isinstance(counts, TypedCounts) else counts
    rates = (f"{100 * rate:.1f}" for rate in (counts.precision, counts.recall, counts.f1))
    return (*rates, total.true_positives, total.predicted, total.gold)


def _cell(value: object) -> Text:
    if isinstance(value, Text):
        return value
    return Text(f"{value:,}" if isinstance(value, int) else escape_controls(str(value)))


BAR_DELAY_SECONDS = 2.0
"""A run that is shorter shows no bar."""


class ProgressMeter(Callback):
    """A progress bar with documents, rate and time left; only on a terminal, and only for long runs.

    The bar measures bytes of the input. A single document may take minutes, so the bar also advances by words: the
    fraction of the words read so far that are done estimates the fraction of the bytes.

    Args:
        size: Bytes of the input. If unknown, the bar appears once the whole input has been read.
        done: Documents of an earlier run, which do not count for the rate.
        start: Bytes of those documents.
        screen: The console that the results are printed on, above the bar. [default: standard error]
    """

    def __init__(self, size: int | None, done: int = 0, *, start: float = 0.0, screen: Console | None = None) -> None:
        self._done = self._documents = done
        self._start = self._position = start
        self._read = (start, 0)
        """Bytes that have been read, and words, without those of an earlier run."""
        self._words = 0
        self._began = time.monotonic()
        screen = errors if screen is None else screen
        # output that bypasses the console must not be redirected by the bar
        self._bar = Progress(console=screen, transient=True, redirect_stdout=False)
        self._task = self._bar.add_task("", total=None, documents=done, rate="")
        self._bar.update(self._task, completed=start)
        self._set_size(size)
        # by a timer, because the first document may take minutes
        self._timer = threading.Timer(BAR_DELAY_SECONDS, self._bar.start) if screen.is_terminal else None

    def __enter__(self) -> ProgressMeter:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Show the bar after a delay."""
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        """Remove the bar."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()  # it may be starting the bar
            if self._bar.live.is_started:
                self._bar.stop()

    def read(self, position: float, words: int) -> None:
        """Count a document that was read: its end in the input, in bytes, and its words."""
        self._read = (position, self._read[1] + words)

    def read_all(self) -> None:
        """The whole input has been read, so its size is known."""
        if self._bar.tasks[0].total is None:
            self._set_size(self._read[0])

    def advance_words(self, words: int) -> None:
        """Count words that are done."""
        self._words += words
        position, read = self._read
        self._update(self._start + (position - self._start) * min(1.0, self._words / max(read, 1)))

    def advance(self, position: float, documents: int = 1, *, earlier: bool = False) -> None:
        """Count documents that are done, by this run or an earlier one, up to a position of the input in bytes."""
        self._documents += documents
        self._done += documents * earlier
        self._update(position)

    def on_documents_labelled(self, done: int, total: int) -> None:
        """Set the number of documents that are done, and of all documents."""
        self.read(total, 0)
        self.read_all()
        self.advance(done, done - self._documents)

    def _set_size(self, size: float | None) -> None:
        left: tuple[ProgressColumn, ...] = (BarColumn(), TextColumn("left"), TimeRemainingColumn())
        rate = TextColumn("{task.fields[documents]:,} documents  {task.fields[rate]}")
        self._bar.columns = (rate, *(left if size else (TimeElapsedColumn(),)))
        self._bar.update(self._task, total=size or None)

    def _update(self, position: float) -> None:
        if self._timer is None:
            return
        self._position = max(self._position, position)  # the estimate by words may be ahead of the documents
        seconds = max(time.monotonic() - self._began, 1e-9)
        by_words, by_documents = self._words / seconds, (self._documents - self._done) / seconds
        rate = f"{by_words:,.0f} words/s" if self._words else f"{by_documents:,.1f}/s"
        self._bar.update(self._task, completed=self._position, documents=self._documents, rate=rate)
