"""Every study by its command, all of them in one report, and what its charts show."""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from helpers.chart_reader import Chart
from helpers.cli import without_torch
from helpers.paths import ROOT, TWENTY
from helpers.study_runs import command, runner
from unire import formats
from unire.errors import UnireError
from unire.hub.model_dir import fingerprint
from unire.studies import error_analysis, report, results
from unire.studies.compare import compare
from unire.studies.report import STUDIES
from unire.studies.results import load_result, save_result
from unire.training import train

PUBLISHED = ROOT / "results" / "studies"
SETTINGS = ("--preset", "best", "--epochs", 1, "--set", "evaluate_after=0", "--set", "d=16")
ALONE = "without --encoder, only finished studies are reported"
PIPELINE = ("--entity-epochs", 2, "--relation-epochs", 1, "--pipeline", "max_span=3")


class Studied(NamedTuple):
    folder: Path
    setup: tuple[object, ...]
    """How every training is asked for."""
    printed: dict[str, dict]
    """What every command printed."""
    made: list[str]
    """The cells that were made, one after the other."""


@pytest.fixture(scope="module")
def studied(encoder, random_model, twenty, tmp_path_factory):
    """Every study by its own command, on the first few sentences."""
    folder = tmp_path_factory.mktemp("studies") / "mine"
    few = folder.with_name("few.jsonl")
    formats.write(twenty[:3], few)
    setup = ("--encoder", encoder, "--data", few, "--dev", few, "--test", few, "--labels", "scierc", *SETTINGS)
    made: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for module in ("unire.studies.ablations", "unire.studies.pipeline.study"):
            patch.setattr(f"{module}.run_jobs", runner(made))
        patch.setattr("unire.studies.profiling.MIN_ROUND_SECONDS", 0)
        patch.setattr("unire.studies.speed.WINDOWS", (100,))
        patch.setattr("unire.studies.speed.BATCH_TOKENS", ())
        asked = {
            **dict.fromkeys(("ablate", "window", "dropout", "beta2"), setup),
            "pipeline": (*setup, *PIPELINE),
            "threshold": ("--model", random_model, "--data", few),
            "errors": (random_model, "--data", few),
            "speed": ("--model", random_model, "--data", few, "--rounds", 1),
            "compare": (random_model, folder / "models" / "default-0", "--data", few, "--bootstrap", 20),
        }
        printed = {
            name: json.loads(command("study", name, *words, "--out", folder, "--json").stdout)
            for name, words in asked.items()
        }
        assert command("study", "report", "--out", folder).stdout.strip() == str(folder / "report.html")
        yield Studied(folder, setup, printed, made)


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_prints_and_keeps_its_numbers_by_its_command(studied, name):
    printed = studied.printed[name]
    assert printed["study"] == name
    assert printed["sentences"] == 9
    assert load_result(studied.folder, name) == printed
    assert all(table.rows for table in STUDIES[name].tables(printed))


@pytest.mark.slow
def test_a_report_has_all_studies_of_its_folder(studied):
    page = (studied.folder / "report.html").read_text(encoding="utf-8")
    assert json.loads((studied.folder / "report.json").read_text(encoding="utf-8")) == {
        name: studied.printed[name] for name in STUDIES
    }
    assert re.findall(r'<section id="(\w+)">', page) == list(STUDIES)
    assert page.count("<figure>") == len(list(studied.folder.glob("*.svg"))) == 12
    assert "pipeline entity_epochs 2" in page


@pytest.mark.slow
def test_a_report_with_an_encoder_runs_only_missing_studies(studied, tmp_path):
    folder = shutil.copytree(studied.folder, tmp_path / "mine")
    for missing in ("cells/beta2=0.999-0.json", "cells/pipeline-measured-0.json", "errors.json", "threshold.json"):
        (folder / missing).unlink()
    before = len(studied.made)
    command("study", "report", "--out", folder, *studied.setup, *PIPELINE)
    assert studied.made[before:] == ["beta2=0.999-0", "pipeline-measured-0"]
    numbers = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert list(numbers) == list(STUDIES)
    assert [numbers[name]["of"] for name in ("errors", "threshold", "speed")] == [
        ["default-0"],
        ["default-0"],
        ["random"],
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("threshold", "--model", "science", "--data", TWENTY),
        ("errors", TWENTY, "--data", TWENTY, "--labels", "scierc"),
        ("compare", TWENTY, "science", "--data", TWENTY, "--bootstrap", 2),
        ("report",),
    ],
    ids=lambda words: words[0],
)
def test_a_study_of_stored_results_needs_no_torch(words, tmp_path):
    folder = shutil.copytree(PUBLISHED, tmp_path / "mine")
    (folder / f"{words[0]}.json").unlink(missing_ok=True)
    ran = without_torch("study", *words, "--out", folder)
    assert (ran.returncode, "report" in ran.stderr or "report.html" in ran.stdout) == (0, True), ran.stderr


