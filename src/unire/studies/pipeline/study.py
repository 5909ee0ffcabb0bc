"""Table 5: the joint model beside the pipeline, with the same encoder, data and scorer; on test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from unire.errors import UnireError
from unire.studies import charts as draw
from unire.studies import speed as speed_module
from unire.studies.pipeline.config import PipelineConfig
from unire.studies.profiling import describe_repeats
from unire.studies.results import Json, ResultTable, millions, with_deviation
from unire.studies.runner import Record, StudyJob, run_jobs
from unire.studies.trainings import Setup, Variant

if TYPE_CHECKING:
    from unire.studies.pipeline.runs import Part

__all__ = ["cells", "charts", "run", "tables"]

TRAINED: tuple[Part, ...] = ("entities", "exact", "approximate")
PARTS: tuple[Part, ...] = (*TRAINED, "measured")
JOINT = Variant("joint")
PAPER = {(name, window): float(rate) for name, _, window, _, rate in speed_module.PAPER}
"""Sentences per second on SciERC, by model and W."""


def run(
    setup: Setup, config: PipelineConfig, *, seeds: int, jobs: int, tell: Callable[[str], None] = lambda line: None
) -> Json:
    """Train and measure what is missing; the numbers of the study.

    Args:
        setup: Encoder, data, and how the joint model is trained.
        config: The pipeline.
        seeds: Seeds 0 to `seeds` - 1; others that were measured before count too.
        jobs: Trainings side by side. Nothing runs beside a measurement.
        tell: Told of every start and end.
    """
    run_jobs(cells(setup, config, seeds), jobs, tell=tell)
    return _collected(setup, config)


def cells(setup: Setup, config: PipelineConfig, seeds: int) -> list[StudyJob]:
    """The cells of the study; a setup that they cannot be made with is refused before any is."""
    if not setup.test:
        raise UnireError("the study pipeline reports scores on test; give --test")
    setup.records(partial(setup.cell, JOINT))
    for part in PARTS:
        setup.records(partial(_cell, setup, config, part))
    made = [cell for seed in range(seeds) for cell in _cells(setup, config, seed)]
    setup.require_models(made)
    return made


def _cells(setup: Setup, config: PipelineConfig, seed: int) -> list[StudyJob]:
    """The joint model, which other studies share, the models of the pipeline, and the measurement of all."""
    trained = [setup.cell(JOINT, seed), *(_cell(setup, config, part, seed) for part in TRAINED)]
    last = _cell(setup, config, "measured", seed)
    return [*trained, replace(last, needs=tuple(cell.name for cell in trained), alone=True)]


def _cell(setup: Setup, config: PipelineConfig, part: Part, seed: int) -> StudyJob:
    from unire.studies.pipeline.runs import Cell

    joint = asdict(replace(setup.config, seed=seed))
    kind = f"pipeline-{part}"
    files = {
        split: [str(path) for path in paths]
        for split, paths in (("data", setup.data), ("dev", setup.dev), ("test", setup.test))
    }
    cell = Cell(
        part=part,
        encoder=setup.encoder,
        **files,
        format=setup.format,
        labels=setup.label_space.to_dict(),
        training=joint,
        pipeline=asdict(config),
        folder=str(setup.folder),
    )
    settings = {**joint, **{f"pipeline {name}": value for name, value in asdict(config).items()}}
    return StudyJob(
        f"{kind}-{seed}",
        ("-m", "unire.studies.pipeline", cell.to_json()),
        setup.folder / "cells" / f"{kind}-{seed}.json",
        about=setup.about(kind, seed, settings),
    )


def _collected(setup: Setup, config: PipelineConfig) -> Json:
    records = setup.records(partial(_cell, setup, config, "measured"))
    seeds = [record["seed"] for record in records]
    first = records[0]["printed"]
    made = _cells(setup, config, seeds[0])[:-1]
    trained = {name: setup.record(cell) for name, cell in zip(("joint", *TRAINED), made, strict=True)}
    return {
        "study": "pipeline",
        "sentences": setup.sentences["test"],
        "encoder": Path(setup.encoder).name,
        "config": asdict(setup.config),
        "pipeline": asdict(config),
        **{name: first[name] for name in ("machine", "torch", "precision")},
        "seeds": seeds,
        "rows": [_row(records, place) for place in range(len(first["rows"]))],
        "notes": {
            "test": first["notes"],
            **{f"training, {part}": record["printed"]["notes"] for part, record in trained.items()},
        },
        "training seconds": {part: record["seconds"] for part, record in trained.items()},
    }


def _row(records: Sequence[Record], place: int) -> Json:
    """The same row of every seed as one."""
    rows = [record["printed"]["rows"][place] for record in records]
    first = rows[0]
    return {
        **{name: first[name] for name in ("title", "window", "parameters")},
        "sentences_per_second": [row["sentences_per_second"] for row in rows],
        "repeats": [row.get("repeats", 1) for row in rows],
        "seconds": {stage: [row["seconds"][stage] for row in rows] for stage in first["seconds"]},
        **{
            kind: {rate: [row[kind][rate] for row in rows] for rate in ("precision", "recall", "f1")}
            for kind in ("entities", "relations")
        },
    }


def tables(result: Json) -> list[ResultTable]:
    seeds = "1 seed" if len(result["seeds"]) == 1 else f"{len(result['seeds'])} seeds"
    counted = f"test, {result['sentences']:,} sentences, {seeds}"
    on = f"{_often(result)} on {result['machine']} in {result['precision']}".lstrip(", ")
    title = f"Joint model and pipeline (Table 5): {counted}; {on}"
    rows = [
        (
            row["title"],
            millions(row["parameters"]),
            row["window"],
            *(with_deviation(row[kind]["f1"]) for kind in ("entities", "relations")),
            f"{_rate(row):,.0f}",
        )
        for row in result["rows"]
    ]
    notes = [
        (f"{where}: {what}", f"{count:,}")
        for where, counts in result["notes"].items()
        for what, count in counts.items()
    ]
    return [
        ResultTable(title, ("", "size", "W", "Ent F1", "Rel F1", "sent/s"), rows),
        _ratios(result),
        ResultTable("Where the pipeline's time goes, ms a sentence", ("", "entities", "relations"), _stages(result)),
        ResultTable("Counted on the way, first seed", ("", "n"), notes or [("nothing", "")]),
        speed_module.paper(),
    ]


def charts(result: Json) -> dict[str, str]:
    names = [row["title"] for row in result["rows"]]
    counted = f"n = {result['sentences']:,} sentences"
    scores = {
        name: [[100 * f1 for f1 in row[kind]["f1"]] for row in result["rows"]]
        for name, kind in (("Ent", "entities"), ("Rel", "relations"))
    }
    rates = [_rate(row) for row in result["rows"]]
    often = _often(result)
    between = "\n" if often else " "  # or it would be wider than the chart
    return {
        "pipeline": draw.dots(
            names,
            scores,
            unit="F1 on test, %",
            note=counted,
            dot="seed",
        ),
        "pipeline-speed": draw.bars(
            names,
            rates,
            [f"{rate:,.0f}" for rate in rates],
            x="sentences per second",
            note=f"{counted}{often} on {result['machine']} in {result['precision']},{between}"
            "from words to entities and relations",
        ),
    }


def _ratios(result: Json) -> ResultTable:
    """How many times as fast the joint model is, in each of its ways."""
    joint = _rows(result, "joint")
    ours = [
        (row["title"], *(f"{_rate(other) / _rate(row):.1f}" for other in joint)) for row in _rows(result, "pipeline")
    ]
    theirs = [
        (f"the paper: {name}", *(_ratio_of_paper(other["window"], PAPER[name, "100"]) for other in joint))
        for name in ("Zhong & Chen", "Zhong & Chen, approximate")
    ]
    return ResultTable(
        "The joint model is so many times as fast", ("", *(row["title"] for row in joint)), [*ours, *theirs]
    )


def _ratio_of_paper(window: str, rate: float) -> str:
    """The paper's, if it has the joint model with such windows."""
    return f"{PAPER['UniRE', window] / rate:.1f}" if ("UniRE", window) in PAPER else ""


def _stages(result: Json) -> list[Sequence[str]]:
    return [
        (row["title"], *(f"{1000 * mean(seconds) / result['sentences']:.2f}" for seconds in row["seconds"].values()))
        for row in _rows(result, "pipeline")
    ]


def _often(result: Json) -> str:
    """How often the sentences were read in a round, where a record says so."""
    return describe_repeats(count for row in result["rows"] for count in row.get("repeats", ()))


def _rows(result: Json, kind: str) -> list[Json]:
    return [row for row in result["rows"] if row["title"].startswith(kind)]


def _rate(row: Json) -> float:
    return float(mean(row["sentences_per_second"]))
