"""Where a model is trained to: finished ones stay as they are. Without torch: a wrong place is known at once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from unire.config import ModelConfig
from unire.errors import UnireError
from unire.files import check_output_folder, recover
from unire.hub.model_dir import ensure_writable

__all__ = ["check_folds", "check_output_dir", "fold_folder", "is_finished", "latest", "resume_folder", "states_in"]

STATE = re.compile(r"step-\d{9,}|\.step-\d{9,}\.[0-9a-f]{8}\.(partial|previous)")
"""The name of a state in a resume folder, and of one that is being written or replaced."""


def check_output_dir(out: Path, *, resume: bool, remedy: str = "pass a new folder") -> None:
    """Refuse a place where no model can be written, or where a training would replace one that is finished.

    Args:
        out: The folder for the model.
        resume: Whether an unfinished training is to be continued; there must be one then, if there is a model.
        remedy: What to do where there is a finished model.
    """
    recover(out)
    ensure_writable(out)
    finished, waiting = is_finished(out), resume_folder(out)
    _check_own(waiting)
    if not resume:
        if latest(waiting) is not None:
            raise UnireError(f"there is an unfinished training in {str(waiting)!r}; resume it, or remove the folder")
        if finished:
            check_output_folder(out, remedy=remedy)
    elif finished and latest(waiting) is None:
        raise UnireError(f"the model in {str(out)!r} is finished, and there is nothing to resume; {remedy}")


def check_folds(out: Path, numbers: Iterable[int], *, resume: bool) -> None:
    """The same for the folds of these numbers. With `resume` those that are finished may be there."""
    for number in () if resume else numbers:
        check_output_dir(fold_folder(out, number), resume=False, remedy="resume the folds, or pass a new folder")


def fold_folder(out: Path, number: int) -> Path:
    """Where the model of a fold lies."""
    return out / f"fold-{number:02d}"


def resume_folder(out: Path) -> Path:
    """Where the state of a training lies that writes its model to `out`."""
    out = out.resolve()
    return out.with_name(out.name + ".resume")


def states_in(folder: Path) -> list[Path]:
    """All that trainings have written into such a folder, whole or not."""
    return [path for path in folder.iterdir() if STATE.fullmatch(path.name) and path.is_dir()]


def _check_own(folder: Path) -> None:
    """Refuse a resume folder that holds something of the user's: a finished training removes it."""
    try:
        strange = sorted({*folder.iterdir()} - {*states_in(folder)}) if folder.exists() else []
    except OSError as error:
        raise UnireError(f"{str(folder)!r} cannot be looked into: {error.strerror or error}") from None
    if strange:
        raise UnireError(
            f"{str(folder)!r} is where the state of the training goes, but it holds {strange[0].name!r}; "
            "move that elsewhere, or give another folder for the model"
        )


def latest(folder: Path) -> Path | None:
    """The latest state in such a folder, also if a process was killed as it replaced that."""
    try:
        for aside in folder.glob(".step-*.previous"):
            recover(folder / aside.name.split(".")[1])
    except OSError as error:
        raise UnireError(f"{str(folder)!r} cannot be looked into: {error.strerror or error}") from None
    return max(folder.glob("step-*[0-9]"), default=None)


def is_finished(out: Path) -> bool:
    """Whether there is a model, and not what an interrupted training has left and nobody has worked on since."""
    if not out.is_dir() or not any(out.iterdir()):
        return False
    made = ModelConfig.load(out).provenance
    return not made.get("interrupted") or "calibration" in made or "export" in made
