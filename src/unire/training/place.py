"""Where a model is trained to: finished ones stay as they are."""

from __future__ import annotations

from pathlib import Path

from unire.exceptions import UnireError
from unire.files import check_new, recover
from unire.modeling.checkpoint import check_target
from unire.settings import Settings
from unire.training.state import Snapshots

__all__ = ["check_place", "is_finished"]


def check_place(out: Path, *, resume: bool, remedy: str = "give a new folder") -> None:
    """Refuse a place where no model can be written, or where a training would replace one that is finished.

    Args:
        out: The folder for the model.
        resume: Whether an unfinished training is to be continued; there must be one then, if there is a model.
        remedy: What to do where there is a finished model.
    """
    recover(out)
    check_target(out)
    finished = is_finished(out)
    if not resume:
        Snapshots(out).check_fresh()
        if finished:
            check_new(out, remedy)
    elif finished and Snapshots(out).latest() is None:
        raise UnireError(f"the model in {str(out)!r} is finished, and there is nothing to resume; {remedy}")


def is_finished(out: Path) -> bool:
    """Whether there is a model, and not what an interrupted training has left and nobody has worked on since."""
    if not out.is_dir() or not any(out.iterdir()):
        return False
    made = Settings.load(out).provenance
    return not made.get("interrupted") or "calibration" in made or "export" in made