OF_MODEL = ("threshold", "errors", "speed")


class Reported(NamedTuple):
    folder: Path
    words: tuple[object, ...]

    def again(self) -> tuple[list[str], dict[str, dict]]:
        """Ask for the report once more: which studies of the model it says that it does, and those that are there."""
        ran = command("study", "report", "--out", self.folder, *self.words)
        notes = [line for line in ran.stderr.splitlines() if ": of " in line]
        return notes, {name: load_result(self.folder, name) for name in OF_MODEL}


@pytest.fixture(scope="module")
def first_report(studied, tmp_path_factory):
    """A report that has run its own studies of the default model."""
    folder = shutil.copytree(studied.folder, tmp_path_factory.mktemp("reported") / "mine")
    for name in OF_MODEL:
        (folder / f"{name}.json").unlink()
    first = Reported(folder, (*studied.setup, *PIPELINE))
    assert first.again()[0] == [f"{name}: of default-0" for name in OF_MODEL]
    return first


@pytest.fixture
def reported(first_report, tmp_path):
    return first_report._replace(folder=shutil.copytree(first_report.folder, tmp_path / "mine"))


def _train_another(folder, monkeypatch) -> None:
    """Have the default cell trained again by the next report, and come out differently, as on a GPU."""
    shutil.rmtree(folder / "models" / "default-0")
    (folder / "cells" / "default-0.json").unlink()
    seeded = train.set_seed
    monkeypatch.setattr(train, "set_seed", lambda seed, **more: seeded(seed + 1, **more))


@pytest.mark.slow
@pytest.mark.no_cover
def test_a_report_repeats_the_studies_of_a_retrained_model(reported, studied, monkeypatch):
    folder = reported.folder
    before = {name: load_result(folder, name) for name in OF_MODEL}
    _train_another(folder, monkeypatch)
    notes, now = reported.again()
    assert studied.made[-1] == "default-0"
    assert notes == [f"{name}: of default-0, which was trained again" for name in OF_MODEL]
    for name in OF_MODEL:
        assert now[name]["of"] == ["default-0"]
        assert now[name]["fingerprints"] == [fingerprint(folder / "models" / "default-0")]
        assert now[name]["fingerprints"] != before[name]["fingerprints"]
    assert now["speed"]["rows"] != before["speed"]["rows"]
    assert reported.again() == ([], now)


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("why", ["older", "deleted", "of others"])
def test_studies_that_may_still_be_valid_are_kept(reported, monkeypatch, why):
    folder = reported.folder
    if why == "deleted":
        shutil.rmtree(folder / "models" / "default-0")
    else:
        _train_another(folder, monkeypatch)
    for name in OF_MODEL:
        result = load_result(folder, name)
        if why == "older":
            del result["fingerprints"]
        elif why == "of others":
            result |= {"of": ["default-0", "mine"], "fingerprints": [*result["fingerprints"], "0123456789abcdef"]}
        save_result(result, folder)
    kept = {name: load_result(folder, name) for name in OF_MODEL}
    assert reported.again() == ([], kept)
    numbers = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert list(numbers) == list(STUDIES)
    assert {name: numbers[name] for name in OF_MODEL} == kept


