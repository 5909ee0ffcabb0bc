"""What the studies print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unire.cli import printing

__all__ = ["finish", "tell"]


def tell(line: str) -> None:
    """Say how far a study is."""
    printing.say(line)


def finish(result: dict[str, Any], out: Path | None, json: bool) -> None:
    """Keep the numbers of a study, if there is a folder for them, and print them, for people or as JSON."""
    from unire.studies.report import STUDIES
    from unire.studies.results import save

    if out is not None:
        save(result, out)
    if json:
        printing.print_json(result)
        return
    for table in STUDIES[result["study"]].tables(result):
        printing.table(table.title, table.columns, table.rows)
    if out is not None:
        tell(f"all numbers: {out / result['study']}.json; with charts: unire study report --out {out}")
