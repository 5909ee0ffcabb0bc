"""Charts as SVG text: every axis has its name and unit, every chart says how much it counts.

Whoever points at a dot or a bar on the page is told its name and value.
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

Told = list[tuple["Artist", Sequence[str]]]
"""What was drawn, and what is said of each of its dots, or of it as a whole."""

COLOURS = ("#2f6db5", "#d1602b", "#3f8f5b", "#8a5aab", "#8c8c8c")
QUIET = "#59636e"
"""What is not ours, and what is said below."""
LEAST_RANGE = 6.0
"""Points of F1 from one end of an axis to the other, or more."""
EDGE = 0.03
"""Share of an axis that lies beyond 0, or 100, at most: a dot there is to be whole."""
STYLE = {
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e4e7eb",
    "svg.fonttype": "none",  # text stays text: it can be read, searched and copied
    "svg.hashsalt": "unire",  # the same numbers, the same file
}


def dots(
    names: Sequence[str],
    panels: Mapping[str, Sequence[Sequence[float]]],
    *,
    unit: str,
    note: str,
    dot: str | None = None,
    theirs: tuple[str, Mapping[str, Sequence[float | None]]] | None = None,
) -> str:
    """A panel for each measure with a row for each name: its values as dots, and the mean and deviation of several.

    `dot` is what the note says that a dot is. `theirs` are values of somebody else's: who that is, and by panel one for
    each name that has one. They are hollow marks above ours, with a legend.
    """
    if dot is not None:
        barred = any(len(values) > 1 for rows in panels.values() for values in rows)
        note += f"; a dot is a {dot}" + (", a bar the mean ± the standard deviation" if barred else "")

    def draw(figure: Figure) -> Told:
        told: Told = []
        for axes, (title, rows), colour in zip(
            figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels.items(), COLOURS, strict=False
        ):
            for place, values in enumerate(rows):
                several = len(values) > 1
                below = [place + (0.22 if several else 0)] * len(values)
                drawn = axes.plot(values, below, "o", color=colour, alpha=0.45, markersize=4, linewidth=0)
                told.append((drawn[0], [f"{names[place]}: {title} {value:.1f}" for value in values]))
                if several:
                    spread = stdev(values)
                    axes.errorbar(mean(values), place, xerr=spread, color=colour, marker="|", markersize=13, capsize=3)
            if theirs:
                whose, of_panels = theirs
                there = [(value, place) for place, value in enumerate(of_panels[title]) if value is not None]
                xs, ys = [value for value, _ in there], [place - 0.24 for _, place in there]
                drawn = axes.plot(xs, ys, "s", color=QUIET, markerfacecolor="none", markersize=5, label=whose)
                told.append((drawn[0], [f"{names[place]}: {title} {value:.1f}; {whose}" for value, place in there]))
            _widen(axes)
            axes.set_title(title)
            axes.set_xlabel(unit)
            axes.set_yticks(range(len(names)), names)
            axes.set_ylim(len(names) - 0.5, -0.5)  # the first on top
        if theirs:
            figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", frameon=False)
        return told

    return _svg(draw, (9, 1.4 + 0.34 * len(names) + (0.3 if theirs else 0)), note)


def histogram(
    edges: Sequence[float], series: Mapping[str, Sequence[int]], *, x: str, y: str, mark: tuple[float, str], note: str
) -> str:
    """Shares of counts in bins, in percent of each series; `mark` is a place on the x axis and its name."""

    def draw(figure: Figure) -> Told:
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
        axes.legend(edgecolor="none", framealpha=0.9)  # readable where it lies on the mark
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
    """Curves over one axis; `mark` is a place on the x axis and its name."""

    def draw(figure: Figure) -> Told:
        axes = figure.subplots()
        told: Told = []
        for (name, values), colour in zip(series.items(), COLOURS, strict=False):
            drawn = axes.plot(xs, values, ".-", label=name, color=colour, linewidth=1.5, markersize=4)
            said = [f"{name} {value:.1f} at {place:g}" for place, value in zip(xs, values, strict=True)]
            told.append((drawn[0], said))
        _mark(axes, mark)
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.set_ylim(bottom=0)
        axes.legend(edgecolor="none", framealpha=0.9)  # readable where it lies on the mark
        return told

    return _svg(draw, (7.5, 3.8), note)


def bars(names: Sequence[str], values: Sequence[float], labels: Sequence[str], *, x: str, note: str) -> str:
    """A bar for each name, with a label at its end."""

    def draw(figure: Figure) -> Told:
        axes = figure.subplots()
        drawn = axes.barh(range(len(names)), values, color=COLOURS[0])
        axes.bar_label(drawn, labels, padding=4)
        _rows(axes, names)
        axes.set_xlabel(x)
        axes.margins(x=0.16)
        said = (f"{name}: {label}; {x}: {value:.4g}" for name, label, value in zip(names, labels, values, strict=True))
        return [(bar, [text]) for bar, text in zip(drawn, said, strict=True)]

    return _svg(draw, (7.5, 1.3 + 0.36 * len(names)), note)


def stacks(names: Sequence[str], parts: Mapping[str, Sequence[float]], *, x: str, note: str) -> str:
    """A bar for each name, made of parts."""

    def draw(figure: Figure) -> Told:
        axes = figure.subplots()
        told: Told = []
        left = [0.0] * len(names)
        for (part, values), colour in zip(parts.items(), COLOURS, strict=False):
            drawn = axes.barh(range(len(names)), values, left=left, color=colour, label=part)
            said = (f"{name}: {part} {value:.3g}" for name, value in zip(names, values, strict=True))
            told += [(bar, [text]) for bar, text in zip(drawn, said, strict=True)]
            left = [start + value for start, value in zip(left, values, strict=True)]
        _rows(axes, names)
        axes.set_xlabel(x)
        axes.legend(frameon=False, ncols=len(parts), loc="lower left", bbox_to_anchor=(0, 1))
        return told

    return _svg(draw, (8.5, 1.6 + 0.3 * len(names)), note)


def matplotlib() -> Any:
    """The library, which is no part of every install: asked for early, it is not missed after hours of training."""
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError:
        raise UnireError('charts need matplotlib: pip install "unire[studies]"') from None
    return matplotlib


def _widen(axes: Any) -> None:
    """Have an axis of percents reach over some points at least: a small difference is to look small."""
    low, high = axes.get_xlim()
    missing = max(0.0, LEAST_RANGE - (high - low))
    low, high = low - missing / 2, high + missing / 2
    least, most = -EDGE * (high - low), 100 + EDGE * (high - low)
    moved = max(0.0, least - low) + min(0.0, most - high)
    axes.set_xlim(max(low + moved, least), min(high + moved, most))


def _rows(axes: Any, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)


def _mark(axes: Any, mark: tuple[float, str]) -> None:
    place, name = mark
    axes.axvline(place, color="#444444", linestyle="--", linewidth=1, label=name)


def _svg(draw: Callable[[Figure], Told], size: tuple[float, float], note: str) -> str:
    library = matplotlib()
    with library.rc_context(STYLE):
        figure = library.figure.Figure(figsize=size, layout="constrained")
        told = draw(figure)
        for place, (artist, _) in enumerate(told):
            artist.set_gid(f"told-{place}")
        figure.supxlabel(note, fontsize=8.5, color=QUIET, x=0.01, ha="left")
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = file.getvalue()
    for place, (artist, said) in enumerate(told):
        mark = "use" if isinstance(artist, library.lines.Line2D) else "path"
        text = _titled(text, f'<g id="told-{place}">', mark, said)
    return text[text.index("<svg") :]


def _titled(svg: str, group: str, mark: str, said: Sequence[str]) -> str:
    """Have the marks of a group say something to those who point at them; the group needs its name no longer."""
    before, drawn = svg.split(group)
    texts = iter(said)
    with_title = re.compile(rf"<{mark} ([^>]*)/>")
    drawn = with_title.sub(
        lambda found: f"<{mark} {found[1]}><title>{escape(next(texts))}</title></{mark}>", drawn, count=len(said)
    )
    return f"{before}<g>{drawn}"
