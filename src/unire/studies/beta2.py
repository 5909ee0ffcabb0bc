"""Section 4: AdamW's β₂. The paper finds 0.9 better than the usual 0.999, and gives no figures."""

from __future__ import annotations

from unire.studies.trainings import TrainingStudy, Variant

__all__ = ["BETA2"]

ROWS = tuple(Variant(f"β₂ = {beta2}", {"beta2": beta2}) for beta2 in (0.9, 0.999))

BETA2 = TrainingStudy("beta2", "AdamW's β₂ (section 4)", "dev", lambda config: ROWS)
