"""A training that is limited by time."""

from __future__ import annotations

import pytest

from unire.training import optimizer as clock_module
from unire.training.optimizer import TrainingBudget


@pytest.fixture
def now(monkeypatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(clock_module.time, "monotonic", lambda: now[0])
    return now


def test_the_share_of_the_time_starts_with_the_first_step_and_ends_before_saving(now) -> None:
    clock = TrainingBudget(minutes=10, steps=None)
    now[0] += 90
    clock.start()
    assert clock.done(0) == 0
    now[0] += 250
    assert clock.done(7) == pytest.approx(0.5)
    now[0] += 250
    assert clock.done(9) == 1
    assert clock.seconds == 590


def test_steps_count_where_they_are_used_up_first(now) -> None:
    clock = TrainingBudget(minutes=10, steps=100)
    clock.start()
    assert clock.done(40) == pytest.approx(0.4)


def test_a_resumed_training_has_the_time_that_is_left_for_the_share_that_is_left(now) -> None:
    clock = TrainingBudget(minutes=10)
    clock.resume(seconds_before=290, done_before=0.4)
    now[0] += 100
    clock.start()
    assert clock.done(0) == pytest.approx(0.4)
    now[0] += 100
    assert clock.done(0) == pytest.approx(0.7)


def test_what_was_spent_before_a_clock_is_told_to_resume_counts_too(now) -> None:
    clock = TrainingBudget(minutes=10, steps=None)
    now[0] += 100
    clock.resume(seconds_before=290, done_before=0.4)
    assert clock.seconds == 390
    clock.start()
    now[0] += 100
    assert clock.done(0) == pytest.approx(0.7)


def test_a_pause_counts_as_time_but_not_as_training(now) -> None:
    clock = TrainingBudget(minutes=10, steps=None)
    clock.start()
    with clock.pause():
        now[0] += 5
    now[0] += 10
    assert (clock.seconds, clock.training_seconds) == (15, 10)


def test_time_that_is_over_before_the_first_step_is_all_done(now) -> None:
    clock = TrainingBudget(minutes=1, steps=None)
    now[0] += 60
    clock.start()
    assert clock.done(0) == 1
