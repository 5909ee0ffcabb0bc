"""Table 6, W: how many words a window has, on dev.

Shared windows are filled with whole sentences up to the encoder's limit, whatever W is. So where the setup has shared
windows, W is varied in the layout `in-place`, and a row more says what the shared ones give.
"""

from __future__ import annotations

from collections.abc import Sequence

from unire.studies.trainings import Published, TrainingStudy, Variant
from unire.training import TrainingConfig

__all__ = ["WINDOW"]

PAPER: dict[int, Published] = {
    100: {"ACE05": (87.4, 62.4), "SciERC": (69.0, 36.7)},
    200: {"ACE05": (87.9, 62.1), "SciERC": (70.6, 38.3)},
    300: {"ACE05": (87.2, 60.8), "SciERC": (69.4, 35.4)},
}


def _variants(config: TrainingConfig) -> Sequence[Variant]:
    shared = config.layout == "shared"
    layout = {"layout": "in-place"} if shared else {}
    rows = [Variant(f"W = {window}", {"window": window, **layout}, paper) for window, paper in PAPER.items()]
    return [*rows, Variant("shared windows")] if shared else rows


WINDOW = TrainingStudy("window", "Words of a window (Table 6)", "dev", _variants)
