"""Evaluation: protocols, counts, precision, recall and F1, bootstrap intervals, calibration error, tuning on dev.

>>> from unire.documents import Document
>>> from unire.labels import LabelSpace
>>> words = [["Ada", "lives", "in", "London"]]
>>> gold = Document.from_words(words, [(0, 1, "Peop"), (3, 4, "Loc")], [(0, 1, "Live_In")])
>>> predicted = Document.from_words(words, [(0, 1, "Peop")])
>>> print(score([gold], [predicted], LabelSpace.learn([gold])))
Ent 66.7 (P 100.0, R 50.0)  Rel 0.0 (P 0.0, R 0.0)  Span 66.7  [strict, doubled, micro]
"""

from unire.evaluation.bootstrap import (
    Comparison,
    Difference,
    Interval,
    Intervals,
    RateIntervals,
    bootstrap,
    paired_bootstrap,
)
from unire.evaluation.calibration_error import CalibrationErrors, Outcomes, Reliability, collect_outcomes
from unire.evaluation.coreference import CoreferenceScores, score_coreference
from unire.evaluation.scorer import count_one_way, score
from unire.evaluation.scores import DEFAULT_PROTOCOL, Counts, Protocol, Scores, TypedCounts

__all__ = [
    "DEFAULT_PROTOCOL",
    "CalibrationErrors",
    "Comparison",
    "CoreferenceScores",
    "Counts",
    "Difference",
    "Interval",
    "Intervals",
    "Outcomes",
    "Protocol",
    "RateIntervals",
    "Reliability",
    "Scores",
    "TypedCounts",
    "bootstrap",
    "collect_outcomes",
    "count_one_way",
    "paired_bootstrap",
    "score",
    "score_coreference",
]
