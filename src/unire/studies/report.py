"""Runs all studies of one setup, and writes a report: one self-contained page, the raw numbers and the charts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from html import escape
from importlib import resources
from pathlib import Path
from typing import Protocol

from unire.errors import UnireError
from unire.files import open_text_output
from unire.hub.model_dir import fingerprint
from unire.rendering.html.markup import PageTemplate, escape_text, read_asset
from unire.studies import charts as draw
from unire.studies import compare as compare_module
from unire.studies import error_analysis
from unire.studies import speed as speed_module
from unire.studies import threshold as threshold_module
from unire.studies.ablations import ABLATION, BETA2, DROPOUT, WINDOW, StudySetup, plan_jobs, run_studies
from unire.studies.pipeline import study as pipeline
from unire.studies.results import Json, ResultTable, load_result, save_result

__all__ = ["STUDIES", "Study", "run_all", "write_report"]

MAX_LISTED_SENTENCES = 200
"""Sentences of each list on the page. The JSON has all."""


class Study(Protocol):
    """Shows the numbers of a study."""

    def tables(self, result: Json, /) -> list[ResultTable]: ...

    def charts(self, result: Json, /) -> dict[str, str]:
        """SVG by name."""


STUDIES: Mapping[str, Study] = {
    "ablate": ABLATION,
    "window": WINDOW,
    "dropout": DROPOUT,
    "beta2": BETA2,
    "threshold": threshold_module,
    "errors": error_analysis,
    "speed": speed_module,
    "pipeline": pipeline,
    "compare": compare_module,
}
"""In the order of the page."""
TRAINING_STUDIES = (ABLATION, WINDOW, DROPOUT, BETA2)

TITLES = {
    "ablate": "What each part is worth",
    "window": "Words of a window",
    "dropout": "Logit dropout",
    "beta2": "AdamW's β₂",
    "threshold": "The threshold α",
    "errors": "Why relations are missed",
    "speed": "Speed",
    "pipeline": "Joint model and pipeline",
    "compare": "Systems compared",
}


def run_all(
    setup: StudySetup,
    config: pipeline.PipelineConfig,
    *,
    seeds: int = 1,
    jobs: int = 1,
    log: Callable[[str], None] = lambda line: None,
) -> None:
    """Run what is missing of all studies except the comparison, whose systems only the user knows.

    Threshold, errors and speed study the default model of seed 0. They run again if that model has changed. A setup
    that cannot work is refused before anything is trained.

    Args:
        setup: Encoder, data and configuration of the joint model.
        config: The pipeline.
        seeds: Seeds 0 to `seeds` - 1 are trained. Seeds that were trained before count too.
        jobs: Trainings in parallel.
        log: Called with a line at every start and end.
    """
    draw.matplotlib()
    earlier = {name: load_result(setup.folder, name) for name in STUDIES}
    plan_jobs(TRAINING_STUDIES, setup, seeds)
    pipeline.plan_jobs(setup, config, seeds)
    model = setup.default_model()
    name_of_model, form = str(model), setup.format
    model_studies: dict[str, Callable[[], Json]] = {
        "threshold": lambda: threshold_module.study_threshold(name_of_model, setup.dev, format=form),
        "errors": lambda: error_analysis.study_errors(name_of_model, setup.test, format=form),
        "speed": lambda: speed_module.study_speed([name_of_model], setup.test, format=form, log=log),
    }
    for name in model_studies:
        if earlier[name] is None:
            setup.check_model(model.name, name)
    run_studies(TRAINING_STUDIES, setup, seeds=seeds, jobs=jobs, log=log)
    for name, study in model_studies.items():
        if (before := earlier[name]) is None or _is_outdated(before, model):
            log(f"{name}: of {model.name}" + (", which was trained again" if before else ""))
            save_result(study(), setup.folder)
    pipeline.run_study(setup, config, seeds=seeds, jobs=jobs, log=log)


def _is_outdated(result: Json, model: Path) -> bool:
    """Whether a result is of an earlier model at the same place. Results of other models stay.

    Old results have no fingerprint, and the model may have been deleted. Neither counts as outdated.
    """
    if result["of"] != [model.name] or "fingerprints" not in result or not model.exists():
        return False
    return bool(result["fingerprints"] != [fingerprint(model)])


def write_report(folder: Path) -> Path:
    """Write `report.html`, `report.json` and the charts as SVG into the folder of studies; the path of the page."""
    results = {name: result for name in STUDIES if (result := load_result(folder, name)) is not None}
    if not results:
        raise UnireError(f"there is no finished study in {str(folder)!r}")
    charts = {name: STUDIES[name].charts(result) for name, result in results.items()}
    for drawn in charts.values():
        for name, svg in drawn.items():
            with open_text_output(folder / f"{name}.svg") as file:
                file.write(svg)
    with open_text_output(folder / "report.json") as file:
        file.write(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    with open_text_output(folder / "report.html") as file:
        file.writelines(_page(results, charts))
    return folder / "report.html"


def _page(results: Mapping[str, Json], charts: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    style = read_asset("page.css") + (resources.files("unire.studies") / "report.css").read_text(encoding="utf-8")
    yield PageTemplate("Studies", style, styled=True).head
    yield f"""<body>
