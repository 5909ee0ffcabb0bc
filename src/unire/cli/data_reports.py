"""`unire data check`, `stats` and `show`: issues, statistics and views of annotated data."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from unire import formats
from unire.analysis.checks import Issue, IssueKind, check_files
from unire.analysis.statistics import Statistics, plot_statistics
from unire.cli import console
from unire.cli.options import (
    Format,
    Json,
    Labels,
    Symmetric,
    Words,
    check_output,
    documents_from,
    input_path,
    label_space,
)
from unire.documents import Document
from unire.errors import UnireError
from unire.rendering import html as pages
from unire.rendering.common import Palette
from unire.rendering.terminal import TerminalView
from unire.rendering.views import gold_views

__all__ = ["check", "show", "stats"]


def check(
    files: Annotated[list[Path], typer.Argument(help="The files of a data set: train, dev, test.", show_default=False)],
    labels: Labels = None,
    symmetric: Symmetric = None,
    format: Format = None,
    words: Words = False,
    encoder: Annotated[
        Path | None,
        typer.Option("--encoder", help="Folder of an encoder or a model: sentences too long for it are found."),
    ] = None,
    near: Annotated[
        float,
        typer.Option("--near", min=0.5, max=1, help="Share of common words that makes sentences almost the same."),
    ] = 0.8,
    show: Annotated[int, typer.Option("--show", min=0, help="How many findings of each kind are printed.")] = 5,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if anything but hints is found.")] = False,
    json: Json = False,
) -> None:
    """Find what is odd about annotated data, and what tables will do with it.

    \b
        unire data check train.jsonl dev.jsonl test.jsonl --labels scierc --strict
        unire data check annotations/ --encoder models/mine
    """
    notes: Counter[str] = Counter()
    issues = check_files(
        map(input_path, files),
        labels,
        symmetric=symmetric,
        format=format,
        spaces=words,
        encoder=encoder,
        near=near,
        notes=notes,
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
        console.say("Nothing odd was found.", to=console.out)
        return
    printed: Counter[IssueKind] = Counter()
    for issue in sorted(issues, key=lambda issue: list(IssueKind).index(issue.kind)):
        printed[issue.kind] += 1
        if printed[issue.kind] <= show:
            console.say(str(issue), to=console.out)
        elif printed[issue.kind] == show + 1:
            rest = counts[issue.kind] - show
            console.say(f"… and {rest:,} more; --show says how many are printed", to=console.out)
    console.out.print()
    rows = [(f"{kind.what}{' (hint)' if kind.hint else ''}", count) for kind, count in counts.items() if count]
    console.table("Findings", ("", "count"), rows)


def stats(
    files: Annotated[list[Path], typer.Argument(help="Annotated files: a column each.", show_default=False)],
    labels: Labels = None,
    symmetric: Symmetric = None,
    format: Format = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw it all into this file: .png, .svg or .pdf.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Count sentences, entities and relations, by type and length, and what tables can and cannot hold.

    \b
        unire data stats train.jsonl dev.jsonl test.jsonl --labels scierc --plot scierc.svg
    """
    if plot:
        check_output(plot, files, format)
    notes: Counter[str] = Counter()
    parts = [documents_from([path], format, notes=notes) for path in files]
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
    _print_statistics([path.name for path in files] + ["total"] * several, counted + [total] * several)
    console.print_notes(notes)


def _print_statistics(columns: list[str], parts: list[Statistics]) -> None:
    """Table 2 of the paper with one row per file; then tables with one column per file."""
    table_2 = [
        (
            name,
            part.sentences,
            f"{part.entities:,} ({sum(map(bool, part.entity_types.values()))})",
            f"{part.relations_doubled:,} ({sum(map(bool, part.relation_types.values()))})",
        )
        for name, part in zip(columns, parts, strict=True)
    ]
    console.table("As in Table 2 of the paper", ("", "sentences", "entities (types)", "relations (types)"), table_2)
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
    by_type = {"Entities": "entity_types", "Relations as annotated": "relation_types", "What no table holds": "unheld"}
    for title, field in by_type.items():
        labels = {name: None for part in parts for name in getattr(part, field)}
        if labels:
            counts = [(name, *(getattr(part, field).get(name, 0) for part in parts)) for name in labels]
            console.table(title, names, counts)
    shares = {"half of them up to": 0.5, "nine of ten up to": 0.9, "99 of 100 up to": 0.99, "longest": 1.0}
    for title, field in {"Sentences, in words": "sentence_lengths", "Entities, in words": "entity_lengths"}.items():
        lengths = [(row, *(getattr(part, field).quantile(share) for part in parts)) for row, share in shares.items()]
        console.table(title, names, lengths)
    cells = [("⊥", *(_format_share(part.empty_cells, part) for part in parts))]
    for field in ("entity_cells", "relation_cells"):
        labels = {name: None for part in parts for name in getattr(part, field)}
        cells += [
            (name, *(_format_share(getattr(part, field).get(name, 0), part) for part in parts)) for name in labels
        ]
    console.table("Cells of the tables", names, cells)


def _format_share(cells: int, part: Statistics) -> str:
    return f"{100 * cells / max(part.cells, 1):.2f}%"


def show(
    file: Annotated[Path, typer.Argument(help="Annotated data, - for standard input.", show_default=False)],
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write a page with texts and tables instead of printing.", show_default=False),
    ] = None,
    id: Annotated[str | None, typer.Option("--id", help="Only the document of this name.", show_default=False)] = None,
    label: Annotated[
        str | None,
        typer.Option("--label", help="Only documents with this entity or relation type.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many documents; 0 for all.")] = 10,
    labels: Labels = None,
    symmetric: Symmetric = None,
    format: Format = None,
    words: Words = False,
) -> None:
    """Show annotated documents, on the terminal or as a page.

    \b
        unire data show train.jsonl --label COMPARE --limit 3
        unire data show train.jsonl --html train.html --limit 100

    A page has the gold table of every sentence.
    """
    if html:
        check_output(html, [file], format)
    notes: Counter[str] = Counter()
    selected = (
        document
        for document in formats.read(input_path(file), format, spaces=words, notes=notes)
        if (id is None or document.id == id) and (label is None or label in _list_labels(document))
    )
    documents = list(islice(selected, limit or None))
    if not documents:
        raise UnireError(f"{file} has no such document")
    space = label_space(labels, symmetric, documents)
    if html:
        pages.write(gold_views(documents), html, space, title=file.name, limit=len(documents))
        console.say(f"{len(documents):,} documents on the page {html}")
    else:
        palette = Palette(space)
        for document in documents:
            console.out.print(TerminalView(document, palette))
    console.print_notes(notes)


def _list_labels(document: Document) -> set[str]:
    return {item.label for item in document.entities} | {item.label for item in document.relations}
