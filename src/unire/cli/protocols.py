"""Options that choose a scoring protocol, shared by `evaluate` and `score`, and the report that both print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from unire.cli import printing
from unire.documents import Document
from unire.labels import LabelSpace
from unire.scoring import Protocol, bootstrap, score
from unire.scoring.protocol import Average, RelationMatch, SpanUnit, SymmetricGold

__all__ = ["AllProtocols", "Averaging", "Bootstrap", "Directions", "DropOverlapping", "Match", "Spans", "report"]

Match = Annotated[
    RelationMatch,
    typer.Option(
        "--relations", help="A relation is right by type, spans and entity types, or whatever the entity types."
    ),
]
Directions = Annotated[
    SymmetricGold,
    typer.Option(
        "--directions", help="How symmetric relations count: in both directions, as one pair, or as annotated."
    ),
]
Averaging = Annotated[Average, typer.Option("--average", help="Over all counts, or over types.")]
Spans = Annotated[SpanUnit, typer.Option("--spans", help="Compare spans by words, or by characters of the text.")]
DropOverlapping = Annotated[
    bool,
    typer.Option(
        "--drop-overlapping", help="Leave out sentences with overlapping gold entities, as the released code does."
    ),
]
AllProtocols = Annotated[bool, typer.Option("--all-protocols", help="Print every way of counting relations.")]
Bootstrap = Annotated[
    int, typer.Option("--bootstrap", metavar="N", min=0, help="Add 95% confidence intervals from N resamples.")
]


def report(
    gold: Sequence[Document],
    predicted: Sequence[Document],
    labels: LabelSpace,
    protocol: Protocol,
    *,
    all_protocols: bool,
    resamples: int,
    json: bool,
    facts: Mapping[str, Any],
) -> None:
    """Score and print, for people or as JSON with `facts` in it."""
    scores = score(gold, predicted, labels, protocol)
    intervals = bootstrap(gold, predicted, labels, protocol, samples=resamples) if resamples else None
    others = [
        score(gold, predicted, labels, other)
        for other in Protocol.all(
            spans=protocol.spans, average=protocol.average, drop_overlapping=protocol.drop_overlapping
        )
        if all_protocols
    ]
    if json:
        printing.print_json(
            {
                **facts,
                "scores": scores.to_dict(),
                **({"protocols": [other.to_dict() for other in others]} if others else {}),
                **({"intervals": intervals.to_dict()} if intervals else {}),
            }
        )
        return
    printing.print_scores(scores)
    if others:
        printing.table(
            "Every protocol",
            ("", "Ent P", "Ent R", "Ent F1", "Rel P", "Rel R", "Rel F1"),
            [
                (
                    str(other.protocol),
                    *(
                        f"{100 * getattr(part, rate):.1f}"
                        for part in (other.entities, other.relations)
                        for rate in ("precision", "recall", "f1")
                    ),
                )
                for other in others
            ],
        )
    if intervals:
        printing.print_intervals(intervals)
