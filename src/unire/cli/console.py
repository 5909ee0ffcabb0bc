"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from unire.evaluation.bootstrap import Intervals
from unire.evaluation.calibration_error import CalibrationErrors
from unire.evaluation.scores import Counts, Scores, TypedCounts
from unire.rendering.common import escape_controls

__all__ = [
    "errors",
    "fail",
    "out",
    "print_confidence",
    "print_intervals",
    "print_json",
    "print_notes",
    "print_scores",
    "say",
    "table",
]

out = Console()
errors = Console(stderr=True)
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
    (errors if to is None else to).print(Text.assemble(*shown), soft_wrap=True)


def fail(sentence: str) -> None:
    """Print an error."""
    say(("error:", "bold red"), f" {sentence}")


def print_json(data: Mapping[str, Any]) -> None:
    """Print one JSON object on standard output, as one line."""
    out.file.write(json.dumps(data, ensure_ascii=False, allow_nan=False) + "\n")


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
    table(str(scores.protocol), ("", "P", "R", "F1", "right", "predicted", "gold"), rows)


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
            table(f"{name} by score", ("", "n", "mean score", "share right"), rows)


def print_notes(notes: Mapping[str, int], kind: str = "note") -> None:
    """Print what was counted, such as annotation that a format cannot hold."""
    for what, count in sorted(notes.items()):
        if count:
            say((f"{kind}:", "yellow"), f" {count:,} × {what}")


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
