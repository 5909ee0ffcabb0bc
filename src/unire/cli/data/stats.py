"""`unire data stats`: what a data set holds, and what of it tables can."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from unire.analysis.plots import plot as draw
from unire.analysis.statistics import Statistics
from unire.cli import printing
from unire.cli.options import Format, Json, Labels, Symmetric, check_output, documents_from, label_space

__all__ = ["stats"]


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
    counted = [Statistics.of(part, space) for part in parts]
    total = sum(counted, start=Statistics())
    if plot:
        draw(total, plot, ", ".join(path.name for path in files))
    if json:
        each = [{"file": str(path), **part.to_dict()} for path, part in zip(files, counted, strict=True)]
        printing.print_json({"files": each, "total": total.to_dict(), "notes": +notes})
        return
    several = len(files) > 1
    _show([path.name for path in files] + ["total"] * several, counted + [total] * several)
    printing.print_notes(notes)


def _show(columns: list[str], parts: list[Statistics]) -> None:
    """The paper's Table 2, a row per file; then a row per figure and a column per file."""
    table_2 = [
        (
            name,
            part.sentences,
            f"{part.entities:,} ({sum(map(bool, part.entity_types.values()))})",
            f"{part.relations_doubled:,} ({sum(map(bool, part.relation_types.values()))})",
        )
        for name, part in zip(columns, parts, strict=True)
    ]
    printing.table("As in Table 2 of the paper", ("", "sentences", "entities (types)", "relations (types)"), table_2)
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
    printing.table("Data", names, [(row, *(getattr(part, field) for part in parts)) for row, field in rows.items()])
    by_type = {"Entities": "entity_types", "Relations as annotated": "relation_types", "What no table holds": "unheld"}
    for title, field in by_type.items():
        found = {name: None for part in parts for name in getattr(part, field)}
        if found:
            counts = [(name, *(getattr(part, field).get(name, 0) for part in parts)) for name in found]
            printing.table(title, names, counts)
    shares = {"half of them up to": 0.5, "nine of ten up to": 0.9, "99 of 100 up to": 0.99, "longest": 1.0}
    for title, field in {"Sentences, in words": "sentence_lengths", "Entities, in words": "entity_lengths"}.items():
        lengths = [(row, *(getattr(part, field).quantile(share) for part in parts)) for row, share in shares.items()]
        printing.table(title, names, lengths)
    cells = [("⊥", *(_share(part.empty_cells, part) for part in parts))]
    for field in ("entity_cells", "relation_cells"):
        found = {name: None for part in parts for name in getattr(part, field)}
        cells += [(name, *(_share(getattr(part, field).get(name, 0), part) for part in parts)) for name in found]
    printing.table("Cells of the tables", names, cells)


def _share(cells: int, part: Statistics) -> str:
    return f"{100 * cells / max(part.cells, 1):.2f}%"
