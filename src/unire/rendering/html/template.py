"""The head of a page that holds its own style sheet and script, and may use no others.

Its security policy allows these two, by their hashes, and little else.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

from unire.rendering.html.text import shown

__all__ = ["PageTemplate"]


@dataclass(frozen=True)
class PageTemplate:
    """What stands around a page.

    Args:
        title: As text.
        style: The style sheet.
        script: Runs as soon as it is read.
        connects: Whether the script may ask the server that the page came from.
        styled: Whether elements of the page bring styles of their own, as drawn charts do.
    """

    title: str
    style: str
    script: str = ""
    connects: bool = False
    styled: bool = False

    @property
    def policy(self) -> str:
        """The content security policy."""
        allowed = {
            "default-src": "'none'",
            "connect-src": "'self'" if self.connects else "",
            "style-src": "'unsafe-inline'" if self.styled else _hash(self.style),
            "script-src": _hash(self.script) if self.script else "",
            "base-uri": "'none'",
            "form-action": "'none'",
        }
        return "; ".join(f"{what} {where}" for what, where in allowed.items() if where)

    @property
    def head(self) -> str:
        """From the first character to the end of the head."""
        return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{self.policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="unire">
<title>{shown(self.title)}</title>
<style>{self.style}</style>
{f"<script>{self.script}</script>" if self.script else ""}
</head>
"""


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
