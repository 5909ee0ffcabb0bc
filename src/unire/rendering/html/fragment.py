"""A document for a notebook: its text with entities, arcs above it, and its relations as a list.

There are no scripts and no `style` attributes. Sentences with relations are SVG, the others are HTML. Arcs have lanes:
an arc is above all arcs that begin or end below it. `arcs.js` places the arcs of a page in the same way.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from unire.documents import Document, Entity, Sentence
from unire.rendering import Palette, TextStep, iter_steps, merge_symmetric
from unire.rendering.html.markup import escape_text, mark_sentences, read_asset, render_items, render_relations
from unire.rendering.html.text_layout import LABEL_SIZE, LINE_WIDTH, Mark, PlacedText, TextLine, lay_out, measure_text
from unire.utils import escape_controls

__all__ = ["render_fragment"]

LINE_HEIGHT = 32
MARK_HEIGHT = 24
BASELINE = 17
LANE = 19
NAME_SIZE = LABEL_SIZE
NAME_MARGIN = 10
ROUND = 5
STUB = 12
MIN_NAME, MAX_NAME = 8, 24
"""Characters of the name of an entity in another line."""


def render_fragment(document: Document) -> str:
    """Render text, arcs and relations with their style sheet. Light or dark, as the surrounding page is."""
    palette = Palette()
    drawings = _draw_sentences(document, palette)
    sentences = (
        drawings.get(
            i, f'<div class="sentence" dir="auto">{render_items(marked.items, document, palette)}{marked.gap}</div>'
        )
        for i, marked in enumerate(mark_sentences(document))
    )
    style = read_asset("text.css") + (read_asset("fragment.css") if drawings else "")
    relations = render_relations(document, palette)
    return f'<div class="unire"><style>{style}</style><div class="text">{"".join(sentences)}</div>{relations}</div>'


@dataclass(eq=False)
class _End:
    """An end of an arc: at its head or tail."""

    line: int
    mark: Mark
    name: str
    """The text of the entity."""
    tipped: bool
    """Whether it ends in an arrow."""
    reach: float = 0.0
    """The distance to the other end; negative to the left."""
    stub: str = ""
    """What names the other end, if that is in another line."""
    x: float = 0.0

    @property
    def width(self) -> float:
        return self.mark.right - self.mark.left


@dataclass(eq=False)
class _Piece:
    """An arc, or one of the two stubs of an arc whose ends are in different lines."""

    name: str
    colour: int
    left: _End | None
    right: _End | None
    low: float
    high: float
    middle: float
    lane: int = 0

    @property
    def ends(self) -> list[_End]:
        return [end for end in (self.left, self.right) if end]

    @property
    def half(self) -> float:
        return _name_width(self.name) / 2

    def is_over(self, other: _Piece) -> bool:
        """Whether the other one begins or ends below this one."""
        return other is not self and any(self.low < end.x < self.high for end in other.ends)


def _draw_sentences(document: Document, palette: Palette) -> dict[int, str]:
    """Draw every sentence in which a relation begins or ends, by its position in the document."""
    starts = [sentence.start for sentence in document.sentences]
    homes = [bisect_right(starts, entity.start) - 1 for entity in document.entities]
    positions = {entity: i for i, entity in enumerate(document.entities)}
    arguments = {positions[entity] for relation in document.relations for entity in (relation.head, relation.tail)}
    spanning = [i for i, entity in enumerate(document.entities) if entity in document.spanning_entities]
    steps = list(iter_steps(document))
    lines: list[TextLine] = []
    blocks: dict[int, range] = {}
    for i in sorted({homes[entity] for entity in arguments}):
        sentence = document.sentences[i]
        words = [*steps[sentence.start : sentence.end], TextStep(steps[sentence.end].before, [], "", [])]
        words[0] = words[0]._replace(before=words[0].before if i == 0 else "")  # it belongs to the sentence before
        opened = [k for k in spanning if document.entities[k].start < sentence.start < document.entities[k].end]
        first = len(lines)
        lines += lay_out(document, words, opened, mirror=_is_right_to_left(sentence))
        blocks[i] = range(first, len(lines))
    pieces = _place_arcs(document, lines, positions, palette)
    drawings = {}
    for i, block in blocks.items():
        drawing = _render_svg([(lines[k], pieces[k]) for k in block], document, palette)
        direction = "rtl" if _is_right_to_left(document.sentences[i]) else "ltr"
        drawings[i] = f'<div class="sentence drawn" dir="{direction}">{drawing}</div>'
    return drawings


def _is_right_to_left(sentence: Sentence) -> bool:
    """Whether the first letter is of a script that is written from right to left."""
    kinds = (unicodedata.bidirectional(character) for word in sentence.words for character in word)
    return next((kind for kind in kinds if kind in ("L", "R", "AL")), "L") != "L"


def _place_arcs(
    document: Document, lines: Sequence[TextLine], positions: Mapping[Entity, int], palette: Palette
) -> dict[int, list[_Piece]]:
    """Place the arcs of all relations above the lines; the two directions of a symmetric relation share one."""
    marks: dict[int, tuple[int, Mark]] = {}
    for k, line in enumerate(lines):
        for mark in line.marks:
            marks.setdefault(mark.entity, (k, mark))
    arcs = []
    for group in merge_symmetric(document.relations):
        relation, both = document.relations[group[0]], len(group) > 1
        head, tail = (
            _End(*marks[positions[entity]], escape_controls(entity.text), tipped)
            for entity, tipped in ((relation.head, both), (relation.tail, True))
        )
        label = escape_controls(relation.label)
        for here, there, arrow in ((head, tail, "→"), (tail, head, "←")):
            if here.line == there.line:
                here.reach = there.mark.left - here.mark.left
            else:
                _plan_stub(here, there, f"{label} {'↔' if both else arrow} ")
        arcs.append((head, tail, label, palette[relation.label]))
    _spread_ends([end for head, tail, *_ in arcs for end in (head, tail)])
    pieces: dict[int, list[_Piece]] = {k: [] for k in range(len(lines))}
    for head, tail, label, colour in arcs:
        for k, piece in _split_arc(head, tail, label, colour):
            pieces[k].append(piece)
    for above in pieces.values():
        _stack(above)
    return pieces


def _plan_stub(here: _End, there: _End, label: str) -> None:
    """Point to another line: towards it if the name of the other end fits, else to the side where more of it does."""
    space = {1: LINE_WIDTH - here.mark.right, -1: here.mark.left}
    way, name = 1 if there.line > here.line else -1, there.name
    name = name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"

    def length() -> float:
        return STUB + _name_width(label + name)

    if length() > space[way] and space[-way] > space[way]:
        way = -way
    while len(name) > MIN_NAME and length() > space[way]:
        name = f"{name[:-2]}…"
    # farther than anything in this line, and the more so the more lines are between
    here.reach = way * (1e5 + abs(there.line - here.line))
    here.stub = label + name


def _spread_ends(ends: Sequence[_End]) -> None:
    """Place the ends that meet at an entity side by side, in the order in which their arcs cross least."""
    meeting: defaultdict[int, list[_End]] = defaultdict(list)
    for end in ends:
        meeting[id(end.mark)].append(end)
    for group in meeting.values():
        group.sort(key=lambda end: (end.reach >= 0, -end.reach))  # to the left: near ones first; to the right: far ones
        step = min(14, group[0].width / (len(group) + 1))
        for i, end in enumerate(group):
            end.x = end.mark.left + end.width / 2 + (i - (len(group) - 1) / 2) * step


def _split_arc(head: _End, tail: _End, label: str, colour: int) -> Iterator[tuple[int, _Piece]]:
    """Yield an arc as one piece in one line, or as a stub in each of two."""
    if head.line != tail.line:
        for here in (head, tail):
            way = 1 if here.reach > 0 else -1
            width = _name_width(here.stub)
            middle, tip = here.x + way * (STUB + width / 2), here.x + way * (STUB + width)
            left, right = (here, None) if way > 0 else (None, here)
            yield here.line, _Piece(here.stub, colour, left, right, min(here.x, tip), max(here.x, tip), middle)
        return
    first, last = (head, tail) if head.x <= tail.x else (tail, head)
    half = _name_width(label) / 2
    middle = max(half, min(LINE_WIDTH - half, (first.x + last.x) / 2))
    low, high = min(first.x, middle - half), max(last.x, middle + half)
    yield head.line, _Piece(label, colour, first, last, low, high, middle)


def _stack(pieces: Sequence[_Piece]) -> None:
    """Give every piece the lowest lane above all pieces that begin or end below it."""

    def order(piece: _Piece) -> float:
        if len(piece.ends) == 2:
            return piece.high - piece.low
        return 1e5 + (piece.high if piece.right else -piece.low)

    lanes: list[list[_Piece]] = []
    waiting = sorted(pieces, key=order)
    while waiting:
        piece = next((p for p in waiting if not any(map(p.is_over, waiting))), waiting[0])
        waiting.remove(piece)
        above = max((i + 1 for i, lane in enumerate(lanes) if any(map(piece.is_over, lane))), default=0)
        free = (
            i
            for i in range(above, len(lanes))
            if all(piece.high + 3 <= other.low or other.high + 3 <= piece.low for other in lanes[i])
        )
        piece.lane = next(free, len(lanes))
        if piece.lane == len(lanes):
            lanes.append([])
        lanes[piece.lane].append(piece)
    for piece in pieces:
        _clear_name(piece, pieces)


def _clear_name(piece: _Piece, pieces: Sequence[_Piece]) -> None:
    """Move the name of an arc, as little as possible, to where no end of a higher arc crosses it."""
    left = piece.left.x if piece.left else 0.0
    right = piece.right.x if piece.right else LINE_WIDTH
    half, middle = piece.half, piece.middle
    crossing = [end.x for other in pieces if other.lane > piece.lane for end in other.ends]
    beside = [other for other in pieces if other.lane == piece.lane and other is not piece]

    def is_free(x: float) -> bool:
        low, high = x - half, x + half
        inside = left <= low and high <= right
        alone = all(high + 3 <= other.low or other.high + 3 <= low for other in beside)
        return inside and alone and all(abs(x - c) >= half for c in crossing)

    places = (x + side * (half + 1) for x in crossing for side in (-1, 1))
    if not is_free(middle) and (free := list(filter(is_free, places))):
        piece.middle = min(free, key=lambda x: abs(x - middle))
        piece.low, piece.high = min(piece.low, piece.middle - half), max(piece.high, piece.middle + half)


def _name_width(name: str) -> float:
    return measure_text(name, NAME_SIZE, bold=True) + NAME_MARGIN


# SVG


def _render_svg(lines: Sequence[tuple[TextLine, Sequence[_Piece]]], document: Document, palette: Palette) -> str:
    out = []
    y = 0.0
    for line, pieces in lines:
        y += LANE * (1 + max(piece.lane for piece in pieces)) + 8 if pieces else 0
        deepest = max((mark.depth for mark in line.marks), default=0)
        for mark in line.marks:
            colour = palette[document.entities[mark.entity].label]
            out.append(_render_mark(mark, y, deepest - mark.depth, colour))
        for word in line.words:
            out.append(escape_text(word.before) + (_render_text(word, y + BASELINE) if word.text else ""))
        out += (_render_text(label, y + BASELINE, 'class="label" font-weight="650" ') for label in line.labels)
        out += (_render_piece(piece, y - 3) for piece in pieces)
        y += LINE_HEIGHT
    low = min((piece.low for _, pieces in lines for piece in pieces), default=0.0)
    left = min(0.0, low)
    right = max([line.width for line, _ in lines] + [piece.high for _, pieces in lines for piece in pieces])
    size = f'width="{right - left:.1f}" height="{y:.1f}" viewBox="{left:.1f} 0 {right - left:.1f} {y:.1f}"'
    return f'<svg class="drawing" direction="ltr" {size}>{"".join(out)}</svg>'


def _render_mark(mark: Mark, y: float, margin: int, colour: int) -> str:
    top, height, width = y - margin, MARK_HEIGHT + 2 * margin, mark.right - mark.left
    frame = f'x="{mark.left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4.5"'
    foot = f"M{mark.left + 3:.1f} {top + height:.1f}H{mark.right - 3:.1f}"
    return (
        f'<g class="c{colour}"><rect class="mark" fill="none" {frame}/>'
        f'<path class="under" stroke="currentColor" stroke-width="2" stroke-linecap="round" d="{foot}"/></g>'
    )


def _render_text(text: PlacedText, y: float, attributes: str = "") -> str:
    length = f'textLength="{text.width:.1f}" lengthAdjust="spacingAndGlyphs"' if text.width else ""
    return f'<text {attributes}x="{text.x:.1f}" y="{y:.1f}" {length}>{escape_text(text.text)}</text>'


def _render_piece(piece: _Piece, foot: float) -> str:
    y = foot - (piece.lane + 0.75) * LANE
    half = piece.half - 3
    legs = "".join(
        _render_leg(
            end, piece.middle + (half if end is piece.right else -half), y, foot, -1 if end is piece.right else 1
        )
        for end in piece.ends
    )
    tips = "".join(
        f'<path class="tip" d="M{end.x:.1f} {foot + 3:.1f}l-4 -7h8z"/>'
        if end.tipped
        else f'<circle class="tip" cx="{end.x:.1f}" cy="{foot:.1f}" r="2.5"/>'
        for end in piece.ends
    )
    width = _name_width(piece.name) - NAME_MARGIN
    name = _render_text(
        PlacedText(piece.name, piece.middle - width / 2, width), y + 3.9, 'class="label" font-weight="600" '
    )
    line = f'<path class="line" fill="none" stroke="currentColor" stroke-width="1.5" d="{legs}"/>'
    return f'<g class="arc c{piece.colour}" aria-hidden="true">{line}{tips}{name}</g>'


def _render_leg(end: _End, name: float, y: float, foot: float, way: int) -> str:
    """A line from an end of an arc up and to its name; only up, if the name is above the end."""
    if (name - end.x) * way <= ROUND:
        return f"M{end.x:.1f} {foot:.1f}V{y + 7:.1f}"
    return f"M{end.x:.1f} {foot:.1f}V{y + ROUND:.1f}q0 {-ROUND} {ROUND * way} {-ROUND}H{name:.1f}"
