"""What the colours of a palette look like on a terminal."""

from __future__ import annotations

from rich.style import Style

from unire.rendering.palette import Palette

__all__ = ["HUES", "style"]

HUES = (198, 29, 165, 100, 69, 130, 31, 167, 30, 200, 28, 93, 136, 32, 202, 33)
"""The palette in a terminal's 256 colours: the hues of `html/text.css`, to be read on black and on white."""


def style(palette: Palette, label: str) -> Style:
    return Style(color=f"color({HUES[palette[label]]})")
