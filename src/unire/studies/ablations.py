"""Ablations and other training studies: variants of one training setup, each with several seeds (Tables 4 and 6).

A run is one variant with one seed. `unire train` trains it in its own process, and its record is kept in `cells/` of
the study's folder. Studies that share the folder share runs, such as the default.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from statistics import mean
from typing import Any, Literal

from unire import formats
from unire.documents import Document
from unire.errors import UnireError
from unire.labels import LabelSpace
from unire.studies import charts
from unire.studies.results import Json, ResultTable, count_sentences, format_mean, save_result
from unire.studies.runner import Record, StudyJob, read_record, run_jobs
from unire.training.config import PRESETS, TrainingConfig

__all__ = [
    "ABLATION",
    "BETA2",
    "DEFAULT",
    "DROPOUT",
    "WINDOW",
    "StudySetup",
    "TrainingStudy",
    "Variant",
    "plan_jobs",
    "run_studies",
]

Published = Mapping[str, tuple[float, float]]
"""The paper's Ent F1 and Rel F1, in percent, by data set."""

ENCODERS = {"ACE05": "BERT-base", "SciERC": "SciBERT"}
"""Encoders of the paper's tables."""

DEFAULT = "default"
"""Name of the run without changes."""


@dataclass(frozen=True)
class Variant:
    """A row of a training study."""

    title: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Training settings that differ from the setup."""
    paper: Published = field(default_factory=dict)
    decoder: str | None = None
    """If set, the default model is not trained again but evaluated with this decoder."""


@dataclass(frozen=True)
class StudySetup:
    """What all runs share."""

    encoder: str
    data: tuple[Path, ...]
    dev: tuple[Path, ...]
    config: TrainingConfig
    folder: Path
    test: tuple[Path, ...] = ()
    labels: str | None = None
    symmetric: str | None = None
    format: str | None = None

    def plan_job(self, variant: Variant, seed: int) -> StudyJob:
        """The job of a run. Its record holds everything that decides the outcome."""
        changes = {name: value for name, value in variant.changes.items() if getattr(self.config, name) != value}
        config = replace(self.config, **changes, seed=seed)
        if variant.decoder:
            changes["decoder"] = variant.decoder
        kind = ",".join(f"{name}={value}" for name, value in changes.items()) or DEFAULT
        name = f"{kind}-{seed}"
        info = self.describe_run(kind, seed, asdict(config))
        record = self.record_path(name)
        if variant.decoder:
            command = ("evaluate", "--model", str(self.default_model(seed)), "--decoder", variant.decoder)
            files = _files("--data", self.test)
            needs = (f"{DEFAULT}-{seed}",)
            return StudyJob(name, ("-m", "unire", *command, *files, *self._format, "--json"), record, needs, info=info)
        out = self.folder / "models" / name
        resume = out.with_name(f"{name}.resume").exists()
        command = ("-m", "unire", *self._train(config), "--out", str(out), *(("--resume",) if resume else ()))
        return StudyJob(name, command, record, info=info, fresh_output=None if resume else out)

    def describe_run(self, kind: str, seed: int, config: Json) -> Json:
        """Everything that decides the outcome of a run, for its record."""
        return {
            "cell": kind,
            "seed": seed,
            "encoder": Path(self.encoder).name,
            "weights": self._weights,
            "label space": self.label_space.to_dict(),
            "data": self._fingerprint,
            "config": config,
        }

    def default_model(self, seed: int = 0) -> Path:
        """The folder of the default run's model."""
        return self.folder / "models" / f"{DEFAULT}-{seed}"

    def record_path(self, name: str) -> Path:
        return self.folder / "cells" / f"{name}.json"

    def read_records(self, plan: Callable[[int], StudyJob]) -> list[Record]:
        """The records of a run for every finished seed. They must have been made with this setup.

        Args:
            plan: The job for a seed.
        """
        return [self.read_record(plan(seed)) for seed in self._finished_seeds(plan(0).name.removesuffix("-0"))]

    def _finished_seeds(self, kind: str) -> list[int]:
        records = (self.folder / "cells").glob("*.json")
        return sorted(
            int(seed[1]) for path in records if (seed := re.fullmatch(rf"{re.escape(kind)}-(\d+)", path.stem))
        )

    def read_record(self, job: StudyJob) -> Record:
        """The record of a run. It must have been made with this setup."""
        record = read_record(job.record_path)
        other = [name for name, value in job.info.items() if name != "config" and record.get(name) != value]
        config = record.get("config", {})
        other += [
            f"setting {name} ({config.get(name)}, not {value})"
            for name, value in job.info["config"].items()
            if config.get(name) != value
        ]
        if other:
            raise UnireError(
                f"{job.record_path} was made with another {other[0]}; use the same settings, or a new folder"
            )
        return record

    def check_models(self, jobs: Iterable[StudyJob]) -> None:
        """Refuse jobs that need a model which was deleted after its training."""
        for job in jobs:
            for need in () if job.record_path.exists() else job.needs:
                self.check_model(need, job.name)

    def check_model(self, name: str, user: str) -> None:
        """Refuse to continue if the model of a finished run was deleted. Some runs have no model."""
        record, model = self.record_path(name), self.folder / "models" / name
        if record.exists() and not model.exists() and (read_record(record)["printed"] or {}).get("history"):
            raise UnireError(f"{user} needs {model}, which does not exist; remove {record} to train it again")

    def _train(self, config: TrainingConfig) -> list[str]:
        preset = asdict(PRESETS[config.preset])
        changed = {name: value for name, value in asdict(config).items() if value != preset[name]}
        return [
            "train",
            *("--encoder", self.encoder),
            *_files("--data", self.data),
            *_files("--dev", self.dev),
            *_files("--test", self.test),
            *(("--labels", self.labels) if self.labels is not None else ()),
            *(("--symmetric", self.symmetric) if self.symmetric is not None else ()),
            *self._format,
            *("--preset", config.preset),
            *(word for name, value in changed.items() for word in ("--set", f"{name}={json.dumps(value)}")),
            "--json",
        ]

    @property
    def _format(self) -> tuple[str, ...]:
        return ("--format", self.format) if self.format is not None else ()

    @cached_property
    def _fingerprint(self) -> str:
        from unire.training.resume import fingerprint

        return fingerprint(*(self.documents(part) for part in (self.data, self.dev, self.test)))

    @cached_property
    def _weights(self) -> str | None:
        """A digest of an encoder in a folder; `None` for a Hub name."""
        folder = Path(self.encoder)
        if not folder.is_dir():
            return None
        digest = hashlib.sha256()
        for file in sorted([*folder.glob("config.json"), *folder.glob("*.safetensors")]):
            with file.open("rb") as stream:
                while block := stream.read(2**20):
                    digest.update(block)
        return digest.hexdigest()[:16]

    @cached_property
    def sentences(self) -> dict[str, int]:
        """Number of sentences of dev and test."""
        return {
            split: count_sentences(self.documents(files)) for split, files in (("dev", self.dev), ("test", self.test))
        }

    @cached_property
    def label_space(self) -> LabelSpace:
        """The label space of all runs."""
        return LabelSpace.resolve(self.labels, self.symmetric, [*self.documents(self.data), *self.documents(self.dev)])

    def documents(self, files: Sequence[Path]) -> list[Document]:
        """All documents of the files."""
        return formats.read_documents(files, self.format)


