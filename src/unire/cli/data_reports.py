"""`unire data check`, `stats` and `show`: issues, statistics and views of annotated data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from unire import formats
from unire.analysis.checks import Issue, IssueKind, check_files
from unire.analysis.statistics import DataCounts, Statistics, plot_statistics
from unire.cli import console
from unire.cli.options import (
    INPUT,
    OUTPUT,
    AllTypes,
    Events,
    Format,
    Json,
    Labels,
    LineBreaks,
    MaxDocument,
    MaxRecord,
    MaxUnpacked,
    Symmetric,
    Words,
    check_output,
    documents_from,
    flag,
    input_path,
    label_space,
    option,
)
from unire.documents import Document
from unire.errors import UnireError
from unire.limits import DEFAULT_LIMITS, ReadLimits
from unire.rendering import Palette
from unire.rendering import html as pages
from unire.rendering.terminal import TerminalView
from unire.rendering.views import gold_views

__all__ = ["check", "labels", "show", "stats"]

CHECKS, SELECTION = "Checks", "Selection"
"""Panels of `--help`."""


def check(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="The files of a data set: train, dev, test.", show_default=False),
    ],
    format: Format = None,
    words: Words = False,
    line_breaks: LineBreaks = False,
    events: Events = "trigger",
    max_document: MaxDocument = DEFAULT_LIMITS.max_document,
    max_record: MaxRecord = DEFAULT_LIMITS.max_record,
    max_unpacked: MaxUnpacked = DEFAULT_LIMITS.max_unpacked,
    labels: Labels = None,
    symmetric: Symmetric = None,
    encoder: Annotated[
        Path | None,
        option("--encoder", metavar="FOLDER", help="Encoder or model: find sentences too long for it.", panel=CHECKS),
    ] = None,
    near: Annotated[
        float,
        option(
            "--near",
            metavar="X",
            min=0.5,
            max=1,
            help="Word overlap from which two sentences are near duplicates.",
            panel=CHECKS,
        ),
    ] = 0.8,
    strict: Annotated[
        bool, flag("--strict", help="Exit with status 1 if there are issues other than hints.", panel=CHECKS)
    ] = False,
    show: Annotated[
        int, option("--show", metavar="N", min=0, help="Print up to N issues of each kind.", panel=OUTPUT)
    ] = 5,
    json: Json = False,
) -> None:
    """Find errors, duplicates and leaks in annotated data.

    Examples:

        unire data check train.jsonl dev.jsonl test.jsonl --labels scierc
        unire data check annotations/ --encoder models/mine

    Each message names the place, the problem and its effect.
    """
    notes: Counter[str] = Counter()
    issues = check_files(
        map(input_path, files),
        labels,
        symmetric=symmetric,
        format=format,
        spaces=words,
        line_breaks=line_breaks or None,
        events=events,
        encoder=encoder,
        near=near,
        notes=notes,
        limits=ReadLimits(max_document, max_record, max_unpacked),
    )
    counts = {kind: sum(issue.kind is kind for issue in issues) for kind in IssueKind}
    if json:
        summary = {kind.what: count for kind, count in counts.items() if count}
        console.print_json({"summary": summary, "findings": [issue.to_dict() for issue in issues], "notes": +notes})
    else:
        _print_issues(issues, counts, show)
        console.print_notes(notes)
    if strict and any(count for kind, count in counts.items() if not kind.hint):
        raise typer.Exit(1)


def _print_issues(issues: list[Issue], counts: dict[IssueKind, int], show: int) -> None:
    if not issues:
        console.say("No issues.", to=console.out)
        return
    printed: Counter[IssueKind] = Counter()
    for issue in sorted(issues, key=lambda issue: list(IssueKind).index(issue.kind)):
        printed[issue.kind] += 1
        if printed[issue.kind] <= show:
            console.say(str(issue), to=console.out)
        elif printed[issue.kind] == show + 1:
            rest = counts[issue.kind] - show
            console.say(f"… and {rest:,} more; use --show to print more", to=console.out)
    console.out.print()
    rows = [(f"{kind.what}{' (hint)' if kind.hint else ''}", count) for kind, count in counts.items() if count]
    console.table("Issues", ("", "count"), rows)


def stats(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Annotated files, one column each.", show_default=False)
    ],
    format: Format = None,
    max_document: MaxDocument = DEFAULT_LIMITS.max_document,
    max_record: MaxRecord = DEFAULT_LIMITS.max_record,
    max_unpacked: MaxUnpacked = DEFAULT_LIMITS.max_unpacked,
    labels: Labels = None,
    symmetric: Symmetric = None,
    plot: Annotated[
        Path | None,
        option("--plot", metavar="FILE", help="Draw the statistics into a .png, .svg or .pdf file.", panel=OUTPUT),
    ] = None,
    all_types: AllTypes = False,
    json: Json = False,
) -> None:
    """Count sentences, entities and relations, by type and by length.

    Examples:

        unire data stats train.jsonl dev.jsonl test.jsonl --labels scierc
        unire data stats train.jsonl --plot train.svg

    Overlapping entities and other annotation that a table cannot represent are
    counted too. --all-types also prints the cells of the tables by type.
    """
    if plot:
        check_output(plot, files, format)
    notes: Counter[str] = Counter()
    limits = ReadLimits(max_document, max_record, max_unpacked)
    parts = [documents_from([path], format, notes=notes, limits=limits) for path in files]
    space = label_space(labels, symmetric, [document for part in parts for document in part])
    counted = [Statistics.from_documents(part, space) for part in parts]
    total = sum(counted, start=Statistics())
    if plot:
        plot_statistics(total, plot, ", ".join(path.name for path in files))
    if json:
        each = [{"file": str(path), **part.to_dict()} for path, part in zip(files, counted, strict=True)]
        console.print_json({"files": each, "total": total.to_dict(), "notes": +notes})
        return
    several = len(files) > 1
    columns = [path.name for path in files] + ["total"] * several
    _print_statistics(columns, counted + [total] * several, all_types=all_types)
    console.print_notes(notes)


def _print_statistics(columns: list[str], parts: list[Statistics], *, all_types: bool) -> None:
    """Print a summary with one row per file, as Table 2 of the paper; then tables with one column per file."""
    table_2 = [
        (
            name,
            part.sentences,
            f"{part.entities:,} ({sum(map(bool, part.entity_types.values()))})",
            f"{part.relations_doubled:,} ({sum(map(bool, part.relation_types.values()))})",
        )
        for name, part in zip(columns, parts, strict=True)
    ]
    console.table(
        "Summary; symmetric relations count in both directions",
        ("", "sentences", "entities (types)", "relations (types)"),
        table_2,
    )
    names = ("", *columns)
    rows: dict[str, str] = {
        "documents": "documents",
        "sentences": "sentences",
        "words": "words",
        "entities": "entities",
        "relations as annotated": "relations",
        "relations doubled": "relations_doubled",
        "overlapping entities": "overlapping_entities",
    }
    console.table("Data", names, [(row, *(getattr(part, field) for part in parts)) for row, field in rows.items()])
    by_type = {
        "Entities": "entity_types",
        "Relations as annotated": "relation_types",
        "Not representable in tables": "unheld",
    }
    for title, field in by_type.items():
        total = sum((getattr(part, field) for part in parts), DataCounts[str]())
        labels = list(total) if all_types else console.frequent(total)
        if labels:
            counts: list[Sequence[object]] = [
                (name, *(getattr(part, field).get(name, 0) for part in parts)) for name in labels
            ]
            console.table(title, names, counts + console.more_types(len(total) - len(labels), len(names)))
    shares = {"median": 0.5, "90th percentile": 0.9, "99th percentile": 0.99, "maximum": 1.0}
    for title, field in {"Words per sentence": "sentence_lengths", "Words per entity": "entity_lengths"}.items():
        lengths = [(row, *(getattr(part, field).quantile(share) for part in parts)) for row, share in shares.items()]
        console.table(title, names, lengths)
    cells = [("⊥", *(_format_share(part.empty_cells, part) for part in parts))]
    for kind, field in (("entities", "entity_cells"), ("relations", "relation_cells")):
        if not all_types:
            cells.append((kind, *(_format_share(getattr(part, field).total, part) for part in parts)))
            continue
        names_of_cells = {name: None for part in parts for name in getattr(part, field)}
        cells += [
            (name, *(_format_share(getattr(part, field).get(name, 0), part) for part in parts))
            for name in names_of_cells
        ]
    console.table("Cells of the tables", names, cells)


def _format_share(cells: int, part: Statistics) -> str:
    return f"{100 * cells / max(part.cells, 1):.2f}%"


def labels(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="All files of a data set.", show_default=False)],
    *,
    format: Format = None,
    max_document: MaxDocument = DEFAULT_LIMITS.max_document,
    max_record: MaxRecord = DEFAULT_LIMITS.max_record,
    max_unpacked: MaxUnpacked = DEFAULT_LIMITS.max_unpacked,
    symmetric: Annotated[
        str | None,
        option("--symmetric", metavar="A,B", help="Relation types that mean the same both ways.", panel=INPUT),
    ] = None,
    out: Annotated[Path, option("--out", "-o", metavar="FILE", help="JSON file for --labels.", panel=OUTPUT)],
    json: Json = False,
) -> None:
    """Write the label space of annotated data, for the option --labels.

    Examples:

        unire data labels train.jsonl dev.jsonl test.jsonl --out labels.json
        unire data labels annotations/ --symmetric Sibling_Of --out labels.json

    The file has the lists `entity_types`, `relation_types` and `symmetric`. You
    may edit it: reorder types, or add some that the data do not have yet.
    """
    check_output(out, files, format)
    notes: Counter[str] = Counter()
    limits = ReadLimits(max_document, max_record, max_unpacked)
    space = label_space(None, symmetric, documents_from(files, format, notes=notes, limits=limits))
    space.save(out)
    if json:
        console.print_json({"out": str(out), **space.to_dict(), "notes": +notes})
        return
    entities, relations = len(space.entity_types), len(space.relation_types)
    console.say(f"{entities:,} entity types and {relations:,} relation types written to {out}")
    console.print_notes(notes)


def show(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Annotated data; - is standard input.", show_default=False)
    ],
    format: Format = None,
    words: Words = False,
    line_breaks: LineBreaks = False,
    events: Events = "trigger",
    max_document: MaxDocument = DEFAULT_LIMITS.max_document,
    max_record: MaxRecord = DEFAULT_LIMITS.max_record,
    max_unpacked: MaxUnpacked = DEFAULT_LIMITS.max_unpacked,
    labels: Labels = None,
    symmetric: Symmetric = None,
    id: Annotated[
        str | None, option("--id", metavar="ID", help="Show only the document with this id.", panel=SELECTION)
    ] = None,
    label: Annotated[
        str | None, option("--label", metavar="NAME", help="Show only documents with this type.", panel=SELECTION)
    ] = None,
    limit: Annotated[
        int, option("--limit", metavar="N", min=0, help="Maximum number of documents; 0 shows all.", panel=SELECTION)
    ] = 10,
    html: Annotated[
        Path | None, option("--html", metavar="FILE", help="Write an HTML page with texts and tables.", panel=OUTPUT)
    ] = None,
) -> None:
    """Show annotated documents, on the terminal or as an HTML page.

    Examples:

        unire data show train.jsonl --label COMPARE --limit 3
        unire data show train.jsonl --html train.html --limit 100

    The page also has the gold table of every sentence.
    """
    if html:
        check_output(html, [file], format)
    notes: Counter[str] = Counter()
    limits = ReadLimits(max_document, max_record, max_unpacked)
    selected = (
        document
        for document in formats.read(
            input_path(file),
            format,
            spaces=words,
            line_breaks=line_breaks or None,
            events=events,
            notes=notes,
            limits=limits,
        )
        if (id is None or document.id == id) and (label is None or label in _list_labels(document))
    )
    documents = list(islice(selected, limit or None))
    if not documents:
        wanted = " and ".join(
            f"{name} {value!r}" for name, value in (("the id", id), ("the type", label)) if value is not None
        )
        raise UnireError(f"no document in {file} has {wanted}")
    space = label_space(labels, symmetric, documents)
    if html:
        pages.write(gold_views(documents), html, space, title=file.name, limit=len(documents))
        console.say(f"{len(documents):,} documents written to {html}")
    else:
        palette = Palette(space)
        for document in documents:
            console.out.print(TerminalView(document, palette))
    console.print_notes(notes)


def _list_labels(document: Document) -> set[str]:
    return {item.label for item in document.entities} | {item.label for item in document.relations}
