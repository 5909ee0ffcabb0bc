"""`unire data stats`: what a data set holds, and what of it tables can."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unire.cli import printing
from unire.cli.options import Format, Json, Labels, Symmetric, documents_from, label_space
from unire.statistics import Statistics

__all__ = ["stats"]


def stats(
    files: Annotated[list[Path], typer.Argument(help="Annotated files: a column each.", show_default=False)],
    labels: Labels = None,
    symmetric: Symmetric = None,
    format: Format = None,
    json: Json = False,
) -> None:
    """Count sentences, entities and relations, by type, and what tables cannot hold.

    \b
        unire data stats train.jsonl dev.jsonl test.jsonl --labels scierc
    """
    parts = [documents_from([path], format) for path in files]
    space = label_space(labels, symmetric, [document for part in parts for document in part])
    counted = [Statistics.of(part, space) for part in parts]
    total = sum(counted, start=Statistics())
    if json:
        each = [{"file": str(path), **part.to_dict()} for path, part in zip(files, counted, strict=True)]
        printing.print_json({"files": each, "total": total.to_dict()})
        return
    several = len(files) > 1
    _show([path.name for path in files] + ["total"] * several, counted + [total] * several)


def _show(columns: list[str], parts: list[Statistics]) -> None:
    """A row per figure, a column per file."""
    names = ("", *columns)
    rows: dict[str, str] = {
        "documents": "documents",
        "sentences": "sentences",
        "words": "words",
        "longest sentence": "longest_sentence",
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
    printing.table(
        "Cells of the tables",
        names,
        [
            ("⊥", *(_share(part.empty_cells, part) for part in parts)),
            ("entities", *(_share(part.entity_cells.total, part) for part in parts)),
            ("relations", *(_share(part.relation_cells.total, part) for part in parts)),
        ],
    )


def _share(cells: int, part: Statistics) -> str:
    return f"{100 * cells / max(part.cells, 1):.2f}%"
