"""All studies of a folder on one page that needs no network, with the raw numbers and the charts beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from importlib import resources
from pathlib import Path
from typing import Protocol

from unire.errors import UnireError
from unire.files import open_text_output
from unire.rendering.html.template import PageTemplate
from unire.rendering.html.text import asset, shown
from unire.studies import compare as compare_module
from unire.studies import errors as errors_module
from unire.studies import speed as speed_module
from unire.studies import threshold as threshold_module
from unire.studies import variants
from unire.studies.pipeline import study as pipeline
from unire.studies.results import Json, ResultTable, load

__all__ = ["STUDIES", "Study", "write"]

LISTED = 200
"""Sentences of each list on the page; the JSON has all."""


class Study(Protocol):
    """How the numbers of a study are shown."""

    def tables(self, result: Json, /) -> list[ResultTable]: ...

    def charts(self, result: Json, /) -> dict[str, str]:
        """SVG by name."""


STUDIES: Mapping[str, Study] = {
    "ablate": variants.ABLATION,
    "window": variants.WINDOW,
    "dropout": variants.DROPOUT,
    "beta2": variants.BETA2,
    "threshold": threshold_module,
    "errors": errors_module,
    "speed": speed_module,
    "pipeline": pipeline,
    "compare": compare_module,
}
"""In the order of the page."""

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


def write(folder: Path) -> Path:
    """Write `report.html`, `report.json` and the charts, as SVG, into the folder of the studies; the page's path."""
    results = {name: result for name in STUDIES if (result := load(folder, name)) is not None}
    if not results:
        raise UnireError(f"there is no study in {str(folder)!r} to report on; run one with --out {folder}")
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
    style = asset("page.css") + (resources.files("unire.studies") / "report.css").read_text(encoding="utf-8")
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
    """Of what the numbers are."""
    if "config" in result:
        said = [f"encoder {result['encoder']}", f"preset {result['config']['preset']}"]
        said += [f"{name} {result['config'][name]}" for name in ("layout", "epochs", "batch_size", "lr", "head_lr")]
        said += [f"pipeline {name} {value}" for name, value in result.get("pipeline", {}).items()]
    else:
        said = [", ".join(result["of"]), f"on {', '.join(result['data'])}"]
    return f'<p class="counts">{shown("; ".join(said))}</p>\n'


def _table(table: ResultTable) -> str:
    head = "".join(f"<th>{shown(column)}</th>" for column in table.columns)
    rows = "".join(
        f"<tr><th>{shown(name)}</th>{''.join(f'<td>{shown(cell)}</td>' for cell in cells)}</tr>\n"
        for name, *cells in table.rows
    )
    return (
        f'<h3>{shown(table.title)}</h3>\n<div class="wide"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>\n"
    )


def _cases(result: Json) -> Iterator[str]:
    """The sentences behind the numbers: of each kind of error, or all in which systems differ."""
    if "cases" not in result:  # numbers that were published without them
        return
    if result["study"] == "errors":
        lists = {kind: [_error(case) for case in result["cases"] if case["kind"] == kind] for kind in result["errors"]}
    elif result["study"] == "compare":
        lists = {"sentences in which they differ": [_difference(case) for case in result["cases"]]}
    else:
        return
    for title, items in lists.items():
        left_out = f"<p>The first {LISTED}; report.json has all.</p>" if len(items) > LISTED else ""
        listed = "".join(f"<li>{item}</li>\n" for item in items[:LISTED])
        yield f"<details><summary>{shown(title)} ({len(items):,})</summary>{left_out}<ol>{listed}</ol></details>\n"


def _error(case: Json) -> str:
    return f"{_sentence(case)}{_line('gold', [case['gold']])}{_line('found', errors_module.found(case))}"


def _difference(case: Json) -> str:
    found = (
        _line(name, [f"{'✓' if item['right'] else '✗'} {item['item']}" for item in items])
        for name, items in case["found"].items()
    )
    return f"{_sentence(case)}{_line('gold', case['gold'])}{''.join(found)}"


def _sentence(case: Json) -> str:
    return f'<p dir="auto">{shown(case["text"])} <span class="counts">{shown(case["document"])}</span></p>'


def _line(name: str, items: list[str]) -> str:
    return f'<p class="line"><b>{shown(name)}</b> {shown("; ".join(items) or "nothing")}</p>'
