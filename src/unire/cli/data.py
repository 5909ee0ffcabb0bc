"""`unire data`: convert and split annotated data. `data_reports.py` has the commands that only read."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from unire import formats
from unire.analysis.splits import draw_folds, read_lists, split_by_lists, stratified_split, write_folds, write_parts
from unire.analysis.statistics import TABLE_2, compare_with_paper
from unire.cli import console
from unire.cli.data_reports import check, labels, show, stats
from unire.cli.main import name_options
from unire.cli.options import (
    INPUT,
    OUTPUT,
    Events,
    Format,
    Json,
    LineBreaks,
    MaxDocument,
    MaxRecord,
    MaxUnpacked,
    Words,
    documents_from,
    flag,
    input_path,
    option,
)
from unire.documents import Document
from unire.errors import OnError, UnireError
from unire.formats.base import raise_error
from unire.limits import DEFAULT_LIMITS, ReadLimits
from unire.output_files import check_output_folder

__all__ = ["app", "convert", "split"]

SPLITS = "Splits"
"""Panel of `--help`."""
READABLE_FORMATS = ", ".join(formats.FORMATS)
WRITABLE_FORMATS = ", ".join(formats.WRITABLE)
STANDARD_OUTPUT = (Path("-"), Path("/dev/stdout"))
SHARES_TOLERANCE = 0.015
"""The allowed difference between 1 and the sum of shares: three times 0.33, for example."""


def convert(
    input: Annotated[
        Path, typer.Argument(metavar="INPUT", help="Annotated file or folder; - is standard input.", show_default=False)
    ],
    *,
    format: Annotated[
        str | None,
        option(
            "--from", metavar="NAME", help=f"Format of the input: {READABLE_FORMATS}.", panel=INPUT, default="guessed"
        ),
    ] = None,
    words: Words = False,
    line_breaks: LineBreaks = False,
    events: Events = "trigger",
    strict: Annotated[
        bool, flag("--strict", help="Stop at the first item that cannot be read or written.", panel=INPUT)
    ] = False,
    max_document: MaxDocument = DEFAULT_LIMITS.max_document,
    max_record: MaxRecord = DEFAULT_LIMITS.max_record,
    max_unpacked: MaxUnpacked = DEFAULT_LIMITS.max_unpacked,
    out: Annotated[
        Path,
        option(
            "--out",
            "-o",
            metavar="PATH",
            help="Output file or folder, a folder with --splits; - is standard output.",
            panel=OUTPUT,
        ),
    ],
    target: Annotated[
        str, option("--to", metavar="NAME", help=f"Format of the output: {WRITABLE_FORMATS}.", panel=OUTPUT)
    ] = "unire",
    json: Json = False,
    splits: Annotated[
        Path | None,
        option(
            "--splits",
            metavar="FOLDER",
            help="Folder of files `train`, `dev`, `test`, or `fold-1/train` …: an id per line.",
            panel=SPLITS,
        ),
    ] = None,
    dev_fraction: Annotated[
        float | None,
        option(
            "--dev-fraction",
            metavar="X",
            min=0,
            max=0.9,
            help="Fraction of `train` that becomes dev if there is no file `dev`.",
            panel=SPLITS,
            default="0.1",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        option("--seed", metavar="N", min=0, help="Random seed for choosing dev.", panel=SPLITS, default="0"),
    ] = None,
) -> None:
    """Convert annotated data from one format to another.

    Examples:

        unire data convert annotations/ --out train.jsonl
        unire data convert --from spert conll04.json --to brat --out conll04-brat
        unire data convert --from ace05 English/ --splits lists/ --out ace05

    Notes count what was changed, and what the output format cannot represent.
    Documents, entities and relations that cannot be read or written are reported
    and skipped. The exit status is then 1.
    """
    if splits is None and (dev_fraction is not None or seed is not None):
        raise UnireError("--dev-fraction and --seed need --splits")
    notes: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    errors: list[str] = []
    item_errors: list[str] = []
    reasons: Counter[str] = Counter()

    def report(error: UnireError, to: list[str] = errors) -> None:
        sentence = name_options(str(error), ["data", "convert"])
        to.append(sentence)
        _, _, reason = sentence.partition(": ")  # after the location
        reasons[reason] += 1
        if not json and reasons[reason] == 1:
            console.say(("skipped:", "warning"), f" {sentence}")

    form = formats.get_writable(target)
    is_stream = out in STANDARD_OUTPUT
    if is_stream:
        _check_stream(target, splits, folder=form.folder, json=json)
    path = input_path(input)
    limits = ReadLimits(max_document, max_record, max_unpacked)
    kind = format or formats.guess(path, limits)
    on_error: OnError = raise_error if strict else report
    documents: Iterable[Document] = formats.read(
        path,
        format,
        spaces=words,
        line_breaks=line_breaks or None,
        events=events,
        notes=notes,
        on_error=on_error,
        on_annotation_error=raise_error if strict else partial(report, to=item_errors),
        limits=limits,
    )
    if splits or kind in TABLE_2:  # both need the documents twice
        documents = list(documents)
    parts = {"": documents}
    if splits:
        fraction = 0.1 if dev_fraction is None else dev_fraction
        parts = dict(split_by_lists(list(documents), read_lists(splits), fraction, seed or 0))
        listed = {document.id for part in parts.values() for document in part}
        notes["document on no split list, left out"] += sum(document.id not in listed for document in documents)
    is_json = form.suffix in (".json", ".jsonl")
    with _copy_to_standard_output(json=is_json) if is_stream else nullcontext(out) as folder:
        written = {
            name: formats.write(part, _path_of_part(name, folder, form.suffix), target, lost=lost, on_error=on_error)
            for name, part in parts.items()
        }
    comparison = []
    if kind in TABLE_2:
        comparison = compare_with_paper((document for part in parts.values() for document in part), kind)
    if json:
        summary = {"documents": written if splits else written[""], "from": kind, "to": target, "out": str(out)}
        table = {row: {"here": here, "paper": paper} for row, here, paper in comparison}
        losses = {"notes": dict(+notes), "lost": dict(+lost), "left_out": [*errors, *item_errors]}
        console.print_json({**summary, **({"table_2": table} if table else {}), **losses})
        raise typer.Exit(bool(errors or item_errors))
    screen = console.errors if is_stream else console.out
    for name, count in written.items():
        noun = "document" if count == 1 else "documents"
        file = _path_of_part(name, out, form.suffix)
        console.say(f"Converted {count:,} {noun} ({kind} → {target}) to {file}", to=screen)
    if comparison:
        screen.print()
        rows = [(row, here, "" if paper is None else paper) for row, here, paper in comparison]
        title = "Converted data, and the published counts (Table 2 of the UniRE paper)"
        console.table(title, ("", "here", "paper"), rows, to=screen)
    console.print_notes(notes)
    console.print_notes(lost, "lost")
    if errors or item_errors:
        console.print_notes({reason: count for reason, count in reasons.items() if count > 1}, "skipped")
        console.print_notes({"document that cannot be read or written": len(errors)}, "skipped")
        raise typer.Exit(1)


def _check_stream(target: str, splits: Path | None, *, folder: bool, json: bool) -> None:
    """Refuse what cannot be written to standard output."""
    if splits or folder:
        subject = "--splits" if splits else f"the format {target!r}"
        raise UnireError(f"{subject} needs a folder; give one with --out")
    if json:
        raise UnireError("--json prints to standard output too; give a file with --out")


@contextmanager
def _copy_to_standard_output(*, json: bool) -> Iterator[Path]:
    """A temporary file that is copied to standard output when it is complete."""
    with TemporaryDirectory() as folder:
        yield (temporary := Path(folder) / "out")
        with temporary.open("rb") as file:
            copyfileobj(file, console.open_output(json=json))
        sys.stdout.flush()


def _path_of_part(name: str, out: Path, suffix: str) -> Path:
    return out / f"{name}{suffix}" if name else out


def split(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Annotated files, split as one data set.", show_default=False)
    ],
    *,
    format: Format = None,
    max_document: MaxDocument = DEFAULT_LIMITS.max_document,
    max_record: MaxRecord = DEFAULT_LIMITS.max_record,
    max_unpacked: MaxUnpacked = DEFAULT_LIMITS.max_unpacked,
    parts: Annotated[
        str,
        option(
            "--parts",
            metavar="NAME=SHARE,…",
            help="Parts with fractions or ratios (train=9,dev=1).",
            panel=SPLITS,
        ),
    ] = "train=0.8,dev=0.1,test=0.1",
    folds: Annotated[
        int | None,
        option(
            "--folds",
            metavar="N",
            min=2,
            help="Write the ids of N folds for `unire train --folds` instead.",
            panel=SPLITS,
        ),
    ] = None,
    seed: Annotated[int, option("--seed", metavar="N", min=0, help="Random seed.", panel=SPLITS)] = 0,
    out: Annotated[
        Path,
        option(
            "--out", "-o", metavar="PATH", help="New folder for the parts; with --folds, a JSON file.", panel=OUTPUT
        ),
    ],
    target: Annotated[
        str, option("--to", metavar="NAME", help=f"Format of the parts: {WRITABLE_FORMATS}.", panel=OUTPUT)
    ] = "unire",
    json: Json = False,
) -> None:
    """Split documents into parts, or folds, with similar label distributions.

    Examples:

        unire data split all.jsonl --out parts
        unire data split all.jsonl --parts train=9,dev=1 --seed 1 --out parts
        unire data split all.jsonl --folds 5 --out folds.json

    Documents stay whole. Every part gets about its share of every entity and
    relation type.
    """
    notes: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    limits = ReadLimits(max_document, max_record, max_unpacked)
    if folds:
        fold_ids = draw_folds(documents_from(files, format, notes=notes, limits=limits), folds, seed)
        write_folds(fold_ids, out)
        sizes = {f"fold {number}": len(ids) for number, ids in enumerate(fold_ids, start=1)}
    else:
        shares = _parse_shares(parts)
        check_output_folder(out)  # before the data are read
        formats.get_writable(target)
        documents = documents_from(files, format, notes=notes, limits=limits)
        split_documents = dict(zip(shares, stratified_split(documents, list(shares.values()), seed), strict=True))
        write_parts(split_documents, out, target, lost=lost)
        sizes = {name: len(part) for name, part in split_documents.items()}
    if json:
        console.print_json({"out": str(out), "documents": sizes, "notes": +notes, "lost": +lost})
    else:
        console.table(f"Documents, in {out}", ("", "documents"), list(sizes.items()))
        console.print_notes(notes)
        console.print_notes(lost, "lost")


def _parse_shares(text: str) -> dict[str, float]:
    """Parse `train=0.8,dev=0.1,test=0.1`. The sum may differ from 1 by rounding."""
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = (text.strip() for text in part.partition("="))
        try:
            share = float(number)
        except ValueError:
            share = 0.0
        if not name or Path(name).name != name or name in shares or not 0 < share < math.inf:
            raise UnireError(
                f"--parts {text!r} must have different names and shares above 0, as in train=0.8,dev=0.1,test=0.1"
            )
        shares[name] = share
    total = sum(shares.values())
    if abs(total - 1) > SHARES_TOLERANCE and not all(share.is_integer() for share in shares.values()):
        raise UnireError(
            f"the shares of --parts {text!r} add up to {total:g}; they must add up to 1, or be whole numbers"
        )
    return shares


HELP = """Convert, check, count, split and show annotated data.

Examples:

    unire data convert annotations/ --out train.jsonl
    unire data check train.jsonl dev.jsonl

`unire data COMMAND --help` shows the options of a command.
"""

app = typer.Typer(help=HELP, no_args_is_help=True)
for command in (convert, check, stats, labels, split, show):
    app.command(no_args_is_help=True)(command)
