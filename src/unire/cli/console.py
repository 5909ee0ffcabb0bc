"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, BinaryIO, cast

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from unire.evaluation.bootstrap import Intervals
from unire.evaluation.calibration_error import CalibrationErrors
from unire.evaluation.scores import Counts, Scores, TypedCounts
from unire.utils import escape_controls, escape_json_controls

__all__ = [
    "THEME",
    "errors",
    "fail",
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


def print_scores(scores: Scores, *, by_type: bool = True) -> None:
    """Print P, R and F1 of entities and relations, overall and by type."""
    rows: list[Sequence[object]] = []
    for name, counts in (("Entities", scores.entities), ("Relations", scores.relations)):
        rows.append((Text(name, "bold"), *_rates(counts)))
        if by_type:
            rows += [(f"  {label}", *_rates(typed)) for label, typed in counts.by_type.items()]
    if scores.spans is not None:
        rows.append((Text("Split positions", "bold"), *_rates(scores.spans)))
    table(str(scores.protocol), ("", "P", "R", "F1", "correct", "predicted", "gold"), rows)


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
