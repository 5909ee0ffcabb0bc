"""Table 4: what each part of the method is worth, on test."""

from __future__ import annotations

from unire.studies.trainings import TrainingStudy, Variant

__all__ = ["ABLATION"]

ROWS = (
    Variant("default", {}, {"ACE05": (88.8, 64.3), "SciERC": (68.4, 36.9)}),
    Variant("w/o symmetry loss", {"symmetry": False}, {"ACE05": (88.9, 64.0), "SciERC": (67.3, 35.5)}),
    Variant("w/o implication loss", {"implication": "none"}, {"ACE05": (89.0, 63.3), "SciERC": (68.0, 37.1)}),
    Variant("w/o logit dropout", {"logit_dropout": 0.0}, {"ACE05": (88.8, 61.8), "SciERC": (66.9, 34.7)}),
    Variant("w/o cross-sentence context", {"window": 0}, {"ACE05": (87.9, 62.7), "SciERC": (65.3, 32.1)}),
    Variant("hard decoding", {}, {"ACE05": (74.0, 34.6), "SciERC": (46.1, 17.8)}, decoder="hard"),
)

ABLATION = TrainingStudy("ablate", "Ablation (Table 4)", "test", lambda config: ROWS)
