"""Options that several commands share, and functions that interpret them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from unire import formats
from unire.cli import console
from unire.cli.console import MAX_TYPES
from unire.documents import Document
from unire.labels import LabelSpace
from unire.limits import DEFAULT_LIMITS, ReadLimits
from unire.output_files import check_output_file

__all__ = [
    "CARD", "INPUT", "LIMITS", "MODEL", "OUTPUT", "SCORING",
    "AllTypes", "Constraints", "Decoder", "Device", "Events", "Format", "Json", "Labels", "LineBreaks",
    "MaxDocument", "MaxRecord", "MaxUnpacked", "MinScore",
    "Symmetric", "Words",
    "check_output", "documents_from", "flag", "input_path", "label_space", "option",
]  # fmt: skip

INPUT, LIMITS, MODEL, SCORING, OUTPUT, CARD = "Input", "Limits", "Model", "Scoring", "Output", "Model card"
"""Panels of `--help` that several commands have. They appear in the order of a command's parameters."""


def option(*names: str, help: str, panel: str, default: str | None = None, **more: Any) -> Any:
    """An option in a panel of `--help`.

    Args:
        names: The names, the long one first.
        help: One line.
        panel: The title of the panel.
        default: What the command does without the option, if its value in Python does not say that.
        more: Other arguments of `typer.Option`.
    """
    # typer would print a text in parentheses, on a separate line
    shown = "" if default is None else rf" [dim]\[default: {default}][/dim]"
    return typer.Option(*names, help=help + shown, rich_help_panel=panel, show_default=default is None, **more)


def parse_min_score(value: Any) -> float | str:
    """Parse the value of `--min-score`."""
    if value == "auto":
        return "auto"
    number = float(value)
    if not 0 <= number <= 1:
        raise ValueError
    return number


def flag(*names: str, help: str, panel: str) -> Any:
    """An option without a value."""
    return option(*names, help=help, panel=panel, metavar="")


Labels = Annotated[
    str | None,
    option(
        "--labels",
        metavar="NAME|FILE",
        help="Built-in label space (scierc, …) or a JSON file.",
        panel=INPUT,
        default="from the data",
    ),
]
Symmetric = Annotated[
    str | None,
    option(
        "--symmetric",
        metavar="A,B",
        help="Symmetric relation types, if the label space is learned from the data.",
        panel=INPUT,
    ),
]
Format = Annotated[
    str | None,
    option(
        "--format",
        metavar="NAME",
        help="Format of the data (see `unire data convert --help`).",
        panel=INPUT,
        default="guessed",
    ),
]
Constraints = Annotated[
    str | None,
    option(
        "--constraints",
        metavar="none|learnt|FILE",
        help="Type constraints: `none`, `learnt` or a JSON file.",
        panel=MODEL,
        default="by the model",
    ),
]
Decoder = Annotated[
    str | None,
    option(
        "--decoder",
        metavar="NAME",
        help="Decoder: `split`, `likely` or `hard`.",
        panel=MODEL,
        default="that of the model",
    ),
]
Device = Annotated[
    str | None,
    option(
        "--device",
        metavar="NAME",
        help="Device, such as `cpu` or `cuda:1`.",
        panel=MODEL,
        default="a GPU if there is one",
    ),
]
Words = Annotated[
    bool,
    flag(
        "--words",
        help="Split brat, jsonl, labelstudio and prodigy text only at line ends and spaces.",
        panel=INPUT,
    ),
]
MinScore = Annotated[
    Any,
    option(
        "--min-score",
        metavar="P|auto",
        parser=parse_min_score,
        min=0,
        max=1,
        help="Drop results with a lower calibrated probability; `auto`: as the model recommends.",
        panel=OUTPUT,
    ),
]
LineBreaks = Annotated[
    bool,
    flag(
        "--line-breaks",
        help="End a sentence at every line end of raw text; by default only after titles and items.",
        panel=INPUT,
    ),
]
Events = Annotated[
    Literal["trigger", "pairs"],
    option(
        "--events",
        metavar="NAME",
        help="Relations of brat events: from the `trigger` to arguments, or `pairs` of arguments.",
        panel=INPUT,
    ),
]
AllTypes = Annotated[
    bool, flag("--all-types", help=f"Print all types, not only the {MAX_TYPES} most frequent ones.", panel=OUTPUT)
]
MaxDocument = Annotated[
    int, option("--max-document", metavar="N", min=1, help="Characters of the largest document.", panel=LIMITS)
]
MaxRecord = Annotated[
    int,
    option(
        "--max-record",
        metavar="N",
        min=1,
        help="Bytes of the largest line, row or file parsed as a whole.",
        panel=LIMITS,
    ),
]
MaxUnpacked = Annotated[
    int,
    option(
        "--max-unpacked",
        metavar="N",
        min=1,
        help="Bytes of an unpacked file; always 100 times the packed size.",
        panel=LIMITS,
    ),
]
Json = Annotated[bool, flag("--json", help="Print only the result, as one JSON object.", panel=OUTPUT)]


def input_path(path: Path) -> Path:
    """Return the file to read for a path on the command line; `-` is standard input."""
    return Path("/dev/stdin") if path == Path("-") else path


def check_output(out: Path, data: Iterable[Path], format: str | None) -> None:
    """Refuse an output that would overwrite the data, or be read as part of a folder of them."""
    paths = [input_path(path) for path in data]
    folders = [path for path in paths if path.is_dir()]
    kinds = {path: formats.FORMATS.get(format or formats.guess(path)) for path in folders}
    check_output_file(
        out, paths, [path for path, kind in kinds.items() if kind and out.suffix.lower() in kind.folder_suffixes]
    )


def documents_from(
    paths: Iterable[Path],
    format: str | None,
    *,
    predicted: bool = False,
    notes: Counter[str] | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> list[Document]:
    """Read all documents of some files.

    `notes` counts what the readers changed or left out. Without it, the counts are printed.
    """
    counts: Counter[str] = Counter() if notes is None else notes
    documents = formats.read_documents(map(input_path, paths), format, predicted=predicted, notes=counts, limits=limits)
    if notes is None:
        console.print_notes(counts)
    return documents


def label_space(name: str | None, symmetric: str | None, documents: Iterable[Document]) -> LabelSpace:
    """Return the label space that the options choose."""
    return LabelSpace.resolve(name, symmetric, documents)
