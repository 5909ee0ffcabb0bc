"""The page at `/`: a text is typed and its tables are seen. It holds all that it needs, and asks this server alone."""

from __future__ import annotations

from unire.decoding import CUTTING
from unire.extractor import Extractor
from unire.rendering.html import data
from unire.rendering.html.shell import Shell
from unire.rendering.html.text import asset, shown
from unire.rendering.palette import Palette

__all__ = ["Page"]

STYLE = ("text.css", "page.css", "table.css")
SCRIPT = ("arcs.js", "table.js", "document.js")


class Page:
    """The page for a model."""

    def __init__(self, extractor: Extractor, name: str) -> None:
        shell = Shell(
            f"unire: {name}",
            "\n".join([*map(asset, STYLE), asset("live.css", __name__)]),
            "\n".join([*map(asset, SCRIPT), asset("live.js", __name__)]),
            connects=True,
        )
        labels, settings = extractor.labels, extractor.settings
        known = {
            "labels": data.of_labels(labels, Palette(labels)),
            "alpha": settings.alpha if settings.decoder in CUTTING else None,
            "byDistance": settings.decoder == "split",
        }
        body = asset("live.html", __name__).replace("{name}", shown(name))
        script = data.script(known, 'id="known"')
        self.html = f"{shell.head}{body.replace('{known}', script)}</html>\n"
        self.headers = {
            "Content-Security-Policy": f"{shell.policy}; frame-ancestors 'none'",
            "Cache-Control": "no-cache",
        }
