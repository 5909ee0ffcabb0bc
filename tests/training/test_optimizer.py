"""A training that is limited by time."""

from __future__ import annotations

import pytest

from unire.training import optimizer
from unire.training.optimizer import TrainingBudget


@pytest.fixture
def now(monkeypatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(optimizer.time, "monotonic", lambda: now[0])
    return now


def test_the_share_of_the_time_starts_with_the_first_step_and_ends_before_saving(now) -> None:
    budget = TrainingBudget(minutes=10, steps=None)
    now[0] += 90
    budget.start()
    assert budget.fraction(0) == 0
    now[0] += 250
    assert budget.fraction(7) == pytest.approx(0.5)
    now[0] += 250
    assert budget.fraction(9) == 1
    assert budget.seconds == 590


def test_steps_count_where_they_are_used_up_first(now) -> None:
    budget = TrainingBudget(minutes=10, steps=100)
    budget.start()
    assert budget.fraction(40) == pytest.approx(0.4)


def test_a_resumed_training_has_the_time_that_is_left_for_the_share_that_is_left(now) -> None:
    budget = TrainingBudget(minutes=10)
    budget.resume(seconds=290, fraction=0.4)
    now[0] += 100
    budget.start()
    assert budget.fraction(0) == pytest.approx(0.4)
    now[0] += 100
    assert budget.fraction(0) == pytest.approx(0.7)


def test_time_spent_before_resume_counts_too(now) -> None:
    budget = TrainingBudget(minutes=10, steps=None)
    now[0] += 100
    budget.resume(seconds=290, fraction=0.4)
    assert budget.seconds == 390
    budget.start()
    now[0] += 100
    assert budget.fraction(0) == pytest.approx(0.7)


def test_a_pause_counts_as_time_but_not_as_training(now) -> None:
    budget = TrainingBudget(minutes=10, steps=None)
    budget.start()
    with budget.pause():
        now[0] += 5
    now[0] += 10
    assert (budget.seconds, budget.training_seconds) == (15, 10)


def test_time_that_is_over_before_the_first_step_is_all_done(now) -> None:
    budget = TrainingBudget(minutes=1, steps=None)
    now[0] += 60
    budget.start()
    assert budget.fraction(0) == 1
