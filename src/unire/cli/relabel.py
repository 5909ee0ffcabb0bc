"""`unire relabel`: lessons in which marker models name the relations."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from unire.cli import printing
from unire.cli.meter import Meter
from unire.cli.options import Device, Json
from unire.cli.training import in_company, stopped

__all__ = ["relabel"]


@in_company()
def relabel(
    lessons: Annotated[Path, typer.Option("--lessons", help="What `unire teach` wrote.")],
    markers: Annotated[
        list[Path], typer.Option("--markers", help="What `unire markers` has trained. Several are averaged.")
    ],
    out: Annotated[Path, typer.Option("--out", help="New folder for the lessons.")],
    share: Annotated[
        float | None,
        typer.Option(
            "--share",
            help="What they count between entities, up to 1; the teachers count the rest. 0.75 when left out.",
            show_default=False,
        ),
    ] = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Have marker models name the relations of lessons.

    \b
        unire teach --teacher models/mine --corpus abstracts.txt \\
            --out abstracts.lessons
        unire relabel --lessons abstracts.lessons --markers markers/1 \\
            --markers markers/2 --out marked.lessons
        unire distill --lessons marked.lessons --student encoders/mine …

    Entities stay as the teachers have them. Between every two of them the lessons
    then say what marker models make of the pair, in part or (--share 1) alone.
    """
    from unire.marking.relabelling import relabel as run

    counting = {} if share is None else {"share": share}
    try:
        with Meter(None) as meter:
            relabelled = run(lessons, markers, out, **counting, device=device, on_progress=meter.count)
    except KeyboardInterrupt as interrupt:
        printing.say("interrupted; nothing was kept")
        raise stopped(*interrupt.args) from None
    if json:
        printing.print_json({"out": str(out), **asdict(relabelled)})
        return
    printing.print_notes(relabelled.notes)
    printing.say(
        f"{relabelled.pairs:,} pairs of {relabelled.sentences:,} sentences in {relabelled.seconds:,.0f} s; lessons in ",
        (str(out), "bold"),
        to=printing.out,
    )
