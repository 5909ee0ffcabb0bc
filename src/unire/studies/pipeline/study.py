"""The joint model and the pipeline, with the same encoder, data and scorer; on test (Table 5 of the paper)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from unire.errors import FRACTION, NATURAL, POSITIVE, UnireError, check_kinds, check_ranges
from unire.studies import charts as draw
from unire.studies import speed as speed_module
from unire.studies.ablations import StudySetup, Variant
from unire.studies.profiling import describe_repeats
from unire.studies.results import Json, ResultTable, format_mean, format_millions, save_result
from unire.studies.runner import Record, StudyJob, run_jobs
from unire.training.config import MARKER_SETTINGS, TrainingConfig

if TYPE_CHECKING:
    from unire.studies.pipeline.runs import Part

__all__ = ["PipelineConfig", "charts", "plan_jobs", "run_study", "tables"]

TRAINED: tuple[Part, ...] = ("entities", "exact", "approximate")
PARTS: tuple[Part, ...] = (*TRAINED, "measured")
JOINT = Variant("joint")
PAPER = {(name, window): float(rate) for name, _, window, _, rate in speed_module.PAPER}
"""Sentences per second on SciERC, by model and W."""


@dataclass(frozen=True)
class PipelineConfig:
    """Settings of the pipeline.

    Sizes and windows are those of Zhong & Chen for SciERC. They train longer, with lower learning rates.
    """

    max_span: int = 8
    """Words of the longest candidate span."""
    entity_window: int = 300
    """Words of a window of the span model, including the sentence; 0 for no context."""
    relation_window: int = MARKER_SETTINGS["window"]
    """The same for the marker models."""
    d_width: int = 150
    """Size of the embedding of a span's width."""
    d_hidden: int = 150
    """Size of the two hidden layers over a span."""

    entity_epochs: int = 10
    relation_epochs: int = MARKER_SETTINGS["epochs"]
    sentences: int = 16
    """Sentences per step of the span model."""
    pairs: int = MARKER_SETTINGS["batch_size"]
    """Entity pairs per step of the marker models. The approximate one takes whole sentences."""
    entity_lr: float = 1e-4
    """Peak learning rate of the encoder."""
    relation_lr: float = MARKER_SETTINGS["lr"]
    entity_head_lr: float = 1e-3
    """Peak learning rate of the head."""
    relation_head_lr: float = MARKER_SETTINGS["head_lr"]
    beta2: float = MARKER_SETTINGS["beta2"]
    warmup: float = MARKER_SETTINGS["warmup"]
    """Fraction of the training in which the learning rate rises."""

    def __post_init__(self) -> None:
        check_kinds(type(self), vars(self), "pipeline setting")
        windows = dict.fromkeys(("entity_window", "relation_window"), NATURAL)
        ranges = {**dict.fromkeys(vars(self), POSITIVE), **windows, "beta2": FRACTION, "warmup": FRACTION}
        check_ranges(vars(self), ranges, "pipeline setting")

    @classmethod
    def with_changes(cls, **changes: Any) -> PipelineConfig:
        """The defaults with changes."""
        known = [field.name for field in fields(cls)]
        for name in changes:
            if name not in known:
                raise UnireError(f"unknown pipeline setting {name!r}; give one of {', '.join(known)}")
        return cls(**changes)

    def training(self, joint: TrainingConfig, *, entities: bool) -> TrainingConfig:
        """The training configuration of one of the two models. Other fields are those of the joint model."""
        return replace(
            joint,
            epochs=self.entity_epochs if entities else self.relation_epochs,
            batch_size=self.sentences if entities else self.pairs,
            lr=self.entity_lr if entities else self.relation_lr,
            head_lr=self.entity_head_lr if entities else self.relation_head_lr,
            beta2=self.beta2,
            warmup=self.warmup,
            window=self.entity_window if entities else self.relation_window,
        )


def run_study(
    setup: StudySetup,
    config: PipelineConfig,
    *,
    seeds: int = 1,
    jobs: int = 1,
    log: Callable[[str], None] = lambda line: None,
) -> Json:
    """Train and measure what is missing, and save the numbers of the study in the folder of the setup.

    Args:
        setup: Encoder, data and configuration of the joint model.
        config: The pipeline.
        seeds: Seeds 0 to `seeds` - 1. Seeds that were measured before count too.
        jobs: Trainings in parallel. Nothing else runs during a measurement.
        log: Called with a line at every start and end.
    """
    run_jobs(plan_jobs(setup, config, seeds), jobs, log=log)
    result = _collect(setup, config)
    save_result(result, setup.folder, log)
    return result


