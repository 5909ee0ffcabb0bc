"""The cells of the study: either model trained, and everything measured; each in a process of its own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from accelerate.utils import set_seed

from unire import formats
from unire.documents import Document
from unire.evaluation.scorer import score
from unire.hub.model_dir import WEIGHTS
from unire.inference.torch_engine import choose_device
from unire.labels import LabelSpace
from unire.models.checkpoint import read_tensors, write_tensors
from unire.models.encoder import load_encoder
from unire.studies.pipeline.entities import EntityClassifier, EntityData, SpanModel
from unire.studies.pipeline.study import PipelineConfig
from unire.studies.pipeline.timing import measured
from unire.studies.results import Json
from unire.studies.variants import DEFAULT
from unire.training.callbacks import Callback
from unire.training.config import TrainingConfig
from unire.training.markers.checkpoint import load_marker, replace_model
from unire.training.markers.data import SentenceReader
from unire.training.markers.inference import RelationClassifier, max_batch_tokens
from unire.training.markers.model import NoPositionsError
from unire.training.markers.train import MarkerTask, train_markers
from unire.training.trainer import Trainer, use_bf16

__all__ = ["Part", "PipelineRun"]

Part = Literal["entities", "exact", "approximate", "measured"]


@dataclass(frozen=True)
class PipelineRun:
    """What a process is to do, as plain JSON values."""

    part: Part
    encoder: str
    data: list[str]
    dev: list[str]
    test: list[str]
    format: str | None
    labels: dict[str, list[str]]
    training: dict[str, Any]
    """That of the joint model, with the seed."""
    pipeline: dict[str, Any]
    folder: str
    """Of the study."""

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

    def model(self, name: str) -> Path:
        """Where a model of this cell's seed is."""
        return Path(self.folder) / "models" / f"{name}-{self.joint.seed}"

    def run(self, callbacks: Sequence[Callback] = ()) -> Json:
        """Train a model and save it, or measure those that were saved."""
        if self.part == "measured":
            documents = self._documents(self.test)
            entities, relations = self._saved_entities(), self._saved_relations()
            return measured(self.model(DEFAULT), entities, relations, documents, self.config)
        try:
            return self._train(callbacks)
        except NoPositionsError as error:
            return {"history": [], "notes": {str(error): 1}}

    def _train(self, callbacks: Sequence[Callback]) -> Json:
        labels, config = LabelSpace.from_dict(self.labels), self.config
        notes: Counter[str] = Counter()
        documents, dev = self._documents(self.data, notes), self._documents(self.dev, notes)
        if self.part != "entities":
            trained = train_markers(
                self.encoder,
                documents,
                self.model(f"pipeline-{self.part}"),
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
        finder = self._entity_finder()
        data = EntityData(documents, finder.reader, labels, config.max_span)
        training = config.training(self.joint, entities=True)

        def f1() -> float:
            return score(dev, finder.predict(dev), labels).entities.f1

        trainer = Trainer(MarkerTask(finder.model, data, training, evaluate=f1 if dev else None), callbacks=callbacks)
        trainer.run()
        self._save(finder)
        return {"history": trainer.state.history, "notes": {**+notes, **data.notes}}

    def _save(self, finder: EntityClassifier) -> None:
        """All or nothing; what an earlier run has saved is replaced."""
        with replace_model(self.model("pipeline-entities")) as temporary:
            write_tensors(temporary / WEIGHTS, finder.model.state_dict())

    def _entity_finder(self) -> EntityClassifier:
        """The span model, untrained, with what it needs to find something."""
        labels, joint, config = LabelSpace.from_dict(self.labels), self.joint, self.config
        encoder: Any
        encoder, tokenizer, spec = load_encoder(self.encoder, case_marks=joint.case_marks)
        model = SpanModel(encoder, len(labels.entity_types), config).to(choose_device())
        reader = SentenceReader(tokenizer, spec, config.entity_window)
        return EntityClassifier(model, reader, labels, use_bf16(joint), max_batch_tokens(model))

    def _saved_entities(self) -> EntityClassifier:
        finder = self._entity_finder()
        finder.model.load_state_dict(read_tensors(self.model("pipeline-entities") / WEIGHTS))
        return finder

    def _saved_relations(self) -> dict[str, RelationClassifier]:
        """Either marker model; the approximate one is not there where the encoder has ruled it out."""
        exact, approximate = (self.model(f"pipeline-{part}") for part in ("exact", "approximate"))
        folders = {"exact": exact, **({"approximate": approximate} if approximate.exists() else {})}
        return {part: load_marker(folder).classifier for part, folder in folders.items()}

    def _documents(self, files: Sequence[str], notes: Counter[str] | None = None) -> list[Document]:
        return formats.read_documents(files, self.format, notes=notes)
