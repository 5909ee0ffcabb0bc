"""The marker model: it classifies the relation of an entity pair between typed markers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unire.errors import UnireError
from unire.models.batch import Tensors
from unire.models.encoder import first_position, supports_position_ids
from unire.models.fused_attention import attention_kernels
from unire.training.markers.data import MarkerVocabulary, build_attention_mask

__all__ = ["MarkerEnsemble", "MarkerModel", "NoPositionsError"]


class NoPositionsError(UnireError):
    """An encoder does not allow several tokens at one position."""


class MarkerModel(nn.Module):
    """Concatenates the vectors of the opening markers of subject and object, normalises and classifies them.

    Args:
        encoder: The model's own encoder. It gets an embedding for every marker.
        n_entity_types: Markers are typed by these.
        n_relation_types: Class 0 is none.
        approximate: If true, all pairs of a sentence share one pass: markers follow the text and have the positions of
            its words. If false, markers are inserted into the text and every pair has its own pass.
    """

    def __init__(self, encoder: nn.Module, n_entity_types: int, n_relation_types: int, *, approximate: bool) -> None:
        super().__init__()
        if approximate and not supports_position_ids(encoder):
            kind = encoder.config.model_type  # type: ignore[union-attr]
            raise NoPositionsError(
                f"an approximate marker model needs tokens that share positions, which {kind} encoders do not support; "
                "use one with absolute positions (BERT, ELECTRA, RoBERTa, ALBERT) or MPNet, or an exact marker model"
            )
        grown: Any = encoder
        self.markers = MarkerVocabulary(grown.get_input_embeddings().num_embeddings, n_entity_types)
        grown.resize_token_embeddings(self.markers.first + len(self.markers), mean_resizing=False)
        self.encoder = grown
        self.approximate = approximate
        self.first_position = first_position(grown)
        self.norm = nn.LayerNorm(2 * grown.config.hidden_size)
        self.dropout = nn.Dropout(0.1)
        self.classifier = nn.Linear(2 * grown.config.hidden_size, 1 + n_relation_types)

    def forward(self, tensors: Tensors) -> Tensor:
        """Logits of every pair: `[P, 1 + n_relation_types]`."""
        tokens = self.encode(tensors).flatten(0, 1)  # [B * L, n_hidden]
        starts = tensors["marker_starts"]  # [P, 2]
        joined = tokens.index_select(0, starts.flatten()).view(len(starts), -1)
        logits: Tensor = self.classifier(self.dropout(self.norm(joined)))
        return logits

    def encode(self, tensors: Tensors) -> Tensor:
        """The vector of every token: `[B, L, n_hidden]`."""
        owners = tensors["owners"]
        if self.approximate:
            inputs = {"attention_mask": build_attention_mask(owners), "position_ids": tensors["position_ids"]}
        else:
            inputs = {"attention_mask": (owners == 0).long()}
        input_ids = tensors["input_ids"]
        with attention_kernels(input_ids.shape[1]):
            vectors: Tensor = self.encoder(input_ids=input_ids, **inputs).last_hidden_state
        return vectors

    def loss(self, tensors: Tensors) -> Tensor:
        """Cross-entropy, summed over all pairs."""
        return F.cross_entropy(self(tensors).float(), tensors["gold"], reduction="sum")

    @property
    def device(self) -> torch.device:
        return self.classifier.weight.device


class MarkerEnsemble(nn.Module):
    """Marker models that read the same rows. It averages their probabilities.

    Args:
        models: At least one. All have the same markers and the same value of `approximate`.
    """

    def __init__(self, models: Sequence[MarkerModel | MarkerEnsemble]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self.markers: MarkerVocabulary = models[0].markers
        self.approximate: bool = models[0].approximate
        self.first_position: int = models[0].first_position

    def forward(self, tensors: Tensors) -> Tensor:
        """Logits, like those of one model: `[P, 1 + n_relation_types]`."""
        return torch.stack([model(tensors).float().softmax(-1) for model in self.models]).mean(0).log()

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device
