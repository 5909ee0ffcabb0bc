"""UniRE: an encoder, two MLPs and a biaffine classifier that fills the table."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from unire.config import ModelConfig
from unire.decoding.backend import copy_to_device
from unire.hub.model_dir import push_to_hub
from unire.labels import LabelSpace
from unire.models.attention import attention_kernels
from unire.models.encoder import build_encoder, first_position
from unire.windows.collator import Batch

__all__ = ["MLP", "Biaffine", "TensorBatch", "UniRE", "encode_tokens", "to_device"]


class MLP(nn.Module):
    """Linear → GELU → LayerNorm → dropout, from the encoder's size to d."""

    def __init__(self, n_in: int, n_out: int, dropout: float) -> None:
        super().__init__()
        self.linear = nn.Linear(n_in, n_out)
        self.norm = nn.LayerNorm(n_out)
        self.dropout = nn.Dropout(dropout)
        nn.init.normal_(self.linear.weight, std=0.02)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.dropout(self.norm(F.gelu(self.linear(x))))
        return hidden


class Biaffine(nn.Module):
    """g_ij = h_iᵀ U₁ h_j + U₂ (h_i ⊕ h_j) + b.

    U₁, U₂ and b are blocks of one U of (|Y|, d + 1, d + 1), which multiplies both vectors with a 1 appended. It starts
    at zero, so that every label is equally likely before training.
    """

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.U = nn.Parameter(torch.zeros(n_out, n_in + 1, n_in + 1))

    def forward(self, head: Tensor, tail: Tensor) -> Tensor:
        """Score all pairs: `[T, N, d]` and `[T, N, d]` give `[T, N, N, |Y|]`."""
        head, tail = (F.pad(x, (0, 1), value=1.0) for x in (head, tail))  # [T, N, d + 1]
        return self.products(head, tail)

    def products(self, head: Tensor, tail: Tensor) -> Tensor:
        """h_iᵀ U h_j of all pairs."""
        T, N, _ = head.shape
        left = torch.einsum("tnx,yxz->tnyz", head, self.U)  # [T, N, Y, d + 1]
        scores = left.flatten(1, 2) @ tail.transpose(1, 2)  # [T, N * Y, N]
        return scores.view(T, N, -1, N).transpose(2, 3)


Slices = Sequence[tuple[slice, int]]
"""Windows that are read at a time, and how many tokens of each."""


@dataclass(frozen=True)
class TensorBatch:
    """A batch of windows on a device."""

    input_ids: Tensor  # [B, L]
    attention_mask: Tensor  # [B, L]
    token_type_ids: Tensor | None  # [B, L]
    words: Tensor  # [T, N], places in the flattened tokens, or in those of all parts
    lengths: Tensor  # [T]
    window_starts: Tensor | None = None  # [B, L], where windows are packed

    @classmethod
    def of(cls, batch: Batch, device: torch.device | str) -> TensorBatch:
        def move(array: NDArray[np.int64]) -> Tensor:
            return to_device(array, device)

        # the device makes the masks itself, for they are as much to copy as the tokens
        input_ids, sizes = move(batch.input_ids), move(batch.row_lengths)
        positions = torch.arange(input_ids.shape[1], device=device)
        mask = positions < sizes.unsqueeze(1)
        seconds = None if batch.segment_b_starts is None else positions >= move(batch.segment_b_starts)
        return cls(
            input_ids,
            mask.long(),
            None if seconds is None else (mask & seconds).long(),
            move(batch.words),
            move(batch.lengths),
            None if batch.window_starts is None else move(batch.window_starts),
        )

    @classmethod
    def from_named(cls, tensors: Mapping[str, Tensor]) -> TensorBatch:
        """The opposite of `named`; other tensors may stand beside those of the batch."""
        return cls(**{field.name: tensors.get(field.name) for field in fields(cls)})  # type: ignore[arg-type]

    def named(self) -> dict[str, Tensor]:
        """The tensors that there are, by name."""
        return {
            field.name: getattr(self, field.name) for field in fields(self) if getattr(self, field.name) is not None
        }

    def part(self, windows: slice, n_tokens: int) -> TensorBatch:
        """Some windows and so many of their tokens, with the words and tables of all."""
        of_tokens = ("input_ids", "attention_mask", "token_type_ids", "window_starts")
        named = ((name, getattr(self, name)) for name in of_tokens)
        return replace(self, **{name: each[windows, :n_tokens] for name, each in named if each is not None})

    @property
    def mask(self) -> Tensor:
        """`[T, N]`, true on words."""
        return torch.arange(self.words.shape[1], device=self.words.device) < self.lengths.unsqueeze(1)


