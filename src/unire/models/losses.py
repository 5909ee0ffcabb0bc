"""The three objectives of the paper, sections 3.2 and 3.3: L_entry, L_sym and L_imp.

Each is a sum over the cells (or words) of a padded batch of tables, weighted per table. The weights say what the mean
is taken over, and let the parts of one large batch be computed apart and added up exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from unire.labels import LabelSpace

__all__ = ["Implication", "Mean", "TableWeights", "entry_loss", "implication_loss", "soft_entry_loss", "symmetry_loss"]

Mean = Literal["sentence", "batch"]
"""Over the cells of a sentence, then over sentences (the paper); or over all cells of the batch (the authors' code)."""
Implication = Literal["max", "sum", "none"]
"""The hinge of the maximum over row and column (the paper), or the sum of all their hinges (the authors' code)."""


@dataclass(frozen=True)
class TableWeights:
    """What one cell, and one word, of each table counts in a loss."""

    cell: Tensor  # [T]
    word: Tensor  # [T]

    @classmethod
    def of(cls, lengths: Tensor, mean: Mean, n_tables: int, n_cells: int, n_words: int) -> TableWeights:
        """Weights of the tables with these `lengths`, in a batch that has so many tables, cells and words in all."""
        n = lengths.float().clamp(min=1)  # a table of no words is padding, and has no cell that could count
        if mean == "sentence":
            return cls(1 / (n * n * n_tables), 1 / (n * n_tables))
        return cls(torch.full_like(n, 1 / n_cells), torch.full_like(n, 1 / n_words))


def entry_loss(logits: Tensor, gold: Tensor, weights: TableWeights) -> Tensor:
    """L_entry: cross-entropy of every cell. `gold` is −100 on padding."""
    losses = F.cross_entropy(logits.flatten(0, 2).float(), gold.flatten(), ignore_index=-100, reduction="none")
    return (losses.view_as(gold).sum((1, 2)) * weights.cell).sum()


def soft_entry_loss(logits: Tensor, target: Tensor, mask: Tensor, weights: TableWeights) -> Tensor:
    """L_entry against a distribution per cell: the cross-entropy with `target`, `[T, N, N, |Y|]`."""
    losses = F.cross_entropy(logits.flatten(0, 2).float(), target.flatten(0, 2), reduction="none")
    losses = losses.view(target.shape[:3]) * _cells(mask)
    return (losses.sum((1, 2)) * weights.cell).sum()


def symmetry_loss(P: Tensor, mask: Tensor, labels: LabelSpace, weights: TableWeights) -> Tensor:
    """L_sym: how far P_ijt is from P_jit, summed over t ∈ Y_sym. `mask` is `[T, N]`, true on words."""
    # one by one: a list as an index would be copied to the GPU in every step
    S = torch.stack([P[..., t] for t in labels.symmetric_ids], -1)
    differences = (S - S.transpose(1, 2)).abs().sum(-1) * _cells(mask)
    return (differences.sum((1, 2)) * weights.cell).sum()


def implication_loss(
    P: Tensor, mask: Tensor, labels: LabelSpace, weights: TableWeights, how: Implication = "max"
) -> Tensor:
    """L_imp: a relation in a word's row or column must not be likelier than the word being in an entity."""
    if how == "none" or not labels.relation_types:
        return P.new_zeros(())
    entity = P[..., labels.entity_ids].diagonal(dim1=1, dim2=2).amax(1)  # [T, N]
    relation = P[..., labels.relation_ids].amax(-1) * _cells(mask)  # [T, N, N]
    if how == "max":
        strongest = torch.maximum(relation.amax(2), relation.amax(1))
        hinges = (strongest - entity).relu()
    else:
        rows = (relation - entity.unsqueeze(2)).relu().sum(2)
        columns = (relation - entity.unsqueeze(1)).relu().sum(1)
        hinges = rows + columns
    return ((hinges * mask).sum(1) * weights.word).sum()


def _cells(mask: Tensor) -> Tensor:
    return mask.unsqueeze(1) & mask.unsqueeze(2)
