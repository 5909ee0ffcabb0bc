"""The entity model: every span of a few words is given a type, or none."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unire.modeling.model import TensorBatch, read_pieces
from unire.modeling.recording import Tensors
from unire.studies.pipeline.config import PipelineConfig

__all__ = ["IGNORED", "SpanModel"]

IGNORED = -100
"""The gold label of a span that is not there: it would end behind the sentence."""


NONE = 4.0
"""What none is ahead of every type before training, e⁴ : 1: of the spans of a sentence few are entities, and a model
that had to learn that first would see every second span as one, and their pairs by the thousand."""


class SpanModel(nn.Module):
    """h(span) = first piece ⊕ last piece ⊕ its width, then two hidden layers and a classifier.

    Args:
        encoder: Of its own.
        n_types: Entity types; class 0 is none.
        config: Sizes.
    """

    def __init__(self, encoder: nn.Module, n_types: int, config: PipelineConfig) -> None:
        super().__init__()
        self.encoder = encoder
        self.n_hidden: int = encoder.config.hidden_size  # type: ignore[union-attr, assignment]
        self.widths = nn.Embedding(config.max_span, config.d_width)
        self.first = nn.Linear(2 * self.n_hidden + config.d_width, config.d_hidden)
        self.second = nn.Linear(config.d_hidden, config.d_hidden)
        self.classifier = nn.Linear(config.d_hidden, 1 + n_types)
        nn.init.zeros_(self.classifier.bias)
        nn.init.constant_(self.classifier.bias[:1], NONE)
        self.read_dropout = nn.Dropout(0.1)
        self.dropout = nn.Dropout(0.2)

    def forward(self, tensors: Tensors) -> Tensor:
        """The scores of every span by its first word and its width - 1: `[T, N, max_span, 1 + n_types]`."""
        batch = TensorBatch.from_named(tensors)
        pieces = self.read_dropout(read_pieces(self.encoder, batch))
        starts, ends = (
            pieces.index_select(0, places.flatten()).view(*places.shape, -1)
            for places in (batch.words, tensors["ends"])
        )  # [T, N, n_hidden]
        # a layer over the three joined is the sum of a layer over each: N products, where N * max_span spans have them
        parts = [self.n_hidden, self.n_hidden, self.widths.embedding_dim]
        of_start, of_end, of_width = torch.split(self.first.weight, parts, 1)
        max_span = self.widths.num_embeddings
        last_words = F.pad(F.linear(ends, of_end), (0, 0, 0, max_span - 1)).unfold(1, max_span, 1).mT
        first_words = F.linear(starts, of_start, self.first.bias).unsqueeze(2)
        hidden = first_words + last_words + F.linear(self.widths.weight, of_width)  # [T, N, max_span, d_hidden]
        hidden = self.dropout(F.relu(hidden))
        hidden = self.dropout(F.relu(self.second(hidden)))
        scores: Tensor = self.classifier(hidden)
        return scores

    def loss(self, tensors: Tensors) -> Tensor:
        """Cross-entropy, summed over all spans of all sentences."""
        scores = self(tensors).float()
        return F.cross_entropy(scores.flatten(0, 2), tensors["gold"].flatten(), ignore_index=IGNORED, reduction="sum")

    @property
    def device(self) -> torch.device:
        return self.classifier.weight.device
