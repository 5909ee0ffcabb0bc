"""Charts: marks, axes and legends, and those that are published."""

from __future__ import annotations

import re

import pytest

from helpers.chart_reader import Chart
from helpers.paths import ROOT
from unire.studies import charts
from unire.studies.report import STUDIES
from unire.studies.results import load_result

PUBLISHED = ROOT / "results" / "studies"
CHARTS = ROOT / "docs" / "lab-notes" / "charts"


@pytest.mark.no_cover
@pytest.mark.parametrize("name", ["ablate", "window", "dropout", "beta2"])
def test_a_chart_has_the_papers_scores_on_the_data_set_most_like_ours(name):
    result = load_result(PUBLISHED, name)
    (table,) = STUDIES[name].tables(result)
    shown = Chart(STUDIES[name].charts(result)[name]).others()
    assert list(shown) == ([] if name == "beta2" else ["paper, SciERC (SciBERT)"])
    assert list(table.columns[4:]) == ([] if name == "beta2" else ["ACE05", "SciERC"])
    better = {kind: {"f1": [0.8]} for kind in ("entities", "relations")}
    better = {**result, "rows": [{**row, **better} for row in result["rows"]]}
    shown = Chart(STUDIES[name].charts(better)[name]).others()
    assert list(shown) == ([] if name == "beta2" else ["paper, ACE05 (BERT-base)"])
    without = {**result, "rows": [{**row, "paper": {}} for row in result["rows"]]}
    assert not Chart(STUDIES[name].charts(without)[name]).others()


@pytest.mark.slow
def test_published_charts_are_those_of_their_numbers():
    for name in STUDIES:
        for chart, svg in STUDIES[name].charts(load_result(PUBLISHED, name)).items():
            shown = Chart((CHARTS / f"{chart}.svg").read_text(encoding="utf-8"))
            assert (shown.text, shown.titles) == (Chart(svg).text, Chart(svg).titles)


def test_every_mark_has_a_tooltip():
    chart = Chart(charts.dots(["a", "<b>"], {"Ent": [[70.0, 71.0], [72.0]]}, unit="F1, %", note="n = 9"))
    assert chart.titles == ["a: Ent 70.0", "a: Ent 71.0", "<b>: Ent 72.0"]
    theirs = ("theirs", {"Ent": [None, 73.0]})
    chart = Chart(charts.dots(["a", "<b>"], {"Ent": [[70.0], [72.0]]}, unit="F1, %", note="n = 9", reference=theirs))
    assert chart.titles == ["a: Ent 70.0", "<b>: Ent 72.0", "<b>: Ent 73.0; theirs"]
    assert chart.others() == {"theirs": [[pytest.approx(73, abs=0.01)]]}
    chart = Chart(charts.stacks(["a", "b"], {"x": [1.0, 2.0], "y": [3.0, 4.0]}, x="ms", note="n = 9"))
    assert chart.titles == ["a: x 1", "b: x 2", "a: y 3", "b: y 4"]


@pytest.mark.parametrize(("values", "ticks"), [([0.0], (0, 5)), ([100.0], (90, 100)), ([0.0, 100.0], (0, 100))])
def test_an_axis_of_percents_ends_at_0_and_at_100(values, ticks):
    chart = Chart(charts.dots(["a"], {"Ent": [values]}, unit="F1, %", note="n = 9"))
    numbers = [int(word) for word in chart.text.split() if re.fullmatch(r"[\d−]+", word)][:-1]
    assert (min(numbers), max(numbers)) == ticks
    assert chart.dots() == [pytest.approx(values, abs=0.01)]


def test_small_differences_between_single_seeds_look_small():
    one, several = (
        charts.dots(["a", "b"], {"Ent": [values, values[::-1]]}, unit="F1, %", note="n = 9", dot="seed")
        for values in ([70.0], [70.0, 70.1])
    )
    text = Chart(one).text
    assert "67" in text
    assert "73" in text  # the ends of the axis
    assert "n = 9; one seed, so differences may be due to chance" in text
    assert "a bar the mean" not in text
    assert "a bar the mean" in several