@dataclass(frozen=True)
class TrainingStudy:
    """A table of the paper whose rows are trainings."""

    name: str
    title: str
    split: Literal["dev", "test"]
    """The split on which the paper reports it."""
    variants: Callable[[TrainingConfig], Sequence[Variant]]
    """The rows, for a given configuration."""

    def check(self, setup: StudySetup) -> None:
        """Refuse a setup without the split that the study reports."""
        if not getattr(setup, self.split):
            raise UnireError(f"the study {self.name} scores on {self.split}; pass {self.split}=...")

    def collect(self, setup: StudySetup) -> Json:
        """The numbers of all finished runs."""
        rows = [self._row(setup, variant) for variant in self.variants(setup.config)]
        return {
            "study": self.name,
            "title": self.title,
            "split": self.split,
            "sentences": setup.sentences[self.split],
            "encoder": Path(setup.encoder).name,
            "config": asdict(setup.config),
            "rows": rows,
        }

    def _row(self, setup: StudySetup, variant: Variant) -> Json:
        records = setup.read_records(partial(setup.plan_job, variant))
        scores = [record["printed"]["scores"] for record in records]
        if variant.decoder is None:
            scores = [by_split[self.split] for by_split in scores]
        rates = ("precision", "recall", "f1")
        return {
            "title": variant.title,
            "cell": records[0]["cell"],
            "seeds": [record["seed"] for record in records],
            "seconds": [record["seconds"] for record in records],
            **{
                kind: {rate: [score[kind][rate] for score in scores] for rate in rates}
                for kind in ("entities", "relations", "spans")
            },
            "paper": {data: [round(f1 / 100, 3) for f1 in pair] for data, pair in variant.paper.items()},
        }

    @staticmethod
    def tables(result: Json) -> list[ResultTable]:
        published = _data_sets(result)
        rows = [
            (
                row["title"],
                *(format_mean(row[kind]["f1"]) for kind in ("entities", "relations")),
                str(len(row["seeds"])),
                *(_published(row["paper"].get(data)) for data in published),
            )
            for row in result["rows"]
        ]
        counted = f"{result['split']}, {result['sentences']:,} sentences, n seeds"
        paper = f"; Ent / Rel of the UniRE paper on {' and '.join(published)}" if published else ""
        return [ResultTable(f"{result['title']}: {counted}{paper}", ("", "Ent F1", "Rel F1", "n", *published), rows)]

    @staticmethod
    def charts(result: Json) -> dict[str, str]:
        """Ent F1 and Rel F1 of every row and seed, with the paper's scores on the most similar data set."""
        measures = {"Ent": "entities", "Rel": "relations"}
        papers = [row["paper"] for row in result["rows"]]
        published = None
        if data := _most_similar(result):
            scores = {
                name: [100 * paper[data][place] if data in paper else None for paper in papers]
                for place, name in enumerate(measures)
            }
            published = f"paper, {data} ({ENCODERS[data]})", scores
        return {
            result["study"]: charts.dots(
                [row["title"] for row in result["rows"]],
                {
                    name: [[100 * f1 for f1 in row[kind]["f1"]] for row in result["rows"]]
                    for name, kind in measures.items()
                },
                unit=f"F1 on {result['split']}, %",
                note=f"n = {result['sentences']:,} sentences",
                dot="seed",
                reference=published,
            )
        }


