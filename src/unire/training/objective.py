"""The three losses of a batch, as shares of those of a step."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unire.labels import LabelSpace
from unire.modeling.losses import TableWeights, entry_loss, implication_loss, symmetry_loss
from unire.modeling.model import TensorBatch
from unire.modeling.recording import Tensors
from unire.training.config import TrainingConfig
from unire.training.dataset import GoldBatch, Step

__all__ = ["objective", "tensors_of"]


def tensors_of(gold_batch: GoldBatch, step: Step, config: TrainingConfig) -> Tensors:
    """A batch, its gold tables and what they count in the step; on the host."""
    batch = TensorBatch.of(gold_batch.batch, "cpu")
    weights = TableWeights.of(batch.lengths, config.mean, step.n_tables, step.n_cells, step.n_words)
    counts = {"cell": weights.cell * (not step.idle), "word": weights.word * (not step.idle)}
    return {**batch.named(), "gold": torch.from_numpy(gold_batch.gold), **counts}


def objective(model: nn.Module, labels: LabelSpace, config: TrainingConfig, tensors: Tensors) -> Tensor:
    """L_entry, L_sym and L_imp of a batch, as shares of the whole step's means: `[3]`."""
    batch = TensorBatch.from_named(tensors)
    weights = TableWeights(tensors["cell"], tensors["word"])
    logits = model(batch).float()
    entry = entry_loss(F.dropout(logits, config.logit_dropout), tensors["gold"], weights)
    P, mask = logits.softmax(-1), batch.mask
    symmetry = symmetry_loss(P, mask, labels, weights) if config.symmetry else entry.new_zeros(())
    implication = implication_loss(P, mask, labels, weights, config.implication)
    return torch.stack([entry, symmetry, implication])
