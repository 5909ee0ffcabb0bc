"""Recording a computation as a CUDA graph: what is recorded when, on a stand-in for the GPU."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch

from unire.modeling.recording import Recorder


class Graph:
    """A stand-in for a CUDA graph: replays by computing again, on the tensors that it was recorded with."""

    def replay(self):
        self.again()

    def pool(self):
        return (0, 1)


@pytest.fixture
def calls(monkeypatch):
    """What was computed, and how."""
    happened = []

    @contextmanager
    def record(graph, pool, capture_error_mode):
        happened.append("recorded")
        yield

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", record)
    return happened


def recorder(happened, *, record=True):
    total = torch.zeros(1)

    def add(tensors):
        happened.append(tuple(tensors["x"].shape))
        return total.copy_(tensors["x"].sum())

    made = Recorder(add, torch.device("cpu"), record=record)
    Graph.again = lambda graph: total.copy_(made._recordings[("x", torch.Size([2])),].inputs["x"].sum())
    return made


def test_a_shape_is_recorded_when_it_is_met_again_and_then_replayed_with_new_values(calls):
    gradients = recorder(calls)
    results = [gradients({"x": torch.full((2,), float(k))}).item() for k in range(4)]
    assert results == [0, 2, 4, 6]
    assert calls == [(2,), "recorded", (2,)]  # called, then recorded, then replayed without a call
    gradients({"x": torch.ones(3)})
    assert calls[-1] == (3,)


def test_nothing_is_recorded_unless_asked_for(calls):
    gradients = recorder(calls, record=False)
    assert [gradients({"x": torch.ones(2)}).item() for _ in range(3)] == [2, 2, 2]
    assert calls == [(2,)] * 3


def test_what_cannot_be_recorded_is_computed_step_by_step_from_then_on(calls, monkeypatch, caplog):
    @contextmanager
    def refuse(graph, pool, capture_error_mode):
        raise RuntimeError("operation not permitted when stream is capturing")
        yield

    monkeypatch.setattr(torch.cuda, "graph", refuse)
    gradients = recorder(calls)
    assert [gradients({"x": torch.ones(2)}).item() for _ in range(3)] == [2, 2, 2]
    assert not gradients.records
    assert "cannot be recorded" in caplog.text


def test_recorders_of_one_memory_record_into_it(calls, monkeypatch):
    pools = []

    @contextmanager
    def record(graph, pool, capture_error_mode):
        pools.append(pool)
        yield

    monkeypatch.setattr(torch.cuda, "graph", record)
    monkeypatch.setattr(Graph, "again", lambda graph: None, raising=False)

    def twice(**options):
        made = Recorder(lambda tensors: tensors["x"].sum(), torch.device("cpu"), record=True, **options)
        for _ in range(2):
            made({"x": torch.ones(2)})
        return made

    first = twice()
    twice(memory=first.memory)
    twice()
    assert pools == [None, Graph().pool(), None]
