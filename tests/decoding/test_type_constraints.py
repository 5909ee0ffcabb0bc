"""Type constraints in the decoders: what is forbidden is never found, and all else is as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from helpers.random_tables import (
    AS_ARRAY,
    LIVES_IN,
    LOC,
    MARRIED,
    PER,
    PER_LOC,
    Problem,
    blocks,
    coarse,
    decode_one,
    noise,
    one_hot,
    problems,
)
from unire.decoding.decoders import DECODERS, decode
from unire.decoding.kernels import Decoded
from unire.labels import LabelSpace

pytestmark = pytest.mark.usefixtures("decode_with_torch")

Permits = NDArray[np.bool_]


@st.composite
def constrained(draw: st.DrawFn) -> tuple[Problem, Permits]:
    problem = draw(problems(noise, blocks, coarse))
    labels = problem.labels
    every = [(h, r, t) for h in labels.entity_types for r in labels.relation_types for t in labels.entity_types]
    return problem, labels.allowed_relations(draw(st.sets(st.sampled_from(every))) if every else ())


def facts(found: Decoded) -> list[tuple[int, ...]]:
    """Head type, tail type and relation type of everything that was found."""
    head, tail, label = found.relations.T
    return list(zip(found.entities[head, 3].tolist(), found.entities[tail, 3].tolist(), label.tolist(), strict=True))


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("kind", ["numpy float32", "torch float32", "torch bfloat16"])
@settings(max_examples=60, deadline=None)
@given(drawn=constrained())
def test_forbidden_relations_are_never_found_and_others_do_not_change(
    kind: str, decoder: str, drawn: tuple[Problem, Permits]
) -> None:
    problem, allowed_relations = drawn
    P = AS_ARRAY[kind](problem.padded())
    free, bound = (
        decode(P, problem.lengths, problem.labels, decoder=decoder, alpha=0.6, allowed_relations=rule)
        for rule in (None, allowed_relations)
    )
    assert all(allowed_relations[fact] for fact in facts(bound))
    assert (bound.entities == free.entities).all()
    assert (bound.entity_scores == free.entity_scores).all()
    assert (bound.cuts == free.cuts).all()
    found, again = (
        dict(zip(map(tuple, result.relations.tolist()), result.relation_scores, strict=True))
        for result in (free, bound)
    )
    for (relation, score), fact in zip(found.items(), facts(free), strict=True):
        if allowed_relations[fact]:
            assert again[relation] == score
    taken = {relation[:2] for relation in found}
    assert all(relation[:2] in taken for relation in again)  # what was ⊥ stays ⊥


@pytest.mark.parametrize("as_array", [np.asarray, torch.from_numpy])
@pytest.mark.parametrize("decoder", DECODERS)
def test_the_next_best_relation_that_may_be_wins_or_none(decoder: str, as_array: Callable[[Any], Any]) -> None:
    table = np.zeros((5, 5), np.int64)
    table[:3, :3], table[4, 4], table[:3, 4] = PER, LOC, [LIVES_IN, LIVES_IN, MARRIED]
    tables = as_array(one_hot(table)[None])

    def found(*signatures: tuple[str, str, str]) -> list[int]:
        allowed_relations = PER_LOC.allowed_relations(signatures)
        return (
            decode(tables, [5], PER_LOC, decoder=decoder, alpha=1.2, allowed_relations=allowed_relations)
            .relations[:, 2]
            .tolist()
        )

    assert found() == [LIVES_IN]
    assert found(("Per", "Lives-in", "Loc")) == [LIVES_IN]
    assert found(("Loc", "Lives-in", "Per")) == [MARRIED]
    assert found(("Loc", "Lives-in", "Per"), ("Per", "Married", "Per")) == []


def test_a_relation_that_may_not_be_loses_even_against_nothing() -> None:
    """Where two halves of one entity were cut apart, neither ⊥ nor a relation has any probability between them."""
    P = one_hot([[PER, 0, PER], [0, 0, 0], [LOC, 0, LOC]])
    assert len(decode_one(P, alpha=0.5).relations) == 2
    allowed_relations = PER_LOC.allowed_relations([("Loc", "Lives-in", "Loc"), ("Loc", "Married", "Loc")])
    assert len(decode_one(P, alpha=0.5, allowed_relations=allowed_relations).relations) == 0


def test_symmetric_relations_may_go_both_ways_and_those_not_named_anywhere() -> None:
    allowed_relations = PER_LOC.allowed_relations([("Per", "Married", "Loc")])
    assert allowed_relations[PER, LOC, MARRIED]
    assert allowed_relations[LOC, PER, MARRIED]
    assert not allowed_relations[PER, PER, MARRIED]
    assert allowed_relations[..., LIVES_IN].all()
    assert allowed_relations[..., LabelSpace.NONE].all()
    one_way = PER_LOC.allowed_relations([("Per", "Lives-in", "Loc")])
    assert one_way[PER, LOC, LIVES_IN]
    assert not one_way[LOC, PER, LIVES_IN]
    assert PER_LOC.allowed_relations(()).all()