def plan_jobs(setup: StudySetup, config: PipelineConfig, seeds: int) -> list[StudyJob]:
    """The jobs of the study. A setup that does not fit existing records is refused before anything runs."""
    if not setup.test:
        raise UnireError("the study pipeline scores on test; pass test=...")
    setup.read_records(partial(setup.plan_job, JOINT))
    for part in PARTS:
        setup.read_records(partial(_plan_job, setup, config, part))
    planned = [job for seed in range(seeds) for job in _plan_seed(setup, config, seed)]
    setup.check_models(planned)
    return planned


def _plan_seed(setup: StudySetup, config: PipelineConfig, seed: int) -> list[StudyJob]:
    """The joint model, which other studies share, the models of the pipeline, and the measurement of all."""
    trained = [setup.plan_job(JOINT, seed), *(_plan_job(setup, config, part, seed) for part in TRAINED)]
    last = _plan_job(setup, config, "measured", seed)
    return [*trained, replace(last, needs=tuple(job.name for job in trained), exclusive=True)]


def _plan_job(setup: StudySetup, config: PipelineConfig, part: Part, seed: int) -> StudyJob:
    from unire.studies.pipeline.runs import PipelineRun

    joint = asdict(replace(setup.config, seed=seed))
    kind = f"pipeline-{part}"
    files = {
        split: [str(path) for path in paths]
        for split, paths in (("data", setup.data), ("dev", setup.dev), ("test", setup.test))
    }
    run = PipelineRun(
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
        ("-m", "unire.studies.pipeline.runs", run.to_json()),
        setup.record_path(f"{kind}-{seed}"),
        info=setup.describe_run(kind, seed, settings),
    )


def _collect(setup: StudySetup, config: PipelineConfig) -> Json:
    records = setup.read_records(partial(_plan_job, setup, config, "measured"))
    seeds = [record["seed"] for record in records]
    first = records[0]["printed"]
    trainings = _plan_seed(setup, config, seeds[0])[:-1]
    trained = {name: setup.read_record(job) for name, job in zip(("joint", *TRAINED), trainings, strict=True)}
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
    """One row with the values of all seeds."""
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
    title = f"Joint model and pipeline: {counted}; {on}"
    rows = [
        (
            row["title"],
            format_millions(row["parameters"]),
            row["window"],
            *(format_mean(row[kind]["f1"]) for kind in ("entities", "relations")),
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
        ResultTable("Time of the pipeline's stages, ms per sentence", ("", "entities", "relations"), _stages(result)),
        ResultTable("Notes of the first seed", ("", "n"), notes or [("nothing", "")]),
        speed_module.paper_table(),
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
    between = "\n" if often else " "  # a longer line would be wider than the chart
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
    """How many times faster the joint model is, for each of its settings."""
    joint = _rows(result, "joint")
    measured = [
        (row["title"], *(f"{_rate(other) / _rate(row):.1f}" for other in joint)) for row in _rows(result, "pipeline")
    ]
    published = [
        (f"the paper: {name}", *(_ratio_of_paper(other["window"], PAPER[name, "100"]) for other in joint))
        for name in ("Zhong & Chen", "Zhong & Chen, approximate")
    ]
    return ResultTable(
        "Speed of the joint model divided by that of the pipeline",
        ("", *(row["title"] for row in joint)),
        [*measured, *published],
    )


def _ratio_of_paper(window: str, rate: float) -> str:
    """The paper's ratio, if it has the joint model with this W."""
    return f"{PAPER['UniRE', window] / rate:.1f}" if ("UniRE", window) in PAPER else ""


def _stages(result: Json) -> list[Sequence[str]]:
    return [
        (row["title"], *(f"{1000 * mean(seconds) / result['sentences']:.2f}" for seconds in row["seconds"].values()))
        for row in _rows(result, "pipeline")
    ]


def _often(result: Json) -> str:
    """How often a round reads the sentences, if a record has it."""
    return describe_repeats(count for row in result["rows"] for count in row.get("repeats", ()))


def _rows(result: Json, kind: str) -> list[Json]:
    return [row for row in result["rows"] if row["title"].startswith(kind)]


def _rate(row: Json) -> float:
    return float(mean(row["sentences_per_second"]))
