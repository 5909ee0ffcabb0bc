"""Shared options of the training commands, and the output of their results."""

from __future__ import annotations

import json as json_module
import math
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from unire.cli import console
from unire.cli.options import INPUT, MODEL, OUTPUT, documents_from, flag, option
from unire.config import Layout
from unire.documents import Document
from unire.errors import UnireError
from unire.training.callbacks import Callback, exit_status
from unire.training.config import PRESETS, TrainingConfig

if TYPE_CHECKING:
    from unire.evaluation.scores import Scores
    from unire.training.callbacks import TrainState
    from unire.training.train import TrainResult

__all__ = [
    "DEV",
    "ENCODER",
    "PRESET_NAMES",
    "TRAINING",
    "BatchSize",
    "Data",
    "Dev",
    "Encoder",
    "Epochs",
    "HeadLr",
    "Layouts",
    "Lr",
    "Minutes",
    "Patience",
    "Preset",
    "Resume",
    "SaveEveryEpochs",
    "SaveEveryMinutes",
    "Seed",
    "Set",
    "StudyPreset",
    "Tensorboard",
    "TerminalCallback",
    "Test",
    "Window",
    "changes_from",
    "config_from",
    "describe_margin",
    "distributed_errors",
    "new_callbacks",
    "read_parts",
    "report",
    "stopped",
]

TRAINING = "Training (defaults: those of --preset)"
"""Panel of `--help`."""
BEST = PRESETS["best"]
CPU = PRESETS["cpu"]
"""Their values are shown as defaults."""
PRESET_NAMES = "`best`, `cpu`, `paper` or `released` (the paper's code)"
ENCODER = "Pretrained encoder: Hub name, folder or trained model."
DEV = "Annotated dev file, to choose the epoch and tune decoder and scores."


def _setting(name: str, metavar: str, help: str, default: str | None = None) -> Any:
    """An option for a field of `TrainingConfig`."""
    return option(name, metavar=metavar, help=help, panel=TRAINING, default=default)


Encoder = Annotated[str, option("--encoder", metavar="NAME", help=ENCODER, panel=MODEL)]
Data = Annotated[list[Path], option("--data", metavar="FILE", help="Annotated file. May be repeated.", panel=INPUT)]
Dev = Annotated[
    list[Path] | None,
    option("--dev", metavar="FILE", help=DEV, panel=INPUT),
]
Test = Annotated[
    list[Path] | None, option("--test", metavar="FILE", help="Annotated file, scored once after training.", panel=INPUT)
]

Preset = Annotated[str | None, _setting("--preset", "NAME", f"{PRESET_NAMES}.", "best on a GPU, else cpu")]
StudyPreset = Annotated[str, _setting("--preset", "NAME", f"{PRESET_NAMES}.")]
Epochs = Annotated[
    int | None,
    _setting("--epochs", "N", "Passes over the annotated data.", f"{BEST.epochs} in best, {CPU.epochs} in cpu"),
]
Minutes = Annotated[
    float | None,
    option("--minutes", metavar="M", help="Time limit, from loading to the last step.", panel=TRAINING),
]
BatchSize = Annotated[
    int | None,
    _setting(
        "--batch-size", "N", "Annotated sentences per step.", f"{BEST.batch_size} in best, {CPU.batch_size} in cpu"
    ),
]
Lr = Annotated[
    float | None,
    _setting("--lr", "X", "Peak learning rate of the encoder.", f"{BEST.lr:g} in best"),
]
HeadLr = Annotated[
    float | None,
    _setting(
        "--head-lr",
        "X",
        "Peak learning rate of the head (MLPs and biaffine).",
        f"{BEST.head_lr:g} in best",
    ),
]
Layouts = Annotated[
    Layout | None,
    _setting(
        "--layout", "NAME", "Layout of the windows: `in-place`, `released` or `shared`.", f"{BEST.layout} in best"
    ),
]
Window = Annotated[
    int | None,
    _setting(
        "--window",
        "N",
        "Words per window; 0 = no context. `shared` fills the encoder.",
        f"{PRESETS['paper'].window} in paper",
    ),
]
Patience = Annotated[
    int | None,
    _setting("--patience", "N", "Stop after N epochs without improvement on dev.", f"{BEST.patience} in best"),
]
Seed = Annotated[
    int | None,
    _setting("--seed", "N", "Random seed. Training is reproducible on a CPU.", f"{BEST.seed}"),
]
Set = Annotated[
    list[str] | None,
    _setting("--set", "NAME=VALUE", "Any other setting, e.g. implication=none. A wrong name lists all."),
]