def run_studies(
    studies: Sequence[TrainingStudy],
    setup: StudySetup,
    *,
    seeds: int = 1,
    jobs: int = 1,
    log: Callable[[str], None] = lambda line: None,
) -> list[Json]:
    """Train the missing runs in parallel, and save the numbers of each study in the folder of the setup.

    Args:
        studies: Runs that they share are trained once.
        setup: What all runs share.
        seeds: Seeds 0 to `seeds` - 1 are trained. Seeds that were trained before count too.
        jobs: Trainings in parallel.
        log: Called with a line at every start and end.
    """
    run_jobs(plan_jobs(studies, setup, seeds), jobs, log=log)
    results = [study.collect(setup) for study in studies]
    for result in results:
        save_result(result, setup.folder, log)
    return results


def plan_jobs(studies: Sequence[TrainingStudy], setup: StudySetup, seeds: int) -> list[StudyJob]:
    """The jobs of all runs, each once. A setup that does not fit existing records is refused before anything runs."""
    for study in studies:
        study.check(setup)
    variants = [variant for study in studies for variant in study.variants(setup.config)]
    for variant in variants:
        setup.read_records(partial(setup.plan_job, variant))
    planned = [setup.plan_job(variant, seed) for seed in range(seeds) for variant in variants]
    unique = {job.name: job for job in planned}
    setup.check_models(unique.values())
    return list(unique.values())


