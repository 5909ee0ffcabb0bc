"""`unire extract --ray`: the same on a cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import typer

from unire.cli import printing
from unire.cli.meter import Meter
from unire.cluster import Block, Finished, extract
from unire.cluster.connection import ADDRESS
from unire.exceptions import UnireError
from unire.inputs import Inputs
from unire.resumable import so_many

__all__ = ["address_in", "extract_on_cluster"]


def address_in(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The address of a cluster, if one of the words is one, and the other words."""
    found = [word for word in words if ADDRESS.fullmatch(word)]
    if len(found) > 1:
        raise UnireError(f"--ray takes one address, and not {' and '.join(found)}; a file of that name is ./{found[1]}")
    others = [word for word in words if word not in found]
    for word in others:
        is_name = word not in ("", "-") and not any(map(str.isspace, word))
        if is_name and not os.path.exists(word):  # noqa: PTH110  (a name may be too long for a path's own way)
            raise UnireError(f"there is no file or folder {word!r}; an address is HOST:PORT, auto or local")
    return next(iter(found), None), others


def extract_on_cluster(given: Inputs, out: Path | None, *, json: bool, model: str, **options: Any) -> None:
    """Extract into a folder of Parquet files, and say what was done."""
    if out is None:
        raise UnireError("--ray writes a folder of Parquet files; name one with --out")
    # standard output is for the result alone: Ray would print a paragraph there for every worker that ends
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), Meter(given.size) as meter:
        position = 0

        def advance(block: Block, finished: Finished, earlier: bool) -> None:
            nonlocal position
            position += block.size
            meter.advance(position, finished.documents, earlier=earlier)

        try:
            done = extract(given, out, model=model, on_block=advance, **options)
        except KeyboardInterrupt:
            printing.say(f"stopped: {out} keeps what is done; the same command with --resume goes on")
            raise
    if json:
        summary = {"documents": done.documents, "failed": done.failed, "errors": done.errors}
        printing.print_json({**summary, "model": model, "out": str(out), "notes": dict(done.notes)})
    else:
        printing.say(f"{so_many(done.documents)}, read by {model}, written to {out}")
    printing.print_notes(done.notes)
    if done.failed:
        printing.print_notes({"document that could not be done; its row has an `error`": done.failed}, "failed")
        for reason in done.errors:
            printing.fail(reason)
        raise typer.Exit(1)
