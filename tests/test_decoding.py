"""The decoders, against their plain references and against what the paper says of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import reference_decoder as reference
from unire.decoding import Decoded, arrays, decode, split
from unire.exceptions import UnireError
from unire.labels import LabelSpace
from unire.tables import read

NEAR = 1e-6
"""Decisions nearer than this may fall either way."""

PER_LOC = LabelSpace(("Per", "Loc"), ("Lives-in", "Married"), frozenset({"Married"}))
PER, LOC, LIVES_IN, MARRIED = 1, 2, 3, 4

AS_ARRAY: dict[str, Callable[[NDArray[np.float64]], Any]] = {
    "numpy float64": lambda P: P,
    "numpy float32": lambda P: P.astype(np.float32),
    "numpy float16": lambda P: np.clip(P, -6e4, 6e4).astype(np.float16),
    "torch float64": torch.from_numpy,
    "torch float32": lambda P: torch.from_numpy(P).float(),
    "torch float16": lambda P: torch.from_numpy(P).half(),
    "torch bfloat16": lambda P: torch.from_numpy(P).bfloat16(),
}


@pytest.fixture(scope="module", autouse=True)
def tensors_as_on_a_gpu() -> Iterator[None]:
    """Leave tensors to torch, though they lie on the CPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "AS_NUMPY", None)
        yield


@dataclass(frozen=True)
class Problem:
    tables: list[NDArray[np.float64]]
    labels: LabelSpace

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.array([len(table) for table in self.tables], dtype=np.int64)

    def padded(self, filler: float = 0.0, extra: int = 0) -> NDArray[np.float64]:
        N = self.lengths.max(initial=0) + extra
        P = np.full((len(self.tables), N, N, len(self.labels)), filler)
        for padded, table in zip(P, self.tables, strict=True):
            padded[: len(table), : len(table)] = table
        return P


def noise(rng: np.random.Generator, n: int, Y: int) -> NDArray[np.float64]:
    return rng.dirichlet(np.full(Y, 0.3), size=(n, n))


def blocks(rng: np.random.Generator, n: int, Y: int) -> NDArray[np.float64]:
    """A table of squares and rectangles of random labels, with some noise."""
    span = rng.random(n).round().astype(int).cumsum()
    gold = rng.integers(Y, size=(n + 1, n + 1))[span][:, span]
    return 0.8 * np.eye(Y)[gold] + 0.2 * noise(rng, n, Y)


def coarse(rng: np.random.Generator, n: int, Y: int) -> NDArray[np.float64]:
    """A table full of ties."""
    return rng.multinomial(4, np.full(Y, 1 / Y), size=(n, n)) / 4


@st.composite
def problems(draw: st.DrawFn, *kinds: Callable[[np.random.Generator, int, int], NDArray[np.float64]]) -> Problem:
    names = [f"R{i}" for i in range(draw(st.integers(0, 3)))]
    symmetric = draw(st.sets(st.sampled_from(names))) if names else ()
    labels = LabelSpace(tuple(f"E{i}" for i in range(draw(st.integers(1, 3)))), tuple(names), frozenset(symmetric))
    fill = draw(st.sampled_from(kinds))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return Problem([fill(rng, n, len(labels)) for n in draw(st.lists(st.integers(0, 7), max_size=4))], labels)


FILLERS = st.sampled_from([0.0, 0.5, -3.0, 1e30, math.nan, math.inf, -math.inf])


def one_hot(table: list[list[int]] | NDArray[np.int64], labels: LabelSpace = PER_LOC) -> NDArray[np.float64]:
    return np.eye(len(labels))[np.array(table)]


def decode_one(P: NDArray[np.float64], labels: LabelSpace = PER_LOC, **options: Any) -> Decoded:
    return decode(P[None], [len(P)], labels, **options)


def chances(log_odds: NDArray[np.float64]) -> list[float]:
    return [1 / (1 + math.exp(-x)) for x in log_odds]


def of_table(found: Decoded, table: int) -> reference.Reference:
    """One table's part of a batch's result, as the reference gives it."""
    rows = np.flatnonzero(found.entities[:, 0] == table)
    mine = np.isin(found.relations[:, 0], rows)
    relations = found.relations[mine] - ([rows[0], rows[0], 0] if len(rows) else 0)
    return reference.Reference(
        [tuple(entity) for entity in found.entities[rows, 1:].tolist()],
        chances(found.entity_scores[rows]),
        [tuple(relation) for relation in relations.tolist()],
        chances(found.relation_scores[mine]),
        found.cuts[found.cuts[:, 0] == table, 1].tolist(),
    )


