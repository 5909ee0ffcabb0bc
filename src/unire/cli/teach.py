"""`unire teach`: what trained models say of a text, written down for students to learn from."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from unire.cli import printing
from unire.cli.meter import Meter
from unire.cli.options import Device, Json
from unire.cli.training import in_company, stopped

__all__ = ["teach"]


@in_company()
def teach(
    teacher: Annotated[
        list[str], typer.Option("--teacher", help="Trained model: folder or Hub name. Several are averaged.")
    ],
    corpus: Annotated[
        list[Path],
        typer.Option(
            "--corpus",
            help="Unlabelled text: a document per line (may be .gz, .xz or .bz2), or documents in one of our formats "
            "(.json, .jsonl). May be given several times.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="New folder for the lessons.")],
    documents: Annotated[
        int | None,
        typer.Option(
            "--documents", min=1, help="Take so many documents of the corpus, from its start.", show_default=False
        ),
    ] = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Ask trained models about a text once, for any number of students.

    \b
        unire teach --teacher models/seed-1 --teacher models/seed-2 \\
            --corpus abstracts.txt --out abstracts.lessons
        unire distill --lessons abstracts.lessons --student encoder …

    Lessons are the mean of the teachers' tables, a byte for every label of every
    cell: with SciERC's labels some 80 kB for an abstract of 190 words. Text of
    dev and test may be among it; `distill` leaves it out.
    """
    from unire.training.teach import teach as run

    try:
        with Meter(None) as meter:
            taught = run(teacher, corpus, out, documents=documents, device=device, on_progress=meter.count)
    except KeyboardInterrupt as interrupt:
        printing.say("interrupted; nothing was kept")
        raise stopped(*interrupt.args) from None
    if json:
        printing.print_json({"out": str(out), **asdict(taught)})
        return
    printing.print_notes(taught.notes)
    printing.say(
        f"{taught.tables:,} tables of {taught.documents:,} documents in {taught.seconds:,.0f} s; "
        f"lessons of {taught.bytes / 1e6:,.1f} MB in ",
        (str(out), "bold"),
        to=printing.out,
    )
