"""What the commands that train share: options and settings in, progress and scores out."""

from __future__ import annotations

import json as json_module
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unire.cli import printing
from unire.cli.options import documents_from
from unire.config import Layout
from unire.documents import Document
from unire.errors import UnireError
from unire.training.callbacks import exit_status

if TYPE_CHECKING:
    from unire.training.callbacks import Callback
    from unire.training.config import TrainingConfig
    from unire.training.train import TrainResult

__all__ = [
    "MODEL",
    "PRESETS",
    "BatchSize",
    "Data",
    "Dev",
    "Epochs",
    "HeadLr",
    "Layouts",
    "Lr",
    "Patience",
    "Preset",
    "Resume",
    "SaveEveryEpochs",
    "SaveEveryMinutes",
    "Seed",
    "Set",
    "Tensorboard",
    "Test",
    "Window",
    "changes_from",
    "config_from",
    "distributed_errors",
    "new_callbacks",
    "option",
    "read_parts",
    "report",
    "stopped",
]

MODEL = "Model and schedule (a preset's own when left out)"
RUN = "Run"
PRESETS = "`best` (by our trials on dev), `paper` (by its text) or `released` (by its authors' code)"


def option(*names: str, help: str, panel: str | None = None, show_default: bool = False, **more: Any) -> Any:
    """An option in a panel of `--help`; what the data is and where the model goes needs none, and comes first."""
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=show_default, **more)


Data = Annotated[list[Path], option("--data", help="Annotated file; may be given several times.")]
Dev = Annotated[list[Path] | None, option("--dev", help="Selects the best epoch and α. Strongly advised.")]
Test = Annotated[list[Path] | None, option("--test", help="Scored once, at the end.")]

Preset = Annotated[str, option("--preset", help=f"{PRESETS}.", panel=MODEL, show_default=True)]
Epochs = Annotated[int | None, option("--epochs", help="How often the annotated data is read.", panel=MODEL)]
BatchSize = Annotated[int | None, option("--batch-size", help="Annotated sentences per step.", panel=MODEL)]
Lr = Annotated[float | None, option("--lr", help="Peak rate of the encoder.", panel=MODEL)]
HeadLr = Annotated[float | None, option("--head-lr", help="Peak rate of MLPs and biaffine.", panel=MODEL)]
Layouts = Annotated[
    Layout | None, option("--layout", help="How sentence and context become an encoder input.", panel=MODEL)
]
Window = Annotated[int | None, option("--window", help="W: words of a window; 0 for no context.", panel=MODEL)]
Patience = Annotated[int | None, option("--patience", help="Epochs without gain on dev before it stops.", panel=MODEL)]
Seed = Annotated[int | None, option("--seed", help="Same seed, same numbers (on a CPU).", panel=MODEL)]
Set = Annotated[
    list[str] | None,
    option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other setting of TrainingConfig, e.g. --set implication=none.",
        panel=MODEL,
    ),
]

Resume = Annotated[bool, option("--resume", help="Go on where a stopped training left off.", panel=RUN)]
SaveEveryEpochs = Annotated[
    int | None, option("--save-every-epochs", min=1, help="Keep a state to resume from, every N epochs.", panel=RUN)
]
SaveEveryMinutes = Annotated[
    float | None,
    option("--save-every-minutes", min=0.0, help="… every M minutes.", panel=RUN, show_default=True),
]
Tensorboard = Annotated[
    Path | None, option("--tensorboard", help="Write TensorBoard event files to this folder.", panel=RUN)
]

MADE_OF = ("encoder", "encoder_weights", "base", "adaptation", "distillation")
"""What is printed of where a model comes from, as far as it is known."""
PATIENCE = 10.0
"""Seconds in which the first process of a machine fails too, if it is going to; then the launcher ends all others."""


@contextmanager
def distributed_errors() -> Iterator[None]:
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
    from unire.training.distributed import shutdown

    shutdown()


