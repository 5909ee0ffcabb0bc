"""Studies that train: variants of one setup, each over some seeds.

A cell is one variant with one seed. It is trained by `unire train` in a process of its own, and its record is kept in
`cells/` of the study's folder; studies that share the folder share cells, such as the default.
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
from unire.studies.results import Json, ResultTable, n_sentences, with_deviation
from unire.studies.runner import Record, StudyJob, read_record, run_jobs
from unire.training.config import PRESETS, TrainingConfig

__all__ = ["DEFAULT", "Published", "Setup", "TrainingStudy", "Variant", "cells", "run"]

Published = Mapping[str, tuple[float, float]]
"""The paper's Ent F1 and Rel F1, in percent, by data set."""

ENCODERS = {"ACE05": "BERT-base", "SciERC": "SciBERT"}
"""The paper's, in the tables that are studied here."""

DEFAULT = "default"
"""The cell without changes."""


@dataclass(frozen=True)
class Variant:
    """A row of a study."""

    title: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the training that differ from the setup's."""
    paper: Published = field(default_factory=dict)
    decoder: str | None = None
    """Not another training: the setup's own model, decoded otherwise."""


@dataclass(frozen=True)
class Setup:
    """What all cells share."""

    encoder: str
    data: tuple[Path, ...]
    dev: tuple[Path, ...]
    config: TrainingConfig
    folder: Path
    test: tuple[Path, ...] = ()
    labels: str | None = None
    symmetric: str | None = None
    format: str | None = None

    def cell(self, variant: Variant, seed: int) -> StudyJob:
        """The job that makes a cell, with everything in its record that decides its outcome."""
        changes = {name: value for name, value in variant.changes.items() if getattr(self.config, name) != value}
        config = replace(self.config, **changes, seed=seed)
        if variant.decoder:
            changes["decoder"] = variant.decoder
        kind = ",".join(f"{name}={value}" for name, value in changes.items()) or DEFAULT
        name = f"{kind}-{seed}"
        about = self.about(kind, seed, asdict(config))
        kept = self.folder / "cells" / f"{name}.json"
        if variant.decoder:
            command = ("evaluate", "--model", str(self.model(seed)), "--decoder", variant.decoder)
            files = _files("--data", self.test)
            needs = (f"{DEFAULT}-{seed}",)
            return StudyJob(name, ("-m", "unire", *command, *files, *self._format, "--json"), kept, needs, about=about)
        out = self.folder / "models" / name
        resume = out.with_name(f"{name}.resume").exists()
        command = ("-m", "unire", *self._train(config), "--out", str(out), *(("--resume",) if resume else ()))
        return StudyJob(name, command, kept, about=about, anew=None if resume else out)

    def about(self, kind: str, seed: int, config: Json) -> Json:
        """Everything that decides how a cell comes out, for its record."""
        return {
            "cell": kind,
            "seed": seed,
            "encoder": Path(self.encoder).name,
            "weights": self._weights,
            "label space": self.label_space.to_dict(),
            "data": self._fingerprint,
            "config": config,
        }

    def model(self, seed: int = 0) -> Path:
        """Where the model of the default cell is."""
        return self.folder / "models" / f"{DEFAULT}-{seed}"

    def records(self, cell: Callable[[int], StudyJob]) -> list[Record]:
        """What was kept of a cell, of every seed that there is; refused if it was not made as the setup has it.

        Args:
            cell: The cell of a seed.
        """
        return [self.record(cell(seed)) for seed in self.seeds(cell(0).name.removesuffix("-0"))]

    def seeds(self, kind: str) -> list[int]:
        """The seeds of a kind of cell that are done."""
        kept = (self.folder / "cells").glob("*.json")
        return sorted(int(seed[1]) for path in kept if (seed := re.fullmatch(rf"{re.escape(kind)}-(\d+)", path.stem)))

    def record(self, job: StudyJob) -> Record:
        """A cell's record, if it was made as the setup has it."""
        record = read_record(job.kept)
        other = [name for name, value in job.about.items() if name != "config" and record.get(name) != value]
        config = record.get("config", {})
        other += [
            f"setting {name} ({config.get(name)}, not {value})"
            for name, value in job.about["config"].items()
            if config.get(name) != value
        ]
        if other:
            raise UnireError(
                f"{job.kept} was made with another {other[0]}; go on with the same settings, or give a new folder"
            )
        return record

    def require_models(self, cells: Iterable[StudyJob]) -> None:
        """Refuse cells that use a model which was deleted since it was trained."""
        for cell in cells:
            for need in () if cell.kept.exists() else cell.needs:
                self.require_model(need, cell.name)

    def require_model(self, name: str, user: str) -> None:
        """Refuse to go on if the model of a cell that is done was deleted; some cells never had any."""
        kept, model = self.folder / "cells" / f"{name}.json", self.folder / "models" / name
        if kept.exists() and not model.exists() and (read_record(kept)["printed"] or {}).get("history"):
            raise UnireError(f"{user} needs {model}, which is gone; remove {kept} to have it trained again")

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
        """What tells an encoder in a folder from another of its name; the Hub's names say it themselves."""
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
        """Of dev and of test."""
        return {split: n_sentences(self.documents(files)) for split, files in (("dev", self.dev), ("test", self.test))}

    @cached_property
    def label_space(self) -> LabelSpace:
        """That of all cells."""
        return LabelSpace.resolve(self.labels, self.symmetric, [*self.documents(self.data), *self.documents(self.dev)])

    def documents(self, files: Sequence[Path]) -> list[Document]:
        """All documents of some files; what readers note of them is in the record of every training."""
        return formats.read_documents(files, self.format)


