"""HTML of a document: its text with the entities marked, its relations as a list, and the head of a page.

All text from data is escaped here and in `page.py`. The scripts insert it as text.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from typing import NamedTuple

from unire.documents import Document, Relation
from unire.rendering import Palette, TextStep, format_score, iter_steps, merge_symmetric
from unire.utils import escape_controls

__all__ = [
    "Item",
    "MarkedSentence",
    "PageTemplate",
    "escape_text",
    "mark_sentences",
    "read_asset",
    "render_items",
    "render_relations",
]


Item = str | list[str] | int | None
"""A part of a sentence: text between words, `[word]`, the position of an entity that starts, or an end.

`None` ends the innermost entity. `CONTINUED` ends it for now: it starts again, because entities overlap only partly or
cross the end of a sentence.
"""
CONTINUED = -1

BLANK_LINE = re.compile(r"\n\s*\n")


class MarkedSentence(NamedTuple):
    """A sentence with its entities."""

    items: list[Item]
    gap: str
    """The white space after the sentence, or nothing."""
    starts_paragraph: bool
    """Whether a blank line is before the sentence, or nothing."""


def mark_sentences(document: Document) -> Iterator[MarkedSentence]:
    """Yield the words and entities of each sentence. Together the sentences hold the whole text.

    All characters are visible: control characters are escaped.
    """
    tokens = list(iter_steps(document))
    opened: list[int] = []
    starts_paragraph = True
    for i, sentence in enumerate(document.sentences):
        # text between two sentences belongs to the first, so that no sentence starts with a line end
        items = _mark_words(tokens[sentence.start : sentence.end], opened)
        after = tokens[sentence.end].before if len(sentence) else ""
        gap = "" if after.strip() else after
        before: list[Item] = [escape_controls(tokens[0].before)] if i == 0 and tokens[0].before else []
        rest: list[Item] = [escape_controls(after)] if after.strip() else []
        yield MarkedSentence(before + items + rest, escape_controls(gap), starts_paragraph)
        starts_paragraph = bool(BLANK_LINE.search(after))
    if not document.sentences:
        yield MarkedSentence([escape_controls(document.text)], "", True)


def render_items(items: Iterable[Item], document: Document, palette: Palette) -> str:
    """Render a sentence: a word is `<span class="w">`, an entity `<mark class="entity" data-entity="POSITION">`.

    An entity that is continued is several elements, so that elements nest.
    """
    out: list[str] = []
    opened: list[int] = []
    for item in items:
        if isinstance(item, str):
            out.append(escape(item))
        elif isinstance(item, list):
            out.append(f'<span class="w">{escape(item[0])}</span>')
        elif item is None:
            label = document.entities[opened.pop()].label
            out.append(f'<small class="label">&nbsp;{escape_text(label)}</small></mark>')
        elif item == CONTINUED:
            opened.pop()
            out.append("</mark>")
        else:
            opened.append(item)
            out.append(f'<mark class="entity c{palette[document.entities[item].label]}" data-entity="{item}">')
    return "".join(out)


def render_relations(document: Document, palette: Palette) -> str:
    """Render the relations of a fragment as a list of triples with their scores; empty if there are none."""
    if not document.relations:
        return ""
    rows = "".join(
        f"<li>{_render_triple(document.relations[positions[0]], len(positions) > 1, palette)}</li>"
        for positions in merge_symmetric(document.relations)
    )
    return f'<ul class="relations">{rows}</ul>'


def escape_text(text: str) -> str:
    """Escape text for HTML, and make its control characters visible."""
    return escape(escape_controls(text))


@cache
def read_asset(name: str, package: str = "unire.rendering.html") -> str:
    """Read a style sheet or script of a package."""
    return (resources.files(package) / name).read_text(encoding="utf-8")


def _mark_words(tokens: Iterable[TextStep], opened: list[int]) -> list[Item]:
    """The items of a sentence. `opened` has the entities that started before, and is kept up to date."""
    items: list[Item] = list(opened)
    for i, step in enumerate(tokens):
        if i and step.before:
            items.append(escape_controls(step.before))
        items += step.opening
        opened += step.opening
        items.append([escape_controls(step.word)])
        for entity in step.closing:
            inner = opened[opened.index(entity) + 1 :]
            items += [CONTINUED] * len(inner)
            items.append(None)
            items += inner
            opened.remove(entity)
    items += [CONTINUED] * len(opened)
    return items


def _render_triple(relation: Relation, both: bool, palette: Palette) -> str:
    head, tail = (
        f'<span class="entity c{palette[entity.label]}"><bdi>{escape_text(entity.text)}</bdi>'
        f'&nbsp;<small class="label">{escape_text(palette.code(entity.label))}</small></span>'
        for entity in (relation.head, relation.tail)
    )
    name = f'<span class="relation c{palette[relation.label]}">{escape_text(relation.label)}</span>'
    score = f' <span class="score">{format_score(relation)}</span>' if relation.score is not None else ""
    return f'{head} <span class="arrow">{"← " if both else ""}{name} →</span> {tail}{score}'


@dataclass(frozen=True)
class PageTemplate:
    """The head of a page that holds its own style sheet and script.

    The content security policy allows these two, by their hashes, and little else.

    Args:
        title: The title, as text.
        style: The style sheet.
        script: The script. It runs as soon as it is loaded.
        connects: Whether the script may send requests to the server of the page.
        styled: Whether elements have `style` attributes, as charts do.
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
        return "; ".join(f"{directive} {source}" for directive, source in allowed.items() if source)

    @property
    def head(self) -> str:
        """The page from its first character to the end of the head."""
        return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{self.policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="unire">
<title>{escape_text(self.title)}</title>
<style>{self.style}</style>
{f"<script>{self.script}</script>" if self.script else ""}
</head>
"""


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
