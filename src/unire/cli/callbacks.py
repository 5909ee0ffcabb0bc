"""A training as the terminal shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from unire.cli import printing
from unire.training.callbacks import Callback

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

    def start(self, facts: Mapping[str, Any]) -> None:
        printing.say(
            f"{facts['sentences']:,} sentences of {facts['documents']:,} documents, "
            f"{facts['parameters'] / 1e6:.1f}M parameters, on {facts['device']}"
            + (f" × {facts['processes']}" if facts["processes"] > 1 else "")
        )
        if "teachers" in facts:
            teachers = ", ".join(facts["teachers"])
            printing.say(f"{facts['unlabelled documents']:,} unlabelled documents, teachers: {teachers}")
        printing.print_notes(facts["notes"])
        self._task = self._bar.add_task("", total=facts["epochs"], completed=facts["epochs done"], losses="")
        self._bar.start()

    def step(self, epoch: float, epochs: int) -> None:
        self._bar.update(self._task, completed=epoch)

    def epoch(self, record: Mapping[str, Any]) -> None:
        losses = "  ".join(f"L_{name[:3]} {value:.4f}" for name, value in record["loss"].items())
        self._bar.update(self._task, losses=losses)
        if "dev" in record:
            ent, rel = record["dev"]["ent"], record["dev"]["rel"]
            printing.say(f"epoch {record['epoch']:>4}  {losses}  dev Ent {100 * ent:.1f}  Rel {100 * rel:.1f}")

    def close(self) -> None:
        self._bar.stop()
