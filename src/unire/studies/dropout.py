"""Table 6, p: dropout on the logits of L_entry, on dev."""

from __future__ import annotations

from unire.studies.trainings import Published, TrainingStudy, Variant

__all__ = ["DROPOUT"]

PAPER: dict[float, Published] = {
    0.1: {"ACE05": (87.4, 61.8), "SciERC": (71.1, 37.8)},
    0.2: {"ACE05": (87.9, 62.1), "SciERC": (70.6, 38.3)},
    0.3: {"ACE05": (87.2, 62.1), "SciERC": (67.8, 33.5)},
    0.4: {"ACE05": (87.4, 62.0), "SciERC": (70.6, 35.8)},
}
ROWS = tuple(Variant(f"p = {rate}", {"logit_dropout": rate}, paper) for rate, paper in PAPER.items())

DROPOUT = TrainingStudy("dropout", "Logit dropout (Table 6)", "dev", lambda config: ROWS)
