"""`unire data`: convert, check, count, split and show annotated data. `data_reports.py` has the reading commands."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from unire import formats
from unire.analysis.splits import draw_folds, read_lists, split_by_lists, stratified_split, write_folds, write_parts
from unire.analysis.statistics import TABLE_2, compare_with_paper
from unire.cli import console
from unire.cli.data_reports import check, show, stats
from unire.cli.options import Format, Json, Words, documents_from, input_path
from unire.documents import Document
from unire.errors import OnError, UnireError
from unire.files import check_output_folder
from unire.formats.base import raise_error

__all__ = ["app", "convert", "split"]

READABLE_FORMATS = ", ".join(formats.FORMATS)
WRITABLE_FORMATS = ", ".join(formats.WRITABLE)
STANDARD_OUTPUT = (Path("-"), Path("/dev/stdout"))
SHARES_TOLERANCE = 0.015
"""The allowed difference between 1 and the sum of shares: three times 0.33, for example."""


def convert(
    input: Annotated[Path, typer.Argument(help="A file or folder of annotated data, or -.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="What to write, - for standard output; with --splits the folder for the parts.",
            show_default=False,
        ),
    ],
    source: Annotated[
        str | None,
        typer.Option(
            "--from", help=f"Format of the input: {READABLE_FORMATS}. Guessed when left out.", show_default=False
        ),
    ] = None,
    target: Annotated[str, typer.Option("--to", help=f"Format of the output: {WRITABLE_FORMATS}.")] = "unire",
    words: Words = False,
    splits: Annotated[
        Path | None,
        typer.Option(
            "--splits",
            help="A folder of lists, `train`, `dev`, `test` or `fold-1/train` …, with a document's name a line. "
            "Without a list `dev`, a sample of `train` becomes it.",
            show_default=False,
        ),
    ] = None,
    dev_fraction: Annotated[
        float | None,
        typer.Option(
            "--dev-fraction",
            min=0,
            max=0.9,
            help="With --splits: share of `train` that is drawn as dev; 0.1 when left out.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Seed of that sample; 0 when left out.", show_default=False),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first document that cannot be read or written.")
    ] = False,
    json: Json = False,
) -> None:
    """Turn annotated data from one format into another.

    \b
        unire data convert annotations/ --out train.jsonl
        unire data convert --from spert conll04.json --to brat --out conll04-brat
        unire data convert --from ace05 ace_2005/data/English --splits lists/ --out ace05

    What is changed on the way, and what the output has no place for, is counted and said. Documents that cannot be read
    or written are reported with their place, and the others converted all the same; the exit status is then 1.
    """
    if splits is None and (dev_fraction is not None or seed is not None):
        raise UnireError("--dev-fraction and --seed are about the lists of --splits; give that too")
    notes: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    errors: list[str] = []
    reasons: Counter[str] = Counter()

    def report(error: UnireError) -> None:
        errors.append(str(error))
        _, _, reason = str(error).partition(": ")  # after the location
        reasons[reason] += 1
        if not json and reasons[reason] == 1:
            console.say(("left out:", "red"), f" {error}")

    form = formats.get_writable(target)
    is_stream = out in STANDARD_OUTPUT
    if is_stream:
        _check_stream(target, splits, folder=form.folder, json=json)
    path = input_path(input)
    kind = source or formats.guess(path)
    on_error: OnError = raise_error if strict else report
    documents: Iterable[Document] = formats.read(path, source, spaces=words, notes=notes, on_error=on_error)
    if splits or kind in TABLE_2:  # both need the documents twice
        documents = list(documents)
    parts = {"": documents}
    if splits:
        fraction = 0.1 if dev_fraction is None else dev_fraction
        parts = dict(split_by_lists(list(documents), read_lists(splits), fraction, seed or 0))
        listed = {document.id for part in parts.values() for document in part}
        notes["document on no split list, left out"] += sum(document.id not in listed for document in documents)
    with _copy_to_standard_output() if is_stream else nullcontext(out) as folder:
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
        losses = {"notes": dict(+notes), "lost": dict(+lost), "left_out": errors}
        console.print_json({**summary, **({"table_2": table} if table else {}), **losses})
        raise typer.Exit(bool(errors))
    screen = console.errors if is_stream else console.out
    for name, count in written.items():
        noun = "document" if count == 1 else "documents"
        file = _path_of_part(name, out, form.suffix)
        console.say(f"{count:,} {noun} in the format {kind} written to {file} as {target}.", to=screen)
    if comparison:
        screen.print()
        rows = [(row, here, "" if paper is None else paper) for row, here, paper in comparison]
        console.table("All that was converted, and Table 2 of the paper", ("", "here", "paper"), rows, to=screen)
    console.print_notes(notes)
    console.print_notes(lost, "not held")
    if errors:
        console.print_notes({reason: count for reason, count in reasons.items() if count > 1}, "left out")
        console.print_notes({"document that cannot be read or written": len(errors)}, "left out")
        raise typer.Exit(1)


def _check_stream(target: str, splits: Path | None, *, folder: bool, json: bool) -> None:
    """Refuse what cannot be written to standard output."""
    if splits or folder:
        subject = "--splits" if splits else f"the format {target!r}"
        raise UnireError(f"{subject} needs a folder; give one with --out")
    if json:
        raise UnireError("--json prints to standard output too; give a file with --out")


@contextmanager
def _copy_to_standard_output() -> Iterator[Path]:
    """A temporary file that is copied to standard output when it is complete."""
    with TemporaryDirectory() as folder:
        yield (temporary := Path(folder) / "out")
        with temporary.open("rb") as file:
            copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _path_of_part(name: str, out: Path, suffix: str) -> Path:
    return out / f"{name}{suffix}" if name else out


def split(
    files: Annotated[list[Path], typer.Argument(help="Annotated files, taken as one set.", show_default=False)],
    out: Annotated[
        Path, typer.Option("--out", help="New folder for the parts; with --folds, a JSON file.", show_default=False)
    ],
    parts: Annotated[
        str,
        typer.Option(
            "--parts",
            metavar="NAME=SHARE,…",
            help="Names and shares of the parts. Shares add up to 1, or are whole numbers and stand for their ratio.",
        ),
    ] = "train=0.8,dev=0.1,test=0.1",
    folds: Annotated[
        int | None,
        typer.Option(
            "--folds",
            min=2,
            help="Deal folds instead: their names, as `unire train --folds` reads them.",
            show_default=False,
        ),
    ] = None,
    format: Format = None,
    target: Annotated[str, typer.Option("--to", help=f"Format of the parts: {', '.join(formats.WRITABLE)}.")] = "unire",
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed deals the same parts.")] = 0,
    json: Json = False,
) -> None:
    """Deal documents into parts, or folds, that are alike.

    \b
        unire data split all.jsonl --out parts
        unire data split all.jsonl --parts train=9,dev=1 --seed 1 --out parts
        unire data split all.jsonl --folds 5 --out folds.json

    No document is torn apart, and every part comes near its share of every entity and relation type.
    """
    notes: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    if folds:
        fold_ids = draw_folds(documents_from(files, format, notes=notes), folds, seed)
        write_folds(fold_ids, out)
        sizes = {f"fold {number}": len(ids) for number, ids in enumerate(fold_ids, start=1)}
    else:
        shares = _parse_shares(parts)
        check_output_folder(out)  # before the data are read
        formats.get_writable(target)
        documents = documents_from(files, format, notes=notes)
        split_documents = dict(zip(shares, stratified_split(documents, list(shares.values()), seed), strict=True))
        write_parts(split_documents, out, target, lost=lost)
        sizes = {name: len(part) for name, part in split_documents.items()}
    if json:
        console.print_json({"out": str(out), "documents": sizes, "notes": +notes, "lost": +lost})
    else:
        console.table(f"Documents, in {out}", ("", "documents"), list(sizes.items()))
        console.print_notes(notes)
        console.print_notes(lost, "not held")


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
                f"--parts {text!r} must be different names and shares above 0, as in train=0.8,dev=0.1,test=0.1"
            )
        shares[name] = share
    total = sum(shares.values())
    if abs(total - 1) > SHARES_TOLERANCE and not all(share.is_integer() for share in shares.values()):
        raise UnireError(
            f"the shares of --parts {text!r} add up to {total:g}; give shares of 1, or whole numbers, as train=9,dev=1"
        )
    return shares


app = typer.Typer(help="Convert, check, count, split and show annotated data.", no_args_is_help=True)
for command in (convert, check, stats, split, show):
    app.command(no_args_is_help=True)(command)
