"""The runs of the pipeline study: each trains a model or measures all models, in its own process.

`python -m unire.studies.pipeline.runs RUN` executes one of them; RUN is a `PipelineRun` as JSON.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from accelerate.utils import set_seed

from unire import formats
from unire.config import ModelConfig
from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.scorer import score
from unire.extractor import Extractor
from unire.hub.model_dir import WEIGHTS
from unire.inference.torch_engine import TorchEngine, choose_device, store_in_bf16
from unire.labels import LabelSpace
from unire.models.checkpoint import read_tensors, write_tensors
from unire.models.encoder import load_encoder
from unire.models.unire import UniRE
from unire.studies.ablations import DEFAULT
from unire.studies.pipeline.entities import EntityClassifier, EntityData, SpanModel, count_unreachable
from unire.studies.pipeline.study import PipelineConfig
from unire.studies.profiling import Step, TimedRun, measure
from unire.studies.results import Json, count_sentences
from unire.studies.speed import describe_machine
from unire.training.callbacks import Callback, exit_status
from unire.training.config import TrainingConfig
from unire.training.markers.classifier import RelationClassifier, default_batch_tokens, load_marker, replace_model
from unire.training.markers.data import SentenceReader
from unire.training.markers.model import NoPositionsError
from unire.training.markers.train import train_markers
from unire.training.tasks import ItemTask
from unire.training.trainer import Trainer, use_bf16

__all__ = ["Part", "PipelineRun", "main", "measure_all"]

Part = Literal["entities", "exact", "approximate", "measured"]
JOINT_WINDOWS = (200, 100)
"""Additional values of W with which the joint model is measured, as in the paper."""


@dataclass(frozen=True)
class PipelineRun:
    """The work of one process, as plain JSON values."""

    part: Part
    encoder: str
    data: list[str]
    dev: list[str]
    test: list[str]
    format: str | None
    labels: dict[str, list[str]]
    training: dict[str, Any]
    """Configuration of the joint model, with the seed."""
    pipeline: dict[str, Any]
    folder: str
    """The folder of the study."""

    @classmethod
    def from_json(cls, text: str) -> PipelineRun:
        return cls(**json.loads(text))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @property
    def config(self) -> PipelineConfig:
        return PipelineConfig(**self.pipeline)

    @property
    def joint(self) -> TrainingConfig:
        return TrainingConfig(**self.training)

    def model_folder(self, name: str) -> Path:
        """The folder of a model with this run's seed."""
        return Path(self.folder) / "models" / f"{name}-{self.joint.seed}"

    def run(self, callbacks: Sequence[Callback] = ()) -> Json:
        """Train and save a model, or measure the saved models."""
        if self.part == "measured":
            documents = self._read_documents(self.test)
            entities, relations = self._load_entities(), self._load_relations()
            return measure_all(self.model_folder(DEFAULT), entities, relations, documents, self.config)
        try:
            return self._train(callbacks)
        except NoPositionsError as error:
            return {"history": [], "notes": {str(error): 1}}

    def _train(self, callbacks: Sequence[Callback]) -> Json:
        labels, config = LabelSpace.from_dict(self.labels), self.config
        notes: Counter[str] = Counter()
        documents, dev = self._read_documents(self.data, notes), self._read_documents(self.dev, notes)
        if self.part != "entities":
            trained = train_markers(
                self.encoder,
                documents,
                self.model_folder(f"pipeline-{self.part}"),
                labels=labels,
                config=config.training(self.joint, entities=False),
                dev=dev,
                approximate=self.part == "approximate",
                again=True,
                callbacks=callbacks,
            )
            return {"history": trained.history, "notes": {**+notes, **trained.notes}}
        labels.check([*documents, *dev])
        set_seed(self.joint.seed)
        classifier = self._init_entities()
        data = EntityData(documents, classifier.reader, labels, config.max_span)
        training = config.training(self.joint, entities=True)

        def f1() -> float:
            return score(dev, classifier.predict(dev), labels).entities.f1

        trainer = Trainer(ItemTask(classifier.model, data, training, evaluate=f1 if dev else None), callbacks=callbacks)
        trainer.run()
        self._save_entities(classifier)
        return {"history": trainer.state.history, "notes": {**+notes, **data.notes}}

    def _save_entities(self, classifier: EntityClassifier) -> None:
        """Save the span model atomically. The model of an earlier run is replaced."""
        with replace_model(self.model_folder("pipeline-entities")) as temporary:
            write_tensors(temporary / WEIGHTS, classifier.model.state_dict())

    def _init_entities(self) -> EntityClassifier:
        """An untrained span model."""
        labels, joint, config = LabelSpace.from_dict(self.labels), self.joint, self.config
        encoder: Any
        encoder, tokenizer, spec = load_encoder(self.encoder, case_marks=joint.case_marks)
        model = SpanModel(encoder, len(labels.entity_types), config).to(choose_device())
        reader = SentenceReader(tokenizer, spec, config.entity_window)
        return EntityClassifier(model, reader, labels, use_bf16(joint), default_batch_tokens(model))

    def _load_entities(self) -> EntityClassifier:
        classifier = self._init_entities()
        classifier.model.load_state_dict(read_tensors(self.model_folder("pipeline-entities") / WEIGHTS))
        return classifier

    def _load_relations(self) -> dict[str, RelationClassifier]:
        """The marker models. There is no approximate one if the encoder does not support it."""
        exact, approximate = (self.model_folder(f"pipeline-{part}") for part in ("exact", "approximate"))
        folders = {"exact": exact, **({"approximate": approximate} if approximate.exists() else {})}
        return {part: load_marker(folder).classifier for part, folder in folders.items()}

    def _read_documents(self, files: Sequence[str], notes: Counter[str] | None = None) -> list[Document]:
        return formats.read_documents(files, self.format, notes=notes)