def assert_same(found: reference.Reference, expected: reference.Reference) -> None:
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
    assume(all(reference.margin(table, problem.labels, alpha) > NEAR for table in tables))
    found = decode(P, problem.lengths, problem.labels, alpha=alpha)
    for index, table in enumerate(tables):
        assert_same(of_table(found, index), reference.split(table, problem.labels, alpha))


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
        assert_same(of_table(found, index), reference.hard(table, problem.labels))


@pytest.mark.parametrize("decoder", ["split", "hard"])
@settings(max_examples=60, deadline=None)
@given(problem=problems(noise, blocks), filler=FILLERS, extra=st.integers(0, 3))
def test_padding_and_neighbours_never_leak(decoder: str, problem: Problem, filler: float, extra: int) -> None:
    found = decode(problem.padded(filler, extra), problem.lengths, problem.labels, decoder=decoder)
    for index, table in enumerate(problem.tables):
        assert_same(of_table(found, index), of_table(decode_one(table, problem.labels, decoder=decoder), 0))


@pytest.mark.parametrize("decoder", ["split", "hard"])
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
    whole = split.prepare(P, problem.lengths, problem.labels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "STACK", 1)
        apart = split.prepare(P, problem.lengths, problem.labels)
    np.testing.assert_allclose(apart.distances, whole.distances, rtol=1e-12)
    for alpha in alphas:
        once = split.decode_prepared(whole, alpha)
        again = decode(P, problem.lengths, problem.labels, alpha=alpha)
        np.testing.assert_array_equal(once.entities, again.entities)
        np.testing.assert_array_equal(once.relations, again.relations)


@pytest.mark.parametrize("as_array", [AS_ARRAY["numpy float32"], AS_ARRAY["torch float32"]])
def test_distances_are_the_references_and_nan_beyond_the_last_word(as_array: Callable[[Any], Any]) -> None:
    rng = np.random.default_rng(1)
    problem = Problem([noise(rng, n, 5) for n in (6, 1, 3)], PER_LOC)
    distances = split.prepare(as_array(problem.padded()), problem.lengths, PER_LOC).distances
    assert distances.shape == (3, 5)
    for row, table in zip(distances, problem.tables, strict=True):
        expected = reference.distances(reference.symmetrize(table, PER_LOC))
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
    assert (found.entities, found.relations) == read(table, PER_LOC)
    assert set(found.entity_scores + found.relation_scores) <= {1.0}


def test_a_one_word_entity_without_relations_is_cut_at_sqrt_two() -> None:
    P = one_hot([[0, 0, 0], [0, PER, 0], [0, 0, 0]])
    assert split.prepare(P[None], np.array([3]), PER_LOC).distances[0] == pytest.approx([math.sqrt(2)] * 2)
    assert decode_one(P, alpha=1.4).cuts.tolist() == [[0, 1], [0, 2]]
    assert decode_one(P, alpha=1.42).cuts.tolist() == []


def cell(**probabilities: float) -> NDArray[np.float64]:
    """Probabilities of one cell, by name."""
    return np.array([probabilities.get(name, 0.0) for name in ("none", "per", "loc", "lives_in", "married")])


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
    if label == MARRIED:  # both ways are one finding
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


@pytest.mark.parametrize("decoder", ["split", "hard"])
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


