"""Characters that would act instead of being seen, made visible."""

from __future__ import annotations

import re

__all__ = ["visible"]

ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
"""Control characters but for tab and line feed, those that turn the direction of writing, halves of surrogate pairs."""


def visible(text: str) -> str:
    """`text` with a sign or a code in the place of every such character: `␛[31m`, `‹U+202E›`."""
    return ACTING.sub(_sign, text) if ACTING.search(text) else text


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"‹U+{code:04X}›"
