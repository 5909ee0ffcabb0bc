"""The features and the scorer of coreference, on mentions whose features are plain to see."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from unire.decoding import coreference
from unire.decoding.coreference import (
    CoreferenceScorer,
    Mentions,
    link_clusters,
    mean_vectors,
    pair_features,
    scorer_shapes,
)
from unire.documents import Document
from unire.errors import UnireError

DOCUMENT = Document.from_words(
    [
        ["We", "train", "a", "hidden", "Markov", "model", "(", "HMM", ")", "on", "treebanks", "."],
        ["The", "HMM", "needs", "this", "treebank", ",", "and", "it", "is", "fast", "."],
    ]
)
SPANS = [(3, 6), (7, 8), (10, 11), (12, 14), (15, 17), (19, 20)]
"""hidden Markov model, HMM, treebanks, The HMM, this treebank, it."""
TYPES = [0, 0, 1, 0, 1, 2]
SIZES = {"n_types": 3, "n_hidden": 8}


def features(*columns: int) -> np.ndarray:
    mentions = Mentions.of(DOCUMENT, SPANS, TYPES)
    everything = slice(0, len(SPANS))
    return pair_features(mentions, everything, everything)[..., list(columns)]


def pairs(column: int) -> set[tuple[int, int]]:
    """The pairs (i, j) with j < i that have a feature."""
    return {(i, j) for i, j in np.argwhere(features(column)[..., 0] > 0).tolist() if j < i}


def scorer(seed: int = 0) -> CoreferenceScorer:
    rng = np.random.default_rng(seed)
    shapes = scorer_shapes(2, 4, 5, **SIZES)
    return CoreferenceScorer({name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()})


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        pytest.param(0, set(), id="the same text"),
        pytest.param(1, {(3, 1), (4, 2)}, id="the same name, without determiner and plural"),
        pytest.param(3, {(3, 1), (4, 2)}, id="the same head"),
        pytest.param(8, {(1, 0), (3, 0)}, id="an acronym"),
        pytest.param(9, {(1, 0)}, id="in brackets behind the other"),
        pytest.param(11, {(1, 0), (3, 0), (3, 1), (4, 2)}, id="the same type"),
        pytest.param(13, {(1, 0), (2, 0), (2, 1), (4, 3), (5, 3), (5, 4)}, id="in the same sentence"),
        pytest.param(16, {(5, j) for j in range(5)}, id="is a pronoun"),
        pytest.param(17, {(i, j) for i in (3, 4) for j in range(i)}, id="begins with a determiner"),
    ],
)
def test_features_of_pairs(column, expected):
    assert pairs(column) == expected


def test_every_feature_is_a_number_up_to_one():
    values = features(*range(coreference.N_FEATURES))
    assert values.shape == (6, 6, coreference.N_FEATURES)
    assert values.dtype == np.float32
    assert values.min() == 0
    assert values.max() == 1
    never = np.flatnonzero(values.reshape(-1, coreference.N_FEATURES).max(0) == 0)
    assert never.tolist() == [15, *range(25, 29)]  # two sentences apart, and 8 mentions or more


def test_heads_are_the_words_before_a_preposition():
    document = Document.from_words([["the", "models", "of", "speech", "and", "a", "speech", "model"]])
    mentions = Mentions.of(document, [(0, 4), (5, 8)], [0, 0])
    assert mentions.head[0] == mentions.head[1]
    assert mentions.name[0] != mentions.name[1]


def test_rows_and_columns_are_parts_of_the_whole_table():
    mentions = Mentions.of(DOCUMENT, SPANS, TYPES)
    whole = pair_features(mentions, slice(0, 6), slice(0, 6))
    assert np.array_equal(pair_features(mentions, slice(2, 5), slice(1, 4)), whole[2:5, 1:4])


def test_clusters_do_not_depend_on_the_order_of_mentions_nor_on_blocks(monkeypatch):
    model, rng = scorer(), np.random.default_rng(1)
    words = [["a", "b", "c", "d", "e"]] * 12
    document = Document.from_words(words)
    spans, types = [(k, k + 1) for k in range(60)], rng.integers(0, 3, 60)
    projected = model.project(rng.normal(size=(60, 8)).astype(np.float32), types)
    clusters = model.find_clusters(document, spans, types.tolist(), projected)
    assert 1 <= len(clusters) < 30
    order = rng.permutation(60).tolist()
    assert clusters == model.find_clusters(document, [spans[k] for k in order], types[order].tolist(), projected[order])
    monkeypatch.setattr(coreference, "ROWS", 7)
    assert model.find_clusters(document, spans, types.tolist(), projected) == clusters


def test_antecedents_are_not_far_away(monkeypatch):
    monkeypatch.setattr(coreference, "MAX_ANTECEDENTS", 3)
    monkeypatch.setattr(coreference, "ROWS", 1)
    model = scorer()
    model._constant = 1e6  # every mention has an antecedent
    monkeypatch.setattr(
        model,
        "score",
        lambda mentions, projected, rows, columns: (
            -np.arange(columns.start, columns.stop, dtype=np.float32)[None] + 1e6
        ),
    )
    document = Document.from_words([["a"] * 10])
    spans = [(k, k + 1) for k in range(10)]
    (cluster,) = model.find_clusters(document, spans, [0] * 10, np.zeros((10, 2, 8), np.float32))
    assert cluster == tuple(spans)


def test_chains_of_antecedents_are_clusters():
    spans = [(k, k + 1) for k in range(6)]
    assert link_clusters(spans, [-1, 0, -1, 2, 1, -1]) == (((0, 1), (1, 2), (4, 5)), ((2, 3), (3, 4)))
    assert link_clusters([], []) == ()


@pytest.mark.parametrize("as_torch", [False, True])
def test_a_mention_has_the_mean_vector_of_its_words(as_torch):
    h = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)
    entities = np.array([[0, 0, 2, 1], [0, 4, 5, 1], [1, 1, 4, 2]])
    means = mean_vectors(torch.from_numpy(h) if as_torch else h, entities)
    assert means == pytest.approx(np.stack([h[0, :2].mean(0), h[0, 4], h[1, 1:4].mean(0)]), abs=1e-6)
    assert mean_vectors(h, entities[:0]).shape == (0, 3)


def test_weights_that_do_not_fit_are_refused(tmp_path: Path):
    path = tmp_path / "coreference.safetensors"
    weights = {name: weight.astype(np.float16) for name, weight in scorer().weights.items()}
    save_file(weights, path)
    loaded = CoreferenceScorer.load(path, **SIZES)
    assert all(np.array_equal(loaded.weights[name], weight) for name, weight in weights.items())
    for sizes in ({"n_types": 4, "n_hidden": 8}, {"n_types": 3, "n_hidden": 9}):
        with pytest.raises(UnireError, match="of another model or version of unire; train its coreference again"):
            CoreferenceScorer.load(path, **sizes)
    save_file({**weights, "score.bias": np.zeros(2, np.int64)}, path)
    with pytest.raises(UnireError, match="holds no floating-point numbers"):
        CoreferenceScorer.load(path, **SIZES)
    save_file({name: weight for name, weight in weights.items() if name != "anaphor.out"}, path)
    with pytest.raises(UnireError, match="is damaged"):
        CoreferenceScorer.load(path, **SIZES)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UnireError, match="truncated"):
        CoreferenceScorer.load(path, **SIZES)
    assert CoreferenceScorer.find(tmp_path / "nothing", **SIZES) is None