@dataclass(frozen=True)
class TrainingStudy:
    """A table of the paper whose rows are trainings."""

    name: str
    title: str
    split: Literal["dev", "test"]
    """What the paper reports it on."""
    variants: Callable[[TrainingConfig], Sequence[Variant]]
    """The rows, for a setup with this configuration."""

    def check(self, setup: Setup) -> None:
        """Refuse a setup that cannot give the study's scores."""
        if not getattr(setup, self.split):
            raise UnireError(f"the study {self.name} reports scores on {self.split}; give --{self.split}")

    def collect(self, setup: Setup) -> Json:
        """The numbers of all cells that are there."""
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

    def _row(self, setup: Setup, variant: Variant) -> Json:
        records = setup.records(partial(setup.cell, variant))
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
                *(with_deviation(row[kind]["f1"]) for kind in ("entities", "relations")),
                str(len(row["seeds"])),
                *(_published(row["paper"].get(data)) for data in published),
            )
            for row in result["rows"]
        ]
        counted = f"{result['split']}, {result['sentences']:,} sentences, n seeds"
        theirs = f"; the paper's Ent / Rel on {' and '.join(published)}" if published else ""
        return [ResultTable(f"{result['title']}: {counted}{theirs}", ("", "Ent F1", "Rel F1", "n", *published), rows)]

    @staticmethod
    def charts(result: Json) -> dict[str, str]:
        """Ent F1 and Rel F1 of every row, seed by seed, and the paper's on the data set that is most like ours."""
        measures = {"Ent": "entities", "Rel": "relations"}
        papers = [row["paper"] for row in result["rows"]]
        published = None
        if data := _most_alike(result):
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
                theirs=published,
            )
        }


def run(
    studies: Sequence[TrainingStudy], setup: Setup, *, seeds: int, jobs: int, tell: Callable[[str], None]
) -> list[Json]:
    """Train what is missing, side by side; the numbers of each study.

    Args:
        studies: Cells that they share are trained once.
        setup: What all cells share.
        seeds: Seeds 0 to `seeds` - 1 are trained; others that were trained before count too.
        jobs: Trainings side by side.
        tell: Told of every start and end.
    """
    run_jobs(cells(studies, setup, seeds), jobs, tell=tell)
    return [study.collect(setup) for study in studies]


def cells(studies: Sequence[TrainingStudy], setup: Setup, seeds: int) -> list[StudyJob]:
    """The cells of some studies, each once; a setup that they cannot be made with is refused before any is."""
    for study in studies:
        study.check(setup)
    variants = [variant for study in studies for variant in study.variants(setup.config)]
    for variant in variants:
        setup.records(partial(setup.cell, variant))
    made = {cell.name: cell for seed in range(seeds) for cell in (setup.cell(variant, seed) for variant in variants)}
    setup.require_models(made.values())
    return list(made.values())


def _files(option: str, paths: Sequence[Path]) -> tuple[str, ...]:
    return tuple(word for path in paths for word in (option, str(path)))


def _data_sets(result: Json) -> list[str]:
    """Those on which the paper has scores of some row."""
    return list(dict.fromkeys(data for row in result["rows"] for data in row["paper"]))


def _most_alike(result: Json) -> str | None:
    """The data set on which the paper's scores are nearest to ours, if there is one: others would stretch an axis."""
    ours: float = mean(f1 for row in result["rows"] for kind in ("entities", "relations") for f1 in row[kind]["f1"])

    def away(data: str) -> float:
        theirs: float = mean(f1 for row in result["rows"] for f1 in row["paper"].get(data, ()))
        return abs(ours - theirs)

    return min(_data_sets(result), key=away, default=None)


def _published(pair: Sequence[float] | None) -> str:
    return "" if pair is None else " / ".join(f"{100 * f1:.1f}" for f1 in pair)
