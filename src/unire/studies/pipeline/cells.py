"""The cells of the study: either model trained, and everything measured; each in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from accelerate.utils import set_seed

from unire import formats
from unire.documents import Document
from unire.engines.torch_engine import TorchEngine, choose_device, keep_in_bf16
from unire.exceptions import UnireError
from unire.files import replacing
from unire.labels import LabelSpace
from unire.modeling.checkpoint import tensors_from, tensors_to
from unire.modeling.encoder import load_encoder
from unire.scoring import score
from unire.studies.pipeline.config import PipelineConfig
from unire.studies.pipeline.entities import EntityData, EntityFinder
from unire.studies.pipeline.fitting import Data, fit
from unire.studies.pipeline.marker_model import MarkerModel, NoPositionsError
from unire.studies.pipeline.measuring import measured
from unire.studies.pipeline.reading import Reader
from unire.studies.pipeline.relations import RelationData, RelationFinder, spare
from unire.studies.pipeline.span_model import SpanModel
from unire.studies.results import Json
from unire.studies.trainings import DEFAULT
from unire.training import TrainingConfig
from unire.training.trainer import use_bf16
from unire.windows import SLICE

__all__ = ["MARKED", "Cell", "Marker", "Part", "saved_markers"]

Part = Literal["entities", "exact", "approximate", "measured"]
WEIGHTS = "model.safetensors"
CELL = "cell.json"
"""What made the weights beside it."""
MARKED: tuple[Part, ...] = ("exact", "approximate")
"""The parts that are marker models."""


@dataclass(frozen=True)
class Cell:
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
    def from_json(cls, text: str) -> Cell:
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

    def run(self, tell: Callable[[str], None] = lambda line: None) -> Json:
        """Train a model and save it, or measure those that were saved."""
        if self.part == "measured":
            relations = {"exact": self._saved("exact")}
            with suppress(NoPositionsError):
                relations["approximate"] = self._saved("approximate")
            documents = self._documents(self.test)
            return measured(self.model(DEFAULT), self._saved("entities"), relations, documents, self.config)
        try:
            return self._train(tell)
        except NoPositionsError as error:
            return {"history": [], "notes": {str(error): 1}}

    def _train(self, tell: Callable[[str], None]) -> Json:
        labels, joint = LabelSpace.from_dict(self.labels), self.joint
        documents, dev = self._documents(self.data), self._documents(self.dev)
        labels.check([*documents, *dev])
        set_seed(joint.seed)
        finder = self._finder(self.part)
        data: Data
        if isinstance(finder, EntityFinder):
            data = EntityData(documents, finder.reader, labels, self.config.max_span)
        else:
            data = RelationData(documents, finder.model, finder.reader, labels)
        training = self.config.training(joint, entities=isinstance(finder, EntityFinder))

        def f1() -> float:
            """Of what this model finds in dev; relations are between gold entities."""
            scores = score(dev, finder.find(dev), labels)
            return scores.entities.f1 if isinstance(finder, EntityFinder) else scores.relations.f1

        history = fit(finder.model, data, training, evaluate=f1 if dev else None, tell=tell)
        self._save(finder)
        return {"history": history, "notes": dict(data.notes)}

    def _save(self, finder: Any) -> None:
        """Weights and what made them, together or not at all; what an earlier run has saved is replaced."""
        folder = self.model(f"pipeline-{self.part}")
        try:
            with replacing(folder, directory=True) as temporary:
                tensors_to(temporary / WEIGHTS, finder.model.state_dict())
                (temporary / CELL).write_text(self.to_json() + "\n", encoding="utf-8")
        except OSError as error:
            raise UnireError(f"the model could not be saved as {str(folder)!r}: {error.strerror or error}") from None

    def _finder(self, part: Part) -> Any:
        """One of the models, untrained, with what it needs to find something."""
        labels, joint, config = LabelSpace.from_dict(self.labels), self.joint, self.config
        encoder: Any
        encoder, tokenizer, spec = load_encoder(self.encoder)
        if joint.case_marks:
            spec = spec.with_case_marks(tokenizer)
        n_types = len(labels.entity_types)
        device, bf16 = choose_device(), use_bf16(joint)
        # as the joint model's encoder is given
        at_once = min(SLICE, TorchEngine.most_pieces(device, encoder.config.hidden_size))
        if part == "entities":
            reader = Reader(tokenizer, spec, config.entity_window)
            return EntityFinder(SpanModel(encoder, n_types, config).to(device), reader, labels, bf16, at_once)
        approximate = part == "approximate"
        model = MarkerModel(encoder, n_types, len(labels.relation_types), approximate=approximate)
        reader = Reader(tokenizer, spec, config.relation_window, spare=spare(approximate))
        return RelationFinder(model.to(device), reader, labels, bf16, at_once)

    def _saved(self, part: Part, folder: Path | None = None) -> Any:
        """A model that a cell has trained; `folder` if it was moved since."""
        finder = self._finder(part)
        finder.model.load_state_dict(tensors_from((folder or self.model(f"pipeline-{part}")) / WEIGHTS))
        return finder

    def _documents(self, files: Sequence[str]) -> list[Document]:
        return [document for file in files for document in formats.read(file, self.format)]


@dataclass(frozen=True)
class Marker:
    """A marker model that a cell has trained."""

    about: dict[str, Any]
    """Who it is, in the form of a teacher."""
    finder: RelationFinder

    @classmethod
    def load(cls, folder: Path) -> Marker:
        """That of a folder with weights; nobody goes on training it."""
        try:
            cell = Cell.from_json((folder / CELL).read_text(encoding="utf-8"))
        except (OSError, ValueError, TypeError) as error:
            raise UnireError(f"{str(folder / CELL)!r} cannot be read ({error}); train the model again") from None
        if cell.part not in MARKED:
            raise UnireError(f"{str(folder)!r} holds no marker model, but what the part {cell.part!r} has saved")
        finder = cell._saved(cell.part, folder)
        if finder.bf16:
            keep_in_bf16(finder.model)
        return cls({"name": folder.name, "encoder": Path(cell.encoder).name, "scores": {}}, finder)


def saved_markers(folder: str | Path) -> list[Marker]:
    """The marker model of a folder, or all that the cells of a study have saved under it."""
    folder = Path(folder)
    if (folder / CELL).exists():
        return [Marker.load(folder)]
    found = sorted(file.parent for part in MARKED for file in folder.glob(f"models/pipeline-{part}-*/{CELL}"))
    if not found:
        raise UnireError(f"there is no marker model in {str(folder)!r}; recipes/markers.py trains one")
    return [Marker.load(each) for each in found]
