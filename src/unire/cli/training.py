"""What the commands that train share: settings in, progress and scores out."""

from __future__ import annotations

import json as json_module
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from unire.cli import printing
from unire.exceptions import UnireError

if TYPE_CHECKING:
    from unire.training import Trained, TrainingConfig
    from unire.training.reporting import Reporter

__all__ = ["changes_from", "config_from", "in_company", "new_reporter", "report", "stopped"]

PATIENCE = 10.0
"""Seconds in which the first process of a machine fails too, if it is going to; then the launcher ends all others."""


@contextmanager
def in_company() -> Iterator[None]:
    """Speak with one voice, where a launcher has started several processes, and leave the others in good order.

    What is wrong is wrong for all of them, as a rule, and the first of a machine says it. The others wait for that: one
    that ended sooner would have it ended by the launcher before it has said anything. Whoever is still there afterwards
    has an error of its own.
    """
    try:
        yield
    except UnireError:
        if int(os.environ.get("LOCAL_RANK", "0")):
            time.sleep(PATIENCE)
        raise
    except typer.Exit:
        _leave()
        raise
    _leave()


def _leave() -> None:
    from unire.training.processes import leave

    leave()


def config_from(preset: str, settings: Sequence[str], **options: Any) -> TrainingConfig:
    """A preset with the changes that `--set` and other options ask for; an option that is `None` asks for nothing."""
    from unire.training import TrainingConfig

    return TrainingConfig.from_preset(preset, **changes_from("--set", settings, **options))


def changes_from(option: str, settings: Sequence[str], **options: Any) -> dict[str, Any]:
    """Settings by name: those of other options that are not `None`, and the NAME=VALUE of this one."""
    changes = {name: value for name, value in options.items() if value is not None}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise UnireError(f"{option} takes NAME=VALUE, not {setting!r}")
        try:
            changes[name.strip().replace("-", "_")] = json_module.loads(value)
        except ValueError:
            changes[name.strip().replace("-", "_")] = value
    return changes


def new_reporter(json: bool, tensorboard: Path | None) -> Reporter:
    """What shows a training on the terminal, or does not, and keeps it for TensorBoard."""
    from unire.cli.progress import TerminalReporter
    from unire.training.processes import is_main
    from unire.training.reporting import Reporters, TensorBoard

    if not is_main():
        return Reporters([])
    reporters: list[Reporter] = [] if json else [TerminalReporter()]
    if tensorboard is not None:
        reporters.append(TensorBoard(tensorboard))
    return Reporters(reporters)


def stopped(number: int = signal.SIGINT) -> typer.Exit:
    """How a command ends that a signal has stopped: as shells count it."""
    return typer.Exit(128 + number)


def report(trained: Trained, out: Path, json: bool) -> None:
    """Print how a training came out."""
    if not trained.main:
        return
    provenance = trained.model.settings.provenance
    scores = {name: part for name, part in (("dev", trained.dev), ("test", trained.test)) if part is not None}
    if json:
        printing.print_json(
            {
                "out": str(out),
                "alpha": trained.model.settings.alpha,
                "relation_odds": trained.model.settings.relation_odds,
                "epoch": provenance["epochs"],
                "interrupted": trained.interrupted,
                "notes": dict(trained.notes),
                **{key: provenance[key] for key in ("distillation",) if key in provenance},
                "scores": {name: part.to_dict() for name, part in scores.items()},
                "history": trained.history,
            }
        )
        return
    settings = trained.model.settings
    for name, part in scores.items():
        fitted = f" (α = {settings.alpha:g}, relation odds = {settings.relation_odds:g})"
        printing.say((name, "bold"), fitted, to=printing.out)
        printing.print_scores(part)
    word = "interrupted; the best model so far is" if trained.interrupted else "model"
    printing.say(f"{word} in ", (str(out), "bold"))
