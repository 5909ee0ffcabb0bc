"""The coreference model as a PyTorch module, to train it; `decoding/coreference.py` is what runs it.

The loss is the marginal log-likelihood of all correct antecedents (Lee et al., 2017): of the mentions j < i in the
cluster of i, or of none, which has the score 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from unire.decoding.coreference import EPSILON, N_FEATURES, Mentions, pair_features, scorer_shapes

__all__ = ["CoreferenceBatch", "CoreferenceExample", "CoreferenceModel"]

IMPOSSIBLE = -1e9
"""The score of a pair that is none."""


@dataclass(frozen=True)
class CoreferenceExample:
    """The mentions of a document and their gold clusters."""

    mentions: Mentions
    vectors: NDArray[np.float32]
    """[n, n_hidden]"""
    same: NDArray[np.bool_]
    """[n, n], whether two mentions are in one gold cluster."""


@dataclass(frozen=True)
class CoreferenceBatch:
    """Several documents, padded to n mentions."""

    vectors: Tensor
    """[B, n, n_hidden]"""
    types: Tensor
    """[B, n]"""
    features: Tensor
    """[B, n, n, N_FEATURES]"""
    same: Tensor
    """[B, n, n], true below the diagonal for two mentions in one cluster."""
    mask: Tensor
    """[B, n], true on mentions."""

    @classmethod
    def collate(cls, examples: Sequence[CoreferenceExample]) -> CoreferenceBatch:
        B, n, n_hidden = len(examples), max(len(e.mentions) for e in examples), examples[0].vectors.shape[1]
        vectors, types = np.zeros((B, n, n_hidden), np.float32), np.zeros((B, n), np.int64)
        features, same = np.zeros((B, n, n, N_FEATURES), np.float32), np.zeros((B, n, n), bool)
        mask = np.zeros((B, n), bool)
        for b, example in enumerate(examples):
            k = len(example.mentions)
            vectors[b, :k], types[b, :k], mask[b, :k] = example.vectors, example.mentions.types, True
            features[b, :k, :k] = pair_features(example.mentions, slice(0, k), slice(0, k))
            same[b, :k, :k] = np.tril(example.same, -1)
        return cls(*map(torch.from_numpy, (vectors, types, features, same, mask)))


class CoreferenceModel(nn.Module):
    """K members, which differ in their initial weights and in dropout only.

    Args:
        n_hidden: Size of the vectors of words.
        n_types: Number of entity types.
        members: K.
        d: Size of the layer between a vector and a or b.
        hidden: Size of a and b.
        dropout: Behind both layers, and on the vectors.
    """

    def __init__(
        self, n_hidden: int, n_types: int, *, members: int = 2, d: int = 128, hidden: int = 64, dropout: float = 0.3
    ) -> None:
        super().__init__()
        self.members, self.dropout = members, dropout
        shapes = scorer_shapes(members, hidden, d, n_types=n_types, n_hidden=n_hidden)
        self.weights = nn.ParameterDict()
        for name, shape in shapes.items():
            weight = torch.zeros(shape)
            if name.split(".")[1] not in ("bias", "types"):
                bound = shape[-1] ** -0.5
                nn.init.uniform_(weight, -bound, bound)
            self.weights[name.replace(".", "_")] = weight

    def weight(self, name: str) -> Tensor:
        weight: Tensor = self.weights[name.replace(".", "_")]
        return weight

    def to_arrays(self) -> dict[str, NDArray[np.float32]]:
        """The weights, as `CoreferenceScorer` takes them."""
        names = (name.replace("_", ".") for name in self.weights)
        return {name: self.weight(name).detach().numpy() for name in names}

    def forward(self, batch: CoreferenceBatch) -> Tensor:
        """s_ij of all pairs of mentions, from every member: [K, B, n, n]."""
        x = F.layer_norm(batch.vectors, batch.vectors.shape[-1:], eps=EPSILON)
        a, b = (self._project(side, x, batch.types) for side in ("anaphor", "antecedent"))
        pairs = torch.einsum("bijf,khf->kbijh", batch.features, self.weight("pairs.features"))
        pairs = pairs + a.unsqueeze(3) + b.unsqueeze(2) + self.weight("pairs.bias")[:, None, None, None]
        hidden = self._drop(F.relu(pairs))
        scores = torch.einsum("kbijh,kh->kbij", hidden, self.weight("score.hidden"))
        direct = torch.einsum("bijf,kf->kbij", batch.features, self.weight("score.features"))
        return scores + direct + self.weight("score.bias")[:, None, None, None]

    def _project(self, side: str, x: Tensor, types: Tensor) -> Tensor:
        """a or b of all mentions: [K, B, n, hidden]."""
        vectors, type_vectors, out = (self.weight(f"{side}.{name}") for name in ("vectors", "types", "out"))
        x = self._drop(x.expand(len(vectors), *x.shape))
        hidden = F.gelu(torch.einsum("kbnh,kdh->kbnd", x, vectors) + type_vectors[:, types], approximate="tanh")
        return torch.einsum("kbnd,khd->kbnh", self._drop(hidden), out)

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)

    def loss(self, batch: CoreferenceBatch) -> Tensor:
        """The negative marginal log-likelihood, as the mean over mentions and the sum over members."""
        n = batch.same.shape[-1]
        earlier = torch.ones(n, n, dtype=torch.bool).tril(-1)
        scores = F.pad(self(batch).masked_fill(~earlier, IMPOSSIBLE), (1, 0))  # column 0: no antecedent
        gold = torch.cat([~batch.same.any(-1, keepdim=True), batch.same], -1)
        loss = scores.logsumexp(-1) - scores.masked_fill(~gold, IMPOSSIBLE).logsumexp(-1)  # [K, B, n]
        return loss[:, batch.mask].mean(-1).sum()
