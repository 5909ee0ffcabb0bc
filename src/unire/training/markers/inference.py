"""Batches made ahead, and passes in the same precision as those of a model of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from unire.inference.torch_engine import TorchEngine
from unire.models.batch import Tensors
from unire.prefetch import Prefetcher
from unire.windows.collator import MAX_SLICE_TOKENS

__all__ = ["Kept", "best", "chunks", "in_parts", "moved", "passes", "pinned", "random_steps", "tokens_at_once", "whole"]

POOL = 2048
"""Items that are sorted by length together; between pools, and between steps, the order is random."""


def random_steps(
    lengths: Sequence[int], weights: Sequence[int], size: int, rng: np.random.Generator
) -> list[list[int]]:
    """Every item in one step of an epoch; a step is filled until it weighs `size` or more."""
    order = rng.permutation(len(lengths)).tolist()
    steps: list[list[int]] = []
    for start in range(0, len(order), POOL):
        weight = size
        for item in sorted(order[start : start + POOL], key=lengths.__getitem__):
            if weight >= size:
                steps.append([])
                weight = 0
            steps[-1].append(item)
            weight += weights[item]
    return [steps[place] for place in rng.permutation(len(steps))]


def in_parts(items: Sequence[int], lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """The items, longest first, in batches of at most `max_tokens` padded tokens; a longer item is one by itself."""
    part: list[int] = []
    for item in sorted(items, key=lengths.__getitem__, reverse=True):
        if part and (len(part) + 1) * lengths[part[0]] > max_tokens:
            yield part
            part = []
        part.append(item)
    if part:
        yield part


T = TypeVar("T")
Kept = TypeVar("Kept", bound=tuple[Tensor, ...])

CHUNK = 1024
"""Sentences whose batches are made while those of the sentences before are computed. Of many, those in a batch are of
like length: with a quarter as many, half of what a model reads of pairs is padding."""


def tokens_at_once(model: Any) -> int:
    """Padded tokens of a batch: as many as the encoder of a model of tables is given on such a device."""
    return min(MAX_SLICE_TOKENS, TorchEngine.most_tokens(model.device, model.encoder.config.hidden_size))


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
    max_tokens: int,
    keep: Callable[[Tensor], Kept],
) -> list[tuple[list[T], Kept]]:
    """What is kept of the probabilities of everything that a model scores, batch by batch, on the host.

    Args:
        model: In evaluation mode from here on.
        items: What is read, in chunks; each is made while those before it are computed.
        length: Tokens of an item.
        collate: Items as tensors.
        bf16: Precision.
        max_tokens: Padded tokens of a batch.
        keep: Chooses on the device what leaves it: `best` or `whole`.
    """
    model.eval()
    device = model.device

    def batches() -> Iterator[tuple[list[T], Tensors]]:
        for chunk in items:
            lengths = [length(item) for item in chunk]
            for part in in_parts(range(len(chunk)), lengths, max_tokens):
                chosen = [chunk[place] for place in part]
                yield chosen, pinned(collate(chosen), device)

    found = []
    for chosen, tensors in Prefetcher(batches()):
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=bf16):
            scores = model(moved(tensors, device))
        found.append((chosen, keep(scores.float().softmax(-1))))
    return [(chosen, cast("Kept", tuple(tensor.cpu() for tensor in kept))) for chosen, kept in found]


def chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """The items, so many at a time as are batched together."""
    stream = iter(items)
    while chunk := list(islice(stream, CHUNK)):
        yield chunk
