"""`unire annotate`: choose texts for an annotation tool."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from unire import formats, pretrained
from unire.cli import console
from unire.cli.options import (
    INPUT,
    MODEL,
    OUTPUT,
    Device,
    Json,
    LineBreaks,
    MaxDocument,
    MaxRecord,
    MaxUnpacked,
    flag,
    input_path,
    option,
)
from unire.errors import UnireError
from unire.extractor import Extractor
from unire.limits import DEFAULT_LIMITS, ReadLimits
from unire.sources import TextSources
from unire.suggestions import Tool, write_tasks
from unire.suggestions import suggest as suggest_sentences

__all__ = ["app", "suggest"]

SELECTION = "Selection"
"""Panel of `--help`."""


def suggest(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT",
            help="Unlabelled texts, files or folders, as for `unire extract`; - is standard input.",
            show_default=False,
        ),
    ],
    *,
    lines: Annotated[bool, flag("--lines", help="Read every line as a document.", panel=INPUT)] = False,
    field: Annotated[
        str | None,
        option("--field", metavar="NAME", help="Field or column with the text.", panel=INPUT, default="text"),
    ] = None,
    line_breaks: LineBreaks = False,
    max_document: MaxDocument = DEFAULT_LIMITS.max_document,
    max_record: MaxRecord = DEFAULT_LIMITS.max_record,
    max_unpacked: MaxUnpacked = DEFAULT_LIMITS.max_unpacked,
    model: Annotated[
        str,
        option(
            "--model", "-m", metavar="NAME", help="Bundled model (see `unire models`), folder or Hub name.", panel=MODEL
        ),
    ] = pretrained.DEFAULT,
    device: Device = None,
    count: Annotated[
        int, option("--count", "-n", metavar="N", min=1, help="Number of sentences to choose.", panel=SELECTION)
    ] = 50,
    exclude: Annotated[
        list[Path] | None,
        option(
            "--exclude",
            metavar="FILE",
            help="Annotated file whose sentences are not chosen again. May be repeated.",
            panel=SELECTION,
        ),
    ] = None,
    out: Annotated[
        Path, option("--out", "-o", metavar="PATH", help="Output file; for brat a new folder.", panel=OUTPUT)
    ],
    format: Annotated[
        Tool,
        option(
            "--format",
            metavar="NAME",
            help="Annotation tool: `labelstudio`, `prodigy` or `brat`.",
            panel=OUTPUT,
        ),
    ] = "labelstudio",
    json: Json = False,
) -> None:
    """Choose the sentences to annotate next, with the model's annotation to correct.

    Examples:

        unire annotate suggest abstracts/ --count 50 --out tasks.json
        unire annotate suggest texts.txt --lines -m models/mine \\
            --exclude train.jsonl --format prodigy --out tasks.jsonl

    The sentences are those in which the model expects most errors, with different
    words and types. `unire train` and `unire data convert` read what the tool
    exports.
    """
    limits = ReadLimits(max_document, max_record, max_unpacked)
    sources = TextSources(inputs, lines=lines, field=field, limits=limits, line_breaks=line_breaks or None)
    sources.check_output(out, folder=format == "brat")
    notes: Counter[str] = Counter(sources.notes)
    known = formats.read_documents(map(input_path, exclude or ()), notes=notes)
    extractor = Extractor.load(model, device=device)
    documents = (item.document(sources.line_breaks) for item in sources.items())
    suggestions = suggest_sentences(extractor, documents, count, exclude=known, notes=notes)
    if not suggestions:
        raise UnireError("no sentence is left to suggest; give other texts")
    lost = write_tasks(suggestions, out, format, model=model)
    errors = sum(suggestion.expected_errors for suggestion in suggestions)
    if json:
        summary = {"sentences": len(suggestions), "expected_errors": round(errors, 1), "model": model, "out": str(out)}
        console.print_json({**summary, "notes": +notes, "lost": +lost})
        return
    console.say(
        f"Wrote {len(suggestions):,} sentences for {format} to {out}; the model expects {errors:,.0f} errors in them"
    )
    console.print_notes(notes)
    console.print_notes(lost, "lost")


HELP = """Choose texts for an annotation tool.

Examples:

    unire annotate suggest abstracts/ --count 50 --out tasks.json

`unire annotate COMMAND --help` shows the options of a command.
"""

app = typer.Typer(help=HELP, no_args_is_help=True)
app.command(no_args_is_help=True)(suggest)
