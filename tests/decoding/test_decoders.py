"""The batched decoders against `reference.py`, `reference.py` against exhaustive search, and both against the paper."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from helpers.brute_force_decoder import boundary_margin, label_margin, search_spans
from helpers.random_tables import (
    AS_ARRAY,
    FILLERS,
    LIVES_IN,
    LOC,
    MARRIED,
    PER,
    PER_LOC,
    Problem,
    blocks,
    cell,
    chances,
    coarse,
    decode_one,
    noise,
    one_hot,
    problems,
)
from unire.decoding import backend, kernels, reference
from unire.decoding.decoders import DECODERS, BoundaryDecoder, decode
from unire.decoding.kernels import Decoded
from unire.labels import LabelSpace
from unire.tables import read_table

pytestmark = pytest.mark.usefixtures("decode_with_torch")

NEAR = 1e-6
"""Decisions nearer than this may fall either way."""


def of_table(found: Decoded, table: int) -> reference.SentenceDecoding:
    """One table's part of a batch's result, as the reference gives it."""
    rows = np.flatnonzero(found.entities[:, 0] == table)
    mine = np.isin(found.relations[:, 0], rows)
    relations = found.relations[mine] - ([rows[0], rows[0], 0] if len(rows) else 0)
    return reference.SentenceDecoding(
        [tuple(entity) for entity in found.entities[rows, 1:].tolist()],
        chances(found.entity_scores[rows]),
        [tuple(relation) for relation in relations.tolist()],
        chances(found.relation_scores[mine]),
        found.cuts[found.cuts[:, 0] == table, 1].tolist(),
    )


def assert_same(found: reference.SentenceDecoding, expected: reference.SentenceDecoding) -> None:
    assert found.cuts == expected.cuts
    assert found.entities == expected.entities
    assert found.relations == expected.relations
    assert found.entity_scores == pytest.approx(expected.entity_scores, abs=1e-5)
    assert found.relation_scores == pytest.approx(expected.relation_scores, abs=1e-5)


def as_read(P: Any) -> NDArray[np.float64]:
    """What P holds, after rounding to its precision."""
    return P.double().numpy() if isinstance(P, torch.Tensor) else P.astype(np.float64)


@pytest.mark.parametrize("kind", AS_ARRAY)
@settings(max_examples=60, deadline=None)
@given(problem=problems(noise, blocks), filler=FILLERS, alpha=st.floats(0.1, 2.0))
def test_split_agrees_with_its_reference(kind: str, problem: Problem, filler: float, alpha: float) -> None:
    P = AS_ARRAY[kind](problem.padded(filler))
    tables = [table[:n, :n] for table, n in zip(as_read(P), problem.lengths, strict=True)]
    assume(all(boundary_margin(table, problem.labels, alpha) > NEAR for table in tables))
    found = decode(P, problem.lengths, problem.labels, alpha=alpha)
    for index, table in enumerate(tables):
        assert_same(of_table(found, index), reference.decode_boundaries(table, problem.labels, alpha))


@pytest.mark.parametrize("kind", AS_ARRAY)
@settings(max_examples=40, deadline=None)
@given(problem=problems(noise, blocks), filler=FILLERS, alpha=st.floats(0.1, 8.0))
def test_likely_agrees_with_its_reference(kind: str, problem: Problem, filler: float, alpha: float) -> None:
    assume(all(n <= 5 for n in problem.lengths))
    P = AS_ARRAY[kind](problem.padded(filler))
    found = decode(P, problem.lengths, problem.labels, decoder="likely", alpha=alpha)
    for index, (table, n) in enumerate(zip(as_read(P), problem.lengths, strict=True)):
        table = table[:n, :n]
        expected = reference.decode_max_spans(table, problem.labels, alpha)
        evidence = reference.span_evidence(table, problem.labels)
        spans, margin = search_spans({span: weight - alpha for span, weight in evidence.items()}, n)
        if margin > 1e-4:
            assert expected.cuts == sorted({border for span in spans for border in span} - {0, n})
            symmetric = reference.symmetrize(table, problem.labels)
            if label_margin(symmetric, problem.labels, expected) > NEAR:
                assert_same(of_table(found, index), expected)


INTERVALS = st.dictionaries(
    st.tuples(st.integers(0, 8), st.integers(0, 8)).filter(lambda interval: interval[0] < interval[1]),
    st.integers(1, 9).map(float),
)


@given(tables=st.lists(INTERVALS, max_size=4))
def test_intervals_are_scheduled_as_in_the_reference(tables: list[dict[tuple[int, int], float]]) -> None:
    rows = [
        (table, 9 * table + start, 9 * table + end, weights[start, end])
        for table, weights in enumerate(tables)
        for start, end in sorted(weights, key=lambda interval: interval[1])
    ]
    columns = np.array(rows).reshape(-1, 4)
    table, start, end = columns[:, :3].T.astype(np.int64)
    chosen = sorted(kernels.schedule_intervals(table, start, end, columns[:, 3]))
    expected = [(i, *span) for i, weights in enumerate(tables) for span in reference.schedule_intervals(weights)]
    assert [(rows[k][0], rows[k][1] - 9 * rows[k][0], rows[k][2] - 9 * rows[k][0]) for k in chosen] == expected


@settings(max_examples=60, deadline=None)
@given(weights=INTERVALS.map(lambda all_: {span: weight for span, weight in all_.items() if span[1] <= 5}))
def test_no_choice_of_intervals_has_more_weight(weights: dict[tuple[int, int], float]) -> None:
    every = {(i, j): weights.get((i, j), -1.0) for i in range(5) for j in range(i + 1, 6)}
    best, _ = search_spans(every, 5)
    chosen = reference.schedule_intervals(weights)
    assert sum(weights[span] for span in chosen) == sum(weights[span] for span in best)
    assert all(left[1] <= right[0] for left, right in pairwise(chosen))


def test_a_square_that_is_sure_is_found_with_both_its_ends_and_one_of_little_evidence_is_not() -> None:
    P = one_hot(np.zeros((6, 6), dtype=np.int64))
    P[1:4, 1:4] = cell(none=0.2, per=0.7, loc=0.1)
    P[5, 5] = cell(none=0.45, per=0.55)
    assert decode_one(P, decoder="likely", alpha=2.0).entities.tolist() == [[0, 1, 4, PER]]
    assert decode_one(P, decoder="likely", alpha=0.1).entities.tolist() == [[0, 1, 4, PER], [0, 5, 6, PER]]
    assert decode_one(P, decoder="likely", alpha=2.0).cuts.tolist() == [[0, 1], [0, 4]]


def test_max_span_decoding_needs_enough_evidence_for_a_square() -> None:
    P = np.broadcast_to(cell(none=0.4, per=0.6), (3, 3, 5))
    assert decode_one(P, decoder="likely", alpha=3.0).entities.tolist() == [[0, 0, 3, PER]]
    assert decode_one(P, decoder="likely", alpha=4.0).entities.tolist() == []  # 9 · ln 1.5 = 3.65


def test_a_square_whose_cells_doubt_its_type_alone_is_found() -> None:
    P = one_hot(np.zeros((4, 4), dtype=np.int64))
    P[1:3, 1:3] = cell(none=0.3, per=0.4, loc=0.3)
    assert decode_one(P, decoder="likely", alpha=3.0).entities.tolist() == [[0, 1, 3, PER]]  # 4 · ln(7/3) = 3.39
    assert decode_one(P, decoder="likely", alpha=3.5).entities.tolist() == []


def test_adjacent_entities_of_one_type_are_separated_by_the_cells_between_them() -> None:
    table = np.zeros((4, 4), dtype=np.int64)
    table[:2, :2] = table[2:, 2:] = PER
    apart = decode_one(one_hot(table), decoder="likely")
    assert apart.entities.tolist() == [[0, 0, 2, PER], [0, 2, 4, PER]]
    table[:] = PER
    assert decode_one(one_hot(table), decoder="likely").entities.tolist() == [[0, 0, 4, PER]]


@pytest.mark.parametrize("kind", AS_ARRAY)
@settings(max_examples=60, deadline=None)
@given(problem=problems(noise, blocks, coarse), filler=FILLERS)
def test_hard_agrees_with_its_reference(kind: str, problem: Problem, filler: float) -> None:
    P = AS_ARRAY[kind](problem.padded(filler))
    tables = [table[:n, :n] for table, n in zip(as_read(P), problem.lengths, strict=True)]
    for table in tables:
        best = np.sort(reference.symmetrize(table, problem.labels), axis=2)
        gaps = best[..., -1] - best[..., -2]
        assume(((gaps == 0) | (gaps > NEAR)).all())
    found = decode(P, problem.lengths, problem.labels, decoder="hard")
    for index, table in enumerate(tables):
        assert_same(of_table(found, index), reference.decode_hard(table, problem.labels))


@pytest.mark.parametrize("decoder", DECODERS)
@settings(max_examples=60, deadline=None)
@given(problem=problems(noise, blocks), filler=FILLERS, extra=st.integers(0, 3))
def test_padding_and_neighbours_never_leak(decoder: str, problem: Problem, filler: float, extra: int) -> None:
    found = decode(problem.padded(filler, extra), problem.lengths, problem.labels, decoder=decoder)
    for index, table in enumerate(problem.tables):
        assert_same(of_table(found, index), of_table(decode_one(table, problem.labels, decoder=decoder), 0))


@pytest.mark.parametrize("decoder", DECODERS)
@given(problem=problems(blocks))
def test_results_are_sorted_and_on_the_host(decoder: str, problem: Problem) -> None:
    found = decode(torch.from_numpy(problem.padded()), problem.lengths, problem.labels, decoder=decoder)
    for rows, columns in ((found.entities, 2), (found.relations, 2), (found.cuts, 2)):
        keys = rows[:, :columns].tolist()
        assert keys == sorted(keys)
        assert rows.dtype == np.int64
    assert found.entity_scores.dtype == found.relation_scores.dtype == np.float64


@given(problem=problems(noise, blocks), seed=st.integers(0, 9))
def test_a_batch_in_small_stacks_is_the_same_batch(problem: Problem, seed: int) -> None:
    P, alphas = problem.padded(), np.random.default_rng(seed).uniform(0.1, 2, size=3)
    whole = BoundaryDecoder(P, problem.lengths, problem.labels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "TILE_NUMBERS", 1)
        apart = BoundaryDecoder(P, problem.lengths, problem.labels)
    np.testing.assert_allclose(apart.distances, whole.distances, rtol=1e-12)
    for alpha in alphas:
        once = whole.decode(alpha)
        again = decode(P, problem.lengths, problem.labels, alpha=alpha)
        np.testing.assert_array_equal(once.entities, again.entities)
        np.testing.assert_array_equal(once.relations, again.relations)


def test_a_large_batch_on_a_gpu_in_more_stacks_is_the_same_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    problem = Problem([noise(rng, n, 5) for n in (40, 16, 31, 3, 20, 1)], PER_LOC)
    P = AS_ARRAY["torch float64"](problem.padded())
    whole = BoundaryDecoder(P, problem.lengths, PER_LOC).distances
    for spare, widths in ((5 * 5000, [40]), (5 * 600, [40, 31, 16]), (0, [40, 31, 20, 16])):
        monkeypatch.setattr(backend, "MAX_PADDING_NUMBERS", spare)
        assert [tables.shape[1] for _, tables, _ in backend.iter_tiles(P, problem.lengths)] == widths
        np.testing.assert_allclose(BoundaryDecoder(P, problem.lengths, PER_LOC).distances, whole, rtol=1e-12)


@pytest.mark.parametrize("as_array", [AS_ARRAY["numpy float32"], AS_ARRAY["torch float32"]])
def test_distances_are_the_references_and_nan_beyond_the_last_word(as_array: Callable[[Any], Any]) -> None:
    rng = np.random.default_rng(1)
    problem = Problem([noise(rng, n, 5) for n in (6, 1, 3)], PER_LOC)
    distances = BoundaryDecoder(as_array(problem.padded()), problem.lengths, PER_LOC).distances
    assert distances.shape == (3, 5)
    for row, table in zip(distances, problem.tables, strict=True):
        expected = reference.boundary_distances(reference.symmetrize(table, PER_LOC))
        np.testing.assert_allclose(row[: len(expected)], expected, rtol=1e-6)
        assert np.isnan(row[len(expected) :]).all()


@st.composite
def gold_tables(draw: st.DrawFn) -> NDArray[np.int64]:
    """Label tables of separate entities and of relations between them."""
    n = draw(st.integers(1, 9))
    table = np.zeros((n, n), dtype=np.int64)
    entities: list[slice] = []
    start = draw(st.integers(0, 2))
    while start < n:
        entities.append(slice(start, min(n, start + draw(st.integers(1, 3)))))
        table[entities[-1], entities[-1]] = draw(st.sampled_from([PER, LOC]))
        start = entities[-1].stop + draw(st.integers(0, 2))
    for head in entities:
        for tail in entities:
            label = draw(st.sampled_from([0, 0, LIVES_IN, MARRIED]))
            if head != tail and label and not table[head, tail].any() and not table[tail, head].any():
                table[head, tail] = label
                if label == MARRIED:
                    table[tail, head] = label
    return table


@given(gold_tables())
def test_split_reads_gold_tables_without_loss(table: NDArray[np.int64]) -> None:
    found = of_table(decode_one(one_hot(table)), 0)
    assert (found.entities, found.relations) == read_table(table, PER_LOC)
    assert set(found.entity_scores + found.relation_scores) <= {1.0}


def test_a_one_word_entity_without_relations_is_cut_at_sqrt_two() -> None:
    P = one_hot([[0, 0, 0], [0, PER, 0], [0, 0, 0]])
    assert BoundaryDecoder(P[None], np.array([3]), PER_LOC).distances[0] == pytest.approx([math.sqrt(2)] * 2)
    assert decode_one(P, alpha=1.4).cuts.tolist() == [[0, 1], [0, 2]]
    assert decode_one(P, alpha=1.42).cuts.tolist() == []


def test_an_entity_wins_a_tie_against_none_and_the_first_of_tied_types_wins() -> None:
    tied_with_none = decode_one(cell(none=0.4, per=0.2, loc=0.4)[None, None])
    assert tied_with_none.entities.tolist() == [[0, 0, 1, LOC]]
    assert chances(tied_with_none.entity_scores) == pytest.approx([0.4])
    tied_types = decode_one(cell(none=0.2, per=0.4, loc=0.4)[None, None])
    assert tied_types.entities.tolist() == [[0, 0, 1, PER]]
    assert len(decode_one(cell(none=0.41, per=0.2, loc=0.39)[None, None]).entities) == 0


def test_a_relation_wins_a_tie_against_none() -> None:
    P = one_hot([[PER, 0], [0, LOC]])
    P[0, 1] = cell(none=0.5, lives_in=0.5)
    found = decode_one(P)
    assert found.relations.tolist() == [[0, 1, LIVES_IN]]
    assert chances(found.relation_scores) == pytest.approx([0.5])


def test_a_symmetric_relation_may_be_found_one_way_only() -> None:
    P = one_hot([[PER, 0], [0, PER]])
    P[0, 1] = cell(none=0.3, married=0.7)
    P[1, 0] = cell(none=0.7, married=0.3)  # Married is 0.5 both ways after symmetrising, but ⊥ is not touched
    assert decode_one(P).relations.tolist() == [[0, 1, MARRIED]]
    assert chances(decode_one(P).relation_scores) == pytest.approx([0.5])
    P[0, 1], P[1, 0] = cell(none=0.3, lives_in=0.7), cell(none=0.7, lives_in=0.3)
    assert chances(decode_one(P).relation_scores) == pytest.approx([0.7])


def test_a_score_is_the_mean_probability_of_the_square_or_rectangle() -> None:
    P = one_hot([[PER, PER, 0], [PER, PER, 0], [0, 0, LOC]])
    P[0, 0], P[1, 1] = cell(none=0.2, per=0.8), cell(none=0.4, per=0.6)
    P[0, 2], P[1, 2] = cell(none=0.1, lives_in=0.9), cell(none=0.4, lives_in=0.6)
    found = decode_one(P, alpha=1.0)
    assert found.entities.tolist() == [[0, 0, 2, PER], [0, 2, 3, LOC]]
    assert chances(found.entity_scores) == pytest.approx([0.85, 1.0])
    assert found.relations.tolist() == [[0, 1, LIVES_IN]]
    assert chances(found.relation_scores) == pytest.approx([0.75])


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    odds = np.exp(logits - logits.max(-1, keepdims=True))
    return odds / odds.sum(-1, keepdims=True)


SURE = st.lists(st.integers(1, 320), min_size=2, max_size=8, unique=True).map(lambda quarters: np.array(quarters) / 4)
"""Logits from ¼ to 80: most of their probabilities are 1 in float32, and in float64 half of them."""


@pytest.mark.parametrize("kind", ["numpy float32", "torch float32"])
@given(logits=SURE)
def test_scores_of_entities_are_ordered_as_their_logits_and_never_tied(kind: str, logits: NDArray[np.float64]) -> None:
    P = softmax(logits[:, None, None, None] * np.eye(len(PER_LOC))[PER])
    found = decode(AS_ARRAY[kind](P), [1] * len(logits), PER_LOC)
    assert (found.entities[:, 3] == PER).all()
    assert found.entity_scores == pytest.approx(logits - math.log(len(PER_LOC) - 1), rel=1e-5, abs=1e-5)
    assert (np.argsort(found.entity_scores) == np.argsort(logits)).all()


@pytest.mark.parametrize("kind", ["numpy float32", "torch float32"])
@pytest.mark.parametrize("label", [LIVES_IN, MARRIED])
@given(logits=SURE)
def test_scores_of_relations_are_ordered_as_their_logits_and_never_tied(
    kind: str, label: int, logits: NDArray[np.float64]
) -> None:
    Y = len(PER_LOC)
    tables = np.tile(one_hot([[PER, 0], [0, PER]]), (len(logits), 1, 1, 1))
    tables[:, 0, 1] = softmax(logits[:, None] * np.eye(Y)[label])
    if label == MARRIED:
        tables[:, 1, 0] = tables[:, 0, 1]
    found = decode(AS_ARRAY[kind](tables), [2] * len(logits), PER_LOC, alpha=0.1)
    one_way = found.relations[:, 0] < found.relations[:, 1]
    assert (found.relations[:, 2] == label).all()
    assert (np.argsort(found.relation_scores[one_way]) == np.argsort(logits)).all()
    if label == MARRIED:  # both directions are one relation
        assert found.relation_scores[one_way] == pytest.approx(found.relation_scores[~one_way])


def test_hard_decoding_gives_ties_to_the_entity_and_to_the_first_type() -> None:
    half = decode_one(one_hot([[PER, PER], [0, 0]]), decoder="hard")
    assert half.entities.tolist() == [[0, 0, 2, PER]]
    assert chances(half.entity_scores) == pytest.approx([0.5])
    one_each = decode_one(one_hot([[LOC, MARRIED], [MARRIED, PER]]), decoder="hard")
    assert one_each.entities.tolist() == [[0, 0, 2, PER]]
    assert chances(one_each.entity_scores) == pytest.approx([0.25])


def test_hard_decoding_finds_no_entity_where_no_cell_says_so() -> None:
    assert len(decode_one(one_hot([[LIVES_IN, LIVES_IN], [LIVES_IN, LIVES_IN]]), decoder="hard").entities) == 0


def test_hard_decoding_prefers_the_largest_square_even_beyond_the_entity() -> None:
    table = np.zeros((5, 5), dtype=np.int64)
    table[1:4, 1:4] = PER  # 9 cells of 16 in the squares one word longer
    assert decode_one(one_hot(table), decoder="hard").entities.tolist() == [[0, 0, 4, PER]]
    assert decode_one(one_hot(table)).entities.tolist() == [[0, 1, 4, PER]]


def test_hard_decoding_knows_no_limit_of_ten_words_and_cuts_at_the_borders_of_entities() -> None:
    table = np.zeros((26, 26), dtype=np.int64)
    table[:12, :12] = PER  # 144 cells: half of 16² and more, less than half of 17²
    found = decode_one(one_hot(table), decoder="hard")
    assert found.entities.tolist() == [[0, 0, 16, PER]]
    assert found.cuts.tolist() == [[0, 16]]


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("as_array", [np.asarray, torch.from_numpy])
@pytest.mark.parametrize("labels", [LabelSpace(("Per",)), LabelSpace((), ("Likes",)), PER_LOC])
@pytest.mark.parametrize("lengths", [[], [0], [1], [0, 1, 0], [2, 0]])
def test_tables_of_no_or_one_word_and_empty_batches_are_fine(
    decoder: str, as_array: Callable[[Any], Any], labels: LabelSpace, lengths: list[int]
) -> None:
    N = max(lengths, default=0)
    P = np.full((len(lengths), N, N, len(labels)), 1 / len(labels), dtype=np.float32)
    found = decode(as_array(P), lengths, labels, decoder=decoder)
    expected = [n for n in lengths if n] if labels.entity_types and decoder == "split" else []
    assert (found.entities[:, 2] - found.entities[:, 1]).tolist() == expected
    assert found.entities.shape[1:] == (4,)
    assert found.relations.shape == (0, 3)
    assert found.cuts.shape == (0, 2)
