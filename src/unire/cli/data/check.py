"""`unire data check`: what is odd about annotated data, and what becomes of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from unire import formats
from unire.analysis.checks import Issue, IssueKind, inspect, token_counter
from unire.cli import printing
from unire.cli.options import Format, Json, Labels, Symmetric, Words, input_path, label_space
from unire.documents import Document
from unire.errors import UnireError
from unire.formats.alignment import BRIDGED, WIDENED

__all__ = ["check"]


def check(
    files: Annotated[list[Path], typer.Argument(help="The files of a data set: train, dev, test.", show_default=False)],
    labels: Labels = None,
    symmetric: Symmetric = None,
    format: Format = None,
    words: Words = False,
    encoder: Annotated[
        Path | None,
        typer.Option("--encoder", help="Folder of an encoder or a model: sentences too long for it are found."),
    ] = None,
    near: Annotated[
        float,
        typer.Option("--near", min=0.5, max=1, help="Share of common words that makes sentences almost the same."),
    ] = 0.8,
    show: Annotated[int, typer.Option("--show", min=0, help="How many findings of each kind are printed.")] = 5,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if anything but hints is found.")] = False,
    json: Json = False,
) -> None:
    """Find what is odd about annotated data, and what tables will do with it.

    \b
        unire data check train.jsonl dev.jsonl test.jsonl --labels scierc --strict
        unire data check annotations/ --encoder models/mine
    """
    findings: list[Issue] = []
    parts: dict[str, list[Document]] = {}
    notes: Counter[str] = Counter()
    for path in files:

        def unreadable(error: UnireError, path: Path = path) -> None:
            findings.append(
                Issue(IssueKind.UNREADABLE, str(path), "", str(error).removeprefix(str(path)).lstrip(",: "))
            )

        parts[str(path)] = list(formats.read(input_path(path), format, spaces=words, notes=notes, on_error=unreadable))
    for finding in (WIDENED, BRIDGED):  # which stand among the findings, each with its place
        del notes[finding]
    space = label_space(labels, symmetric, [document for part in parts.values() for document in part])
    counter, max_tokens = token_counter(encoder) if encoder else (None, 0)
    findings += inspect(parts, space, near=near, count_tokens=counter, max_tokens=max_tokens)
    counts = {kind: sum(finding.kind is kind for finding in findings) for kind in IssueKind}
    if json:
        summary = {kind.what: count for kind, count in counts.items() if count}
        printing.print_json(
            {"summary": summary, "findings": [finding.to_dict() for finding in findings], "notes": +notes}
        )
    else:
        _print(findings, counts, show)
        printing.print_notes(notes)
    if strict and any(count for kind, count in counts.items() if not kind.hint):
        raise typer.Exit(1)


def _print(findings: list[Issue], counts: dict[IssueKind, int], show: int) -> None:
    if not findings:
        printing.say("Nothing odd was found.", to=printing.out)
        return
    shown: Counter[IssueKind] = Counter()
    for finding in sorted(findings, key=lambda finding: list(IssueKind).index(finding.kind)):
        shown[finding.kind] += 1
        if shown[finding.kind] <= show:
            printing.say(str(finding), to=printing.out)
        elif shown[finding.kind] == show + 1:
            rest = counts[finding.kind] - show
            printing.say(f"… and {rest:,} more; --show says how many are printed", to=printing.out)
    printing.out.print()
    rows = [(f"{kind.what}{' (hint)' if kind.hint else ''}", count) for kind, count in counts.items() if count]
    printing.table("Findings", ("", "count"), rows)
