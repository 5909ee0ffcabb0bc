"""What the colours of a palette look like on a terminal."""

from __future__ import annotations

from rich.color import Color, ColorSystem, ColorType
from rich.style import Style

from unire.rendering.palette import Palette

__all__ = ["FEW", "HUES", "style"]

HUES = (198, 29, 165, 100, 69, 130, 31, 167, 30, 200, 28, 93, 136, 32, 202, 33)
"""The palette in a terminal's 256 colours: the hues of `html/text.css`, to be read on black and on white."""

FEW = (1, 14, 5, 10, 4, 11, 12, 9, 14, 9, 2, 13, 11, 12, 3, 6)
"""The same where there are but 16, of which four are grey: entity types of one built-in label space never meet."""


class Hue(Color):
    """A colour that knows what stands for it among 16; the nearest to it, Rich's choice, is that of others too."""

    def downgrade(self, system: ColorSystem) -> Color:  # type: ignore[override]  # which is a cached function
        if system in (ColorSystem.STANDARD, ColorSystem.WINDOWS) and self.number is not None:
            return Color.from_ansi(FEW[HUES.index(self.number)]).downgrade(system)
        return super().downgrade(system)


def style(palette: Palette, label: str) -> Style:
    number = HUES[palette[label]]
    return Style(color=Hue(f"color({number})", ColorType.EIGHT_BIT, number))
