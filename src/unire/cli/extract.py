"""`unire extract`: find entities and relations in texts."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from unire import pretrained
from unire.cli import console
from unire.cli.console import ProgressMeter
from unire.cli.main import name_options
from unire.cli.options import (
    INPUT,
    MODEL,
    OUTPUT,
    Constraints,
    Device,
    LineBreaks,
    MaxDocument,
    MaxRecord,
    MaxUnpacked,
    MinScore,
    flag,
    option,
)
from unire.errors import UnireError
from unire.hub.model_dir import locate_local_model
from unire.integrations.ray.extract import ADDRESS
from unire.integrations.ray.extract import extract as extract_with_ray
from unire.integrations.ray.shards import ExtractionResult, Shard
from unire.limits import DEFAULT_LIMITS, ReadLimits
from unire.rendering import Palette, terminal
from unire.sources import TextSources
from unire.windows.collator import Batch
from unire.writers import WRITERS, LineWriter
from unire.writers.extraction_run import ExtractionCallback, ExtractionRun, default_format
from unire.writers.resumable import count_documents

__all__ = ["extract", "split_address", "tune_gc"]

CLUSTER = "Cluster (Ray)"
"""Panel of `--help`."""
JSON_FORMATS = ("jsonl", "unire")
"""Formats of standard output in which a control character can be escaped without a change."""
GC_THRESHOLD_OBJECTS = 100_000
"""New objects before Python searches for garbage. Its default is 700 or 2,000, depending on the version."""


def extract(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT",
            help="Texts, files or folders; - is standard input. A text file is one document. .jsonl, .csv, .tsv, "
            ".parquet and annotated files hold several. Text may be compressed (.gz, .xz, .bz2).",
            show_default="standard input",
        ),
    ] = None,
    lines: Annotated[bool, flag("--lines", help="Read every line as a document.", panel=INPUT)] = False,
    field: Annotated[
        str | None,
        option(
            "--field",
            metavar="NAME",
            help="Field or column with the text.",
            panel=INPUT,
            default="text",
        ),
    ] = None,
    words: Annotated[
        bool,
        flag(
            "--words",
            help="Tokenized input: a sentence per line, words split by spaces, empty line after documents.",
            panel=INPUT,
        ),
    ] = False,
    source_format: Annotated[
        str | None,
        option(
            "--from",
            metavar="NAME",
            help="Read annotated files in this format and keep their words.",
            panel=INPUT,
            default="guessed",
        ),
    ] = None,
    skip_errors: Annotated[
        bool,
        flag("--skip-errors", help="Skip and report unreadable lines, rows, files and folders.", panel=INPUT),
    ] = False,
    line_breaks: LineBreaks = False,
    max_document: MaxDocument = DEFAULT_LIMITS.max_document,
    max_record: MaxRecord = DEFAULT_LIMITS.max_record,
    max_unpacked: MaxUnpacked = DEFAULT_LIMITS.max_unpacked,
    model: Annotated[
        str | None,
        option(
            "--model",
            "-m",
            metavar="NAME",
            help="Bundled model (see `unire models`), folder or Hub name.",
            panel=MODEL,
            default=pretrained.DEFAULT,
        ),
    ] = None,
    constraints: Constraints = None,
    device: Device = None,
    out: Annotated[
        Path | None,
        option(
            "--out",
            "-o",
            metavar="FILE",
            help="Output file; a folder with --ray.",
            panel=OUTPUT,
            default="standard output",
        ),
    ] = None,
    format: Annotated[
        str | None,
        option(
            "--format",
            metavar="NAME",
            help=f"Output format: {', '.join(WRITERS)}.",
            panel=OUTPUT,
            default="by the suffix of --out; text on a terminal; else jsonl, or unire for tokenized input",
        ),
    ] = None,
    min_score: MinScore = 0.0,
    types: Annotated[
        str | None,
        option(
            "--types",
            metavar="A,B",
            help="Keep only entities and relations of these types.",
            panel=OUTPUT,
            default="all",
        ),
    ] = None,
    entities: Annotated[
        str | None,
        option(
            "--entities",
            metavar="A,B",
            help="Keep only entities of these types, and relations between them.",
            panel=OUTPUT,
            default="all",
        ),
    ] = None,
    relations: Annotated[
        str | None,
        option(
            "--relations",
            metavar="A,B",
            help="Keep these relation types and, without --entities, their arguments.",
            panel=OUTPUT,
            default="all",
        ),
    ] = None,
    resume: Annotated[
        bool, flag("--resume", help="Continue an interrupted run and keep the documents already written.", panel=OUTPUT)
    ] = False,
    json: Annotated[
        bool,
        flag("--json", help="Write JSON lines, also on a terminal. With --out: print a JSON summary.", panel=OUTPUT),
    ] = False,
    ray: Annotated[
        bool,
        flag(
            "--ray",
            help="Run on a Ray cluster and write Parquet files. An address may follow (see above).",
            panel=CLUSTER,
        ),
    ] = False,
    workers: Annotated[
        int | None,
        option(
            "--workers", metavar="N", min=1, help="Number of Ray workers (CPU).", panel=CLUSTER, default="one per core"
        ),
    ] = None,
    gpus: Annotated[
        int, option("--gpus", metavar="N", min=0, help="Number of GPU workers, instead of CPU workers.", panel=CLUSTER)
    ] = 0,
) -> None:
    """Find entities and relations in texts.

    Examples:

        unire extract "We train a parser on the Penn Treebank."
        unire extract abstracts/ notes.txt --out found.jsonl
        unire extract --lines all.txt --out found.jsonl --resume
        unire extract --field abstract papers.csv.gz --min-score auto
        unire extract --field abstract papers.parquet --format csv
        unire extract notes.txt --format entities-csv --out entities.csv
        unire extract abstracts/ --relations USED-FOR --out graph.graphml
        unire extract abstract.txt --out page.html
        unire extract --ray 10.0.0.1:6379 --field abstract papers/ --out found/
        cat article.txt | unire extract --model mine
        cat papers.csv | unire extract --field abstract
        echo "Ada lives in London ." | unire extract --model mine --words

    On a terminal, the output is the text with entities and relations marked.
    Elsewhere it is one JSON line per document.

    `--ray ADDRESS` takes HOST:PORT, `auto` (the cluster of this machine) or
    `local` (the cores of this machine). Without ADDRESS, it uses the environment
    variable RAY_ADDRESS, or else `local`. A document that cannot be read gets a
    row with its error, and the exit status is then 1.
    """
    name = model or pretrained.DEFAULT
    locate_local_model(name)  # `--model nope hi` is a mistake in the model, not in the text
    address, inputs = split_address(inputs or ()) if ray else (None, inputs)
    limits = ReadLimits(max_document, max_record, max_unpacked)
    sources = TextSources(
        inputs or (),
        lines=lines,
        field=field,
        words=words,
        source_format=source_format,
        limits=limits,
        line_breaks=line_breaks or None,
    )
    if not inputs and _waits_for_typing():
        raise UnireError("no input; pass a text, a file or a folder, or pipe text to standard input (examples: --help)")
    out = None if out == Path("-") else out
    if ray:
        if format not in (None, "parquet") or device is not None:
            raise UnireError("--ray writes Parquet and runs on CPU cores or --gpus; leave out --format and --device")
        if skip_errors:
            raise UnireError(
                "--ray always skips unreadable documents and writes a row for each; leave out --skip-errors"
            )
        _extract_on_cluster(
            sources,
            out,
            model=name,
            address=address,
            workers=workers,
            gpus=gpus,
            min_score=min_score,
            types=types,
            entities=entities,
            relations=relations,
            constraints=constraints,
            resume=resume,
            json=json,
        )
        return
    if workers or gpus:
        raise UnireError("--workers and --gpus need --ray")
    on_terminal = out is None and sys.stdout.isatty()
    output_format = format or ("text" if on_terminal and not json else default_format(sources, out))
    show = on_terminal and output_format in ("text", "tables")
    announce_model = model is None and out is None
    screen = console.out if show else console.errors
    callback = (
        _ProgressBar(screen, stop_at_result=on_terminal and not show, announce_model=announce_model)
        if screen.is_terminal
        else _Messages(announce_model=announce_model)
    )
    run = ExtractionRun(
        sources, name, device, min_score, types, entities, relations, constraints, skip_errors, callback
    )
    if show:
        _show(run, tables=output_format == "tables")
    else:
        _write(run, output_format, out, resume=resume)
    if out is not None:
        summary = {"documents": run.n_documents, "model": name, "out": str(out), "notes": dict(+run.notes)}
        sentence = f"Extracted {count_documents(run.n_documents)} with {name} to {out}"
        console.print_json(summary) if json else console.say(sentence)
    console.print_notes(run.notes)
    if run.kept_nothing and run.n_below and not resume:
        limit = "the scores that the model recommends" if min_score == "auto" else f"--min-score {min_score:g}"
        number = f"{run.n_below:,} entities and relations have scores" if run.n_below > 1 else "1 entity has a score"
        console.say(("note:", "warning"), f" nothing is left: {number} below {limit}; the best is {run.best_below:.2f}")


def _waits_for_typing() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _write(run: ExtractionRun, format: str, out: Path | None, *, resume: bool) -> None:
    try:
        if not run.write(out or console.open_output(json=format in JSON_FORMATS), format, resume=resume):
            console.say(f"{out} is complete, with nothing to resume; run without --resume to write it again")
            raise typer.Exit
    except (KeyboardInterrupt, UnireError) as reason:
        interrupted = isinstance(reason, KeyboardInterrupt)
        if run.partial_output is not None:
            path, n_documents = run.partial_output
            fix = "" if interrupted else "fix the error; then "
            console.say(
                f"stopped after {count_documents(n_documents)}, kept in {path}; {fix}"
                "continue with the same command and --resume"
            )
        elif interrupted and not isinstance(WRITERS[format], LineWriter):
            console.say(f"stopped; {format} is written at the end, so nothing was saved; --format jsonl can be resumed")
        elif interrupted and out is not None:
            console.say("stopped before the first document was written")
        if interrupted:
            raise typer.Exit(console.INTERRUPTED) from None
        raise
    if run.truncated_page is not None:
        shown = f" the page shows only the first {run.truncated_page:,} documents"
        console.say(("note:", "warning"), shown)


def _show(run: ExtractionRun, *, tables: bool) -> None:
    """Print the documents for people to read."""
    try:
        palette = Palette(run.extractor.labels)
        for document in run.documents():
            console.out.print(terminal.TerminalView(document, palette, tables))
    except KeyboardInterrupt:
        raise typer.Exit(console.INTERRUPTED) from None


class _Messages(ExtractionCallback):
    """Prints the default model and skipped inputs.

    Args:
        announce_model: Say which model is used.
    """

    def __init__(self, *, announce_model: bool) -> None:
        self._announce_model = announce_model

    def on_load(self) -> None:
        tune_gc()
        if self._announce_model:
            console.say(
                (f"model: {pretrained.DEFAULT} (choose another with --model; `unire models` lists them)", "dim")
            )

    def on_skip(self, error: UnireError) -> None:
        console.say(("skipped:", "warning"), f" {name_options(str(error), ['extract'])}")


class _ProgressBar(_Messages):
    """Shows the progress of a run, too.

    Args:
        screen: The console that the bar is on, and results above it.
        stop_at_result: Stop the bar at the first result, because results go to the terminal past the console.
        announce_model: Say which model is used.
    """

    def __init__(self, screen: Console, *, stop_at_result: bool, announce_model: bool) -> None:
        super().__init__(announce_model=announce_model)
        self._screen = screen
        self._stop_at_result = stop_at_result

    def on_start(self, size: int | None, n_documents: int, position: float) -> None:
        self._meter = ProgressMeter(size, n_documents, start=position, screen=self._screen)
        self._meter.start()

    def on_read(self, position: float, n_words: int) -> None:
        self._meter.read(position, n_words)

    def on_read_end(self) -> None:
        self._meter.read_all()

    def on_batch(self, batch: Batch, P: Any) -> None:
        self._meter.advance_words(int(batch.lengths.sum()))

    def on_result(self) -> None:
        if self._stop_at_result:
            self._meter.stop()

    def on_written(self, position: float) -> None:
        self._meter.advance(position)

    def on_end(self) -> None:
        self._meter.stop()


def tune_gc() -> None:
    """Exclude all present objects, such as the model, from garbage collection, and collect seldom.

    Documents have no reference cycles, so they are freed as soon as they are written.
    """
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD_OBJECTS)


def split_address(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Separate the address of a cluster, if there is one, from the other arguments."""
    addresses = [word for word in words if ADDRESS.fullmatch(word)]
    if len(addresses) > 1:
        raise UnireError(
            f"--ray takes one address, not {' and '.join(addresses)}; a file of that name is ./{addresses[1]}"
        )
    others = [word for word in words if word not in addresses]
    for word in others:
        is_name = word not in ("", "-") and not any(map(str.isspace, word))
        if is_name and not os.path.exists(word):  # noqa: PTH110  (`Path.exists` fails on names that are too long)
            raise UnireError(f"there is no file or folder {word!r}; an address is HOST:PORT, auto or local")
    return next(iter(addresses), None), others