def measure_all(
    joint: Path,
    entities: EntityClassifier,
    relations: Mapping[str, RelationClassifier],
    documents: Sequence[Document],
    config: PipelineConfig,
) -> Json:
    """Measure scores and time, from words to relations, of the joint model and the pipelines on the same documents.

    The joint model also runs with the paper's windows. The models are converted for inference and cannot be trained or
    saved afterwards.
    """
    model = UniRE.from_pretrained(joint).to(entities.model.device).eval()
    engine = TorchEngine.for_inference(model, bf16=entities.bf16)
    if entities.bf16:
        for part in (entities.model, *(classifier.model for classifier in relations.values())):
            store_in_bf16(part)
    n = count_sentences(documents)
    rows = []

    def add(title: str, window: str, parameters: int, run: TimedRun) -> None:
        scores = score(documents, run.documents, model.labels)
        rows.append(
            {
                "title": title,
                "window": window,
                "parameters": parameters,
                "sentences_per_second": n / sum(run.seconds.values()),
                "repeats": run.repeats,
                "seconds": run.seconds,
                "entities": scores.entities.to_dict(),
                "relations": scores.relations.to_dict(),
            }
        )

    for title, settings in _joint_settings(model.config):
        extractor = Extractor(engine, model.tokenizer, settings, model.labels)
        window = "shared" if settings.layout == "shared" else str(settings.window)
        add(title, window, _count_parameters(model), measure({"all": _annotate_with(extractor)}, documents))
    notes = count_unreachable(documents, config.max_span)
    for _ in entities.reader.read(documents, notes):
        pass
    for name, classifier in relations.items():
        run = measure({"entities": entities.predict, "relations": classifier.predict}, documents)
        window = f"{config.entity_window} and {config.relation_window}"
        add(f"pipeline, {name}", window, _count_parameters(entities.model) + _count_parameters(classifier.model), run)
        unread: Counter[str] = Counter()
        classifier.predict(run.documents, unread)
        notes.update({f"{note} ({name})": count for note, count in unread.items()})
    precision = "bf16" if entities.bf16 else "fp32"
    return {"rows": rows, "notes": dict(notes), "precision": precision, **describe_machine(model.device)}


def _joint_settings(settings: ModelConfig) -> list[tuple[str, ModelConfig]]:
    """The trained settings, and those with one window per sentence."""
    variants = [(f"joint, {settings.layout}, as trained", settings)]
    for window in JOINT_WINDOWS:
        other = settings.with_(layout="in-place", window=window)
        if (settings.layout, settings.window) != (other.layout, other.window):
            variants.append((f"joint, in-place, W = {window}", other))
    return variants


def _annotate_with(extractor: Extractor) -> Step:
    return lambda documents: list(extractor.annotate(documents))


def _count_parameters(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def main(arguments: Sequence[str]) -> int:
    """Execute a run, and print its result as JSON."""
    (text,) = arguments
    try:
        printed = PipelineRun.from_json(text).run([_EpochLines()])
    except UnireError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        return exit_status()
    sys.stdout.write(json.dumps(printed))
    return 0


class _EpochLines(Callback):
    """A line per epoch on standard error."""

    def on_epoch_end(self, record: Mapping[str, Any]) -> None:
        sys.stderr.write(", ".join(f"{name} {value:.4g}" for name, value in record.items()) + "\n")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