@pytest.mark.parametrize("decoder", ["split", "hard"])
@pytest.mark.parametrize("as_array", [np.asarray, torch.from_numpy])
@pytest.mark.parametrize(("value", "name"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")])
@pytest.mark.parametrize(("length", "place"), [(3, (1, 2, LIVES_IN)), (3, (2, 2, PER)), (1, (0, 0, 0))])
def test_a_cell_that_is_not_finite_is_refused_with_its_place(
    decoder: str,
    as_array: Callable[[Any], Any],
    value: float,
    name: str,
    length: int,
    place: tuple[int, int, int],
) -> None:
    P = np.full((2, 4, 4, 5), 0.2)
    P[0, 3] = math.nan  # padding
    P[(1, *place)] = value
    i, j, y = place
    says = rf"table 1 holds {name} as the probability of '{PER_LOC.names[y]}' for the words {i} and {j}: "
    with pytest.raises(UnireError, match=says):
        decode(as_array(P), [3, length], PER_LOC, decoder=decoder)


def test_an_unknown_decoder_is_refused_with_the_names_of_those_there_are() -> None:
    with pytest.raises(UnireError, match="no decoder 'viterbi': there are split, hard"):
        decode_one(one_hot([[0]]), decoder="viterbi")


@pytest.mark.parametrize(
    ("shape", "lengths"), [((1, 2, 2, 4), [2]), ((1, 2, 3, 5), [2]), ((2, 2, 2, 5), [2]), ((1, 2, 2, 5), [3])]
)
def test_tables_of_another_shape_are_refused(shape: tuple[int, ...], lengths: list[int]) -> None:
    with pytest.raises(UnireError, match=r"P has the shape \(.*\), but .* 5 labels need"):
        decode(np.zeros(shape), lengths, PER_LOC)


@pytest.mark.parametrize("decoder", ["split", "hard"])
@pytest.mark.parametrize("filler", [0.0, math.nan])
def test_p_is_left_as_it_was_and_may_lie_in_any_order(decoder: str, filler: float) -> None:
    problem = Problem([blocks(np.random.default_rng(n), n, 5) for n in (6, 4)], PER_LOC)
    P = problem.padded(filler)
    labels_first = np.ascontiguousarray(P.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)
    found = [
        decode(x, problem.lengths, PER_LOC, decoder=decoder)
        for x in (P, labels_first, torch.from_numpy(P), torch.from_numpy(labels_first))
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other.entities, found[0].entities)
        np.testing.assert_array_equal(other.relations, found[0].relations)
    np.testing.assert_array_equal(P, problem.padded(filler))


@pytest.mark.parametrize("decoder", ["split", "hard"])
def test_tensors_with_gradients_or_of_inference_mode_and_autocast_are_fine(decoder: str) -> None:
    problem = Problem([noise(np.random.default_rng(3), 7, 5)], PER_LOC)
    P = torch.from_numpy(problem.padded(math.nan, extra=2)).float()
    plain = decode(P, problem.lengths, PER_LOC, decoder=decoder, alpha=0.9)
    assert len(plain.entities)
    with torch.inference_mode():
        inferred = P + 0
    with torch.autocast("cpu", torch.bfloat16):
        for x in (P, P.clone().requires_grad_(), inferred):
            found = decode(x, problem.lengths, PER_LOC, decoder=decoder, alpha=0.9)
            np.testing.assert_array_equal(found.entity_scores, plain.entity_scores)
            np.testing.assert_array_equal(found.relation_scores, plain.relation_scores)


def test_a_tensor_on_the_cpu_is_read_as_a_numpy_array_that_shares_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "AS_NUMPY", "cpu")
    P = torch.rand(2, 3, 3, 5)
    for tensor in (P, P.clone().requires_grad_(), P.bfloat16()):
        assert isinstance(split.prepare(tensor, np.array([3, 2]), PER_LOC).P, np.ndarray)
    assert np.shares_memory(split.prepare(P, np.array([3, 2]), PER_LOC).P, P.numpy())


def test_a_gpu_is_asked_for_what_is_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    problem = Problem([noise(random, n, 5) for n in (40, 7, 1, 90, 20)], PER_LOC)
    asked = []
    to_host = arrays.to_host
    for room in (arrays, split):
        monkeypatch.setattr(room, "to_host", lambda x: asked.append(x) or to_host(x))
    prepared = split.prepare(torch.from_numpy(problem.padded()), problem.lengths, PER_LOC)
    split.decode_prepared(prepared)
    assert len(asked) == 2, "for places and labels, and for scores"
    np.testing.assert_allclose(
        prepared.distances, split.prepare(problem.padded(), problem.lengths, PER_LOC).distances, rtol=1e-9
    )


@pytest.mark.parametrize("as_array", [np.asarray, torch.from_numpy])
def test_finite_numbers_whose_squares_are_not_are_fine(as_array: Callable[[Any], Any]) -> None:
    P = np.full((1, 2, 2, 5), 0.2, dtype=np.float32)
    P[0, 0, 0, PER] = 1e30
    assert decode(as_array(P), [2], PER_LOC).entities.tolist() == [[0, 0, 1, PER], [0, 1, 2, PER]]


# Type constraints

Permits = NDArray[np.bool_]


@st.composite
def constrained(draw: st.DrawFn) -> tuple[Problem, Permits]:
    problem = draw(problems(noise, blocks, coarse))
    labels = problem.labels
    every = [(h, r, t) for h in labels.entity_types for r in labels.relation_types for t in labels.entity_types]
    return problem, labels.permits(draw(st.sets(st.sampled_from(every))) if every else ())


def facts(found: Decoded) -> list[tuple[int, ...]]:
    """Head type, tail type and relation type of everything that was found."""
    head, tail, label = found.relations.T
    return list(zip(found.entities[head, 3].tolist(), found.entities[tail, 3].tolist(), label.tolist(), strict=True))


@pytest.mark.parametrize("decoder", ["split", "hard"])
@pytest.mark.parametrize("kind", ["numpy float32", "torch float32", "torch bfloat16"])
@settings(max_examples=60, deadline=None)
@given(drawn=constrained())
def test_what_is_forbidden_is_never_found_and_all_else_is_as_it_was(
    kind: str, decoder: str, drawn: tuple[Problem, Permits]
) -> None:
    problem, permits = drawn
    P = AS_ARRAY[kind](problem.padded())
    free, bound = (
        decode(P, problem.lengths, problem.labels, decoder=decoder, alpha=0.6, permits=rule) for rule in (None, permits)
    )
    assert all(permits[fact] for fact in facts(bound))
    assert (bound.entities == free.entities).all()
    assert (bound.entity_scores == free.entity_scores).all()
    assert (bound.cuts == free.cuts).all()
    found, again = (
        dict(zip(map(tuple, result.relations.tolist()), result.relation_scores, strict=True))
        for result in (free, bound)
    )
    for (relation, score), fact in zip(found.items(), facts(free), strict=True):
        if permits[fact]:
            assert again[relation] == score
    taken = {relation[:2] for relation in found}
    assert all(relation[:2] in taken for relation in again)  # what was ⊥ stays ⊥


@pytest.mark.parametrize("as_array", [np.asarray, torch.from_numpy])
@pytest.mark.parametrize("decoder", ["split", "hard"])
def test_the_next_best_relation_that_may_be_wins_or_none(decoder: str, as_array: Callable[[Any], Any]) -> None:
    table = np.zeros((5, 5), np.int64)
    table[:3, :3], table[4, 4], table[:3, 4] = PER, LOC, [LIVES_IN, LIVES_IN, MARRIED]
    tables = as_array(one_hot(table)[None])

    def found(*signatures: tuple[str, str, str]) -> list[int]:
        permits = PER_LOC.permits(signatures)
        return decode(tables, [5], PER_LOC, decoder=decoder, alpha=1.2, permits=permits).relations[:, 2].tolist()

    assert found() == [LIVES_IN]
    assert found(("Per", "Lives-in", "Loc")) == [LIVES_IN]
    assert found(("Loc", "Lives-in", "Per")) == [MARRIED]
    assert found(("Loc", "Lives-in", "Per"), ("Per", "Married", "Per")) == []


def test_a_relation_that_may_not_be_loses_even_against_nothing() -> None:
    """Where two halves of one entity were cut apart, neither ⊥ nor a relation has any probability between them."""
    P = one_hot([[PER, 0, PER], [0, 0, 0], [LOC, 0, LOC]])
    assert len(decode_one(P, alpha=0.5).relations) == 2
    permits = PER_LOC.permits([("Loc", "Lives-in", "Loc"), ("Loc", "Married", "Loc")])
    assert len(decode_one(P, alpha=0.5, permits=permits).relations) == 0


def test_symmetric_relations_may_go_both_ways_and_those_not_named_anywhere() -> None:
    permits = PER_LOC.permits([("Per", "Married", "Loc")])
    assert permits[PER, LOC, MARRIED]
    assert permits[LOC, PER, MARRIED]
    assert not permits[PER, PER, MARRIED]
    assert permits[..., LIVES_IN].all()
    assert permits[..., LabelSpace.NONE].all()
    one_way = PER_LOC.permits([("Per", "Lives-in", "Loc")])
    assert one_way[PER, LOC, LIVES_IN]
    assert not one_way[LOC, PER, LIVES_IN]
    assert PER_LOC.permits(()).all()