Resume = Annotated[bool, flag("--resume", help="Continue an interrupted training.", panel=OUTPUT)]
SaveEveryEpochs = Annotated[
    int | None,
    option("--save-every-epochs", metavar="N", min=1, help="Save a checkpoint every N epochs.", panel=OUTPUT),
]
SaveEveryMinutes = Annotated[
    float | None,
    option("--save-every-minutes", metavar="M", min=0.0, help="Save a checkpoint every M minutes.", panel=OUTPUT),
]
Tensorboard = Annotated[
    Path | None,
    option("--tensorboard", metavar="FOLDER", help="Write TensorBoard event files to FOLDER.", panel=OUTPUT),
]

PROVENANCE_KEYS = ("encoder", "encoder_weights", "base", "adaptation", "distillation")
"""Parts of the provenance that are printed, if they are known."""
LONG_SECONDS = 1800.0
"""A training that takes longer is announced with a hint how to limit it."""
LOG_LINE_SECONDS = 60.0
"""Time between two lines about the progress, if the output is not a terminal."""
ERROR_GRACE_SECONDS = 10.0
"""Time in which local rank 0 reports the same error, after which the launcher ends the other processes."""


@contextmanager
def distributed_errors() -> Iterator[None]:
    """In distributed runs, report errors from local rank 0 only, and shut down the other processes cleanly.

    An error usually occurs in all processes. The other ranks wait, because the launcher ends rank 0 as soon as another
    process fails. A rank that is still alive afterwards has another error and reports it.
    """
    try:
        yield
    except UnireError:
        if int(os.environ.get("LOCAL_RANK", "0")):
            time.sleep(ERROR_GRACE_SECONDS)
        raise
    except typer.Exit:
        _shut_down()
        raise
    _shut_down()


def _shut_down() -> None:
    from unire.training.distributed import shutdown

    shutdown()


def config_from(
    preset: str | None, settings: Sequence[str], *, further: str | None = None, **options: Any
) -> TrainingConfig:
    """A preset with the changes of `--set` and of other options. Options that are `None` change nothing.

    Args:
        preset: Its name; `None` for that of this machine.
        settings: NAME=VALUE of `--set`.
        further: A trained model to continue from, with its head.
        **options: Values of other options.
    """
    changes = changes_from("--set", settings, **options)
    if further is not None:
        return TrainingConfig.further(further, preset, **changes)
    return TrainingConfig.from_preset(preset, **changes)


def changes_from(option: str, settings: Sequence[str], **options: Any) -> dict[str, Any]:
    """Settings by name: the other options that are not `None`, and NAME=VALUE of this one.

    Raises:
        UnireError: A setting is not NAME=VALUE, or contradicts the option of that name.
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
    """The documents of each part, and the notes of their readers. Notes are printed unless the result is JSON.

    In distributed runs, local rank 0 prints them.
    """
    notes: Counter[str] = Counter()
    documents = [documents_from(files or [], format, notes=notes) for files in parts]
    if not json and not int(os.environ.get("LOCAL_RANK", "0")):
        console.print_notes(notes)
    return documents, +notes


def new_callbacks(json: bool, tensorboard: Path | None) -> list[Callback]:
    """Callbacks for the terminal (unless the result is JSON) and for TensorBoard."""
    from unire.training.callbacks import TensorBoardCallback
    from unire.training.distributed import is_main

    if not is_main():
        return []
    callbacks: list[Callback] = [] if json else [TerminalCallback()]
    if tensorboard is not None:
        callbacks.append(TensorBoardCallback(tensorboard))
    return callbacks


class TerminalCallback(Callback):
    """A progress bar, a line per evaluation on dev and, if the output is a file, a line per minute."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._bar = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[now]}"),
            console=console.errors,
        )
        self._epochs = 0
        self._first: tuple[float, float] | None = None
        """When the first step of this run ended, and the fraction of the training that was done then."""
        self._announced = False
        self._printed = 0.0

    def on_train_begin(self, info: Mapping[str, Any]) -> None:
        self._reset()  # self-training has two trainings
        console.say(
            f"{info['sentences']:,} sentences of {info['documents']:,} documents, "
            f"{info['parameters'] / 1e6:.1f}M parameters, on {info['device']}"
            + (f" × {info['processes']}" if info["processes"] > 1 else "")
        )
        if info.get("encoder choice"):
            f1 = ", ".join(f"{name} {100 * value:.1f}" for name, value in sorted(info["encoder choice"].items()))
            console.say(f"starting from {info['encoder']!r}: a probe for your entity types has F1 {f1}")
        if "teachers" in info:
            teachers = ", ".join(info["teachers"])
            console.say(f"{info['unlabelled documents']:,} unlabelled documents, teachers: {teachers}")
        console.print_notes(info["notes"])
        self._epochs = info["epochs"]
        self._task = self._bar.add_task("", total=1.0, completed=0, epoch=f"{info['epochs done']}", now="")
        self._bar.start()

    def on_stage(self, stage: str) -> None:
        self._bar.update(self._task, now=stage)

    def on_step_end(self, state: TrainState) -> None:
        self._bar.update(self._task, completed=state.fraction, epoch=f"{math.ceil(state.epochs_done)}/{self._epochs}")
        now = time.monotonic()
        if self._first is None:
            self._first, self._printed = (now, state.fraction), now
            return
        rate = (state.fraction - self._first[1]) / (now - self._first[0])
        seconds = (1 - state.fraction) / rate if rate > 0 else math.inf
        left = _describe_seconds(seconds) if rate > 0 else "unknown"
        if not self._announced:
            hint = "; --minutes limits it" if LONG_SECONDS < seconds < math.inf else ""
            console.say(
                f"the training takes about {left}, up to {self._epochs} epochs of {state.epoch_steps} steps{hint}"
            )
            self._announced = True
        elif not console.errors.is_terminal and now - self._printed >= LOG_LINE_SECONDS:
            console.say(f"{state.fraction:.0%} done, epoch {math.ceil(state.epochs_done)}, about {left} left")
            self._printed = now

    def on_epoch_end(self, record: Mapping[str, Any]) -> None:
        losses = "  ".join(f"L_{name[:3]} {value:.4f}" for name, value in record["loss"].items())
        self._bar.update(self._task, now=losses)
        if "dev" in record:
            ent, rel = record["dev"]["ent"], record["dev"]["rel"]
            console.say(f"epoch {record['epoch']:>4}  {losses}  dev Ent {100 * ent:.1f}  Rel {100 * rel:.1f}")

    def on_train_end(self) -> None:
        self._bar.stop()


