"""Tables as arrays of any kind and tensors: read as they are, and left as they were."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from helpers.random_tables import LIVES_IN, PER, PER_LOC, Problem, blocks, decode_one, noise, one_hot
from unire.decoding import backend, decoders
from unire.decoding.decoders import DECODERS, decode
from unire.errors import UnireError

pytestmark = pytest.mark.usefixtures("decode_with_torch")


@pytest.mark.parametrize("decoder", DECODERS)
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
    says = rf"table 1 holds {name} as the probability of '{PER_LOC.names[y]}' for the words {i} and {j}; "
    with pytest.raises(UnireError, match=says):
        decode(as_array(P), [3, length], PER_LOC, decoder=decoder)


def test_an_unknown_decoder_is_refused_with_the_names_of_those_there_are() -> None:
    with pytest.raises(UnireError, match="unknown decoder 'viterbi'; give one of split, hard"):
        decode_one(one_hot([[0]]), decoder="viterbi")


@pytest.mark.parametrize(
    ("shape", "lengths"), [((1, 2, 2, 4), [2]), ((1, 2, 3, 5), [2]), ((2, 2, 2, 5), [2]), ((1, 2, 2, 5), [3])]
)
def test_tables_of_another_shape_are_refused(shape: tuple[int, ...], lengths: list[int]) -> None:
    with pytest.raises(UnireError, match=r"P has the shape \(.*\), but .* 5 labels need"):
        decode(np.zeros(shape), lengths, PER_LOC)


@pytest.mark.parametrize("decoder", DECODERS)
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


@pytest.mark.parametrize("decoder", DECODERS)
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
    monkeypatch.setattr(backend, "NUMPY_DEVICE", "cpu")
    P = torch.rand(2, 3, 3, 5)
    for tensor in (P, P.clone().requires_grad_(), P.bfloat16()):
        assert isinstance(decoders.BoundaryDecoder(tensor, np.array([3, 2]), PER_LOC).P, np.ndarray)
    assert np.shares_memory(decoders.BoundaryDecoder(P, np.array([3, 2]), PER_LOC).P, P.numpy())


class _Calls(TorchDispatchMode):
    """Counts what a GPU would be asked for, and how often the host would wait for it."""

    WAITED_FOR = (torch.ops.aten.nonzero.default, torch.ops.aten._local_scalar_dense.default)

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.asked = self.waited = 0
        for owner, name in ((backend, "to_host"), (decoders, "to_host"), (torch.Tensor, "tolist")):
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))  # they do not wait on a CPU

    def _counted(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def counted(x: Any) -> Any:
            self.waited += 1
            return function(x)

        return counted

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.asked += not op.is_view
        self.waited += op in self.WAITED_FOR
        return op(*args, **(kwargs or {}))


@pytest.mark.parametrize("lengths", [(9, 5, 1), (40, 7, 1, 90, 20), (5, 0, 30) * 50])
@pytest.mark.parametrize(("spare", "stacks"), [(None, 1), (0, None)])
def test_decoding_on_a_gpu_makes_few_calls_for_any_batch_size(
    monkeypatch: pytest.MonkeyPatch, lengths: tuple[int, ...], spare: int | None, stacks: int | None
) -> None:
    random = np.random.default_rng(3)
    problem = Problem([noise(random, n, 5) for n in lengths], PER_LOC)
    P = torch.from_numpy(problem.padded())
    if spare is not None:
        monkeypatch.setattr(backend, "MAX_PADDING_NUMBERS", spare)
    n_stacks = len(list(backend.iter_tiles(P, problem.lengths)))
    assert stacks in (n_stacks, None)
    with _Calls(monkeypatch) as calls:
        found = decode(P, problem.lengths, PER_LOC, alpha=0.5)
    assert len(found.relations)
    assert calls.asked <= 120 + 11 * n_stacks
    assert calls.waited <= 8


@pytest.mark.parametrize("as_array", [np.asarray, torch.from_numpy])
def test_finite_numbers_whose_squares_are_not_are_fine(as_array: Callable[[Any], Any]) -> None:
    P = np.full((1, 2, 2, 5), 0.2, dtype=np.float32)
    P[0, 0, 0, PER] = 1e30
    assert decode(as_array(P), [2], PER_LOC).entities.tolist() == [[0, 0, 1, PER], [0, 1, 2, PER]]
