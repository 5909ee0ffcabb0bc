"""The marker model: a pair of entities between typed markers is given a relation type, or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unire.errors import UnireError
from unire.models.attention import attention_kernels
from unire.models.batch import Tensors
from unire.models.encoder import first_position, takes_positions
from unire.training.markers.data import Markers, visible

__all__ = ["MarkerEnsemble", "MarkerModel", "NoPositionsError"]


class NoPositionsError(UnireError):
    """An encoder does not let several tokens stand in one place."""


class MarkerModel(nn.Module):
    """The vectors of the two markers that open subject and object, joined, normalised and classified.

    Args:
        encoder: Of its own; it gets an embedding for every marker.
        n_entity_types: What markers are typed by.
        n_relation_types: Class 0 is none.
        approximate: Whether markers stand behind the text, at the positions of its words, and all pairs of a sentence
            share a pass; otherwise they stand in the text, and every pair has its own.
    """

    def __init__(self, encoder: nn.Module, n_entity_types: int, n_relation_types: int, *, approximate: bool) -> None:
        super().__init__()
        if approximate and not takes_positions(encoder):
            kind = encoder.config.model_type  # type: ignore[union-attr]
            raise NoPositionsError(
                f"an approximate marker model has tokens share positions, which encoders of the kind {kind} cannot do; "
                "use one with absolute positions (BERT, ELECTRA, RoBERTa, ALBERT) or MPNet, or an exact one (--exact)"
            )
        grown: Any = encoder
        self.markers = Markers(grown.get_input_embeddings().num_embeddings, n_entity_types)
        grown.resize_token_embeddings(self.markers.first + len(self.markers), mean_resizing=False)
        self.encoder = grown
        self.approximate = approximate
        self.first_position = first_position(grown)
        self.norm = nn.LayerNorm(2 * grown.config.hidden_size)
        self.dropout = nn.Dropout(0.1)
        self.classifier = nn.Linear(2 * grown.config.hidden_size, 1 + n_relation_types)

    def forward(self, tensors: Tensors) -> Tensor:
        """The scores of every pair: `[P, 1 + n_relation_types]`."""
        tokens = self.encode(tensors).flatten(0, 1)  # [B * L, n_hidden]
        reads = tensors["reads"]  # [P, 2]
        joined = tokens.index_select(0, reads.flatten()).view(len(reads), -1)
        scores: Tensor = self.classifier(self.dropout(self.norm(joined)))
        return scores

    def encode(self, tensors: Tensors) -> Tensor:
        """The vector of every token: `[B, L, n_hidden]`."""
        owners = tensors["owners"]
        if self.approximate:
            seen = {"attention_mask": visible(owners), "position_ids": tensors["position_ids"]}
        else:
            seen = {"attention_mask": (owners == 0).long()}
        input_ids = tensors["input_ids"]
        with attention_kernels(input_ids.shape[1]):
            vectors: Tensor = self.encoder(input_ids=input_ids, **seen).last_hidden_state
        return vectors

    def loss(self, tensors: Tensors) -> Tensor:
        """Cross-entropy, summed over all pairs."""
        return F.cross_entropy(self(tensors).float(), tensors["gold"], reduction="sum")

    @property
    def device(self) -> torch.device:
        return self.classifier.weight.device


class MarkerEnsemble(nn.Module):
    """Marker models that read the same rows, as one: a pair has the mean of their probabilities.

    Args:
        models: At least one; all have the same markers, and are approximate or are not.
    """

    def __init__(self, models: Sequence[MarkerModel | MarkerEnsemble]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self.markers: Markers = models[0].markers
        self.approximate: bool = models[0].approximate
        self.first_position: int = models[0].first_position

    def forward(self, tensors: Tensors) -> Tensor:
        """Scores, as a model has them: `[P, 1 + n_relation_types]`."""
        return torch.stack([model(tensors).float().softmax(-1) for model in self.models]).mean(0).log()

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device
