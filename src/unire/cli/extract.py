"""`unire extract`: texts in, entities and relations out."""

from __future__ import annotations

import codecs
import sys
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from unire import formats, pretrained
from unire.cli import printing
from unire.cli.extract_run import Run, address_in, extract_on_cluster
from unire.cli.options import Constraints, Device
from unire.errors import UnireError
from unire.files import check_uncompressed, is_append_only, open_stream
from unire.rendering import terminal
from unire.rendering.common import Palette
from unire.sources.folders import JSON_LINES
from unire.sources.sources import TextSources
from unire.writers.resumable import AnotherInputError, ResumableFile, part_of, so_many
from unire.writers.writers import ENDINGS, WRITERS, FileWriter, LineWriter, PageWriter

__all__ = ["INTERRUPTED", "extract"]

ANEW = "without --resume it is made anew"
INTERRUPTED = 130
"""The exit status of a command that was stopped by Ctrl-C."""


def extract(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT",
            help="Texts, files or folders; - or nothing for standard input. A file is one document, but for JSON lines "
            "(.jsonl), CSV, TSV and Parquet (.csv, .tsv, .parquet) and annotated files in a known format; .gz, .xz and "
            ".bz2 are unpacked.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            help=f"In the box (unire models), a folder, or a Hub name; {pretrained.DEFAULT} when left out.",
            show_default=False,
        ),
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Every line is a document.")] = False,
    field: Annotated[
        str | None,
        typer.Option(
            "--field",
            metavar="NAME",
            help="Field or column of the text; `text` when left out. With it, standard input is JSON lines, CSV or "
            "TSV, by its first line.",
            show_default=False,
        ),
    ] = None,
    words: Annotated[
        bool,
        typer.Option(
            "--words",
            help="Words already split: a sentence a line, words between spaces, an empty line between documents.",
        ),
    ] = False,
    source_format: Annotated[
        str | None,
        typer.Option(
            "--from",
            help=f"Format of annotated documents in files, whose words are taken: {', '.join(formats.FORMATS)}.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Write to this file instead of standard output, which is -.", show_default=False),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help=f"What to write: {', '.join(WRITERS)}. By the ending of --out; else text on a terminal, and elsewhere "
            "jsonl, or unire, which keeps the words, where words were given.",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an --out that was stopped; none is lost or doubled.")
    ] = False,
    skip_errors: Annotated[
        bool,
        typer.Option(
            "--skip-errors", help="Go on after a line, row or file that cannot be read; each is told, and counted."
        ),
    ] = False,
    min_score: Annotated[
        float,
        typer.Option("--min-score", min=0, max=1, help="Leave out what has a lower score: a chance of being right."),
    ] = 0.0,
    constraints: Constraints = None,
    device: Device = None,
    ray: Annotated[
        bool,
        typer.Option(
            "--ray",
            help="On a Ray cluster, into an --out that is a folder of Parquet files. An ADDRESS may follow: HOST:PORT, "
            "auto for the cluster that this machine is in; without one, RAY_ADDRESS, or the cores of this machine. A "
            "document that cannot be read has a row that says why, and the exit status is 1 when all others are done.",
        ),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=1, help="Workers of --ray; one for every core when left out.", show_default=False
        ),
    ] = None,
    gpus: Annotated[int, typer.Option("--gpus", min=0, help="Workers of --ray with a GPU each, instead.")] = 0,
    json: Annotated[
        bool,
        typer.Option("--json", help="Write JSON lines on a terminal too; with --out, print a summary as one object."),
    ] = False,
) -> None:
    """Find entities and relations in texts.

    \b
        unire extract "We train a parser on the Penn Treebank."
        unire extract abstracts/ notes.txt --out found.jsonl
        unire extract --lines all.txt --out found.jsonl --resume
        unire extract --field abstract papers.csv.gz --min-score 0.5
        unire extract --field abstract papers.parquet --format csv
        unire extract notes.txt --format entities-csv --out entities.csv
        unire extract abstracts/ --out graph.graphml
        unire extract abstract.txt --out page.html
        unire extract --ray 10.0.0.1:6379 --field abstract papers/ --out found/
        cat article.txt | unire extract --model mine
        cat papers.csv | unire extract --field abstract
        echo "Ada lives in London ." | unire extract --model mine --words

    On a terminal the texts are shown with what was found in them. Anywhere else there are JSON lines, a document each.
    """
    address, inputs = address_in(inputs or ()) if ray else (None, inputs)
    given = TextSources(inputs or (), lines=lines, field=field, words=words, format=source_format)
    if not inputs and _waits_for_typing():
        raise UnireError("give a text, a file or a folder, or pipe text into standard input; --help has examples")
    out = None if out == Path("-") else out
    if ray:
        if format not in (None, "parquet") or device is not None:
            raise UnireError("--ray writes Parquet, and computes on cores or with --gpus; leave --format and --device")
        if skip_errors:
            raise UnireError("--ray goes on after what cannot be read, and has a row for it; leave out --skip-errors")
        try:
            extract_on_cluster(
                given,
                out,
                model=model or pretrained.DEFAULT,
                address=address,
                workers=workers,
                gpus=gpus,
                min_score=min_score,
                constraints=constraints,
                resume=resume,
                json=json,
            )
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        return
    if workers or gpus:
        raise UnireError("--workers and --gpus go with --ray")
    run = Run(given, model or pretrained.DEFAULT, device, min_score, constraints, skip_errors)
    if model is None and out is None:
        run.on_load = _tell_default
    on_terminal = out is None and sys.stdout.isatty()
    try:
        name = format or _default_format(given, out, readable=on_terminal and not json)
        if on_terminal and name in ("text", "tables"):
            _show(run, tables=name == "tables")
        else:
            _write(run, name, out, resume=resume)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    if out is not None:
        summary = {"documents": run.count, "model": run.model, "out": str(out), "notes": dict(+run.notes)}
        what = f"{so_many(run.count)}, read by {run.model}, written to {out}"
        printing.print_json(summary) if json else printing.say(what)
    printing.print_notes(run.notes)