@pytest.mark.slow
def test_an_impossible_report_is_refused_before_training(studied, tmp_path, monkeypatch):
    folder = shutil.copytree(studied.folder, tmp_path / "mine")
    (folder / "cells" / "default-0.json").unlink()
    before = len(studied.made)

    def refused(*words: object) -> str:
        return str(command("study", "report", "--out", folder, *words, code=1).exception)

    assert "made with another setting pipeline max_span (3, not 8)" in refused(*studied.setup)
    epochs = ("--entity-epochs", 3)  # of options that are given twice the last one counts
    assert "made with another setting pipeline entity_epochs (2, not 3)" in refused(*studied.setup, *PIPELINE, *epochs)
    assert "made with another setting epochs (1, not 2)" in refused(*studied.setup, *PIPELINE, "--epochs", 2)
    assert "needs --data, --dev and --test" in refused("--encoder", "x", "--data", TWENTY)
    for words in (("--data", TWENTY), ("--preset", "paper"), ("--labels", "scierc"), ("--seeds", 1), ("--set", "d=8")):
        assert refused(*words, "--json") == f"give --encoder, or leave out {words[0]}; {ALONE}"
    assert refused("--jobs", 2, "--epochs", 3) == f"give --encoder, or leave out --epochs, --jobs; {ALONE}"
    shutil.copy(studied.folder / "cells" / "default-0.json", folder / "cells")
    shutil.rmtree(folder / "models" / "default-0")
    (folder / "errors.json").unlink()
    assert f"errors needs {folder}/models/default-0, which does not exist" in refused(*studied.setup, *PIPELINE)
    (folder / "cells" / "decoder=hard-0.json").unlink()
    assert f"decoder=hard-0 needs {folder}/models/default-0, which does not exist" in refused(*studied.setup, *PIPELINE)
    (folder / "compare.json").write_text("{", encoding="utf-8")
    assert "run the study compare again" in refused(*studied.setup, *PIPELINE)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert 'pip install "unire[studies]"' in refused(*studied.setup, *PIPELINE)
    assert len(studied.made) == before


# Charts


def _trained(result):
    return [[100 * f1 for row in result["rows"] for f1 in row[kind]["f1"]] for kind in ("entities", "relations")]


def _published(result):
    """The paper's scores in percent by what the legend calls them: of every row, for entities and for relations."""
    papers = [row["paper"]["SciERC"] for row in result.get("rows", ()) if row.get("paper")]
    return {"paper, SciERC (SciBERT)": [[100 * paper[kind] for paper in papers] for kind in (0, 1)]} if papers else {}


def _swept(result):
    curves = ("span", "ent", "rel")
    return [[(point["alpha"], 100 * point[curve]) for point in result["sweep"]] for curve in curves]


def _shares(counts):
    return [100 * count / max(sum(counts), 1) for count in counts]


def _rates(result):
    rates = (row["sentences_per_second"] for row in result["rows"])
    return [sum(rate) / len(rate) if isinstance(rate, list) else rate for rate in rates]


def _stages(result):
    ends = []
    for row in result["rows"]:
        seconds = list(row["seconds"].values())
        ends.append([1000 * sum(seconds[:i]) / result["sentences"] for i in range(len(seconds) + 1)])
    return [[(bar[part], bar[part + 1]) for bar in ends] for part in range(len(ends[0]) - 1)]


def _systems(result):
    headline = {"relations": "strict", "symmetric": "doubled"}
    scores = [
        next(one for one in system["scores"] if headline.items() <= one["protocol"].items())
        for system in result["systems"]
    ]
    return [[100 * score[kind]["f1"] for score in scores] for kind in ("entities", "relations")]


def _bars(values):
    return [[(0, value) for value in values]]


