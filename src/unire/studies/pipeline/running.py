"""What both models share: batches made ahead, and passes in the same precision as the joint model's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import torch
from torch import Tensor

from unire.modeling.recording import Tensors
from unire.prefetch import Ahead
from unire.studies.pipeline.batching import in_parts

__all__ = ["chunks", "moved", "passes", "pinned"]

T = TypeVar("T")

CHUNK = 256
"""Sentences whose batches are made while those of the sentences before are computed."""


def pinned(tensors: Tensors, device: torch.device) -> Tensors:
    """Tensors from where a GPU can fetch them without being waited for."""
    return {name: tensor.pin_memory() for name, tensor in tensors.items()} if device.type == "cuda" else tensors


def moved(tensors: Tensors, device: torch.device) -> Tensors:
    return {name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()}


@torch.inference_mode()
def passes(
    model: Any,
    items: Iterable[Sequence[T]],
    length: Callable[[T], int],
    collate: Callable[[Sequence[T]], Tensors],
    *,
    bf16: bool,
    max_pieces: int,
) -> list[tuple[list[T], Tensor, Tensor]]:
    """The best class of everything that a model scores, and its probability, batch by batch, on the host.

    Args:
        model: In evaluation mode from here on.
        items: What is read, in chunks; each is made while those before it are computed.
        length: Pieces of an item.
        collate: Items as tensors.
        bf16: Precision.
        max_pieces: Padded pieces of a batch.
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
        chance, label = scores.float().softmax(-1).max(-1)
        found.append((chosen, label, chance))
    return [(chosen, label.cpu(), chance.cpu()) for chosen, label, chance in found]


def chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """The items, so many at a time as are batched together."""
    stream = iter(items)
    while chunk := list(islice(stream, CHUNK)):
        yield chunk
