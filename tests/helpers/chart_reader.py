"""Charts read as people read them: values off the ticks of the axes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from xml.etree import ElementTree

from unire.studies.charts import COLOURS

XLINK = "{http://www.w3.org/1999/xlink}"
SVG = "{http://www.w3.org/2000/svg}"
Scale = Callable[[float], float]


class Chart:
    """An SVG of ours."""

    def __init__(self, svg: str) -> None:
        self.root = ElementTree.fromstring(svg)
        self.text = " ".join(self.root.itertext())
        self.titles = [str(title.text) for title in self.root.iter(f"{SVG}title")]
        """The tooltips of the marks, in order."""
        self.panels = [group for group in self.root.iter(f"{SVG}g") if re.fullmatch(r"axes_\d+", group.get("id", ""))]

    def dots(self) -> list[list[float]]:
        """The values at the dots of every panel, from its first row to its last."""
        return [
            [_scale(panel, "x")(x) for x, _ in _marks(panel, colour, faint=True)]
            for panel, colour in zip(self.panels, COLOURS, strict=False)
        ]

    def others(self) -> dict[str, list[list[float]]]:
        """The values at the hollow marks of every panel, first row to last, by their name in the legend."""
        return {
            name: [[_scale(panel, "x")(x) for x, _ in _like(panel, mark)] for panel in self.panels]
            for name, mark in _named(self.root)
        }

    def curves(self, n: int) -> list[list[tuple[float, float]]]:
        """The points of every curve."""
        (panel,) = self.panels
        at, height = _scale(panel, "x"), _scale(panel, "y")
        return [[(at(x), height(y)) for x, y in _marks(panel, colour)] for colour in COLOURS[:n]]

    def bars(self, n: int = 1) -> list[list[tuple[float, float]]]:
        """From where to where each bar reaches, of every part of the bars."""
        (panel,) = self.panels
        at = _scale(panel, "x")
        drawn = [[_corners(path) for path in _paths(panel, f"fill: {colour}")] for colour in COLOURS[:n]]
        return [[(at(corners[0][0]), at(corners[1][0])) for corners in part] for part in drawn]

    def steps(self, n: int) -> list[list[float]]:
        """The heights of a histogram's bins, of every series."""
        (panel,) = self.panels
        height = _scale(panel, "y")
        outlines = [next(_paths(panel, f"fill: none; stroke: {colour}")) for colour in COLOURS[:n]]
        found = []
        for corners in map(_corners, outlines):
            flat = (a for a, b in pairwise(corners) if a[0] < b[0])
            found.append([height(y) for _, y in flat])
        return found


def _scale(panel: ElementTree.Element, axis: str) -> Scale:
    """From the drawing's units to those of an axis, by its first and last tick that have a number."""
    ticks = []
    for tick in panel.iter(f"{SVG}g"):
        if re.fullmatch(rf"{axis}tick_\d+", tick.get("id", "")):
            (mark,) = tick.iter(f"{SVG}use")
            ticks.append((float(mark.attrib[axis]), float("".join(tick.itertext()).replace("\N{MINUS SIGN}", "-"))))
    (low, first), (high, last) = min(ticks), max(ticks)
    return lambda place: first + (place - low) * (last - first) / (high - low)


def _marks(panel: ElementTree.Element, colour: str, *, faint: bool = False) -> Iterator[tuple[float, float]]:
    legend = _legend(panel)
    for mark in panel.iter(f"{SVG}use"):
        style = mark.get("style", "")
        if f"fill: {colour}" in style and ("fill-opacity" in style) == faint and mark not in legend:
            yield float(mark.attrib["x"]), float(mark.attrib["y"])


def _named(chart: ElementTree.Element) -> Iterator[tuple[str, ElementTree.Element]]:
    """The names and marks of a legend that all panels share."""
    for legend in chart.iterfind(f"{SVG}g/{SVG}g[@id='legend_1']"):
        names = ("".join(text.itertext()) for text in legend.iter(f"{SVG}text"))
        yield from zip(names, legend.iter(f"{SVG}use"), strict=True)


def _like(panel: ElementTree.Element, mark: ElementTree.Element) -> Iterator[tuple[float, float]]:
    """Where the marks are that have a mark's shape, and are as hollow."""
    for other in panel.iter(f"{SVG}use"):
        if all(other.get(name) == mark.get(name) for name in (f"{XLINK}href", "style")):
            yield float(other.attrib["x"]), float(other.attrib["y"])


def _paths(panel: ElementTree.Element, style: str) -> Iterator[str]:
    legend = _legend(panel)
    for path in panel.iter(f"{SVG}path"):
        if path.get("style", "").startswith(style) and "clip-path" in path.attrib and path not in legend:
            yield path.attrib["d"]


def _legend(panel: ElementTree.Element) -> set[ElementTree.Element]:
    """What only explains the data."""
    return {part for group in panel.iter(f"{SVG}g") if group.get("id") == "legend_1" for part in group.iter()}


def _corners(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML] ([-\d.]+) ([-\d.]+)", path)]
