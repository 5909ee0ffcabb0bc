"""Batches made ahead, and passes in the same precision as those of a model of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from unire.engines.torch_engine import TorchEngine
from unire.marking.batching import in_parts
from unire.modeling.recording import Tensors
from unire.prefetch import Ahead
from unire.windows import SLICE

__all__ = ["Kept", "best", "chunks", "moved", "passes", "pieces_at_once", "pinned", "whole"]

T = TypeVar("T")
Kept = TypeVar("Kept", bound=tuple[Tensor, ...])

CHUNK = 1024
"""Sentences whose batches are made while those of the sentences before are computed. Of many, those in a batch are of
like length: with a quarter as many, half of what a model reads of pairs is padding."""


def pieces_at_once(model: Any) -> int:
    """Padded pieces of a batch: as many as the encoder of a model of tables is given on such a device."""
    return min(SLICE, TorchEngine.most_pieces(model.device, model.encoder.config.hidden_size))


def pinned(tensors: Tensors, device: torch.device) -> Tensors:
    """Tensors from where a GPU can fetch them without being waited for."""
    return {name: tensor.pin_memory() for name, tensor in tensors.items()} if device.type == "cuda" else tensors


def moved(tensors: Tensors, device: torch.device) -> Tensors:
    return {name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()}


def best(chances: Tensor) -> tuple[Tensor, Tensor]:
    """The best class of each, and its probability."""
    chance, label = chances.max(-1)
    return label, chance


def whole(chances: Tensor) -> tuple[Tensor]:
    """The probabilities of all classes."""
    return (chances,)


@torch.inference_mode()
def passes(
    model: Any,
    items: Iterable[Sequence[T]],
    length: Callable[[T], int],
    collate: Callable[[Sequence[T]], Tensors],
    *,
    bf16: bool,
    max_pieces: int,
    keep: Callable[[Tensor], Kept],
) -> list[tuple[list[T], Kept]]:
    """What is kept of the probabilities of everything that a model scores, batch by batch, on the host.

    Args:
        model: In evaluation mode from here on.
        items: What is read, in chunks; each is made while those before it are computed.
        length: Pieces of an item.
        collate: Items as tensors.
        bf16: Precision.
        max_pieces: Padded pieces of a batch.
        keep: Chooses on the device what leaves it: `best` or `whole`.
    """
    model.eval()
    device = model.device

    def batches() -> Iterator[tuple[list[T], Tensors]]:
        for chunk in items:
            lengths = [length(item) for item in chunk]
            for part in in_parts(range(len(chunk)), lengths, max_pieces):
                chosen = [chunk[place] for place in part]
                yield chosen, pinned(collate(chosen), device)

    found = []
    for chosen, tensors in Ahead(batches()):
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=bf16):
            scores = model(moved(tensors, device))
        found.append((chosen, keep(scores.float().softmax(-1))))
    return [(chosen, cast("Kept", tuple(tensor.cpu() for tensor in kept))) for chosen, kept in found]


def chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """The items, so many at a time as are batched together."""
    stream = iter(items)
    while chunk := list(islice(stream, CHUNK)):
        yield chunk