TITLES = ("Ent", "Rel")
CHARTS = {
    "ablate": ("ablate", (*TITLES, "F1 on test, %", "hard decoding"), Chart.dots, _trained),
    "window": ("window", (*TITLES, "F1 on dev, %", "W = 100", "shared windows"), Chart.dots, _trained),
    "dropout": ("dropout", (*TITLES, "F1 on dev, %", "p = 0.4"), Chart.dots, _trained),
    "beta2": ("beta2", (*TITLES, "F1 on dev, %", "β₂ = 0.999"), Chart.dots, _trained),
    "distances": (
        "threshold",
        ("distance between adjacent rows and columns", "share of the positions, %", "entity boundary (n = "),
        lambda chart: chart.steps(2),
        lambda result: [_shares(result["distances"][name]) for name in ("boundary", "other")],
    ),
    "threshold": ("threshold", ("threshold α", "F1, %", "Span F1"), lambda chart: chart.curves(3), _swept),
    "errors": (
        "errors",
        ("share of the errors, %", "span splitting", "relation type", "missed of"),
        Chart.bars,
        lambda result: _bars(_shares(result["errors"].values())),
    ),
    "speed": ("speed", ("sentences per second", "as trained"), Chart.bars, lambda result: _bars(_rates(result))),
    "stages": (
        "speed",
        ("milliseconds per sentence", "decoder"),
        lambda chart: list(filter(None, chart.bars(5))),
        _stages,
    ),
    "pipeline": ("pipeline", (*TITLES, "F1 on test, %", "pipeline, exact"), Chart.dots, _trained),
    "pipeline-speed": (
        "pipeline",
        ("sentences per second", "pipeline, approximate"),
        Chart.bars,
        lambda result: _bars(_rates(result)),
    ),
    "compare": ("compare", (*TITLES, "F1, %", "science", "strict"), Chart.dots, _systems),
}
"""Of every chart: its study, what it must say, how it is read, and the numbers that must be read in it."""


@pytest.mark.slow
def test_every_chart_of_every_study_is_tested():
    drawn = {chart: name for name in STUDIES for chart in STUDIES[name].charts(load_result(PUBLISHED, name))}
    assert drawn == {chart: study for chart, (study, *_) in CHARTS.items()}


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_shows_the_numbers_with_axes_units_and_n(name, studied):
    study, texts, shown, numbers = CHARTS[name]
    published = load_result(PUBLISHED, study)
    for result, svg in (
        (published, STUDIES[study].charts(published)[name]),
        (studied.printed[study], (studied.folder / f"{name}.svg").read_text(encoding="utf-8")),
    ):
        chart, expected = Chart(svg), numbers(result)
        assert "n = " in chart.text
        assert f"{result['sentences']} sentences" in chart.text
        assert all(words in chart.text for words in texts if words != "science" or result is published)
        assert result is not published or any(any(part) for part in expected)
        found = shown(chart)
        assert [len(part) for part in found] == [len(part) for part in expected]
        others = _published(result)
        assert chart.others().keys() == others.keys()
        for whose, panels in others.items():
            for read, true in zip(chart.others()[whose], panels, strict=True):
                assert read == pytest.approx(true, abs=0.01)
        marks = [*expected, *(panel for panels in others.values() for panel in panels)]
        assert len(chart.titles) == (sum(map(len, marks)) if name != "distances" else 0)
        for read, true in zip(found, expected, strict=True):
            for one, other in zip(read, true, strict=True):
                assert one == pytest.approx(other, rel=1e-3, abs=0.01)


# Pages


def test_a_report_collects_stored_results_and_needs_no_network(twenty, random_predictions, scierc_labels, tmp_path):
    nasty, other = (
        [replace(document, id="<script>alert(1)</script>") for document in documents]
        for documents in (twenty, random_predictions)
    )
    pair = [results.System(name, documents, None) for name, documents in (("a", nasty), ("b", other))]
    result = compare(nasty, pair, scierc_labels, samples=10)
    save_result({**result, "of": ["a", "b"], "data": ["twenty.jsonl"]}, tmp_path)
    page = report.write_report(tmp_path).read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "✗" in page
    assert not re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(?!["'#])""", page)


def test_a_long_list_is_cut_and_says_so(monkeypatch, twenty, random_predictions, scierc_labels, tmp_path):
    monkeypatch.setattr(report, "MAX_LISTED_SENTENCES", 1)
    result = error_analysis.count_errors(twenty, random_predictions, scierc_labels)
    save_result({**result, "of": ["model"], "data": ["twenty.jsonl"]}, tmp_path)
    assert "The first 1; report.json has all." in report.write_report(tmp_path).read_text(encoding="utf-8")


def test_a_folder_without_studies_or_with_others_files_is_refused(tmp_path):
    with pytest.raises(UnireError, match="there is no finished study in"):
        report.write_report(tmp_path)
    (tmp_path / "errors.json").write_text("[]", encoding="utf-8")
    with pytest.raises(UnireError, match="not the result of the study errors"):
        report.write_report(tmp_path)
    (tmp_path / "errors.json").write_text("{", encoding="utf-8")
    with pytest.raises(UnireError, match="run the study errors again"):
        report.write_report(tmp_path)
