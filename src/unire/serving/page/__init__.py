"""The page at `/`, where users type a text and see its tables. It has no external resources."""

from __future__ import annotations

from unire.decoding.decoders import SPAN_DECODERS
from unire.extractor import Extractor
from unire.rendering import Palette
from unire.rendering.html.markup import PageTemplate, escape_text, read_asset
from unire.rendering.html.page import embed_json, encode_labels

__all__ = ["LivePage"]

STYLE = ("text.css", "page.css", "table.css")
SCRIPT = ("arcs.js", "table.js", "document.js")


class LivePage:
    """The page for a model."""

    def __init__(self, extractor: Extractor, name: str) -> None:
        shell = PageTemplate(
            f"unire: {name}",
            "\n".join([*map(read_asset, STYLE), read_asset("live.css", __name__)]),
            "\n".join([*map(read_asset, SCRIPT), read_asset("live.js", __name__)]),
            connects=True,
        )
        labels, settings = extractor.labels, extractor.config
        known = {
            "labels": encode_labels(labels, Palette(labels)),
            "alpha": settings.alpha if settings.decoder in SPAN_DECODERS else None,
            "byDistance": settings.decoder == "split",
        }
        body = read_asset("live.html", __name__).replace("{name}", escape_text(name))
        script = embed_json(known, 'id="known"')
        self.html = f"{shell.head}{body.replace('{known}', script)}</html>\n"
        self.headers = {
            "Content-Security-Policy": f"{shell.policy}; frame-ancestors 'none'",
            "Cache-Control": "no-cache",
        }
