"""Decoding: the tables of a batch in, entities and relations out.

A decoder is a function of P, lengths and labels; `DECODERS` knows them by name, and a new one is one more line there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from unire.decoding import hard, likely, naming, split
from unire.decoding.arrays import Array, urgently
from unire.decoding.decoded import Decoded
from unire.exceptions import UnireError
from unire.labels import LabelSpace

__all__ = ["CUTTING", "DECODERS", "Decoded", "decode", "default_alpha"]

CUTTING: dict[str, Callable[..., naming.Prepared]] = {"split": split.prepare, "likely": likely.prepare}
"""Those that cut tables by a threshold α, and what prepares tables for it: `naming.decode_prepared` does the rest."""


def default_alpha(decoder: str) -> float:
    """A decoder's threshold where dev has not said what it should be; one that has none takes any."""
    return likely.ALPHA if decoder == "likely" else split.ALPHA


def _cutting(prepare: Callable[..., naming.Prepared]) -> Callable[..., Decoded]:
    """The decoder that cuts tables which were prepared so."""

    def decode(
        P: Array,
        lengths: NDArray[np.int64],
        labels: LabelSpace,
        *,
        alpha: float,
        permits: NDArray[np.bool_] | None,
        odds: float,
    ) -> Decoded:
        return naming.decode_prepared(prepare(P, lengths, labels), alpha, permits, odds)

    return decode


DECODERS: dict[str, Callable[..., Decoded]] = {
    "split": _cutting(split.prepare),
    "hard": hard.decode,
    "likely": _cutting(likely.prepare),
}


def decode(
    P: Array,
    lengths: NDArray[np.int64] | Sequence[int],
    labels: LabelSpace,
    *,
    decoder: str = "split",
    alpha: float | None = None,
    permits: NDArray[np.bool_] | None = None,
    odds: float = 1.0,
) -> Decoded:
    """Find the entities and relations of a batch of tables.

    Args:
        P: [T, N, N, |Y|] probabilities, a numpy array or a torch tensor on any device, where it stays. It is read in
            float32 at least. Padding may hold anything.
        lengths: [T] words of each table.
        labels: The label space, in the order of P's last axis.
        decoder: `split` (the paper's), `hard` (its baseline) or `likely`.
        alpha: The distance above which `split` cuts, or what a square must have in its favour where `likely` does.
        permits: Which relations may join which entities, as `LabelSpace.permits` says it; all may when left out.
        odds: How many times as probable as ⊥ a relation must be to be found; 1 in the paper.
    """
    if decoder not in DECODERS:
        raise UnireError(f"no decoder {decoder!r}: there are {', '.join(DECODERS)}")
    lengths = _checked(P, lengths, labels)
    threshold = default_alpha(decoder) if alpha is None else alpha
    with urgently(P):
        return DECODERS[decoder](P, lengths, labels, alpha=threshold, permits=permits, odds=odds)


def _checked(P: Array, lengths: NDArray[np.int64] | Sequence[int], labels: LabelSpace) -> NDArray[np.int64]:
    """The lengths as an array, if P is a batch of such tables."""
    words = np.asarray(lengths, dtype=np.int64)
    T, N = len(words), words.max(initial=0)
    if P.ndim != 4 or P.shape[0] != T or P.shape[1] != P.shape[2] or P.shape[1] < N or P.shape[3] != len(labels):
        raise UnireError(
            f"P has the shape {tuple(P.shape)}, but {T} tables of up to {N} words and {len(labels)} labels need "
            f"({T}, n, n, {len(labels)}) with n of at least {N}"
        )
    return words
