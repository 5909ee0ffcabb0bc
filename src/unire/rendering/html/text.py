"""A document's text with its entities marked, and its relations as a list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from html import escape
from importlib import resources

from unire.documents import Document, Relation
from unire.rendering.common import Palette, merge_symmetric, score_of, visible
from unire.rendering.terminal import TextStep, steps

__all__ = ["asset", "fragment", "relation_list", "sentences", "shown"]


def fragment(document: Document) -> str:
    """Text and relations with their style, to be put into any page: for notebooks. Light or dark, as the page is."""
    palette = Palette()
    text = "".join(f'<div class="sentence" dir="auto">{text}</div>' for text in sentences(document, palette))
    relations = relation_list(document, palette)
    return f'<div class="unire"><style>{asset("text.css")}</style><div class="text">{text}</div>{relations}</div>'


def sentences(document: Document, palette: Palette) -> Iterator[str]:
    """The inside of each sentence: words, and entities around them. Together they hold the whole text.

    A word is `<span class="w">`, an entity `<mark class="entity" data-entity="POSITION">`. Where entities cross one
    another or the end of a sentence, the later one is interrupted and goes on, so that elements nest.
    """
    tokens = list(steps(document))
    opened: list[int] = []
    for i, sentence in enumerate(document.sentences):
        # what stands between two sentences ends the first, so that a line end does not begin the second
        text = _words(document, tokens[sentence.start : sentence.end], opened, palette)
        before = shown(tokens[0].before) if i == 0 else ""
        after = shown(tokens[sentence.end].before) if len(sentence) else ""
        yield before + text + after
    if not document.sentences:
        yield shown(document.text)


def relation_list(document: Document, palette: Palette) -> str:
    """Relations as triples with their scores; nothing if there are none."""
    if not document.relations:
        return ""
    rows = "".join(
        f"<li{_hook(positions)}>{_triple(document.relations[positions[0]], len(positions) > 1, palette)}</li>"
        for positions in merge_symmetric(document.relations)
    )
    return f'<ul class="relations">{rows}</ul>'


def shown(text: str) -> str:
    """Text as HTML: nothing in it is markup, and no character acts unseen."""
    return escape(visible(text))


@cache
def asset(name: str, room: str = "unire.rendering.html") -> str:
    """A style sheet or a script of a room, this one unless told otherwise."""
    return (resources.files(room) / name).read_text(encoding="utf-8")


def _words(document: Document, tokens: Iterable[TextStep], opened: list[int], palette: Palette) -> str:
    entities = document.entities

    def start(entity: int) -> str:
        return f'<mark class="entity c{palette[entities[entity].label]}" data-entity="{entity}">'

    out = [start(entity) for entity in opened]
    for i, step in enumerate(tokens):
        out.append(shown(step.before) if i else "")
        out += map(start, step.opening)
        opened += step.opening
        out.append(f'<span class="w">{shown(step.word)}</span>')
        for entity in step.closing:
            inner = opened[opened.index(entity) + 1 :]
            out.append("</mark>" * len(inner) + _label(entities[entity].label) + "</mark>")
            out += map(start, inner)
            opened.remove(entity)
    return "".join(out) + "</mark>" * len(opened)


def _label(label: str) -> str:
    return f'<small class="label">{shown(label)}</small>'


def _hook(positions: Sequence[int]) -> str:
    return f' data-relations="{" ".join(map(str, positions))}"'


def _triple(relation: Relation, both: bool, palette: Palette) -> str:
    head, tail = (
        f'<span class="entity c{palette[entity.label]}">{shown(entity.text)}</span>'
        for entity in (relation.head, relation.tail)
    )
    name = f'<span class="relation c{palette[relation.label]}">{shown(relation.label)}</span>'
    score = f' <span class="score">{score_of(relation)}</span>' if relation.score is not None else ""
    return f'{head} <span class="arrow">{"← " if both else ""}{name} →</span> {tail}{score}'
