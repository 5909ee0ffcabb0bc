"""Trained models that are asked for their tables, whatever their tokenizers, layouts and orders of labels."""

from __future__ import annotations

import torch
from torch import Tensor

from unire.engines.torch_engine import TorchEngine
from unire.exceptions import UnireError
from unire.extractor import Extractor
from unire.labels import LabelSpace
from unire.modeling.model import TensorBatch, UniRE
from unire.modeling.recording import Memory, Recorder, Tensors
from unire.windows import Batch

__all__ = ["Teacher", "layout_of", "same_labels"]


def same_labels(student: LabelSpace, teacher: LabelSpace, name: str) -> list[int]:
    """The teacher's id of every label of the student's.

    Raises:
        UnireError: They have different labels.
    """
    kinds = {
        "entity types": (student.entity_types, teacher.entity_types),
        "relation types": (student.relation_types, teacher.relation_types),
        "symmetric relations": (student.symmetric, teacher.symmetric),
    }
    for kind, (own, other) in kinds.items():
        if different := sorted(set(own) ^ set(other)):
            raise UnireError(
                f"teacher {name!r} and student do not have the same {kind} ({different[0]!r} is on one side only); "
                "give teachers of one label space"
            )
    entities = [teacher.entity_id(label) for label in student.entity_types]
    return [LabelSpace.NONE, *entities, *(teacher.relation_id(label) for label in student.relation_types)]


class Teacher:
    """A trained model that is asked for its tables, in the student's order of labels."""

    def __init__(
        self,
        name: str,
        model: UniRE,
        labels: LabelSpace,
        device: torch.device,
        *,
        bf16: bool,
        record: bool,
        memory: Memory | None = None,
    ) -> None:
        self.name = name
        self.model = model.to(device).eval()
        self.bf16 = bf16
        self._tables = Recorder(self._compute, device, record=record, memory=memory)
        self._order = torch.tensor(same_labels(labels, model.labels, name), device=device)

    @property
    def extractor(self) -> Extractor:
        model = self.model
        return Extractor(TorchEngine(model, bf16=self.bf16), model.tokenizer, model.settings, model.labels)

    @torch.no_grad()
    def tables(self, batch: Batch) -> Tensor:
        """P of every table, `[T, N, N, |Y|]`, to be used before the next call."""
        return self._tables(self._tables.pinned(TensorBatch.of(batch, "cpu").named()))

    def _compute(self, tensors: Tensors) -> Tensor:
        with torch.autocast(self.model.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            logits: Tensor = self.model(TensorBatch.from_named(tensors))
        return logits.float().softmax(-1).index_select(-1, self._order)


def layout_of(model: UniRE) -> tuple[object, ...]:
    """All that decides how documents become batches: models that agree in it read the same ones."""
    settings = model.settings
    return model.tokenizer.to_str(), settings.spec, settings.layout, settings.window, settings.max_table
