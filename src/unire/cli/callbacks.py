"""A training as the terminal shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from unire.cli import printing
from unire.training.callbacks import Callback
from unire.training.resume import TrainState

__all__ = ["TerminalCallback"]


class TerminalCallback(Callback):
    """A progress bar over the epochs, and a line per look at dev."""

    def __init__(self) -> None:
        self._bar = Progress(
            TextColumn("epoch"),
            MofNCompleteColumn(),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[losses]}"),
            console=printing.errors,
        )

    def on_train_begin(self, info: Mapping[str, Any]) -> None:
        printing.say(
            f"{info['sentences']:,} sentences of {info['documents']:,} documents, "
            f"{info['parameters'] / 1e6:.1f}M parameters, on {info['device']}"
            + (f" × {info['processes']}" if info["processes"] > 1 else "")
        )
        if "teachers" in info:
            teachers = ", ".join(info["teachers"])
            printing.say(f"{info['unlabelled documents']:,} unlabelled documents, teachers: {teachers}")
        printing.print_notes(info["notes"])
        self._task = self._bar.add_task("", total=info["epochs"], completed=info["epochs done"], losses="")
        self._bar.start()

    def on_step_end(self, state: TrainState) -> None:
        self._bar.update(self._task, completed=state.epochs_done)

    def on_epoch_end(self, record: Mapping[str, Any]) -> None:
        losses = "  ".join(f"L_{name[:3]} {value:.4f}" for name, value in record["loss"].items())
        self._bar.update(self._task, losses=losses)
        if "dev" in record:
            ent, rel = record["dev"]["ent"], record["dev"]["rel"]
            printing.say(f"epoch {record['epoch']:>4}  {losses}  dev Ent {100 * ent:.1f}  Rel {100 * rel:.1f}")

    def on_train_end(self) -> None:
        self._bar.stop()
