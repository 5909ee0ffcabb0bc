"""`unire data convert`: from one format to another, with nothing lost in silence."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from unire import formats
from unire.cli import printing
from unire.cli.options import Json, Words
from unire.exceptions import UnireError
from unire.formats.format import refuse

__all__ = ["convert"]

NAMES = ", ".join(formats.FORMATS)


def convert(
    input: Annotated[Path, typer.Argument(help="A file or a folder of annotated data.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="What to write; it is replaced.", show_default=False)],
    source: Annotated[
        str | None, typer.Option("--from", help=f"Format of the input: {NAMES}. Guessed when left out.")
    ] = None,
    target: Annotated[str, typer.Option("--to", help="Format of the output: any of the same.")] = "unire",
    words: Words = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first document that cannot be read or written.")
    ] = False,
    json: Json = False,
) -> None:
    """Turn annotated data from one format into another.

    \b
        unire data convert annotations/ --out train.jsonl
        unire data convert --from spert conll04.json --to brat --out conll04-brat

    What is changed on the way, and what the output has no place for, is counted and said. Documents that cannot be read
    or written are reported with their place, and the others converted all the same.
    """
    notes: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    broken: list[str] = []

    def report(error: UnireError) -> None:
        broken.append(str(error))
        if not json:
            printing.errors.print(f"[red]left out:[/] {escape(str(error))}", highlight=False, soft_wrap=True)

    source = source or formats.guess(input)
    on_error = refuse if strict else report
    documents = formats.read(input, source, spaces=words, notes=notes, on_error=on_error)
    count = formats.write(documents, out, target, lost=lost, on_error=on_error)
    if json:
        summary = {"documents": count, "from": source, "to": target, "out": str(out)}
        printing.print_json({**summary, "notes": dict(+notes), "lost": dict(+lost), "left_out": broken})
        return
    printing.out.print(f"{count:,} documents in the format {source} written to {out} as {target}.", highlight=False)
    printing.print_notes(notes)
    printing.print_notes(lost, "not held")
    if broken:
        printing.print_notes({"document that cannot be read or written": len(broken)}, "left out")
