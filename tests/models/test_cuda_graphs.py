"""Capturing a computation as a CUDA graph: what is captured when, on a stand-in for the GPU."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch

from unire.models.cuda_graphs import GraphRunner


class Graph:
    """A stand-in for a CUDA graph: replays by computing again, on the tensors that it was captured with."""

    def replay(self):
        self.again()

    def pool(self):
        return (0, 1)


@pytest.fixture
def calls(monkeypatch):
    """What was computed, and how."""
    happened = []

    @contextmanager
    def capture(graph, pool, capture_error_mode):
        happened.append("captured")
        yield

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    return happened


def runner(happened, *, capture=True):
    def add(tensors):
        happened.append(tuple(tensors["x"].shape))
        return tensors["x"].sum().expand(len(tensors["x"]))

    made = GraphRunner(add, torch.device("cpu"), capture=capture)

    def again(graph):
        (captured,) = [one for one in made._graphs.values() if one.graph is graph]
        captured.output.copy_(captured.inputs["x"].sum())

    Graph.again = again
    return made


def test_a_shape_is_captured_when_it_is_met_again_and_then_replayed_with_new_values(calls):
    gradients = runner(calls)
    results = [gradients({"x": torch.full((2,), float(k))}).tolist() for k in range(4)]
    assert results == [[0, 0], [2, 2], [4, 4], [6, 6]]
    assert calls == [(2,), "captured", (2,)]  # called, then captured, then replayed without a call
    gradients({"x": torch.ones(3)})
    assert calls[-1] == (3,)


def test_captures_of_all_shapes_lie_in_the_same_place_and_each_is_right(calls):
    gradients = runner(calls)
    sizes = [4, 2, 3, 6, 5, 8]
    for size in sizes:
        for value in range(3):
            result = gradients({"x": torch.full((size,), float(value))})
            assert result.tolist() == [size * value] * size
    for size in reversed(sizes):
        assert gradients({"x": torch.ones(size)}).tolist() == [size] * size
    captures = gradients._graphs.values()
    for kind in ([one.inputs["x"] for one in captures], [one.output for one in captures]):
        places = [tensor.untyped_storage().data_ptr() for tensor in kind]
        # buffers grow by more than needed: 6 lies where 8 would
        assert [places.index(place) for place in places] == [0, 0, 0, 3, 3, 3]


def test_without_capture_steps_run_eagerly(calls):
    gradients = runner(calls, capture=False)
    assert [gradients({"x": torch.ones(2)}).tolist() for _ in range(3)] == [[2, 2]] * 3
    assert calls == [(2,)] * 3


def test_a_step_that_cannot_be_captured_runs_eagerly_from_then_on(calls, failing_graph_capture, caplog):
    gradients = runner(calls)
    assert [gradients({"x": torch.ones(2)}).tolist() for _ in range(3)] == [[2, 2]] * 3
    assert not gradients.captures
    assert "cannot be captured" in caplog.text


def test_after_a_failed_capture_no_graph_is_replayed(calls, monkeypatch, request):
    gradients = runner(calls)
    beside = GraphRunner(gradients.function, gradients.device, capture=True, parent=gradients)
    monkeypatch.setattr(Graph, "again", lambda graph: calls.append("replayed"))
    for one in (gradients, beside):
        for _ in range(3):
            one({"x": torch.ones(2)})
    assert calls == [(2,), "captured", (2,), "replayed", "replayed"] * 2
    request.getfixturevalue("failing_graph_capture")
    for _ in range(2):
        gradients({"x": torch.ones(3)})
    del calls[:]
    for one in (gradients, beside):  # the gradients that these captures add to may be gone
        one({"x": torch.ones(2)})
    assert calls == [(2,), (2,)]


def test_a_failed_capture_stops_child_runners_but_not_the_parent(failing_graph_capture):
    student = runner([])
    teacher, other = (GraphRunner(student.function, student.device, capture=True, parent=student) for _ in range(2))
    for one, still in ((teacher, [True, False, True]), (student, [False, False, False])):
        for _ in range(2):
            one({"x": torch.ones(2)})
        assert [made.captures for made in (student, teacher, other)] == still


def test_child_runners_capture_into_the_pool_of_the_parent(calls, monkeypatch):
    pools = []

    @contextmanager
    def capture(graph, pool, capture_error_mode):
        pools.append(pool)
        yield

    monkeypatch.setattr(torch.cuda, "graph", capture)
    monkeypatch.setattr(Graph, "again", lambda graph: None, raising=False)

    def twice(**options):
        made = GraphRunner(lambda tensors: tensors["x"].sum(), torch.device("cpu"), capture=True, **options)
        for _ in range(2):
            made({"x": torch.ones(2)})
        return made

    first = twice()
    twice(parent=first)
    twice()
    assert pools == [None, Graph().pool(), None]
