"""`unire data convert`: from one format to another, with nothing lost in silence."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from unire import formats
from unire.analysis.splits import part_by_lists, read_lists
from unire.analysis.statistics import TABLE_2, Statistics
from unire.cli import printing
from unire.cli.options import Json, Words, input_path
from unire.documents import Document
from unire.errors import OnError, UnireError
from unire.formats.base import raise_error
from unire.labels import LabelSpace

__all__ = ["convert"]

READ = ", ".join(formats.FORMATS)
STANDARD_OUTPUT = (Path("-"), Path("/dev/stdout"))
WRITTEN = ", ".join(formats.WRITABLE)


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
        typer.Option("--from", help=f"Format of the input: {READ}. Guessed when left out.", show_default=False),
    ] = None,
    target: Annotated[str, typer.Option("--to", help=f"Format of the output: {WRITTEN}.")] = "unire",
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
    broken: list[str] = []
    reasons: Counter[str] = Counter()

    def report(error: UnireError) -> None:
        broken.append(str(error))
        _, _, reason = str(error).partition(": ")  # which follows the place
        reasons[reason] += 1
        if not json and reasons[reason] == 1:
            printing.say(("left out:", "red"), f" {error}")

    form = formats.get_writable(target)
    streamed = out in STANDARD_OUTPUT
    if streamed:
        _check_stream(target, splits, folder=form.folder, json=json)
    path = input_path(input)
    kind = source or formats.guess(path)
    on_error: OnError = raise_error if strict else report
    documents: Iterable[Document] = formats.read(path, source, spaces=words, notes=notes, on_error=on_error)
    if splits or kind in TABLE_2:  # needed twice, so not as a stream
        documents = list(documents)
    parts = {"": documents}
    if splits:
        share = 0.1 if dev_fraction is None else dev_fraction
        parts = dict(part_by_lists(list(documents), read_lists(splits), share, seed or 0))
        notes["document on no split list, left out"] += _unlisted(documents, parts.values())
    with _to_standard_output() if streamed else nullcontext(out) as place:
        written = {
            name: formats.write(part, _of_part(name, place, form.suffix), target, lost=lost, on_error=on_error)
            for name, part in parts.items()
        }
    comparison = _compared(parts, kind) if kind in TABLE_2 else []
    if json:
        summary = {"documents": written if splits else written[""], "from": kind, "to": target, "out": str(out)}
        table = {row: {"here": here, "paper": paper} for row, here, paper in comparison}
        told = {"notes": dict(+notes), "lost": dict(+lost), "left_out": broken}
        printing.print_json({**summary, **({"table_2": table} if table else {}), **told})
        raise typer.Exit(bool(broken))
    screen = printing.errors if streamed else printing.out
    for name, count in written.items():
        noun = "document" if count == 1 else "documents"
        said = f"{count:,} {noun} in the format {kind} written to {_of_part(name, out, form.suffix)} as {target}."
        printing.say(said, to=screen)
    if comparison:
        screen.print()
        rows = [(row, here, "" if paper is None else paper) for row, here, paper in comparison]
        printing.table("All that was converted, and Table 2 of the paper", ("", "here", "paper"), rows, to=screen)
    printing.print_notes(notes)
    printing.print_notes(lost, "not held")
    if broken:
        printing.print_notes({reason: count for reason, count in reasons.items() if count > 1}, "left out")
        printing.print_notes({"document that cannot be read or written": len(broken)}, "left out")
        raise typer.Exit(1)


def _check_stream(target: str, splits: Path | None, *, folder: bool, json: bool) -> None:
    """Refuse what standard output cannot hold."""
    if splits or folder:
        what = "--splits" if splits else f"the format {target!r}"
        raise UnireError(f"{what} needs a folder; give one with --out")
    if json:
        raise UnireError("--json prints to standard output too; give a file with --out")


@contextmanager
def _to_standard_output() -> Iterator[Path]:
    """A file that is copied to standard output when it is whole."""
    with TemporaryDirectory() as folder:
        yield (file := Path(folder) / "out")
        with file.open("rb") as whole:
            copyfileobj(whole, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _of_part(name: str, out: Path, suffix: str) -> Path:
    return out / f"{name}{suffix}" if name else out


def _unlisted(documents: Iterable[Document], parts: Iterable[Iterable[Document]]) -> int:
    listed = {document.id for part in parts for document in part}
    return sum(document.id not in listed for document in documents)


def _compared(parts: Mapping[str, Iterable[Document]], corpus: str) -> list[tuple[str, int, int | None]]:
    """Our counts, and those of the paper where it has them. A document of several folds counts once."""
    documents = {document.id: document for part in parts.values() for document in part}
    counts = Statistics.of(documents.values(), LabelSpace.load(corpus))
    paper = TABLE_2[corpus]
    names = {"documents": "documents", "sentences": "sentences", "entities": "entities kept"}
    names |= {"relations": "relations kept", "relations_doubled": "relations, symmetric ones doubled"}
    rows = [(name, getattr(counts, field), paper.get(field)) for field, name in names.items()]
    return [*rows, *((f"not held by tables: {reason}", count, None) for reason, count in counts.unheld.items())]