def _tell_default() -> None:
    printing.say((f"model: {pretrained.DEFAULT} (--model takes another, unire models lists them)", "dim"))


def _waits_for_typing() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _default_format(given: TextSources, out: Path | None, *, readable: bool) -> str:
    """By the ending of the file, if that says more than that it has lines; else by who reads and what is given."""
    ending = out.suffix.lower().removeprefix(".") if out else ""
    if ending in ENDINGS:
        return ENDINGS[ending]
    if ending not in ("", *(suffix.removeprefix(".") for suffix in JSON_LINES)):
        raise UnireError(f"the ending of {out} names no format; say what to write with --format, such as jsonl or csv")
    if readable:
        return "text"
    return "unire" if given.has_words else "jsonl"


def _write(run: Run, name: str, out: Path | None, *, resume: bool) -> None:
    if name not in WRITERS:
        raise UnireError(f"unknown format {name!r}; give one of {', '.join(WRITERS)}")
    output = WRITERS[name]
    if out is not None:
        check_uncompressed(out)
        run.given.check_output(out, folder=name in formats.FORMATS and formats.FORMATS[name].folder)
    if resume and (out is None or not isinstance(output, LineWriter)):
        raise UnireError("--resume goes on with an --out of lines, such as --format jsonl")
    if not isinstance(output, LineWriter):
        _write_whole(run, output, out, name)
    elif out is None:
        _write_stream(run, output, sys.stdout.buffer)
    elif is_append_only(out):
        _write_device(run, output, out)
    else:
        _write_file(run, output, out, name, resume=resume)


def _write_whole(run: Run, output: FileWriter | PageWriter, out: Path | None, name: str) -> None:
    if out is None and not output.streams:
        place = "folder" if formats.FORMATS[name].folder else "file"
        raise UnireError(f"the format {name!r} needs a {place}; give one with --out")
    target: Any = out or codecs.getwriter("utf-8")(sys.stdout.buffer)
    try:
        if isinstance(output, FileWriter):
            output.write(run.documents(), target, run.notes)
            return
        written = output.write(run.views(), target, run.extractor.labels)
    except KeyboardInterrupt:
        printing.say(f"stopped: {name} is written at the end; --format jsonl keeps what it has, and resumes")
        raise
    if not written.complete:
        shown = f" a page shows {written.documents:,} documents, the first; the others are left out"
        printing.say(("note:", "yellow"), shown)


def _write_stream(run: Run, output: LineWriter, stream: BinaryIO) -> None:
    """Files are UTF-8, whatever the terminal speaks."""
    head = output.head  # not before the first document: the input may be none
    for document in run.documents(screen="raw" if stream.isatty() else None):
        stream.write((head + output.of(document)).encode())
        stream.flush()
        head = ""
    stream.write(head.encode())


def _write_device(run: Run, output: LineWriter, out: Path) -> None:
    try:
        with open_stream(out) as stream:
            _write_stream(run, output, stream)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UnireError(f"{out} cannot be written: {error.strerror or error}") from None


def _write_file(run: Run, output: LineWriter, out: Path, name: str, *, resume: bool) -> None:
    run.given.check_output(part_of(out))
    with ResumableFile(out, lambda: {**run.about, "format": name}, resume=resume, head=output.head.encode()) as file:
        if file.complete:
            if changed := run.given.changed_since(out):
                raise UnireError(f"{out} is complete, but {changed} has changed since; {ANEW}")
            printing.say(f"{out} is complete: there is nothing to resume, and the input was not read; {ANEW}")
            raise typer.Exit
        try:
            for document in run.documents(file):
                file.add(document.id, output.of(document).encode(), document.text)
        except AnotherInputError:
            raise
        except (KeyboardInterrupt, UnireError) as reason:
            if file.documents:
                mended = "mend what is wrong; then " if isinstance(reason, UnireError) else ""
                printing.say(
                    f"stopped after {so_many(file.documents)}, kept in {file.part}; {mended}the same command with "
                    "--resume goes on"
                )
            raise


def _show(run: Run, *, tables: bool) -> None:
    """For people to read, on a terminal."""
    palette = Palette(run.extractor.labels)
    for document in run.documents(screen=printing.out):
        printing.out.print(terminal.TerminalView(document, palette, tables))
