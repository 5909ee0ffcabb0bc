"""`unire data split`: parts or folds of a data set, by document, with like shares of every label."""

from __future__ import annotations

import json as json_module
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from unire import formats
from unire.cli import printing
from unire.cli.options import Format, Json, documents_from
from unire.exceptions import UnireError
from unire.files import replacing
from unire.splits import deal, draw_folds

__all__ = ["split"]


def split(
    files: Annotated[list[Path], typer.Argument(help="Annotated files, taken as one set.", show_default=False)],
    out: Annotated[
        Path, typer.Option("--out", help="Folder for the parts; with --folds, a JSON file.", show_default=False)
    ],
    parts: Annotated[
        str, typer.Option("--parts", metavar="NAME=SHARE,…", help="Names and shares of the parts.")
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
    target: Annotated[str, typer.Option("--to", help="Format of the parts.")] = "unire",
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
    documents = documents_from(files, format)
    if folds:
        dealt = draw_folds(documents, folds, seed)
        try:
            with replacing(out) as temporary:
                temporary.write_text(json_module.dumps(dealt, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise UnireError(f"{out} cannot be written: {error.strerror or error}") from None
        sizes = {f"fold {number}": len(ids) for number, ids in enumerate(dealt, start=1)}
    else:
        shares = _shares(parts)
        if target not in formats.FORMATS:
            raise UnireError(f"unknown format {target!r}; give one of {', '.join(formats.FORMATS)}")
        suffix = formats.FORMATS[target].suffix
        lost: Counter[str] = Counter()
        dealt_documents = deal(documents, list(shares.values()), seed)
        for name, part in zip(shares, dealt_documents, strict=True):
            formats.write(part, out / f"{name}{suffix}", target, lost=lost)
        printing.print_notes(lost, "not held")
        sizes = {name: len(part) for name, part in zip(shares, dealt_documents, strict=True)}
    if json:
        printing.print_json({"out": str(out), "documents": sizes})
    else:
        printing.table(f"Documents, in {out}", ("", "documents"), list(sizes.items()))


def _shares(text: str) -> dict[str, float]:
    shares = {}
    for part in text.split(","):
        name, _, share = part.partition("=")
        try:
            shares[name.strip()] = float(share)
        except ValueError:
            shares[name.strip()] = 0.0
        if not name.strip() or Path(name.strip()).name != name.strip() or not 0 < shares[name.strip()] < float("inf"):
            raise UnireError(f"--parts {text!r} must be names and shares above 0, as in train=0.8,dev=0.1,test=0.1")
    return shares
