"""`unire data`: annotated data, from any format to any other, looked at, checked and split."""

from __future__ import annotations

import typer

from unire.cli.data.check import check
from unire.cli.data.convert import convert
from unire.cli.data.show import show
from unire.cli.data.split import split
from unire.cli.data.stats import stats

__all__ = ["app"]

app = typer.Typer(help="Convert, check, count, split and show annotated data.", no_args_is_help=True)
for command in (convert, check, stats, split, show):
    app.command(no_args_is_help=True)(command)
