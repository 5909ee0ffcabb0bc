"""Statistics as a picture. Needs `unire[plot]`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unire.analysis.statistics import DataCounts, Statistics
from unire.errors import UnireError
from unire.files import replace_atomically

__all__ = ["plot"]

ENTITIES, RELATIONS, NOTHING = "#3b6ea5", "#c2703d", "#999999"


def plot(statistics: Statistics, path: Path, title: str = "") -> None:
    """Draw types, lengths and cells into a file, whose ending says of what kind: `.png`, `.svg` or `.pdf`."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UnireError('drawing needs matplotlib; install it with `pip install "unire[plot]"`') from None
    kind = path.suffix.removeprefix(".")
    if kind not in ("png", "svg", "pdf"):
        raise UnireError(f"{path} must end in .png, .svg or .pdf, which says what kind of picture it is")
    types = len(statistics.entity_types) + len(statistics.relation_types)
    figure = Figure(figsize=(11, 3 + 0.5 * max(types, 8)), layout="constrained")
    axes = figure.subplots(2, 2)
    figure.suptitle(title)
    _bars(axes[0, 0], "Entities and relations as annotated", statistics.entity_types, statistics.relation_types)
    _bars(axes[0, 1], "Cells of each label", statistics.entity_cells, statistics.relation_cells, statistics.empty_cells)
    _lengths(axes[1, 0], "Sentences by length in words", statistics.sentence_lengths, NOTHING)
    _lengths(axes[1, 1], "Entities by length in words", statistics.entity_lengths, ENTITIES)
    try:
        with replace_atomically(path) as temporary:
            figure.savefig(temporary, format=kind, dpi=150)
    except OSError as error:
        raise UnireError(f"{path} cannot be written: {error.strerror or error}") from None


def _bars(axes: Any, title: str, entities: Mapping[str, int], relations: Mapping[str, int], empty: int = 0) -> None:
    """A bar for every type, entities above relations, on a logarithmic scale: the imbalance spans orders."""
    rows = [("⊥", empty, NOTHING)] if empty else []
    rows += [(name, count, ENTITIES) for name, count in entities.items()]
    rows += [(name, count, RELATIONS) for name, count in relations.items()]
    places = range(len(rows))
    bars = axes.barh(places, [count for _, count, _ in rows], color=[color for *_, color in rows])
    axes.bar_label(bars, [f"{count:,}" for _, count, _ in rows], padding=3, fontsize=8)
    # by place and not by name, since an entity type and a relation type may share one
    axes.set_yticks(places, [name for name, *_ in rows])
    axes.set_xscale("symlog")
    axes.margins(x=0.15)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left")


def _lengths(axes: Any, title: str, lengths: DataCounts[int], color: str) -> None:
    axes.bar(list(lengths.keys()), list(lengths.values()), width=1, color=color)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left")
