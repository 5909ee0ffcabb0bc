"""Analysis of annotated data: statistics, checks and splits."""

from __future__ import annotations

from unire.analysis.checks import Issue, IssueKind, check_files, find_issues
from unire.analysis.splits import draw_folds, split_by_lists, split_folds, stratified_split, write_folds, write_parts
from unire.analysis.statistics import Statistics, plot_statistics

__all__ = [
    "Issue",
    "IssueKind",
    "Statistics",
    "check_files",
    "draw_folds",
    "find_issues",
    "plot_statistics",
    "split_by_lists",
    "split_folds",
    "stratified_split",
    "write_folds",
    "write_parts",
]
