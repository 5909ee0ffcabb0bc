"""How time is taken: rounds that are long enough, of the same documents repeated."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from unire.documents import Document
from unire.extractor import Extractor
from unire.models.unire import UniRE
from unire.studies import profiling
from unire.studies.profiling import (
    StageSeconds,
    TimedRun,
    describe_repeats,
    measure,
    measure_best_stages,
    measure_stages,
)


class Reader:
    """Reads documents by a clock that stands still otherwise.

    Args:
        start: Seconds before the first document of a pass.
        each: Seconds of a document.
        extra: Seconds by which passes are longer, one after the other.
    """

    def __init__(self, each: float, start: float = 0.0, extra: tuple[float, ...] = ()) -> None:
        self.each, self.start, self.extra = each, start, list(extra)
        self.now = 0.0
        self.passes: list[int] = []

    def read(self, documents: list[Document]) -> list[Document]:
        self.passes.append(len(documents))
        self.now += self.start + self.each * len(documents) + (self.extra.pop(0) if self.extra else 0)
        return [document.annotated([document.entity(0, 1, "Task")]) for document in documents]


@pytest.fixture
def time_of(monkeypatch):
    """Have a reader's clock be the stopwatch's, and take its time."""

    def take(reader: Reader, documents: list[Document], **more) -> TimedRun:
        monkeypatch.setattr(profiling, "time", SimpleNamespace(perf_counter=lambda: reader.now))
        return measure({"all": reader.read}, documents, **more)

    return take


@pytest.fixture
def two() -> list[Document]:
    return [Document.from_words([[word]], [(0, 1, "Method")]) for word in ("trees", "graphs")]


def test_slow_documents_are_not_repeated(time_of, two):
    reader = Reader(each=2, extra=(9, 1, 0, 3))
    taken = time_of(reader, two)
    assert reader.passes == [2, 2, 2, 2]  # the first warms up
    assert (taken.seconds, taken.repeats) == ({"all": 4}, 1)


def test_documents_are_repeated_until_the_best_round_lasts_a_second(time_of, two):
    reader = Reader(each=0.01, start=0.03)
    taken = time_of(reader, two)
    tried, last = reader.passes[:-3], reader.passes[-3:]
    assert tried[:4] == [2] * 4
    assert len(set(last)) == 1
    assert 0.03 + 0.01 * last[0] >= profiling.MIN_ROUND_SECONDS
    assert taken.repeats == last[0] // 2
    # starting has less and less weight
    assert taken.seconds["all"] == pytest.approx(0.02 + 0.03 / taken.repeats)
    assert len(reader.passes) < 15


def test_a_slow_start_does_not_pass_for_a_long_round(time_of, two):
    assert time_of(Reader(each=0.05, extra=(30, 20)), two).repeats > 1


def test_a_pass_that_a_clock_does_not_see_is_made_longer(time_of, two):
    reader = Reader(each=0)
    read = reader.read

    def coarse(documents: list[Document]) -> list[Document]:
        reader.each = 1e-3 if len(documents) > 100 else 0
        return read(documents)

    reader.read = coarse
    assert time_of(reader, two[:1], rounds=1).repeats >= 1000


def test_nothing_to_read_ends_at_once(time_of):
    reader = Reader(each=1)
    assert time_of(reader, []) == ([], {"all": 0}, 1)


def test_timing_returns_each_document_once_with_predicted_annotation_only(time_of, two):
    found = time_of(Reader(each=0.1), two).documents
    assert [[(entity.text, entity.label) for entity in document.entities] for document in found] == [
        [("trees", "Task")],
        [("graphs", "Task")],
    ]


def test_steps_go_on_from_each_other_and_share_the_best_round(monkeypatch, two):
    reader = Reader(each=1, extra=(0, 0, 5, 0, 0, 3, 0, 1))
    monkeypatch.setattr(profiling, "time", SimpleNamespace(perf_counter=lambda: reader.now))
    seen: list[int] = []

    def again(documents: list[Document]) -> list[Document]:
        seen.append(sum(len(document.entities) for document in documents))
        return reader.read(documents)

    assert measure({"first": reader.read, "then": again}, two).seconds == {"first": 2, "then": 3}
    assert seen == [2] * 4


def test_stages_are_those_of_one_pass_however_often_documents_are_read(random_model, twenty, monkeypatch):
    model = UniRE.from_pretrained(random_model).eval()
    engine = Extractor.load(random_model, device="cpu").engine
    read: list[int] = []
    rounds = [StageSeconds(3, 6, 3, 9, 3), StageSeconds(6, 3, 0, 3, 3), StageSeconds(9, 9, 9, 9, 9)]

    def pretended(engine, model, settings, documents):
        read.append(len(documents))
        return rounds[len(read) - 1], measure_stages(engine, model, settings, documents)[1]

    monkeypatch.setattr(profiling, "measure_stages", pretended)
    stages, n_batches = measure_best_stages(engine, model, model.config, twenty, 3)
    assert stages == (2, 1, 0, 1, 1)
    assert n_batches >= 1
    assert read == [3 * len(twenty)] * 3


def test_repeated_reads_are_described():
    assert describe_repeats([]) == describe_repeats([1, 1]) == ""
    assert describe_repeats([14, 14]) == ", read 14 times over in a round,"
    assert describe_repeats([1, 14, 3]) == ", read 1 to 14 times over in a round,"
