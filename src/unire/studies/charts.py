"""Charts as SVG text: axes have names and units, and every chart has a note on its data.

Dots and bars have tooltips with their name and value.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from unire.errors import UnireError

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

__all__ = ["bars", "dots", "histogram", "lines", "matplotlib", "stacks"]

Tooltips = list[tuple["Artist", Sequence[str]]]
"""Drawn artists, with a text for each of their dots, or one text for the whole."""

COLOURS = ("#2f6db5", "#d1602b", "#3f8f5b", "#8a5aab", "#8c8c8c")
GREY = "#59636e"
"""For reference values and notes."""
MIN_RANGE_PERCENT = 6.0
"""Minimum length of an axis, in points of F1."""
MAX_MARGIN = 0.03
"""Fraction of an axis that may be below 0 or above 100, so that dots there are not cut."""
STYLE = {
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e4e7eb",
    "svg.fonttype": "none",  # keep text searchable
    "svg.hashsalt": "unire",  # deterministic output
}


def dots(
    names: Sequence[str],
    panels: Mapping[str, Sequence[Sequence[float]]],
    *,
    unit: str,
    note: str,
    dot: str | None = None,
    reference: tuple[str, Mapping[str, Sequence[float | None]]] | None = None,
) -> str:
    """A panel per measure and a row per name: values as dots, with mean and standard deviation of several.

    Args:
        names: The rows.
        panels: By measure, the values of every row.
        unit: Label of the x axes.
        note: Text below the chart.
        dot: What a dot is, for the note; with a single one in each row, the note warns of chance.
        reference: A title, and by measure one published value per row or `None`. They are hollow marks with a legend.
    """
    if dot is not None:
        has_bars = any(len(values) > 1 for rows in panels.values() for values in rows)
        dots_and_bars = f"a dot is a {dot}, a bar the mean ± the standard deviation"
        note += f"; {dots_and_bars if has_bars else f'one {dot}, so differences may be due to chance'}"

    def draw(figure: Figure) -> Tooltips:
        tooltips: Tooltips = []
        for axes, (title, rows), colour in zip(
            figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels.items(), COLOURS, strict=False
        ):
            for place, values in enumerate(rows):
                several = len(values) > 1
                below = [place + (0.22 if several else 0)] * len(values)
                drawn = axes.plot(values, below, "o", color=colour, alpha=0.45, markersize=4, linewidth=0)
                tooltips.append((drawn[0], [f"{names[place]}: {title} {value:.1f}" for value in values]))
                if several:
                    spread = stdev(values)
                    axes.errorbar(mean(values), place, xerr=spread, color=colour, marker="|", markersize=13, capsize=3)
            if reference:
                source, by_panel = reference
                there = [(value, place) for place, value in enumerate(by_panel[title]) if value is not None]
                xs, ys = [value for value, _ in there], [place - 0.24 for _, place in there]
                drawn = axes.plot(xs, ys, "s", color=GREY, markerfacecolor="none", markersize=5, label=source)
                tooltips.append(
                    (drawn[0], [f"{names[place]}: {title} {value:.1f}; {source}" for value, place in there])
                )
            _widen(axes)
            axes.set_title(title)
            axes.set_xlabel(unit)
            axes.set_yticks(range(len(names)), names)
            axes.set_ylim(len(names) - 0.5, -0.5)  # the first on top
        if reference:
            figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", frameon=False)
        return tooltips

    return _svg(draw, (9, 1.4 + 0.34 * len(names) + (0.3 if reference else 0)), note)


def histogram(
    edges: Sequence[float], series: Mapping[str, Sequence[int]], *, x: str, y: str, mark: tuple[float, str], note: str
) -> str:
    """Counts in bins, in percent of each series. `mark` is a position on the x axis and its name."""

    def draw(figure: Figure) -> Tooltips:
        axes = figure.subplots()
        for (name, counts), colour in zip(series.items(), COLOURS, strict=False):
            total = max(sum(counts), 1)
            label = f"{name} (n = {sum(counts):,})"
            axes.stairs([100 * count / total for count in counts], edges, fill=True, alpha=0.35, color=colour)
            axes.stairs([100 * count / total for count in counts], edges, color=colour, linewidth=1.5, label=label)
        _mark(axes, mark)
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.set_xlim(edges[0], edges[-1])
        axes.legend(edgecolor="none", framealpha=0.9)  # readable on top of the mark
        return []

    return _svg(draw, (7.5, 3.8), note)


def lines(
    xs: Sequence[float],
    series: Mapping[str, Sequence[float]],
    *,
    x: str,
    y: str,
    mark: tuple[float, str],
    note: str,
) -> str:
    """Curves over one axis. `mark` is a position on the x axis and its name."""

    def draw(figure: Figure) -> Tooltips:
        axes = figure.subplots()
        tooltips: Tooltips = []
        for (name, values), colour in zip(series.items(), COLOURS, strict=False):
            drawn = axes.plot(xs, values, ".-", label=name, color=colour, linewidth=1.5, markersize=4)
            texts = [f"{name} {value:.1f} at {place:g}" for place, value in zip(xs, values, strict=True)]
            tooltips.append((drawn[0], texts))
        _mark(axes, mark)
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.set_ylim(bottom=0)
        axes.legend(edgecolor="none", framealpha=0.9)  # readable on top of the mark
        return tooltips

    return _svg(draw, (7.5, 3.8), note)


def bars(names: Sequence[str], values: Sequence[float], labels: Sequence[str], *, x: str, note: str) -> str:
    """A bar for each name, with a label at its end."""

    def draw(figure: Figure) -> Tooltips:
        axes = figure.subplots()
        drawn = axes.barh(range(len(names)), values, color=COLOURS[0])
        axes.bar_label(drawn, labels, padding=4)
        _rows(axes, names)
        axes.set_xlabel(x)
        axes.margins(x=0.16)
        texts = (f"{name}: {label}; {x}: {value:.4g}" for name, label, value in zip(names, labels, values, strict=True))
        return [(bar, [text]) for bar, text in zip(drawn, texts, strict=True)]

    return _svg(draw, (7.5, 1.3 + 0.36 * len(names)), note)


def stacks(names: Sequence[str], parts: Mapping[str, Sequence[float]], *, x: str, note: str) -> str:
    """A stacked bar for each name."""

    def draw(figure: Figure) -> Tooltips:
        axes = figure.subplots()
        tooltips: Tooltips = []
        left = [0.0] * len(names)
        for (part, values), colour in zip(parts.items(), COLOURS, strict=False):
            drawn = axes.barh(range(len(names)), values, left=left, color=colour, label=part)
            texts = (f"{name}: {part} {value:.3g}" for name, value in zip(names, values, strict=True))
            tooltips += [(bar, [text]) for bar, text in zip(drawn, texts, strict=True)]
            left = [start + value for start, value in zip(left, values, strict=True)]
        _rows(axes, names)
        axes.set_xlabel(x)
        axes.legend(frameon=False, ncols=len(parts), loc="lower left", bbox_to_anchor=(0, 1))
        return tooltips

    return _svg(draw, (8.5, 1.6 + 0.3 * len(names)), note)


def matplotlib() -> Any:
    """Import matplotlib, an optional dependency. Call this early, so that it does not fail after hours of training."""
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError:
        raise UnireError('charts need matplotlib: pip install "unire[studies]"') from None
    return matplotlib


def _widen(axes: Any) -> None:
    """Widen an axis of percentages to a minimum, so that small differences look small."""
    low, high = axes.get_xlim()
    missing = max(0.0, MIN_RANGE_PERCENT - (high - low))
    low, high = low - missing / 2, high + missing / 2
    least, most = -MAX_MARGIN * (high - low), 100 + MAX_MARGIN * (high - low)
    moved = max(0.0, least - low) + min(0.0, most - high)
    axes.set_xlim(max(low + moved, least), min(high + moved, most))


def _rows(axes: Any, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)


def _mark(axes: Any, mark: tuple[float, str]) -> None:
    place, name = mark
    axes.axvline(place, color="#444444", linestyle="--", linewidth=1, label=name)


def _svg(draw: Callable[[Figure], Tooltips], size: tuple[float, float], note: str) -> str:
    library = matplotlib()
    with library.rc_context(STYLE):
        figure = library.figure.Figure(figsize=size, layout="constrained")
        tooltips = draw(figure)
        for place, (artist, _) in enumerate(tooltips):
            artist.set_gid(f"tooltip-{place}")
        figure.supxlabel(note, fontsize=8.5, color=GREY, x=0.01, ha="left")
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = file.getvalue()
    for place, (artist, texts) in enumerate(tooltips):
        mark = "use" if isinstance(artist, library.lines.Line2D) else "path"
        text = _add_titles(text, f'<g id="tooltip-{place}">', mark, texts)
    return text[text.index("<svg") :]


def _add_titles(svg: str, group: str, mark: str, texts: Sequence[str]) -> str:
    """Add a tooltip to every mark of a group, and remove the id of the group."""
    before, drawn = svg.split(group)
    remaining = iter(texts)
    with_title = re.compile(rf"<{mark} ([^>]*)/>")
    drawn = with_title.sub(
        lambda found: f"<{mark} {found[1]}><title>{escape(next(remaining))}</title></{mark}>", drawn, count=len(texts)
    )
    return f"{before}<g>{drawn}"
