"""Charts read as people read them: values off the ticks of the axes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from xml.etree import ElementTree

from unire.studies.charts import COLOURS

SVG = "{http://www.w3.org/2000/svg}"
Scale = Callable[[float], float]


class Chart:
    """An SVG of ours."""

    def __init__(self, svg: str) -> None:
        self.root = ElementTree.fromstring(svg)
        self.text = " ".join(self.root.itertext())
        self.titles = [str(title.text) for title in self.root.iter(f"{SVG}title")]
        """What is said of the marks, one by one."""
        self.panels = [group for group in self.root.iter(f"{SVG}g") if re.fullmatch(r"axes_\d+", group.get("id", ""))]

    def dots(self) -> list[list[float]]:
        """The values at the dots of every panel, from its first row to its last."""
        return [
            [_scale(panel, "x")(x) for x, _ in _marks(panel, colour, faint=True)]
            for panel, colour in zip(self.panels, COLOURS, strict=False)
        ]

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
