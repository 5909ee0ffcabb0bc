"""HTML of a document: its text with the entities marked, its relations as a list, and the head of a page.

All text from data is escaped here and in `page.py`. The scripts insert it as text; they insert as markup only what this
module wrote.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources

from unire.documents import Document, Relation
from unire.rendering import Palette, TextStep, format_score, iter_steps, merge_symmetric
from unire.utils import escape_controls

__all__ = ["PageTemplate", "escape_text", "mark_sentences", "read_asset", "render_relations"]


def mark_sentences(document: Document, palette: Palette) -> Iterator[str]:
    """Yield the HTML of each sentence, with words and entities as elements. Together they hold the whole text.

    A word is `<span class="w">`, an entity `<mark class="entity" data-entity="POSITION">`. If entities overlap partly
    or cross the end of a sentence, the later one is split into several elements, so that elements nest.
    """
    tokens = list(iter_steps(document))
    opened: list[int] = []
    for i, sentence in enumerate(document.sentences):
        # text between two sentences belongs to the first, so that no sentence starts with a line end
        text = _mark_words(document, tokens[sentence.start : sentence.end], opened, palette)
        before = escape_text(tokens[0].before) if i == 0 else ""
        after = escape_text(tokens[sentence.end].before) if len(sentence) else ""
        yield before + text + after
    if not document.sentences:
        yield escape_text(document.text)


def render_relations(document: Document, palette: Palette) -> str:
    """Render the relations as a list of triples with their scores; empty if there are none."""
    if not document.relations:
        return ""
    rows = "".join(
        f'<li data-relations="{" ".join(map(str, positions))}">'
        f"{_render_triple(document.relations[positions[0]], len(positions) > 1, palette)}</li>"
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


def _mark_words(document: Document, tokens: Iterable[TextStep], opened: list[int], palette: Palette) -> str:
    entities = document.entities

    def start(entity: int) -> str:
        return f'<mark class="entity c{palette[entities[entity].label]}" data-entity="{entity}">'

    out = [start(entity) for entity in opened]
    for i, step in enumerate(tokens):
        out.append(escape_text(step.before) if i else "")
        out += map(start, step.opening)
        opened += step.opening
        out.append(f'<span class="w">{escape_text(step.word)}</span>')
        for entity in step.closing:
            inner = opened[opened.index(entity) + 1 :]
            out.append("</mark>" * len(inner) + _render_label(entities[entity].label) + "</mark>")
            out += map(start, inner)
            opened.remove(entity)
    return "".join(out) + "</mark>" * len(opened)


def _render_label(label: str) -> str:
    return f'<small class="label">{escape_text(label)}</small>'


def _render_triple(relation: Relation, both: bool, palette: Palette) -> str:
    head, tail = (
        f'<span class="entity c{palette[entity.label]}">{escape_text(entity.text)}</span>'
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
        script: The script. It runs as soon as it is read.
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
