"""The counts of the paper's Table 2, to stand beside one's own."""

from __future__ import annotations

__all__ = ["TABLE_2"]

TABLE_2 = {
    "ace04": {"sentences": 8_683, "entities": 22_519, "relations_doubled": 4_417},
    "ace05": {"sentences": 14_525, "entities": 38_287, "relations_doubled": 7_691},
    "scierc": {"sentences": 2_687, "entities": 8_094, "relations_doubled": 5_463},
}
"""By the name of the label space; relations count as in `Statistics.relations_doubled`."""