def _files(option: str, paths: Sequence[Path]) -> tuple[str, ...]:
    return tuple(word for path in paths for word in (option, str(path)))


def _data_sets(result: Json) -> list[str]:
    """The data sets with published scores."""
    return list(dict.fromkeys(data for row in result["rows"] for data in row["paper"]))


def _most_similar(result: Json) -> str | None:
    """The data set whose published scores are closest to ours, if there is one. Others would widen the axis."""
    ours: float = mean(f1 for row in result["rows"] for kind in ("entities", "relations") for f1 in row[kind]["f1"])

    def distance(data: str) -> float:
        published: float = mean(f1 for row in result["rows"] for f1 in row["paper"].get(data, ()))
        return abs(ours - published)

    return min(_data_sets(result), key=distance, default=None)


def _published(pair: Sequence[float] | None) -> str:
    return "" if pair is None else " / ".join(f"{100 * f1:.1f}" for f1 in pair)


ABLATION_ROWS = (
    Variant("default", {}, {"ACE05": (88.8, 64.3), "SciERC": (68.4, 36.9)}),
    Variant("w/o symmetry loss", {"symmetry": False}, {"ACE05": (88.9, 64.0), "SciERC": (67.3, 35.5)}),
    Variant("w/o implication loss", {"implication": "none"}, {"ACE05": (89.0, 63.3), "SciERC": (68.0, 37.1)}),
    Variant("w/o logit dropout", {"logit_dropout": 0.0}, {"ACE05": (88.8, 61.8), "SciERC": (66.9, 34.7)}),
    Variant("w/o cross-sentence context", {"window": 0}, {"ACE05": (87.9, 62.7), "SciERC": (65.3, 32.1)}),
    Variant("hard decoding", {}, {"ACE05": (74.0, 34.6), "SciERC": (46.1, 17.8)}, decoder="hard"),
)

ABLATION = TrainingStudy("ablate", "Ablation", "test", lambda config: ABLATION_ROWS)


BETA2_ROWS = tuple(Variant(f"β₂ = {beta2}", {"beta2": beta2}) for beta2 in (0.9, 0.999))

BETA2 = TrainingStudy("beta2", "AdamW's β₂", "dev", lambda config: BETA2_ROWS)


DROPOUT_PAPER: dict[float, Published] = {
    0.1: {"ACE05": (87.4, 61.8), "SciERC": (71.1, 37.8)},
    0.2: {"ACE05": (87.9, 62.1), "SciERC": (70.6, 38.3)},
    0.3: {"ACE05": (87.2, 62.1), "SciERC": (67.8, 33.5)},
    0.4: {"ACE05": (87.4, 62.0), "SciERC": (70.6, 35.8)},
}
DROPOUT_ROWS = tuple(Variant(f"p = {rate}", {"logit_dropout": rate}, paper) for rate, paper in DROPOUT_PAPER.items())

DROPOUT = TrainingStudy("dropout", "Logit dropout", "dev", lambda config: DROPOUT_ROWS)


WINDOW_PAPER: dict[int, Published] = {
    100: {"ACE05": (87.4, 62.4), "SciERC": (69.0, 36.7)},
    200: {"ACE05": (87.9, 62.1), "SciERC": (70.6, 38.3)},
    300: {"ACE05": (87.2, 60.8), "SciERC": (69.4, 35.4)},
}


def _window_rows(config: TrainingConfig) -> Sequence[Variant]:
    """Shared windows do not depend on W. With them, W varies in the layout `in-place`, and one more row is shared."""
    shared = config.layout == "shared"
    layout = {"layout": "in-place"} if shared else {}
    rows = [Variant(f"W = {window}", {"window": window, **layout}, paper) for window, paper in WINDOW_PAPER.items()]
    return [*rows, Variant("shared windows")] if shared else rows


WINDOW = TrainingStudy("window", "Words of a window", "dev", _window_rows)
