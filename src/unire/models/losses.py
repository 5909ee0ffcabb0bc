"""The training objectives of the paper, sections 3.2 and 3.3: L_entry (equation 1), L_sym and L_imp.

Each loss is a sum over the cells (or words) of a padded batch of tables, with one weight per table. The weights define
the mean of the paper. They also let a large step be computed batch by batch: the losses of its batches add up exactly.

To add a loss, write it as a function here, add it to `compute_losses` and to `LOSSES`, and give it a setting in
`TrainingConfig`, which `TableTask` passes on.

Shapes: T tables, N words of the longest table, |Y| labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from unire.labels import LabelSpace

__all__ = [
    "IGNORED",
    "LOSSES",
    "Implication",
    "Mean",
    "TableWeights",
    "compute_losses",
    "entry_loss",
    "implication_loss",
    "soft_entry_loss",
    "symmetry_loss",
]

Mean = Literal["sentence", "batch"]
"""Over the cells of a sentence, then over sentences (the paper); or over all cells of the batch (the authors' code)."""
Implication = Literal["max", "sum", "none"]
"""Hinge of the maximum over row and column (the paper), or the sum of the hinges of all cells (the authors' code)."""

IGNORED = -100
"""The gold label of padded cells, which no loss counts."""

LOSSES = ("entry", "symmetry", "implication")
"""Names of the losses that `compute_losses` returns, in its order."""


@dataclass(frozen=True)
class TableWeights:
    """The weight of one cell, and of one word, of each table in a loss."""

    cell: Tensor
    """[T]"""
    word: Tensor
    """[T]"""

    @classmethod
    def of(cls, lengths: Tensor, mean: Mean, n_tables: int, n_cells: int, n_words: int) -> TableWeights:
        """Weights of tables with these `lengths` [T], in a step with these total numbers of tables, cells and words."""
        n = lengths.float().clamp(min=1)  # a table without words is padding, and has no cell to weight
        if mean == "sentence":
            return cls(1 / (n * n * n_tables), 1 / (n * n_tables))
        return cls(torch.full_like(n, 1 / n_cells), torch.full_like(n, 1 / n_words))


def compute_losses(
    logits: Tensor,
    gold: Tensor,
    mask: Tensor,
    weights: TableWeights,
    labels: LabelSpace,
    *,
    logit_dropout: float = 0.0,
    symmetry: bool = True,
    implication: Implication = "max",
) -> Tensor:
    """L_entry, L_sym and L_imp of a batch, in the order of `LOSSES`: [3]. Their sum is trained on (footnote 6).

    It may be captured as a CUDA graph: no value of a tensor may be read on the host, as `.item()` or `if` would.

    Args:
        logits: [T, N, N, |Y|], g of every cell.
        gold: [T, N, N], the gold label of every cell; `IGNORED` on padding.
        mask: [T, N], true on words.
        weights: The weights of cells and words.
        labels: The label space Y.
        logit_dropout: Dropout of g in L_entry (footnote 4). P of the two constraints is without dropout (footnote 5).
        symmetry: Whether to compute L_sym.
        implication: How to compute L_imp.
    """
    logits = logits.float()
    entry = entry_loss(F.dropout(logits, logit_dropout), gold, weights)
    P = logits.softmax(-1)
    sym = symmetry_loss(P, mask, labels, weights) if symmetry else entry.new_zeros(())
    imp = implication_loss(P, mask, labels, weights, implication)
    return torch.stack([entry, sym, imp])


def entry_loss(logits: Tensor, gold: Tensor, weights: TableWeights) -> Tensor:
    """L_entry = −1/|s|² Σ_ij log P(y_ij = gold_ij), the cross-entropy of every cell (equation 1)."""
    losses = F.cross_entropy(logits.flatten(0, 2).float(), gold.flatten(), ignore_index=IGNORED, reduction="none")
    return (losses.view_as(gold).sum((1, 2)) * weights.cell).sum()


def soft_entry_loss(logits: Tensor, target: Tensor, mask: Tensor, weights: TableWeights) -> Tensor:
    """L_entry with soft labels: the cross-entropy with the distributions `target` [T, N, N, |Y|]; not in the paper."""
    losses = F.cross_entropy(logits.flatten(0, 2).float(), target.flatten(0, 2), reduction="none")
    losses = losses.view(target.shape[:3]) * _cell_mask(mask)
    return (losses.sum((1, 2)) * weights.cell).sum()


def symmetry_loss(P: Tensor, mask: Tensor, labels: LabelSpace, weights: TableWeights) -> Tensor:
    """L_sym = 1/|s|² Σ_ij Σ_t |P_ijt − P_jit| over the symmetric labels t ∈ Y_sym."""
    # label by label: a list as an index would be copied to the GPU in every step
    S = torch.stack([P[..., t] for t in labels.symmetric_ids], -1)  # [T, N, N, |Y_sym|]
    differences = (S - S.transpose(1, 2)).abs().sum(-1) * _cell_mask(mask)  # [T, N, N]
    return (differences.sum((1, 2)) * weights.cell).sum()


def implication_loss(
    P: Tensor, mask: Tensor, labels: LabelSpace, weights: TableWeights, how: Implication = "max"
) -> Tensor:
    """L_imp = 1/|s| Σ_i [max_l {P_i:l, P_:il} − max_t P_iit]₊ over relation labels l ∈ Y_r and entity labels t ∈ Y_e.

    A relation in the row or column of a word must not be more probable than the word being part of an entity.
    """
    if how == "none" or not labels.relation_types:
        return P.new_zeros(())
    entity = P[..., labels.entity_ids].diagonal(dim1=1, dim2=2).amax(1)  # [T, N]
    relation = P[..., labels.relation_ids].amax(-1) * _cell_mask(mask)  # [T, N, N]
    if how == "max":
        strongest = torch.maximum(relation.amax(2), relation.amax(1))  # [T, N]
        hinges = (strongest - entity).relu()
    else:
        rows = (relation - entity.unsqueeze(2)).relu().sum(2)
        columns = (relation - entity.unsqueeze(1)).relu().sum(1)
        hinges = rows + columns
    return ((hinges * mask).sum(1) * weights.word).sum()


def _cell_mask(mask: Tensor) -> Tensor:
    """[T, N, N], true where both words are."""
    return mask.unsqueeze(1) & mask.unsqueeze(2)
