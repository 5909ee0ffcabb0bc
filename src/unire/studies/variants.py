"""Table 6, W: how many words a window has, on dev.

Shared windows are filled with whole sentences up to the encoder's limit, whatever W is. So where the setup has shared
windows, W is varied in the layout `in-place`, and a row more says what the shared ones give.
"""

from __future__ import annotations

from collections.abc import Sequence

from unire.studies.trainings import Published, TrainingStudy, Variant
from unire.training.config import TrainingConfig

__all__ = ["ABLATION", "BETA2", "DROPOUT", "WINDOW"]

ABLATION_ROWS = (
    Variant("default", {}, {"ACE05": (88.8, 64.3), "SciERC": (68.4, 36.9)}),
    Variant("w/o symmetry loss", {"symmetry": False}, {"ACE05": (88.9, 64.0), "SciERC": (67.3, 35.5)}),
    Variant("w/o implication loss", {"implication": "none"}, {"ACE05": (89.0, 63.3), "SciERC": (68.0, 37.1)}),
    Variant("w/o logit dropout", {"logit_dropout": 0.0}, {"ACE05": (88.8, 61.8), "SciERC": (66.9, 34.7)}),
    Variant("w/o cross-sentence context", {"window": 0}, {"ACE05": (87.9, 62.7), "SciERC": (65.3, 32.1)}),
    Variant("hard decoding", {}, {"ACE05": (74.0, 34.6), "SciERC": (46.1, 17.8)}, decoder="hard"),
)

ABLATION = TrainingStudy("ablate", "Ablation (Table 4)", "test", lambda config: ABLATION_ROWS)


BETA2_ROWS = tuple(Variant(f"β₂ = {beta2}", {"beta2": beta2}) for beta2 in (0.9, 0.999))

BETA2 = TrainingStudy("beta2", "AdamW's β₂ (section 4)", "dev", lambda config: BETA2_ROWS)


DROPOUT_PAPER: dict[float, Published] = {
    0.1: {"ACE05": (87.4, 61.8), "SciERC": (71.1, 37.8)},
    0.2: {"ACE05": (87.9, 62.1), "SciERC": (70.6, 38.3)},
    0.3: {"ACE05": (87.2, 62.1), "SciERC": (67.8, 33.5)},
    0.4: {"ACE05": (87.4, 62.0), "SciERC": (70.6, 35.8)},
}
DROPOUT_ROWS = tuple(Variant(f"p = {rate}", {"logit_dropout": rate}, paper) for rate, paper in DROPOUT_PAPER.items())

DROPOUT = TrainingStudy("dropout", "Logit dropout (Table 6)", "dev", lambda config: DROPOUT_ROWS)


WINDOW_PAPER: dict[int, Published] = {
    100: {"ACE05": (87.4, 62.4), "SciERC": (69.0, 36.7)},
    200: {"ACE05": (87.9, 62.1), "SciERC": (70.6, 38.3)},
    300: {"ACE05": (87.2, 60.8), "SciERC": (69.4, 35.4)},
}


def _variants(config: TrainingConfig) -> Sequence[Variant]:
    shared = config.layout == "shared"
    layout = {"layout": "in-place"} if shared else {}
    rows = [Variant(f"W = {window}", {"window": window, **layout}, paper) for window, paper in WINDOW_PAPER.items()]
    return [*rows, Variant("shared windows")] if shared else rows


WINDOW = TrainingStudy("window", "Words of a window (Table 6)", "dev", _variants)