def _extract_on_cluster(sources: TextSources, out: Path | None, *, json: bool, model: str, **options: Any) -> None:
    """Extract into a folder of Parquet files, and print a summary."""
    if out is None:
        raise UnireError("--ray writes a folder of Parquet files; name one with --out")
    position = 0

    def advance(shard: Shard, result: ExtractionResult, earlier: bool) -> None:
        nonlocal position
        position += shard.size
        meter.advance(position, result.documents, earlier=earlier)

    # Ray prints a paragraph to standard output for every worker that ends
    with Path(os.devnull).open("w") as devnull, redirect_stdout(devnull), ProgressMeter(sources.size) as meter:
        try:
            total = extract_with_ray(sources, out, model=model, on_shard=advance, **options)
        except KeyboardInterrupt:
            console.say(f"stopped: {out} keeps the finished blocks; continue with --resume")
            raise typer.Exit(console.INTERRUPTED) from None
    if json:
        summary = {"documents": total.documents, "failed": total.failed, "errors": total.errors}
        console.print_json({**summary, "model": model, "out": str(out), "notes": dict(total.notes)})
    else:
        console.say(f"Extracted {count_documents(total.documents)} with {model} to {out}")
    console.print_notes(total.notes)
    if total.failed:
        console.print_notes({"document that failed; its row has an `error`": total.failed}, "failed")
        for reason in total.errors:
            console.fail(name_options(reason, ["extract"]))
        raise typer.Exit(1)