def _describe_seconds(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def describe_margin(scores: Scores) -> str:
    """How far F1 on all text may be from F1 on so few annotations; empty if there are enough.

    F1 is treated as the share of correct ones among the gold annotations, with a normal approximation.
    """
    from unire.evaluation.tuning import SMALL_DEV_ITEMS

    n_entities, n_relations = scores.entities.total.gold, scores.relations.total.gold
    if n_entities + n_relations >= SMALL_DEV_ITEMS:
        return ""
    margins = [
        f"{name} F1 ± {196 * math.sqrt(max(f1 * (1 - f1), 1 / 16) / n):.0f}"
        for name, f1, n in (("Ent", scores.entities.f1, n_entities), ("Rel", scores.relations.f1, n_relations))
        if n
    ]
    few = f"has only {n_entities:,} entities and {n_relations:,} relations, so scores are rough"
    return f"{few}: {', '.join(margins)} (95%)" if margins else few


def stopped(number: int = signal.SIGINT) -> typer.Exit:
    """The exit status of a command that a signal has stopped."""
    return typer.Exit(exit_status(number))


def report(trained: TrainResult, out: Path, notes: Mapping[str, int], json: bool) -> None:
    """Print the result of a training. `notes` are those of its data; without JSON they have been printed already."""
    if not trained.main:
        return
    provenance = trained.model.config.provenance
    scores = {name: part for name, part in (("dev", trained.dev), ("test", trained.test)) if part is not None}
    if json:
        console.print_json(
            {
                "out": str(out),
                "alpha": trained.model.config.alpha,
                "relation_odds": trained.model.config.relation_odds,
                "epoch": provenance["epochs"],
                "interrupted": trained.interrupted,
                "notes": {**notes, **trained.notes},
                **{key: provenance[key] for key in PROVENANCE_KEYS if key in provenance},
                "scores": {name: part.to_dict() for name, part in scores.items()},
                "history": trained.history,
            }
        )
        return
    settings = trained.model.config
    for name, part in scores.items():
        fitted = f" (α = {settings.alpha:g}, relation odds = {settings.relation_odds:g})"
        console.say((name, "bold"), fitted, to=console.out)
        console.print_scores(part)
        if margin := describe_margin(part):
            console.say(f"{name} {margin}")
    if trained.interrupted:
        scored = any("dev" in record for record in trained.history)
        which = "best model so far" if scored else "latest model, never scored on dev,"
        console.say(f"interrupted; the {which} is in ", (str(out), "bold"), "; continue with --resume")
    else:
        console.say("model in ", (str(out), "bold"))