def config_from(preset: str, settings: Sequence[str], *, further: str | None = None, **options: Any) -> TrainingConfig:
    """A preset with the changes that `--set` and other options ask for; an option that is `None` asks for nothing.

    Args:
        preset: Its name.
        settings: NAME=VALUE of `--set`.
        further: A model that is to be trained further, if one is.
        **options: Other settings.
    """
    from unire.training.config import TrainingConfig

    changes = changes_from("--set", settings, **options)
    if further is not None:
        return TrainingConfig.further(further, preset, **changes)
    return TrainingConfig.from_preset(preset, **changes)


def changes_from(option: str, settings: Sequence[str], **options: Any) -> dict[str, Any]:
    """Settings by name: those of other options that are not `None`, and the NAME=VALUE of this one.

    Raises:
        UnireError: One is no NAME=VALUE, or says something else than the option of that name.
    """
    asked = {name: value for name, value in options.items() if value is not None}
    changes = dict(asked)
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            raise UnireError(f"{option} takes NAME=VALUE, not {setting!r}")
        try:
            value = json_module.loads(text)
        except ValueError:
            value = text
        if name in asked and asked[name] != value:
            other = f"--{name.replace('_', '-')} {asked[name]}"
            raise UnireError(f"{other} and {option} {setting} contradict each other; leave out one of them")
        changes[name] = value
    return changes


def read_parts(
    parts: Sequence[Sequence[Path] | None], format: str | None, *, json: bool
) -> tuple[list[list[Document]], Counter[str]]:
    """The documents of each part, and what readers note of them all, which is printed unless the result is JSON.

    Where a launcher has started several processes, the first of a machine prints it.
    """
    notes: Counter[str] = Counter()
    documents = [documents_from(files or [], format, notes=notes) for files in parts]
    if not json and not int(os.environ.get("LOCAL_RANK", "0")):
        printing.print_notes(notes)
    return documents, +notes


def new_callbacks(json: bool, tensorboard: Path | None) -> list[Callback]:
    """What shows a training on the terminal, or does not, and keeps it for TensorBoard."""
    from unire.cli.callbacks import TerminalCallback
    from unire.training.callbacks import TensorBoardCallback
    from unire.training.distributed import is_main

    if not is_main():
        return []
    callbacks: list[Callback] = [] if json else [TerminalCallback()]
    if tensorboard is not None:
        callbacks.append(TensorBoardCallback(tensorboard))
    return callbacks


def stopped(number: int = signal.SIGINT) -> typer.Exit:
    """How a command ends that a signal has stopped: as shells count it."""
    return typer.Exit(exit_status(number))


def report(trained: TrainResult, out: Path, notes: Mapping[str, int], json: bool) -> None:
    """Print how a training came out; `notes` are those of its data, which are printed already unless it is as JSON."""
    if not trained.main:
        return
    provenance = trained.model.config.provenance
    scores = {name: part for name, part in (("dev", trained.dev), ("test", trained.test)) if part is not None}
    if json:
        printing.print_json(
            {
                "out": str(out),
                "alpha": trained.model.config.alpha,
                "relation_odds": trained.model.config.relation_odds,
                "epoch": provenance["epochs"],
                "interrupted": trained.interrupted,
                "notes": {**notes, **trained.notes},
                **{key: provenance[key] for key in MADE_OF if key in provenance},
                "scores": {name: part.to_dict() for name, part in scores.items()},
                "history": trained.history,
            }
        )
        return
    settings = trained.model.config
    for name, part in scores.items():
        fitted = f" (α = {settings.alpha:g}, relation odds = {settings.relation_odds:g})"
        printing.say((name, "bold"), fitted, to=printing.out)
        printing.print_scores(part)
    if trained.interrupted:
        printing.say("interrupted; the best model so far is in ", (str(out), "bold"), ", and --resume goes on")
    else:
        printing.say("model in ", (str(out), "bold"))
