"""Documents on a terminal: readable with and without colour, on narrow terminals, and with hostile text."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

from unire.cli.console import THEME
from unire.cli.main import HELP_STYLES
from unire.documents import Document
from unire.labels import LabelSpace
from unire.rendering import N_COLOURS, Palette, merge_symmetric
from unire.rendering.terminal import COLOURS_16, COLOURS_256, TerminalView, label_style
from unire.utils import escape_controls

DOCUMENT = Document.from_words(
    [["Ada", "Lovelace", "lives", "in", "London", "."]],
    [(0, 2, "Peop", 0.9), (4, 5, "Loc", 0.8)],
    [(0, 1, "Live_In", 0.934)],
    id="a",
)

COLOURS_OF_TERMINALS = {
    "VGA": {
        1: (170, 0, 0),
        2: (0, 170, 0),
        3: (170, 85, 0),
        5: (170, 0, 170),
        6: (0, 170, 170),
        9: (255, 85, 85),
        12: (85, 85, 255),
        13: (255, 85, 255),
    },
    "Windows": {
        1: (197, 15, 31),
        2: (19, 161, 14),
        3: (193, 156, 0),
        5: (136, 23, 152),
        6: (58, 150, 221),
        9: (231, 72, 86),
        12: (59, 120, 255),
        13: (180, 0, 158),
    },
}
"""The readable ones of the 16 colours, as terminals show them by default."""


def printed(document: Document, **console) -> str:
    out = io.StringIO()
    Console(file=out, **{"width": 80, **console}).print(TerminalView(document))
    return out.getvalue()


def test_without_colour_entities_stand_in_brackets_and_relations_below():
    assert printed(DOCUMENT) == (
        "a\n[Ada Lovelace|Peop] lives in [London|Loc] .\n  0.93  Ada Lovelace  — Live_In →  London\n\n"
    )


def test_no_color_is_heeded_on_a_terminal(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    text = printed(DOCUMENT, force_terminal=True)
    assert "[Ada Lovelace|Peop]" in text
    assert "38;5" not in text


def test_in_colour_an_entity_has_the_colour_of_its_label():
    text = printed(DOCUMENT, force_terminal=True, color_system="256", no_color=False)
    hue = COLOURS_256[Palette()["Peop"]]
    assert f"\x1b[1;4;38;5;{hue}mAda" in text
    assert f"\x1b[38;5;{hue}m Peop" in text
    assert "[Ada" not in text.replace("\x1b[", "")


def test_a_relation_that_holds_both_ways_is_shown_once_unless_its_scores_differ():
    for score, lines in ((0.9, ["0.90  a  ← LIKE →  b"]), (0.8, ["0.90  a  — LIKE →  b", "0.80  b  — LIKE →  a"])):
        document = Document.from_words(
            [["a", "b"]], [(0, 1, "X"), (1, 2, "X")], [(0, 1, "LIKE", 0.9), (1, 0, "LIKE", score)]
        )
        assert [line.strip() for line in printed(document).splitlines()[1:-1]] == lines
        out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        Console(file=out, width=80).print(TerminalView(document))
        out.seek(0)
        assert ("<- LIKE ->" in out.read()) == (score == 0.9)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=9))
@example([(0, 1), (0, 1), (1, 0), (1, 0)])
def test_as_many_relations_are_shown_with_their_mirror_as_have_one(ways):
    entities = [(k, k + 1, "X") for k in range(3)]
    document = Document.from_words([["a", "b", "c"]], entities, [(*way, "LIKE") for way in ways])
    shown = merge_symmetric(document.relations)
    assert sorted(place for places in shown for place in places) == list(range(len(ways)))
    assert sorted(shown) == shown
    pairs = [[ways[place] for place in places] for places in shown if len(places) > 1]
    assert all(there == back[::-1] and there[0] != there[1] for there, back in pairs)
    assert len(pairs) == sum(min(ways.count((a, b)), ways.count((b, a))) for a, b in ((0, 1), (0, 2), (1, 2)))


def test_relations_stand_in_columns_but_for_those_that_are_too_long():
    long = "c" * 12
    document = Document.from_words(
        [["a", "bbbbb", long]],
        [(0, 1, "X"), (1, 2, "X"), (2, 3, "X")],
        [(0, 1, "R", 0.5), (1, 0, "LONGER", 0.25), (0, 2, "R", 1.0)],
    )
    assert [line.rstrip() for line in printed(document, width=32).splitlines()[-4:-1]] == [
        "  0.50  a      — R →       bbbbb",
        "  0.25  bbbbb  — LONGER →  a",
        f"  1.00  a  — R →  {long}",
    ]


@pytest.mark.parametrize(("text", "shown"), [("", ""), (" \n\t", ""), ("A text.", "A text.\n")])
def test_a_document_without_results_shows_nothing_found(text, shown):
    assert printed(Document(text)) == f"{shown}  (nothing found)\n\n"


def test_a_plain_terminal_gets_a_plain_arrow():
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Console(file=out, width=80).print(TerminalView(DOCUMENT))
    out.seek(0)
    assert "Ada Lovelace  - Live_In ->  London" in out.read()


def test_markup_and_control_characters_are_shown_and_not_obeyed():
    words = ["[bold]Ada[/bold]", "\x1b[31mred", "\u202eevil", "a\x00b", "\x9b", ":smile:", "\ud800"]
    document = Document.from_words([words], [(0, 1, "[red]X[/]"), (1, 2, "Y")], [(0, 1, "[link=x]")], id="[blink]")
    for options in ({}, {"force_terminal": True, "color_system": "256", "no_color": False}):
        text = printed(document, **options)
        for shown in (
            "[blink]",
            "[bold]Ada[/bold]",
            "[red]X[/]",
            "[link=x]",
            "␛[31mred",
            "‹U+202E›evil",
            "a␀b",
            ":smile:",
        ):
            assert shown in text
        assert not {"\x00", "\x9b", "\u202e", "\ud800"} & set(text)
    assert "\x1b" not in printed(document)


def test_nested_and_crossing_entities_are_all_marked():
    document = Document.from_words([list("abcd")], [(0, 3, "Long"), (1, 2, "In"), (2, 4, "Cross")])
    assert "[a [b|In] [c|Long] d|Cross]" in printed(document)


@pytest.mark.parametrize("width", [12, 20, 33])
def test_narrow_terminals_wrap_and_lose_nothing(width):
    document = Document.from_words(
        [["王小明", "lives", "in", "New", "York"]], [(0, 1, "P"), (3, 5, "L")], [(0, 1, "in")]
    )
    text = printed(document, width=width)
    assert max(map(cell_len, text.splitlines())) <= width
    for part in ("王小明", "lives", "York", "→"):
        assert part in text


def test_line_ends_of_the_text_stay_and_no_id_leaves_no_line():
    assert printed(Document.from_words([["One", "."], ["Two", "."]])) == "One .\nTwo .\n  (nothing found)\n\n"


def test_tabs_and_line_feeds_are_ordinary_and_other_controls_are_not():
    assert escape_controls("a\tb\nc") == "a\tb\nc"
    assert escape_controls("\r\x7f\u2028\ufeff") == "␍␡‹U+2028›‹U+FEFF›"


@pytest.mark.parametrize("name", ["scierc", "conll04", "ade"])
def test_labels_of_built_in_spaces_have_colours_of_their_own_in_any_order(name):
    labels = LabelSpace.load(name).names[1:]
    colours = {label: Palette()[label] for label in labels}
    assert len(set(colours.values())) == len(set(labels))
    palette = Palette(LabelSpace.load(name))
    assert colours == {label: palette[label] for label in reversed(labels)}


@pytest.mark.parametrize("name", LabelSpace.built_in())
def test_entity_types_of_built_in_spaces_look_different_on_terminals_of_16_colours_too(name):
    space = LabelSpace.load(name)
    palette = Palette(space)
    for system in ("standard", "windows"):
        out = io.StringIO()
        console = Console(file=out, force_terminal=True, color_system=system, legacy_windows=False, no_color=False)
        for label in space.entity_types:
            console.print(Text("x", label_style(palette, label)))
        looks = out.getvalue().split()
        assert len(set(looks)) == len(space.entity_types)
        assert not {f"\x1b[{grey}mx\x1b[0m" for grey in (30, 37, 90, 97)} & set(looks)


def contrasts(rgb: Sequence[int]) -> tuple[float, float]:
    """The contrast with black and with white, as WCAG defines it."""
    channels = (value / 255 for value in rgb)
    linear = (value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels)
    luminance = sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    return (luminance + 0.05) / 0.05, 1.05 / (luminance + 0.05)


def test_contrast_is_computed_as_wcag_does():
    assert contrasts((0, 0, 0)) == pytest.approx((1, 21))
    assert contrasts((255, 255, 255)) == pytest.approx((21, 1))
    assert contrasts((119, 119, 119)) == pytest.approx((4.69, 4.48), abs=0.01)


@pytest.mark.parametrize("number", COLOURS_256)
def test_colours_of_labels_are_readable_on_black_and_on_white(number):
    assert min(contrasts(Color.from_ansi(number).get_truecolor())) > 3.6


@pytest.mark.parametrize("terminal", COLOURS_OF_TERMINALS)
def test_colours_of_labels_are_readable_on_terminals_of_16_colours_too(terminal):
    """What the colours look like is up to the terminal. These are two of the usual sets."""
    for number in set(COLOURS_16):
        assert min(contrasts(COLOURS_OF_TERMINALS[terminal][number])) > 2.6


@pytest.mark.parametrize("name", ["error", "warning", "right", "wrong"])
def test_colours_of_messages_are_readable_on_black_and_on_white(name):
    colour = THEME.styles[name].color
    assert colour is not None
    assert min(contrasts(colour.get_truecolor())) > 3.6


@pytest.mark.parametrize("name", HELP_STYLES)
def test_colours_of_help_are_readable_on_black_and_on_white(name):
    colour = Style.parse(HELP_STYLES[name]).color
    assert colour is None or min(contrasts(colour.get_truecolor())) > 3.6


def test_labels_get_different_colours_while_there_are_some():
    palette = Palette(str(i) for i in range(N_COLOURS))
    assert {palette[str(i)] for i in range(N_COLOURS)} == set(range(N_COLOURS))
    assert palette["one more"] in range(N_COLOURS)
    assert len(COLOURS_256) == len(set(COLOURS_256)) == len(COLOURS_16) == N_COLOURS
