"""`unire data`: looking at annotated data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unire.cli import printing
from unire.cli.options import Format, Json, Labels, Symmetric, documents_from, label_space
from unire.statistics import Statistics

__all__ = ["app"]

app = typer.Typer(help="Look at annotated data.", no_args_is_help=True)


@app.callback()
def _group() -> None: ...


@app.command(no_args_is_help=True)
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
    names = [path.name for path in files]
    parts = {path.name if names.count(path.name) == 1 else str(path): documents_from([path], format) for path in files}
    space = label_space(labels, symmetric, [document for part in parts.values() for document in part])
    counted = {name: Statistics.of(documents, space) for name, documents in parts.items()}
    total = sum(list(counted.values())[1:], start=next(iter(counted.values())))
    if json:
        printing.print_json(
            {"files": {name: part.to_dict() for name, part in counted.items()}, "total": total.to_dict()}
        )
        return
    _show({**counted, "total": total} if len(counted) > 1 else counted)


def _show(columns: dict[str, Statistics]) -> None:
    """A row per figure, a column per file."""
    parts = list(columns.values())
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
