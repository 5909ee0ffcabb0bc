"""All studies of one setup, one after the other: the trainings, then what is asked of the default model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from unire.extractor import Extractor
from unire.hub.model_dir import fingerprint
from unire.studies import charts, trainings
from unire.studies import errors as errors_module
from unire.studies import speed as speed_module
from unire.studies import threshold as threshold_module
from unire.studies.pipeline import study as pipeline
from unire.studies.pipeline.config import PipelineConfig
from unire.studies.report import STUDIES
from unire.studies.results import Json, load, save
from unire.studies.systems import facts
from unire.studies.trainings import Setup
from unire.studies.variants import ABLATION, BETA2, DROPOUT, WINDOW

__all__ = ["run_all"]


TRAINED = (ABLATION, WINDOW, DROPOUT, BETA2)


def run_all(setup: Setup, config: PipelineConfig, *, seeds: int, jobs: int, tell: Callable[[str], None]) -> None:
    """Do what is missing of all studies but the comparison, which is of systems that only the user knows.

    Threshold, errors and speed are those of the default cell's model of seed 0, and are missing too where they are of
    an earlier one that the cell had. What cannot be done is refused before anything is trained.
    """
    charts.matplotlib()
    earlier = {name: load(setup.folder, name) for name in STUDIES}
    trainings.cells(TRAINED, setup, seeds)
    pipeline.cells(setup, config, seeds)
    model = setup.model()
    for name in ("threshold", "errors", "speed"):
        if earlier[name] is None:
            setup.require_model(model.name, name)
    for result in trainings.run(TRAINED, setup, seeds=seeds, jobs=jobs, tell=tell):
        save(result, setup.folder)
    dev, test = (setup.documents(files) for files in (setup.dev, setup.test))

    def of_threshold() -> Json:
        return threshold_module.threshold(Extractor.load(model), dev)

    def of_errors() -> Json:
        extractor = Extractor.load(model)
        return errors_module.errors(test, list(extractor.annotate(test)), extractor.labels)

    def of_speed() -> Json:
        return speed_module.collected(speed_module.speed(model, test, tell=tell), test, None)

    for name, files, study in (
        ("threshold", setup.dev, of_threshold),
        ("errors", setup.test, of_errors),
        ("speed", setup.test, of_speed),
    ):
        if (before := earlier[name]) is None or _outdated(before, model):
            tell(f"{name}: of {model.name}" + (", which was trained anew" if before else ""))
            save({**study(), **facts([model], files)}, setup.folder)
    save(pipeline.run(setup, config, seeds=seeds, jobs=jobs, tell=tell), setup.folder)


def _outdated(result: Json, model: Path) -> bool:
    """Whether a study is of a model that was here before this one; what somebody asked of other models stays.

    Older results do not say which model it was, and the model may have been deleted since: then nobody knows.
    """
    if result["of"] != [model.name] or "fingerprints" not in result or not model.exists():
        return False
    return bool(result["fingerprints"] != [fingerprint(model)])