<header><h1>Studies</h1></header>
<nav>{" ".join(f'<a href="#{name}">{escape(TITLES[name])}</a>' for name in results)}</nav>
<main>
"""
    for name, result in results.items():
        yield f'<section id="{name}">\n<h2>{escape(TITLES[name])}</h2>\n{_facts(result)}'
        yield from (f"<figure>{svg}</figure>\n" for svg in charts[name].values())
        yield from map(_table, STUDIES[name].tables(result))
        yield from _cases(result)
        yield "</section>\n"
    yield "</main>\n<footer>All numbers are in report.json.</footer>\n</body>\n</html>\n"


def _facts(result: Json) -> str:
    """The setup or the inputs of a study."""
    if "config" in result:
        parts = [f"encoder {result['encoder']}", f"preset {result['config']['preset']}"]
        parts += [f"{name} {result['config'][name]}" for name in ("layout", "epochs", "batch_size", "lr", "head_lr")]
        parts += [f"pipeline {name} {value}" for name, value in result.get("pipeline", {}).items()]
    else:
        parts = [", ".join(result["of"]), f"on {', '.join(result['data'])}"]
    return f'<p class="counts">{escape_text("; ".join(parts))}</p>\n'


def _table(table: ResultTable) -> str:
    head = "".join(f"<th>{escape_text(column)}</th>" for column in table.columns)
    rows = "".join(
        f"<tr><th>{escape_text(name)}</th>{''.join(f'<td>{escape_text(cell)}</td>' for cell in cells)}</tr>\n"
        for name, *cells in table.rows
    )
    return (
        f'<h3>{escape_text(table.title)}</h3>\n<div class="wide"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>\n"
    )


def _cases(result: Json) -> Iterator[str]:
    """The sentences behind the numbers: by type of error, or those in which systems differ."""
    if "cases" not in result:  # numbers that were published without them
        return
    if result["study"] == "errors":
        lists = {kind: [_error(case) for case in result["cases"] if case["kind"] == kind] for kind in result["errors"]}
    elif result["study"] == "compare":
        lists = {"sentences in which they differ": [_difference(case) for case in result["cases"]]}
    else:
        return
    for title, items in lists.items():
        left_out = (
            f"<p>The first {MAX_LISTED_SENTENCES}; report.json has all.</p>"
            if len(items) > MAX_LISTED_SENTENCES
            else ""
        )
        listed = "".join(f"<li>{item}</li>\n" for item in items[:MAX_LISTED_SENTENCES])
        summary = f"<summary>{escape_text(title)} ({len(items):,})</summary>"
        yield f"<details>{summary}{left_out}<ol>{listed}</ol></details>\n"


def _error(case: Json) -> str:
    return f"{_sentence(case)}{_line('gold', [case['gold']])}{_line('found', error_analysis.list_predicted(case))}"


def _difference(case: Json) -> str:
    found = (
        _line(name, [f"{'✓' if item['right'] else '✗'} {item['item']}" for item in items])
        for name, items in case["found"].items()
    )
    return f"{_sentence(case)}{_line('gold', case['gold'])}{''.join(found)}"


def _sentence(case: Json) -> str:
    return f'<p dir="auto">{escape_text(case["text"])} <span class="counts">{escape_text(case["document"])}</span></p>'


def _line(name: str, items: list[str]) -> str:
    return f'<p class="line"><b>{escape_text(name)}</b> {escape_text("; ".join(items) or "nothing")}</p>'
