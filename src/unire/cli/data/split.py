"""`unire data split`: parts or folds of a data set, by document, with like shares of every label."""

from __future__ import annotations

import json as json_module
import math
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from unire import formats
from unire.analysis.splits import draw_folds, stratified_split
from unire.cli import printing
from unire.cli.options import Format, Json, documents_from
from unire.errors import UnireError
from unire.files import check_output_folder, replace_atomically

__all__ = ["split"]

ROUNDING = 0.015
"""How far from 1 shares may be in all: 0.33 three times, say."""


def split(
    files: Annotated[list[Path], typer.Argument(help="Annotated files, taken as one set.", show_default=False)],
    out: Annotated[
        Path, typer.Option("--out", help="New folder for the parts; with --folds, a JSON file.", show_default=False)
    ],
    parts: Annotated[
        str,
        typer.Option(
            "--parts",
            metavar="NAME=SHARE,…",
            help="Names and shares of the parts. Shares add up to 1, or are whole numbers and stand for their ratio.",
        ),
    ] = "train=0.8,dev=0.1,test=0.1",
    folds: Annotated[
        int | None,
        typer.Option(
            "--folds",
            min=2,
            help="Deal folds instead: their names, as `unire train --folds` reads them.",
            show_default=False,
        ),
    ] = None,
    format: Format = None,
    target: Annotated[str, typer.Option("--to", help=f"Format of the parts: {', '.join(formats.WRITABLE)}.")] = "unire",
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed deals the same parts.")] = 0,
    json: Json = False,
) -> None:
    """Deal documents into parts, or folds, that are alike.

    \b
        unire data split all.jsonl --out parts
        unire data split all.jsonl --parts train=9,dev=1 --seed 1 --out parts
        unire data split all.jsonl --folds 5 --out folds.json

    No document is torn apart, and every part comes near its share of every entity and relation type.
    """
    shares = {} if folds else _shares(parts)
    if not folds:
        check_output_folder(out)
        formats.get_writable(target)
    notes: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    documents = documents_from(files, format, notes=notes)
    if folds:
        dealt = draw_folds(documents, folds, seed)
        try:
            with replace_atomically(out) as temporary:
                temporary.write_text(json_module.dumps(dealt, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise UnireError(f"{out} cannot be written: {error.strerror or error}") from None
        sizes = {f"fold {number}": len(ids) for number, ids in enumerate(dealt, start=1)}
    else:
        suffix = formats.FORMATS[target].suffix
        dealt_documents = stratified_split(documents, list(shares.values()), seed)
        try:
            with replace_atomically(out, directory=True) as temporary:
                for name, part in zip(shares, dealt_documents, strict=True):
                    formats.write(part, temporary / f"{name}{suffix}", target, lost=lost)
        except OSError as error:
            raise UnireError(f"{out} cannot be written: {error.strerror or error}") from None
        sizes = {name: len(part) for name, part in zip(shares, dealt_documents, strict=True)}
    if json:
        printing.print_json({"out": str(out), "documents": sizes, "notes": +notes, "lost": +lost})
    else:
        printing.table(f"Documents, in {out}", ("", "documents"), list(sizes.items()))
        printing.print_notes(notes)
        printing.print_notes(lost, "not held")


def _shares(text: str) -> dict[str, float]:
    """The share of every part, by its name. What rounding takes from thirds is allowed."""
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, said = (token.strip() for token in part.partition("="))
        try:
            share = float(said)
        except ValueError:
            share = 0.0
        if not name or Path(name).name != name or name in shares or not 0 < share < math.inf:
            raise UnireError(
                f"--parts {text!r} must be different names and shares above 0, as in train=0.8,dev=0.1,test=0.1"
            )
        shares[name] = share
    total = sum(shares.values())
    if abs(total - 1) > ROUNDING and not all(share.is_integer() for share in shares.values()):
        raise UnireError(
            f"the shares of --parts {text!r} add up to {total:g}; give shares of 1, or whole numbers, as train=9,dev=1"
        )
    return shares