def to_device(array: NDArray[Any], device: torch.device | str) -> Tensor:
    """An array as a tensor on a device."""
    tensor: Tensor = copy_to_device(torch.from_numpy(array), torch.device(device))
    return tensor


def encode_tokens(encoder: nn.Module, batch: TensorBatch) -> Tensor:
    """The vector of every token of every window: `[B * L, n_hidden]`."""
    told = {} if batch.token_type_ids is None else {"token_type_ids": batch.token_type_ids}
    n_tokens, starts = batch.input_ids.shape[1], batch.window_starts
    if starts is None:
        told["attention_mask"] = batch.attention_mask
    else:  # a token sees those of its own window, and stands where it would if that were alone in its row
        told["attention_mask"] = (starts.unsqueeze(1) == starts.unsqueeze(2)).unsqueeze(1)
        told["position_ids"] = torch.arange(n_tokens, device=starts.device) - starts + first_position(encoder)
    with attention_kernels(n_tokens):
        output = encoder(input_ids=batch.input_ids, **told)
    tokens: Tensor = output.last_hidden_state.flatten(0, 1)
    return tokens


class UniRE(nn.Module):
    """The table-filling model of the paper.

    Args:
        settings: Sizes of the head, windows, decoding; what `config.json` holds.
        labels: The label space Y.
        tokenizer: The encoder's tokenizer.
        encoder: A loaded encoder; one with random weights is built from `settings` when it is left out.
    """

    def __init__(
        self, settings: ModelConfig, labels: LabelSpace, tokenizer: Tokenizer, encoder: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.config = settings
        self.labels = labels
        self.tokenizer = tokenizer
        given: Any = encoder if encoder is not None else build_encoder(settings.encoder)
        n_hidden, head = given.config.hidden_size, settings.head
        self.encoder = given
        self.head_mlp = MLP(n_hidden, head.d, head.mlp_dropout)
        self.tail_mlp = MLP(n_hidden, head.d, head.mlp_dropout)
        self.biaffine = Biaffine(head.d, len(labels))

    def forward(self, batch: TensorBatch) -> Tensor:
        """The scores g of every cell: `[T, N, N, |Y|]`. Padding holds garbage."""
        logits: Tensor = self.biaffine(*self.vectors(batch))
        return logits

    def vectors(self, batch: TensorBatch, slices: Slices = ()) -> tuple[Tensor, Tensor]:
        """What every word is as a head and as a tail: twice `[T, N, d]`. Windows are read slice by slice, if asked."""
        h = self.encode(batch, slices)
        return self.head_mlp(h), self.tail_mlp(h)

    def encode(self, batch: TensorBatch, slices: Slices = ()) -> Tensor:
        """The vector of every word, that of its first token: `[T, N, n_hidden]`."""
        parts = [encode_tokens(self.encoder, batch.part(*some)) for some in slices] or [
            encode_tokens(self.encoder, batch)
        ]
        tokens = torch.cat(parts) if len(parts) > 1 else parts[0]  # [all tokens, n_hidden]
        # all padding reads token 0; index_select's backward pass adds such repeats up without sorting them first
        return tokens.index_select(0, batch.words.flatten()).view(*batch.words.shape, -1)

    @property
    def device(self) -> torch.device:
        return self.biaffine.U.device

    @classmethod
    def from_pretrained(cls, source: str | Path) -> UniRE:
        """A trained model from a folder or the Hub."""
        from unire.models.checkpoint import load

        return load(source)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the model as a folder, whole or not at all."""
        from unire.models.checkpoint import save

        save(self, Path(folder))

    def push_to_hub(self, name: str, **options: Any) -> str:
        """Publish the model on the Hugging Face Hub; the options are those of `unire.push_to_hub`."""
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return push_to_hub(folder, name, **options)
