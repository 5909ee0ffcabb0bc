"""The page in a real browser: it loads nothing, shows the output of the model, and can be used with keys alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from helpers import browser
from helpers.browser import shares
from helpers.noisy_extractor import noisy_extractor
from unire.documents import Document
from unire.labels import LabelSpace
from unire.rendering import N_COLOURS, html
from unire.rendering.views import View, gold_views, views

WORDS = ["Ada", "Lovelace", "and", "Mary", "Somerville", "met", "in", "London", "."]
DOCUMENT = Document.from_words(
    [WORDS, ["They", "talked", "."]],
    [(0, 2, "PER"), (3, 5, "PER"), (7, 8, "GPE")],
    [(0, 1, "PER-SOC"), (1, 0, "PER-SOC"), (0, 2, "PHYS"), (1, 2, "PHYS")],
    id="ada",
)
OTHER = Document.from_words([["Nobody", "came", "."]], id="other")
ATTACK = '</script><img src=x onerror="window.hacked=1"><!--\'&lt;'


@pytest.fixture(scope="module")
def labels() -> LabelSpace:
    return LabelSpace.learn([DOCUMENT], symmetric=["PER-SOC"])


@pytest.fixture(scope="module")
def seen(labels) -> list[View]:
    documents = [DOCUMENT, OTHER]
    return list(views(noisy_extractor(documents, labels, noise=0.9, seed=3), documents))


def open_table(page, number=0):
    page.locator(".sentence-tables > summary").nth(number).click()
    page.locator(".sentence-tables").nth(number).locator("svg").first.wait_for()


def hover(page, panel: str, row: float, column: float, n: int = len(WORDS)) -> None:
    browser.hover(page, panel, row, column, n)


def test_pointing_at_a_cell_shows_its_probabilities(visit, seen, labels):
    page = visit(seen, labels)
    open_table(page)
    P = seen[0].tables[0].P
    for row, column in [(0, 0), (1, 4), (7, 7), (2, 5), (8, 0)]:
        hover(page, "Model", row, column)
        shown = shares(page)
        for label, p in zip(labels.names, P[row, column].tolist(), strict=True):
            assert shown.get(label, 0) == pytest.approx(p, abs=0.001)
        title = page.locator(".note:visible .title").inner_text()
        assert title == (WORDS[row] if row == column else f"{WORDS[row]} → {WORDS[column]}")
        marked = page.locator(".sentence .w.on").all_inner_texts()
        assert marked == [WORDS[i] for i in sorted({row, column})]
    page.mouse.move(1, 1)
    assert not page.locator(".note:visible").count()


def test_the_panels_draw_gold_cells_and_what_was_decoded(visit, seen, labels):
    page = visit(seen, labels)
    open_table(page)
    sentence, table = seen[0].document.sentences[0], seen[0].tables[0]
    panels = page.locator(".sentence-tables").first.locator(".panel")
    assert panels.locator("figcaption").all_inner_texts() == [
        "Gold",
        "Model the most probable label of each cell",
        "Decoded squares are entities, rectangles are relations",
    ]
    gold, model, decoded = (panels.nth(i) for i in range(3))
    assert (gold.locator(".square").count(), gold.locator(".rectangle").count()) == (3, 4)
    assert model.locator(".cell").count() == (table.P.argmax(2) > 0).sum()
    assert decoded.locator(".square").count() == len(sentence.entities)
    assert decoded.locator(".rectangle").count() == len(sentence.relations)
    assert decoded.locator(".cut").count() == 2 * len(sentence.cuts)
    legend = [item.split() for item in page.locator(".legend").first.locator("li").all_inner_texts()]
    assert {label for _, label in legend} >= {"PER", "GPE", "PER-SOC", "PHYS"}
    codes = {code for code, _ in legend}
    assert len(codes) == len(legend)
    assert set(model.locator(".code").all_text_contents()) <= codes


def test_bars_rise_above_the_line_where_the_table_is_cut(visit, seen, labels):
    page = visit(seen, labels)
    open_table(page)
    bars = page.locator(".sentence-tables").first.locator(".bar")
    line = float(page.locator(".alpha").first.get_attribute("y1"))
    above = [i + 1 for i in range(bars.count()) if float(bars.nth(i).get_attribute("y")) < line]
    assert bars.count() == len(WORDS) - 1
    assert tuple(above) == seen[0].document.sentences[0].cuts
    assert page.locator(".bar.above").count() == len(above)


def test_where_squares_are_weighed_cuts_are_marked_and_no_line_is_drawn(visit, labels):
    extractor = noisy_extractor([DOCUMENT], labels, noise=0.9, seed=3, decoder="likely", alpha=3.0)
    (view,) = views(extractor, [DOCUMENT])
    page = visit([view], labels)
    open_table(page)
    cuts = view.document.sentences[0].cuts
    bars = page.locator(".sentence-tables").first.locator(".bar")
    marked = [i + 1 for i in range(bars.count()) if "above" in bars.nth(i).get_attribute("class")]
    assert bars.count() == len(WORDS) - 1
    assert 0 < len(cuts) < bars.count()
    assert tuple(marked) == cuts
    assert page.locator(".alpha, .alpha-name, .handle").count() == 0
    page.locator(".frame").nth(1).focus()
    page.keyboard.press("PageDown")
    page.keyboard.press("ArrowDown")  # to the distances
    for column, distance in enumerate(view.tables[0].distances, 1):
        expected = f"distance {distance:.3f}: {'cut' if column in cuts else 'no cut'}"
        assert expected in page.locator(".note:visible").inner_text()
        page.keyboard.press("ArrowRight")


def test_arcs_join_head_and_tail_and_pointing_at_a_triple_makes_its_arc_stand_out(visit):
    page = visit([View(DOCUMENT)])
    arcs, names = page.locator(".arcs .arc"), page.locator(".arcs .name")
    assert names.locator("text").all_text_contents() == ["PER-SOC", "PHYS", "PHYS"]
    assert [arc.get_attribute("data-relation") for arc in arcs.all()] == ["0", "1", "2"]
    first = arcs.nth(1).bounding_box()
    head, tail = (page.locator(f"[data-entity='{i}']").bounding_box() for i in (0, 2))
    assert head["x"] < first["x"] < head["x"] + head["width"]
    assert tail["x"] < first["x"] + first["width"] < tail["x"] + tail["width"]
    assert first["y"] + first["height"] <= head["y"] + 6
    assert [arc.locator("path.tip").count() for arc in arcs.all()] == [2, 1, 1]
    triples = page.locator(".relations li")
    assert ["←" in triple for triple in triples.all_inner_texts()] == [True, False, False]
    assert page.locator(".counts").first.inner_text() == "3 entities, 3 relations"
    triples.nth(2).focus()
    assert page.locator(".arc.on").get_attribute("data-relation") == "2"
    triples.nth(0).focus()
    assert page.locator(".arc.on").get_attribute("data-relation") == "0"
    names.nth(0).hover()
    assert page.locator(".relations li.on").get_attribute("data-relation") == "0"
    page.locator("[data-entity='2']").hover()
    assert page.locator(".arc.on").count() == 2


def test_names_of_arcs_do_not_overlap(visit):
    words = [f"word{i}" for i in range(60)]
    entities = [(i, i + 2, "T") for i in range(0, 40, 4)]
    relations = [
        (i, j, f"relation-{i}-{j}") for i, j in zip([0, 0, 0, 1, 2, 3, 4, 5, 9, 8], range(9, -1, -1), strict=True)
    ]
    document = Document.from_words([words], entities, relations)
    for width in (1200, 390):
        page = visit([View(document)], width=width)
        boxes = [text.bounding_box() for text in page.locator(".arcs text").all()]
        assert len(boxes) >= len(relations)
        for i, a in enumerate(boxes):
            assert a["x"] >= 0
            assert a["x"] + a["width"] <= width
            for b in boxes[:i]:
                apart_x = a["x"] + a["width"] <= b["x"] or b["x"] + b["width"] <= a["x"]
                apart_y = abs(a["y"] - b["y"]) >= 12
                assert apart_x or apart_y


@pytest.mark.parametrize("width", [1200, 600])
def test_no_name_of_an_arc_is_crossed_by_another_arc(visit, width):
    """In one line, and in several."""
    words = ["BERT", "and", "a", "bidirectional", "LSTM", "for", "named", "entity", "recognition", "on", "CoNLL-2003"]
    document = Document.from_words(
        [words],
        [(0, 1, "Method"), (3, 5, "Method"), (6, 9, "Task"), (10, 11, "Material")],
        [(0, 1, "CONJUNCTION"), (0, 2, "USED-FOR"), (1, 2, "USED-FOR"), (3, 0, "EVALUATE-FOR"), (3, 1, "EVALUATE-FOR")],
    )
    page = visit([View(document)], width=width)
    names = [(text.bounding_box(), text.text_content()) for text in page.locator(".arcs text").all()]
    assert len(names) >= len(document.relations)
    frame = page.locator(".arcs").bounding_box()
    for line in page.locator(".arcs .line").all():
        for x, top, bottom in verticals(line.get_attribute("d")):
            for name, text in names:
                inside_x = name["x"] < frame["x"] + x < name["x"] + name["width"]
                inside_y = frame["y"] + top < name["y"] and name["y"] + name["height"] < frame["y"] + bottom
                assert not (inside_x and inside_y), text


def verticals(path: str) -> Iterator[tuple[float, float, float]]:
    """x, top and bottom of the ends of an arc: from the foot up (`M x foot V top`) and down again (`V foot`)."""
    number = r"(-?[\d.]+)"
    if rise := re.match(rf"M{number} {number}V{number}", path):
        yield float(rise[1]), float(rise[3]), float(rise[2])
    if fall := re.search(rf"H{number}q{number} 0 {number} {number}V{number}$", path):
        top = float(re.match(rf"M{number} {number}V?{number}?", path)[3] or re.match(rf"M{number} {number}", path)[2])
        yield float(fall[1]) + float(fall[2]), top, float(fall[5])


def test_hostile_text_labels_and_ids_are_shown_as_text(visit):
    document = Document.from_words(
        [[ATTACK, "\x00", "\u202e", ATTACK]], [(0, 1, ATTACK), (3, 4, "T")], [(0, 1, ATTACK)], id=ATTACK
    )
    labels = LabelSpace.learn([document])
    page = visit(views(noisy_extractor([document], labels), [document]), labels)
    open_table(page)
    hover(page, "Gold", 0, 0, n=4)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert page.locator(".document summary .id").inner_text() == ATTACK
    assert page.locator(".w").first.inner_text() == ATTACK
    assert ATTACK in page.locator(".arcs text").first.text_content()
    assert ATTACK in page.locator(".note:visible").inner_text()
    assert page.locator(".w").all_inner_texts()[1:3] == ["␀", "‹U+202E›"]


def test_the_policy_keeps_foreign_scripts_out(browser, tmp_path):
    path = tmp_path / "page.html"
    html.write([View(DOCUMENT)], path)
    path.write_text(path.read_text(encoding="utf-8").replace("</main>", "<script>window.hacked = 1</script></main>"))
    page = browser.new_page()
    page.goto(path.as_uri())
    assert page.evaluate("window.hacked") is None
    page.close()


def test_keys_are_enough(visit, seen, labels):
    page = visit(seen, labels)
    page.locator(".sentence-tables > summary").first.focus()
    page.keyboard.press("Enter")  # the first table opens
    page.locator(".frame").first.wait_for()
    for _ in range(2):
        page.keyboard.press("Tab")  # gold, then the model's
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("Model")
    assert page.locator(".note:visible .title").inner_text() == "Ada"
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowUp", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    assert page.locator(".note:visible .title").inner_text() == "Lovelace"
    page.keyboard.press("End")
    page.keyboard.press("PageUp")
    assert page.locator(".note:visible .title").inner_text() == "Ada → ."
    page.keyboard.press("PageDown")
    page.keyboard.press("ArrowDown")  # from the last row to the distances
    assert "between London and ." in page.locator(".note:visible .title").inner_text()
    shown = float(re.search(r"distance ([\d.]+)", page.locator(".note:visible").inner_text())[1])
    assert shown == pytest.approx(seen[0].tables[0].distances[-1], abs=0.001)
    page.keyboard.press("Home")
    assert "between Ada and Lovelace" in page.locator(".note:visible .title").inner_text()
    page.keyboard.press("Escape")
    assert not page.locator(".note:visible").count()
    assert page.locator(".frame[tabindex='0'][role][aria-label]").count() == 3


def test_documents_and_tables_are_drawn_when_they_are_opened(visit, seen, labels):
    page = visit(seen, labels)
    assert page.locator(".arcs").count() == 1
    assert page.locator(".panel").count() == 0
    open_table(page, 1)
    assert page.locator(".panel").count() == 3
    page.locator(".document").nth(1).locator("summary").first.click()
    page.locator(".document").nth(1).locator(".arcs").wait_for(state="attached")
    assert page.locator(".arcs").count() == 2


def test_panels_are_side_by_side_only_while_their_cells_are_legible(visit, seen, labels):
    """Words are slanted above the columns, or upright where the page is narrow."""
    for width, rows, turn in ((1500, 1, "-45"), (700, 2, "-45"), (340, 3, "-90")):
        page = visit(seen, labels, width=width)
        open_table(page)
        panels = [panel.bounding_box() for panel in page.locator(".panel").all()]
        assert len({round(panel["y"]) for panel in panels}) == rows, width
        assert page.locator(".ground").first.bounding_box()["width"] / len(WORDS) > 17.9
        assert f"rotate({turn})" in page.locator(".panel text[transform]").first.get_attribute("transform")


def test_a_label_fits_its_box_in_one_or_two_lines(visit):
    words = ["chart", "parser", "is", "used", "for", "dependency", "parsing"]
    document = Document.from_words([words], [(0, 2, "Method"), (5, 7, "OtherScientificTerm")], [(0, 1, "USED-FOR")])
    page = visit(gold_views([document]), LabelSpace.learn([document]))
    open_table(page)
    boxes = [box.bounding_box() for box in page.locator(".box").all()]
    names = page.locator(".panel .name")
    assert names.all_text_contents() == ["USED-", "FOR", "Method", "Other", "ScientificTerm"]
    for name in names.all():
        inner = name.bounding_box()
        assert any(
            box["x"] <= inner["x"]
            and inner["x"] + inner["width"] <= box["x"] + box["width"]
            and box["y"] <= inner["y"]
            and inner["y"] + inner["height"] <= box["y"] + box["height"]
            for box in boxes
        )


def test_gold_alone_is_one_panel(visit, labels):
    page = visit(gold_views([DOCUMENT]), labels)
    open_table(page)
    assert page.locator(".panel").count() == 1
    hover(page, "Gold", 0, 3)
    assert page.locator(".note:visible").inner_text().split("\n") == ["Ada → Mary", "Gold: PER-SOC"]


@pytest.mark.parametrize("n", [1, 2, 90])
def test_tables_of_all_sizes_are_drawn(visit, labels, n):
    document = Document.from_words([[f"word{i}" for i in range(n)]], [(0, n, "PER")])
    page = visit(views(noisy_extractor([document], labels), [document]), labels, width=1500)
    open_table(page)
    assert page.locator(".panel").count() == 3
    hover(page, "Model", n - 1, n - 1, n)
    assert page.locator(".note:visible .title").inner_text() == f"word{n - 1}"


def test_a_cell_reached_by_keys_is_scrolled_into_view(visit, labels):
    document = Document.from_words([[f"word{i}" for i in range(90)]], [(0, 1, "PER")])
    page = visit(gold_views([document]), labels, width=390)
    open_table(page)
    page.locator(".frame").focus()
    page.keyboard.press("End")
    page.keyboard.press("PageDown")
    cell = page.locator(".cursor.here").bounding_box()
    assert 0 <= cell["x"] <= 390
    assert 0 <= cell["y"] <= 900
    assert page.locator(".note:visible .title").inner_text() == "word89"


def test_a_phone_needs_no_sideways_scrolling_of_the_page(visit, seen, labels):
    long = Document.from_words([["antidisestablishmentarianism"] * 30 + ["x" * 300]], [(0, 30, "PER")], id="y" * 300)
    page = visit([*seen, *views(noisy_extractor([long], labels), [long])], labels, width=390)
    open_table(page)
    page.locator(".document").nth(2).locator("summary").first.click()
    open_table(page, 3)
    hover(page, "Gold", 4, 8)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    note = page.locator(".note:visible").bounding_box()
    assert note["x"] >= 0
    assert note["x"] + note["width"] <= 390


CONTRAST = """([back, fore, tint]) => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const seen = (...layers) => {
    for (const layer of layers) { pen.fillStyle = layer; pen.fillRect(0, 0, 1, 1); }
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => rgb.map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const [a, b] = [light(seen(back, tint)), light(seen(fore))];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_are_both_readable(visit, scheme):
    names = [f"type-{i}" for i in range(4 * N_COLOURS)]
    document = Document.from_words([names], [(i, i + 1, name) for i, name in enumerate(names)])
    page = visit([View(document)], scheme=scheme)
    style = "(element) => { const s = getComputedStyle(element); return [s.backgroundColor, s.color]; }"
    back, fore = page.locator("body").evaluate(style)
    assert page.evaluate(CONTRAST, [back, fore, "transparent"]) > 12
    lightness = page.evaluate(CONTRAST, [back, "black", "transparent"])
    assert lightness > 15 if scheme == "light" else lightness < 2
    colours = {page.locator(f".entity.c{i}").first.evaluate(style)[0] for i in range(N_COLOURS)}
    assert len(colours) == N_COLOURS
    for tint in colours:
        assert page.evaluate(CONTRAST, [back, fore, tint]) >= 4.5
    muted = page.locator(".counts").evaluate(style)[1]
    assert page.evaluate(CONTRAST, [back, muted, "transparent"]) >= 4.5


def test_another_decoding_of_the_same_cells_can_be_shown(visit, seen, labels):
    """What a live page needs: the table is a component that takes data."""
    page = visit(seen, labels)
    page.evaluate(
        """async () => {
          const { labels } = JSON.parse(document.getElementById("labels").textContent);
          const table = JSON.parse(document.querySelector(".data").textContent).tables[0];
          table.model.P = await unpack(table.model.P);
          table.model.argmax = await unpack(table.model.argmax);
          const host = document.body.appendChild(document.createElement("div"));
          host.id = "live";
          const view = new TableView(host, labels, table);
          view.draw();
          view.decoded({ alpha: 9, cuts: [], entities: [[0, 9, 1, 0.5]], relations: [] });
        }"""
    )
    live = page.locator("#live")
    assert (live.locator(".panel").nth(2).locator(".square").count(), live.locator(".bar.above").count()) == (1, 0)
    assert "α = 9.00" in live.locator(".alpha-name").text_content()
