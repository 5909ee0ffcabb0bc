"""A batch of windows as torch tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from unire.utils import copy_to_device, pin_memory
from unire.windows.collator import Batch

__all__ = ["TensorBatch", "Tensors", "move_tensors", "pin_tensors"]

Tensors = Mapping[str, Tensor]
"""Tensors by name."""


@dataclass(frozen=True)
class TensorBatch:
    """The tensors that the model reads: B rows of L tokens and T tables of N words, as in `Batch`."""

    input_ids: Tensor
    """[B, L]"""
    attention_mask: Tensor
    """[B, L], 1 on tokens and 0 on padding"""
    token_type_ids: Tensor | None
    """[B, L]; `None` if the encoder has no token types"""
    words: Tensor
    """[T, N], the first token of each word: an index into the flattened tokens, or into those of all slices"""
    lengths: Tensor
    """[T], words of each table"""
    window_starts: Tensor | None = None
    """[B, L], where the window of each token begins in its row; `None` unless windows are packed"""

    @classmethod
    def from_batch(cls, batch: Batch, device: torch.device | str) -> TensorBatch:
        """Copy a batch to a device, which computes the masks itself: copying them would take as long as the ids."""
        input_ids = copy_to_device(batch.input_ids, device)
        positions = torch.arange(input_ids.shape[1], device=device)
        mask = positions < copy_to_device(batch.row_lengths, device).unsqueeze(1)
        token_types = None
        if batch.segment_b_starts is not None:
            token_types = (mask & (positions >= copy_to_device(batch.segment_b_starts, device))).long()
        return cls(
            input_ids,
            mask.long(),
            token_types,
            copy_to_device(batch.words, device),
            copy_to_device(batch.lengths, device),
            None if batch.window_starts is None else copy_to_device(batch.window_starts, device),
        )

    @classmethod
    def from_dict(cls, tensors: Tensors) -> TensorBatch:
        """The opposite of `to_dict`. Other tensors in the mapping are ignored."""
        return cls(**{field.name: tensors.get(field.name) for field in fields(cls)})  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Tensor]:
        """The tensors that are not `None`, by name."""
        named = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: tensor for name, tensor in named if tensor is not None}

    def select_windows(self, windows: slice, n_tokens: int) -> TensorBatch:
        """Some windows, cut to their first `n_tokens` tokens, with the words and tables of the whole batch."""
        of_tokens = ("input_ids", "attention_mask", "token_type_ids", "window_starts")
        named = ((name, getattr(self, name)) for name in of_tokens)
        return replace(self, **{name: tensor[windows, :n_tokens] for name, tensor in named if tensor is not None})

    @property
    def mask(self) -> Tensor:
        """[T, N], true on words."""
        return torch.arange(self.words.shape[1], device=self.words.device) < self.lengths.unsqueeze(1)


def pin_tensors(tensors: Tensors) -> Tensors:
    """Copy all tensors of the host into pinned memory, so that copies to a GPU are asynchronous."""
    return {name: tensor if tensor.is_cuda else pin_memory(tensor) for name, tensor in tensors.items()}


def move_tensors(tensors: Tensors, device: torch.device) -> Tensors:
    """Copy all tensors to a device, asynchronously if they are pinned."""
    return {name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()}
