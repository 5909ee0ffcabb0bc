"""All studies of one setup, one after the other: the trainings, then what is asked of the default model."""

from __future__ import annotations

from collections.abc import Callable

from unire.extractor import Extractor
from unire.studies import charts, errors, speed, threshold, trainings
from unire.studies.ablation import ABLATION
from unire.studies.beta2 import BETA2
from unire.studies.dropout import DROPOUT
from unire.studies.pipeline import study as pipeline
from unire.studies.pipeline.config import PipelineConfig
from unire.studies.report import STUDIES
from unire.studies.results import Json, load, save
from unire.studies.trainings import Setup
from unire.studies.window import WINDOW

__all__ = ["run_all"]


TRAINED = (ABLATION, WINDOW, DROPOUT, BETA2)


def run_all(setup: Setup, config: PipelineConfig, *, seeds: int, jobs: int, tell: Callable[[str], None]) -> None:
    """Do what is missing of all studies but the comparison, which is of systems that only the user knows.

    Threshold, errors and speed are those of the default cell's model of seed 0. What cannot be done is refused before
    anything is trained.
    """
    charts.matplotlib()
    done = {name for name in STUDIES if load(setup.folder, name) is not None}
    trainings.cells(TRAINED, setup, seeds)
    pipeline.cells(setup, config, seeds)
    model = setup.model()
    for name in ("threshold", "errors", "speed"):
        if name not in done:
            setup.require_model(model.name, name)
    for result in trainings.run(TRAINED, setup, seeds=seeds, jobs=jobs, tell=tell):
        save(result, setup.folder)
    dev, test = (setup.documents(files) for files in (setup.dev, setup.test))

    def of_threshold() -> Json:
        return threshold.threshold(Extractor.load(model), dev)

    def of_errors() -> Json:
        extractor = Extractor.load(model)
        return errors.errors(test, list(extractor.annotate(test)), extractor.labels)

    def of_speed() -> Json:
        return speed.collected(speed.speed(model, test, tell=tell), test, None)

    for name, files, study in (
        ("threshold", setup.dev, of_threshold),
        ("errors", setup.test, of_errors),
        ("speed", setup.test, of_speed),
    ):
        if name not in done:
            tell(f"{name}: of {model.name}")
            save({**study(), "of": [model.name], "data": [file.name for file in files]}, setup.folder)
    save(pipeline.run(setup, config, seeds=seeds, jobs=jobs, tell=tell), setup.folder)
