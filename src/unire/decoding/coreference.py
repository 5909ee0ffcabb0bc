"""Coreference inside a document: which earlier mention each mention refers to, if any.

A table has a row for every mention of a document, and a column for every earlier one. Its cells are filled from the
vectors of the words that the encoder computed for the label tables, and from features f(i, j) of the two texts:

    x_i = LayerNorm(mean of h over the words of i)
    a_i = A₂ gelu(A₁ x_i + type_i),  b_j = B₂ gelu(B₁ x_j + type_j)     the mention as anaphor and as antecedent
    s_ij = w · relu(a_i + b_j + F f(i, j)) + v · f(i, j)

A biaffine product a_iᵀ U b_j in place of the second layer overfits: it cannot combine the vectors with the features.
Several models of different seeds are averaged. The antecedent of i is the j with the largest s_ij, if that is above 0.
Chains of antecedents are clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unire.decoding.backend import Array, asarray_like, gather, to_float, to_host
from unire.documents import Document
from unire.errors import UnireError
from unire.hub.model_dir import COREFERENCE
from unire.model_files import read_arrays
from unire.utils import concat_ranges

__all__ = [
    "EPSILON",
    "N_FEATURES",
    "CoreferenceScorer",
    "Mentions",
    "link_clusters",
    "mean_vectors",
    "pair_features",
    "scorer_shapes",
]

Span = tuple[int, int]
Floats = NDArray[np.float32]

MAX_ANTECEDENTS = 256
"""A mention is compared with as many mentions before it: those of a few pages."""
EPSILON = 1e-5
"""Of the layer normalization."""
ONE_THREAD_PRODUCTS = 2**18
"""Multiplications for which OpenBLAS, which numpy uses, takes one thread. Further threads would wait for cores that
onnxruntime keeps busy."""
ROWS = 128
"""Mentions that are compared at a time, so that memory does not grow with the length of a document."""

DETERMINERS = frozenset(
    {
        *("a", "all", "an", "another", "any", "both", "each", "her", "his", "its", "my", "other", "our", "some"),
        *("such", "that", "the", "their", "these", "this", "those", "your"),
    }
)
PRONOUNS = frozenset(
    {
        *("he", "her", "him", "his", "it", "its", "itself", "one", "ones", "she", "that", "their", "them"),
        *("themselves", "these", "they", "this", "those", "we", "which", "who"),
    }
)
PREPOSITIONS = frozenset({"based", "by", "for", "from", "in", "of", "on", "to", "using", "with"})
"""The head of a mention is the word before the first of these."""
BRACKETS = frozenset({"(", "[", "-LRB-", "-LSB-"})


@dataclass(frozen=True)
class Mentions:
    """The mentions of a document, and what their texts have. Equal numbers are equal texts; −1 is no text."""

    spans: NDArray[np.int64]
    """[n, 2], start and end in words; sorted."""
    sentence: NDArray[np.int64]
    types: NDArray[np.int64]
    surface: NDArray[np.int64]
    """The text in small letters."""
    name: NDArray[np.int64]
    """The same without determiners and the `s` of plurals."""
    head: NDArray[np.int64]
    """The last word of the name before a preposition."""
    initials: NDArray[np.int64]
    """The first letters of the words of the name."""
    acronym: NDArray[np.int64]
    """The text of a word with several capitals."""
    in_brackets: NDArray[np.bool_]
    """Whether a bracket opens before the mention."""
    traits: Floats
    """[n, 4]: is a pronoun, begins with a determiner, has a capital, has several words."""
    tokens: Sequence[frozenset[str]]
    """The words of the name, without prepositions."""

    @classmethod
    def of(cls, document: Document, spans: Sequence[Span], types: Sequence[int]) -> Mentions:
        """Describe mentions, whose spans are sorted."""
        words = document.words
        ids: dict[str, int] = {"": -1}
        rows, traits, tokens = [], [], []
        for start, end in spans:
            text = words[start:end]
            core = [word for word in text if word.lower() not in DETERMINERS] or text
            folded = [_fold(word) for word in core]
            cut = next((k for k, word in enumerate(folded) if k and word in PREPOSITIONS), len(folded))
            letters = "".join([part[0] for word in folded for part in word.split("-") if part and part[0].isalnum()])
            capitals = sum(map(str.isupper, "".join(core)))
            keys = (
                "t " + " ".join(text).lower(),
                "n " + " ".join(folded),
                "h " + folded[cut - 1],
                letters if len(letters) > 1 else "",
                folded[0] if len(core) == 1 and capitals > 1 else "",
            )
            rows.append([ids.setdefault(key, len(ids)) for key in keys])
            first = text[0].lower()
            traits.append((len(text) == 1 and first in PRONOUNS, first in DETERMINERS, capitals > 0, len(core) > 1))
            tokens.append(frozenset(folded) - PREPOSITIONS)
        places = np.array(spans, np.int64).reshape(-1, 2)
        starts = np.array([sentence.start for sentence in document.sentences])
        surface, name, head, initials, acronym = np.array(rows, np.int64).reshape(-1, 5).T
        return cls(
            spans=places,
            sentence=np.searchsorted(starts, places[:, 0], side="right"),
            types=np.array(types, np.int64),
            surface=surface,
            name=name,
            head=head,
            initials=initials,
            acronym=acronym,
            in_brackets=np.array([start > 0 and words[start - 1] in BRACKETS for start, _ in spans], bool),
            traits=np.array(traits, np.float32).reshape(-1, 4),
            tokens=tokens,
        )

    def __len__(self) -> int:
        return len(self.spans)


def pair_features(mentions: Mentions, rows: slice, columns: slice) -> Floats:
    """f(i, j) of every mention i in `rows` and every mention j in `columns`: [rows, columns, N_FEATURES]."""
    m = mentions

    def pairs(values: NDArray[Any], operation: Callable[..., Any] = np.equal) -> NDArray[Any]:
        """An operation on the values of both mentions: [rows, columns]."""
        result: NDArray[Any] = operation(values[rows, None], values[None, columns])
        return result

    common, n_row, n_column = _count_tokens(m.tokens[rows], m.tokens[columns])
    starts, ends = m.spans.T
    inside = pairs(starts, np.greater_equal) & pairs(ends, np.less_equal)
    around = pairs(starts, np.less_equal) & pairs(ends, np.greater_equal)
    defines = (m.acronym[rows, None] >= 0) & (m.acronym[rows, None] == m.initials[None, columns])
    defined = (m.initials[rows, None] >= 0) & (m.initials[rows, None] == m.acronym[None, columns])
    same_name = pairs(m.name)
    several_words = m.traits[:, 3] > 0
    sentences = np.abs(pairs(m.sentence, np.subtract))
    between = np.abs(pairs(np.arange(len(m)), np.subtract))
    distance = np.minimum(np.log2(np.maximum(between, 1)).astype(np.int64), MAX_LOG_DISTANCE)
    shape = common.shape
    features = [
        pairs(m.surface),
        same_name,
        same_name & several_words[rows, None],
        pairs(m.head),
        common / np.maximum(np.minimum(n_row, n_column), 1),
        common / np.maximum(n_row + n_column - common, 1),
        (common > 0) & (common >= n_column),
        (common > 0) & (common >= n_row),
        defines | defined,
        m.in_brackets[rows, None] & (starts[rows, None] == ends[None, columns] + 1),
        inside | around,
        pairs(m.types),
        np.minimum(sentences, 8) / 8,
        *(sentences == n for n in range(3)),
        *(np.broadcast_to(trait[rows, None], shape) for trait in m.traits.T[:3]),
        *(np.broadcast_to(trait[None, columns], shape) for trait in m.traits.T[:3]),
        *(distance == n for n in range(MAX_LOG_DISTANCE + 1)),
    ]
    return np.stack(features, -1, dtype=np.float32, casting="unsafe")


MAX_LOG_DISTANCE = 6
"""Distances of 64 mentions or more count the same."""
N_FEATURES = 22 + MAX_LOG_DISTANCE + 1


def _count_tokens(rows: Sequence[frozenset[str]], columns: Sequence[frozenset[str]]) -> tuple[Any, Any, Any]:
    """The tokens that two mentions share [rows, columns], and those of each [rows, 1] and [1, columns]."""
    ids: dict[str, int] = {}
    for tokens in (*rows, *columns):
        for token in tokens:
            ids.setdefault(token, len(ids))
    sides = []
    for side in (rows, columns):
        counts = np.zeros((len(side), len(ids)), np.float32)
        for k, tokens in enumerate(side):
            counts[k, [ids[token] for token in tokens]] = 1
        sides.append(counts)
    one, other = sides
    return one @ other.T, one.sum(1)[:, None], other.sum(1)[None]


def _fold(word: str) -> str:
    """A word in small letters, without the `s` of a plural."""
    word = word.lower()
    if len(word) < 4 or not word.endswith("s") or word.endswith("ss"):
        return word
    return word[:-3] + "y" if word.endswith("ies") else word[:-1]


def _gelu(x: Floats) -> Floats:
    """GELU with tanh, as numpy has no error function."""
    activated: Floats = 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
    return activated


def _multiply(x: Floats, weights: Floats) -> Floats:
    """x @ weights, [..., n, p] and [K, p, q], in blocks of rows that are each computed in one thread."""
    n_rows = max(1, ONE_THREAD_PRODUCTS // math.prod(weights.shape[-2:]))
    starts = range(0, max(1, x.shape[-2]), n_rows)
    return np.concatenate([x[..., start : start + n_rows, :] @ weights for start in starts], axis=-2)


class CoreferenceScorer:
    """Finds the clusters of documents, given the vectors of their mentions.

    Args:
        weights: The tensors of `CoreferenceModel`, whose K members are averaged:

            anaphor.vectors, antecedent.vectors      [K, d, n_hidden]    A₁, B₁
            anaphor.types, antecedent.types          [K, |types|, d]
            anaphor.out, antecedent.out              [K, hidden, d]      A₂, B₂
            pairs.features, pairs.bias               [K, hidden, N_FEATURES], [K, hidden]    F
            score.hidden, score.features, score.bias [K, hidden], [K, N_FEATURES], [K]       w, v
    """

    def __init__(self, weights: Mapping[str, Floats]) -> None:
        self.weights = weights
        self.n_members, _, self.n_hidden = weights["anaphor.vectors"].shape
        self._features = weights["pairs.features"].reshape(-1, N_FEATURES).T
        self._bias = weights["pairs.bias"].reshape(-1)
        self._score = weights["score.hidden"].reshape(-1) / self.n_members
        self._direct = weights["score.features"].mean(0)
        self._constant = float(weights["score.bias"].mean())

    @classmethod
    def load(cls, path: Path, n_types: int, n_hidden: int) -> CoreferenceScorer:
        """Read the weights for a model with `n_types` entity types, and word vectors of size `n_hidden`."""
        weights = read_arrays(path)
        shapes = {name: weight.shape for name, weight in weights.items()}
        k, hidden, d = shapes.get("anaphor.out", (0, 0, 0))
        expected = scorer_shapes(k, hidden, d, n_types=n_types, n_hidden=n_hidden)
        if shapes != expected or not k:
            raise UnireError(
                f"{str(path)!r} is damaged, or of another model or version of unire; train its coreference again"
            )
        return cls(weights)

    @classmethod
    def find(cls, folder: Path, n_types: int, n_hidden: int | None) -> CoreferenceScorer | None:
        """Read the weights of a model directory; `None` if it has none, or an engine that returns no vectors."""
        path = folder / COREFERENCE
        return cls.load(path, n_types, n_hidden) if n_hidden is not None and path.is_file() else None

    def project(self, vectors: Floats, types: NDArray[np.int64]) -> Floats:
        """a and b of mentions, for all members: [n, 2, K · hidden], from their vectors [n, n_hidden] and types [n]."""
        centred = vectors - vectors.mean(-1, keepdims=True)
        x = centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + EPSILON)
        sides = []
        for side in ("anaphor", "antecedent"):
            vector_weights, type_weights, out = (self.weights[f"{side}.{name}"] for name in ("vectors", "types", "out"))
            hidden = _gelu(_multiply(x, vector_weights.transpose(0, 2, 1)) + type_weights[:, types])  # [K, n, d]
            projected = _multiply(hidden, out.transpose(0, 2, 1)).transpose(1, 0, 2)  # [n, K, hidden]
            sides.append(projected.reshape(len(x), len(self._bias)))
        return np.stack(sides, 1)

    def score(self, mentions: Mentions, projected: Floats, rows: slice, columns: slice) -> Floats:
        """s_ij of every mention i in `rows` and every mention j in `columns`."""
        features = pair_features(mentions, rows, columns)
        hidden = features @ self._features
        hidden += projected[rows, None, 0] + self._bias
        hidden += projected[None, columns, 1]
        scores: Floats = np.maximum(hidden, 0, out=hidden) @ self._score + features @ self._direct
        return scores + self._constant

    def find_clusters(
        self, document: Document, spans: Sequence[Span], types: Sequence[int], projected: Floats
    ) -> tuple[tuple[Span, ...], ...]:
        """The clusters of a document.

        Args:
            document: The document.
            spans: Its mentions, in any order. Of repeated ones the first counts.
            types: The type of each mention, counted from 0.
            projected: a and b of each mention, from `project`.
        """
        order = sorted({span: k for k, span in reversed(list(enumerate(spans)))}.items())
        spans, chosen = [span for span, _ in order], [k for _, k in order]
        mentions = Mentions.of(document, spans, [types[k] for k in chosen])
        projected = projected[chosen]
        antecedents = []
        for start in range(0, len(spans), ROWS):
            end, first = min(start + ROWS, len(spans)), max(0, start - MAX_ANTECEDENTS)
            scores = self.score(mentions, projected, slice(start, end), slice(first, end))
            scores[np.arange(first, end) >= np.arange(start, end)[:, None]] = -np.inf
            best = scores.argmax(1)
            antecedents += [first + j if scores[i, j] > 0 else -1 for i, j in enumerate(best.tolist())]
        return link_clusters(spans, antecedents)


def scorer_shapes(members: int, hidden: int, d: int, *, n_types: int, n_hidden: int) -> dict[str, tuple[int, ...]]:
    """The shapes of all weights."""
    sides = {"vectors": (members, d, n_hidden), "types": (members, n_types, d), "out": (members, hidden, d)}
    return {
        **{f"{side}.{name}": shape for side in ("anaphor", "antecedent") for name, shape in sides.items()},
        "pairs.features": (members, hidden, N_FEATURES),
        "pairs.bias": (members, hidden),
        "score.hidden": (members, hidden),
        "score.features": (members, N_FEATURES),
        "score.bias": (members,),
    }


def mean_vectors(vectors: Array, entities: NDArray[np.int64]) -> Floats:
    """The mean of the vectors of the words of every entity: [E, n_hidden].

    Args:
        vectors: [T, N, n_hidden], of the words of all tables.
        entities: [E, 4], as in `Decoded`: table, start, end, label.
    """
    T, N, n_hidden = vectors.shape
    table, start, end, _ = entities.T
    n_words = end - start
    words = concat_ranges(table * N + start, n_words)
    rows = to_host(to_float(gather(vectors.reshape(T * N, n_hidden), asarray_like(words, vectors))))
    if not len(rows):
        return np.zeros((0, n_hidden), np.float32)
    sums: Floats = np.add.reduceat(rows, np.cumsum(n_words) - n_words)
    sums /= n_words[:, None]
    return sums


def link_clusters(spans: Sequence[Span], antecedents: Sequence[int]) -> tuple[tuple[Span, ...], ...]:
    """Chains of antecedents as clusters of two or more mentions; −1 is no antecedent.

    >>> link_clusters([(0, 1), (2, 3), (5, 6), (8, 9)], [-1, -1, 0, 2])
    (((0, 1), (5, 6), (8, 9)),)
    """
    clusters: dict[int, list[Span]] = {}
    first = list(range(len(spans)))
    for mention, antecedent in enumerate(antecedents):
        if antecedent >= 0:
            first[mention] = first[antecedent]
        clusters.setdefault(first[mention], []).append(spans[mention])
    return tuple(tuple(cluster) for cluster in clusters.values() if len(cluster) > 1)
