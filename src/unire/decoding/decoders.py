"""The batched decoders: from probability tables P to entities and relations.

| config value | class | reference |
|---|---|---|
| `split` | `BoundaryDecoder` | `reference.decode_boundaries`, the paper's decoder |
| `likely` | `MaxSpanDecoder` | `reference.decode_max_spans` |
| `hard` | `HardDecoder` | `reference.decode_hard`, the paper's baseline |

To add a decoder, write it for one sentence in `reference.py`, subclass `SpanDecoder` (if it only chooses spans) or
`Decoder`, register it in `DECODERS`, and allow its name in `TrainingConfig.decoder`. All decoders take numpy arrays and
torch tensors on any device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from unire.config import PAPER_ALPHA
from unire.decoding import kernels
from unire.decoding.backend import (
    Array,
    array_namespace,
    asarray_like,
    gather,
    gather_columns,
    high_priority_stream,
    nonzero,
    stack_rows,
    to_float,
    to_host,
    to_numpy,
)
from unire.decoding.kernels import Decoded, EntityPairs, argmax_or_none, compute_log_odds, mask_forbidden
from unire.errors import UnireError, shorten
from unire.labels import LabelSpace

__all__ = [
    "DECODERS",
    "DEFAULT_MAX_SPAN_ALPHA",
    "SPAN_DECODERS",
    "BoundaryDecoder",
    "Decoded",
    "Decoder",
    "HardDecoder",
    "MaxSpanDecoder",
    "SpanDecoder",
    "check_decoder",
    "decode",
    "default_alpha",
]

DEFAULT_MAX_SPAN_ALPHA = 2.0
"""The threshold of `likely` for models that are not tuned: odds of about e² = 7 to 1."""


class Decoder(ABC):
    """Decodes one batch of tables. The constructor does all work that does not depend on α."""

    default_alpha: ClassVar[float] = PAPER_ALPHA
    """The threshold for models that are not tuned."""
    alpha_grid: ClassVar[tuple[float, ...]] = ()
    """The thresholds that tuning tries; none for a decoder without a threshold."""

    def __init__(self, P: Array, lengths: NDArray[np.int64], labels: LabelSpace) -> None:
        self.P = to_float(P)
        """[T, N, N, |Y|] in float32 at least, not symmetrised; padding may hold anything."""
        self.n_words = asarray_like(lengths, self.P)
        """[T], words of each table. Everywhere `n_words` is on the device of P; `lengths`, the same, is on the host."""
        self.labels = labels
        self.mirror_weight = kernels.mirror_weight(labels, self.P)
        """[|Y|]: ½ for symmetric labels, else 0."""

    @abstractmethod
    def decode(
        self, alpha: float, allowed_relations: NDArray[np.bool_] | None = None, relation_odds: float = 1.0
    ) -> Decoded:
        """Decode all tables with the threshold `alpha`; see `decode` for the arguments."""


class SpanDecoder(Decoder):
    """A decoder that chooses spans by a threshold α, and labels spans and pairs by their means."""

    has_non_entities: ClassVar[bool] = False
    """Whether `span_starts` marks some spans as `kernels.NOT_ENTITY`."""
    table_fields: ClassVar[tuple[str, ...]] = ("P", "n_words")
    """Attributes whose first axis is that of the tables, so that `select` can take some of the tables."""

    @abstractmethod
    def span_starts(self, alpha: float) -> Array:
        """[T, N]: `kernels.START` or `kernels.NOT_ENTITY` where a span starts, else 0.

        The first word of every table starts a span.
        """

    def decode(
        self, alpha: float, allowed_relations: NDArray[np.bool_] | None = None, relation_odds: float = 1.0
    ) -> Decoded:
        return kernels.label_spans(
            self.P,
            self.n_words,
            self.span_starts(alpha),
            self.labels,
            self.mirror_weight,
            has_non_entities=self.has_non_entities,
            allowed_relations=allowed_relations,
            relation_odds=relation_odds,
        )

    def select(self, tables: NDArray[np.int64]) -> Self:
        """The decoder of some of the tables, [T'], in their order."""
        selected = copy(self)
        index = asarray_like(tables, self.P)
        for name in self.table_fields:
            setattr(selected, name, gather(getattr(self, name), index))
        return selected


class BoundaryDecoder(SpanDecoder):
    """`split`: cut where adjacent rows and columns differ by more than α (`reference.decode_boundaries`)."""

    alpha_grid = tuple(round(0.4 + 0.05 * step, 2) for step in range(33))
    """0.4 to 2. At the edge of a lone entity of probability p, the distance is √2·p."""
    table_fields = (*SpanDecoder.table_fields, "distance_sums")

    def __init__(self, P: Array, lengths: NDArray[np.int64], labels: LabelSpace) -> None:
        super().__init__(P, lengths, labels)
        self.distance_sums = kernels.sum_boundary_distances(self.P, lengths, self.n_words, labels, self.mirror_weight)
        """[T, N]: the row distance plus the column distance between each word and the one before."""

    @property
    def distances(self) -> NDArray[np.float64]:
        """[T, N - 1]: the distance between the words `i` and `i + 1` of a table; NaN in the padding."""
        return to_host(self.distance_sums)[:, 1:].astype(np.float64) / 2

    def span_starts(self, alpha: float) -> Array:
        return self.distance_sums > 2 * alpha  # true at the first word (∞), false in the padding (NaN)


class MaxSpanDecoder(SpanDecoder):
    """`likely`: non-overlapping spans of maximum weight (`reference.decode_max_spans`).

    `split` compares whole rows and columns, and decides on each boundary separately. This decoder reads only the
    squares on the diagonal, and decides on both boundaries of a span together. Which one is better depends on the
    model; compare them on dev.
    """

    default_alpha = DEFAULT_MAX_SPAN_ALPHA
    alpha_grid = tuple(0.25 * step for step in range(1, 33))
    """Up to 8, which stands for odds of e⁸ ≈ 3,000 to 1."""
    has_non_entities = True
    table_fields = (*SpanDecoder.table_fields, "evidence")

    def __init__(self, P: Array, lengths: NDArray[np.int64], labels: LabelSpace) -> None:
        super().__init__(P, lengths, labels)
        self.evidence = kernels.sum_span_evidence(self.P, lengths, self.n_words, labels)
        """[T, N + 1, N + 1]: the evidence for the span from border j (last axis) to border i; -∞ if j ≥ i."""

    def span_starts(self, alpha: float) -> Array:
        T, N = self.P.shape[:2]
        # the end is the first axis, so that candidates are sorted by end, as `schedule_intervals` needs them
        evidence = self.evidence.reshape(-1)
        cell = nonzero(evidence > alpha)
        # the evidence of each candidate span, and of the spans without its first or its last word
        scores = stack_rows(*(gather(evidence, near) for near in (cell, cell + 1, cell - (N + 1))))
        cell, scores, n_words = to_numpy(cell, scores, self.n_words)
        # a span is never chosen if a shorter span inside has more evidence
        is_candidate = scores[0] >= scores[1:].max(0)
        cell, gain = cell[is_candidate], scores[0, is_candidate] - alpha
        # borders are numbered through all tables
        end, start = np.divmod(cell, N + 1)
        table = end // (N + 1)
        start += table * (N + 1)
        chosen = kernels.schedule_intervals(table, start, end, gain)
        starts = np.zeros((T, N + 1), np.int8)
        starts[:, 0] = kernels.NOT_ENTITY
        starts.flat[end[chosen]] = kernels.NOT_ENTITY
        starts.flat[start[chosen]] = kernels.START  # this also replaces NOT_ENTITY where another span ends
        starts[np.arange(T), n_words] = 0  # no span starts after the last word
        return asarray_like(starts[:, :N], self.P)


class HardDecoder(Decoder):
    """`hard`: count the labels of cells, and take the largest squares first (`reference.decode_hard`)."""

    def __init__(self, P: Array, lengths: NDArray[np.int64], labels: LabelSpace) -> None:
        super().__init__(P, lengths, labels)
        self.lengths = lengths
        self.counts = kernels.count_labels(self.P, lengths, self.n_words, labels, self.mirror_weight)
        """[T, N + 1, N + 1, |Y|]"""

    def decode(
        self, alpha: float, allowed_relations: NDArray[np.bool_] | None = None, relation_odds: float = 1.0
    ) -> Decoded:
        """Decode all tables. There is no threshold; `alpha` is ignored."""
        P, labels, counts = self.P, self.labels, self.counts
        border = asarray_like(np.arange(P.shape[1] + 1), P)

        # squares between every two borders
        entity_counts = counts[..., : labels.entity_ids.stop]
        corner = entity_counts[:, border, border]
        squares = corner[:, :, None] + corner[:, None, :] - entity_counts - entity_counts.swapaxes(1, 2)
        is_span = (border[:, None] < border) & (border <= self.n_words[:, None, None])
        place = array_namespace(P).where(is_span)  # table, start, end
        squares = squares[place]
        is_entity, label = argmax_or_none(squares, labels.entity_ids)
        count = gather_columns(gather(squares, is_entity), label)
        candidates = np.array([to_host(x) for x in (*(gather(x, is_entity) for x in place), label, count)])
        candidates = candidates[:, candidates[4] > 0]
        table, start, end, label, count = candidates[:, kernels.keep_largest(*candidates[:3])]
        size = end - start
        borders = np.array([[table, start], [table, end]]).swapaxes(1, 2).reshape(-1, 2)
        is_inside = (borders[:, 1] > 0) & (borders[:, 1] < self.lengths[borders[:, 0]])

        # rectangles of all pairs
        head, tail, _ = EntityPairs.of(table)
        here, top, bottom, left, right = (
            asarray_like(x, P) for x in (table[head], start[head], end[head], start[tail], end[tail])
        )
        upper = counts[here, top, right] - counts[here, top, left]
        rectangles = counts[here, bottom, right] - counts[here, bottom, left] - upper
        if allowed_relations is not None:
            head_type, tail_type = asarray_like(label[head], P), asarray_like(label[tail], P)
            rectangles = mask_forbidden(rectangles, head_type, tail_type, allowed_relations)
        is_relation, relation = argmax_or_none(rectangles, labels.relation_ids, relation_odds)
        relation_count = to_host(gather_columns(gather(rectangles, is_relation), relation))
        pair, relation, relation_count = (
            x[relation_count > 0] for x in (to_host(is_relation), to_host(relation), relation_count)
        )
        head, tail = head[pair], tail[pair]
        share, relation_share = count / size**2, relation_count / (size[head] * size[tail])

        return Decoded(
            entities=np.array([table, start, end, label]).T,
            entity_scores=compute_log_odds(np.array([share, 1 - share])),
            relations=np.array([head, tail, relation]).T,
            relation_scores=compute_log_odds(np.array([relation_share, 1 - relation_share])),
            cuts=np.unique(borders[is_inside], axis=0),
        )


DECODERS: dict[str, type[Decoder]] = {"split": BoundaryDecoder, "hard": HardDecoder, "likely": MaxSpanDecoder}
"""The decoders by config value."""

SPAN_DECODERS = {name: decoder for name, decoder in DECODERS.items() if issubclass(decoder, SpanDecoder)}
"""The decoders with a threshold α."""


def check_decoder(decoder: str) -> None:
    """Refuse a name that no decoder has."""
    if decoder not in DECODERS:
        raise UnireError(f"unknown decoder {shorten(decoder)}; give one of {', '.join(DECODERS)}")


def default_alpha(decoder: str) -> float:
    """The threshold of a decoder for models that are not tuned."""
    return DECODERS[decoder].default_alpha


def decode(
    P: Array,
    lengths: NDArray[np.int64] | Sequence[int],
    labels: LabelSpace,
    *,
    decoder: str = "split",
    alpha: float | None = None,
    allowed_relations: NDArray[np.bool_] | None = None,
    relation_odds: float = 1.0,
) -> Decoded:
    """Find the entities and relations of a batch of tables.

    Args:
        P: [T, N, N, |Y|] probabilities, a numpy array or a torch tensor on any device, where it stays. It is read in
            float32 at least. Padding may hold anything.
        lengths: [T] words of each table.
        labels: The label space, in the order of P's last axis.
        decoder: `split` (the paper's), `hard` (its baseline) or `likely`.
        alpha: The threshold: the distance above which `split` cuts, or the evidence that a span needs for `likely`.
        allowed_relations: As `LabelSpace.allowed_relations` returns them. By default all relations are allowed.
        relation_odds: A relation must be this many times as probable as ⊥. It is 1 in the paper.
    """
    check_decoder(decoder)
    lengths = _check_shape(P, lengths, labels)
    threshold = default_alpha(decoder) if alpha is None else alpha
    with high_priority_stream(P):
        return DECODERS[decoder](P, lengths, labels).decode(threshold, allowed_relations, relation_odds)


def _check_shape(P: Array, lengths: NDArray[np.int64] | Sequence[int], labels: LabelSpace) -> NDArray[np.int64]:
    """Check that P is a batch of tables of these lengths, and return the lengths as an array."""
    lengths = np.asarray(lengths, dtype=np.int64)
    T, N = len(lengths), lengths.max(initial=0)
    if P.ndim != 4 or P.shape[0] != T or P.shape[1] != P.shape[2] or P.shape[1] < N or P.shape[3] != len(labels):
        raise UnireError(
            f"P has the shape {tuple(P.shape)}, but {T} tables of up to {N} words and {len(labels)} labels need "
            f"({T}, n, n, {len(labels)}) with n of at least {N}"
        )
    return lengths
