"""Typed markers around the spans of a pair, and behind a text for many pairs at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.pipeline import marker_stage
from unire.documents import Document
from unire.models.encoder import load_encoder
from unire.training.markers.classifier import RelationClassifier
from unire.training.markers.data import (
    MAX_PAIRS_PER_ROW,
    MarkerVocabulary,
    build_approximate_rows,
    build_exact_rows,
    build_rows,
    collate_rows,
)
from unire.training.markers.model import NoPositionsError

TYING = ("bert", "electra", "roberta", "albert", "mpnet")
"""Families whose tokens can share positions."""


@st.composite
def marked_texts(draw):
    length = draw(st.integers(2, 12))
    spans = []
    for _ in range(2 * draw(st.integers(1, 4))):
        first = draw(st.integers(0, length - 1))
        spans.append((first, draw(st.integers(first, length - 1)), draw(st.integers(0, 2))))
    return 100 + np.arange(length), np.array(spans[::2]), np.array(spans[1::2])


@given(marked_texts())
def test_markers_stand_around_their_spans(drawn):
    """As one would first write it: token by token."""
    text, subjects, objects = drawn
    pairs = np.zeros((len(subjects), 2), np.int64)
    for row, subject, target in zip(
        build_exact_rows(text, subjects, objects, pairs, MarkerVocabulary(1000, 3)), subjects, objects, strict=True
    ):
        expected: list[int] = []
        for place, token in enumerate(text):
            for role, span in ((0, subject), (2, target)):
                if span[0] == place:
                    expected.append(1000 + 4 * span[2] + role)
            expected.append(token)
            for role, span in ((1, subject), (3, target)):
                if span[1] == place:
                    expected.append(1000 + 4 * span[2] + role)
        assert row.ids.tolist() == expected
        assert [expected[place] % 4 for place in row.marker_starts[0]] == [0, 2]
        assert (row.owners == 0).all()


def test_markers_behind_a_text_stand_where_its_words_do():
    text = np.arange(50, 60)
    spans = np.array([(1, 2, 0), (4, 4, 1), (6, 8, 2)])
    pairs = np.argwhere(~np.eye(3, dtype=bool))
    (row,) = build_approximate_rows(text, spans[pairs[:, 0]], spans[pairs[:, 1]], pairs, MarkerVocabulary(100, 3))
    assert row.ids[:10].tolist() == text.tolist()
    assert row.ids[10:14].tolist() == [100, 101, 106, 107]  # from the first, of type 0, to the second, of type 1
    assert row.positions[10:14].tolist() == [1, 2, 4, 4]
    assert row.marker_starts[:2].tolist() == [[10, 12], [14, 16]]
    assert row.owners[10:18].tolist() == [1] * 4 + [2] * 4


def test_very_many_pairs_stand_behind_several_copies_of_a_text():
    n = 13
    spans = np.array([(place, place, 0) for place in range(n)])
    pairs = np.argwhere(~np.eye(n, dtype=bool))
    rows = build_approximate_rows(
        np.arange(20), spans[pairs[:, 0]], spans[pairs[:, 1]], pairs, MarkerVocabulary(100, 1)
    )
    assert [len(row.pairs) for row in rows] == [MAX_PAIRS_PER_ROW, n * (n - 1) - MAX_PAIRS_PER_ROW]
    assert np.concatenate([row.pairs for row in rows]).tolist() == pairs.tolist()


def sentence_rows(stage: RelationClassifier, document: Document, sentence: int = 2):
    reading = list(stage.reader.read([document]))[sentence]
    return build_rows(stage.model, reading, document.sentences[sentence].entities, stage.labels)


def tensors_of(stage: RelationClassifier, rows):
    return collate_rows(rows, stage.reader.spec.pad_id, stage.model.first_position)


@pytest.mark.parametrize("family", TYING)
@torch.no_grad()
def test_a_pair_is_not_changed_by_another_nor_the_text_by_any(family, encoders, few, scierc_labels):
    stage = marker_stage(encoders(family), scierc_labels, True)
    (row,) = sentence_rows(stage, few[0])
    length = int((row.owners == 0).sum())
    tensors = tensors_of(stage, [row])
    scores, vectors = stage.model(tensors), stage.model.encode(tensors)
    changed = {name: tensor.clone() for name, tensor in tensors.items()}
    of_first = changed["owners"] == 1
    changed["input_ids"][of_first] = stage.model.markers.first + len(stage.model.markers) - 1
    changed["position_ids"][of_first] += 3
    after, vectors_after = stage.model(changed), stage.model.encode(changed)
    torch.testing.assert_close(after[1:], scores[1:], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(vectors_after[:, :length], vectors[:, :length], rtol=1e-4, atol=1e-5)
    assert (after[0] - scores[0]).abs().max() > 1e-2


@pytest.mark.parametrize("family", TYING)
@torch.no_grad()
def test_pairs_in_one_pass_score_as_pairs_alone_and_the_text_as_without_markers(family, encoders, few, scierc_labels):
    stage = marker_stage(encoders(family), scierc_labels, True)
    (row,) = sentence_rows(stage, few[0])
    together = stage.model(tensors_of(stage, [row]))
    length = int((row.owners == 0).sum())
    for k, alone in enumerate(row.pairs):
        chosen = (row.owners == 0) | (row.owners == k + 1)
        one = replace(
            row,
            ids=row.ids[chosen],
            positions=row.positions[chosen],
            owners=np.minimum(row.owners[chosen], 1),
            marker_starts=np.array([[length, length + 2]]),
            pairs=alone[None],
        )
        torch.testing.assert_close(stage.model(tensors_of(stage, [one])), together[k : k + 1], rtol=1e-4, atol=1e-5)
    plain = stage.model.encoder(input_ids=torch.from_numpy(row.ids[None, :length])).last_hidden_state
    encoded = stage.model.encode(tensors_of(stage, [row]))
    torch.testing.assert_close(encoded[:, :length], plain, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_padding_changes_nothing(encoders, few, scierc_labels):
    for approximate in (False, True):
        stage = marker_stage(encoders("mpnet"), scierc_labels, approximate)
        rows = [row for sentence in (0, 2) for row in sentence_rows(stage, few[0], sentence)]
        alone = torch.cat([stage.model(tensors_of(stage, [row])) for row in rows])
        torch.testing.assert_close(stage.model(tensors_of(stage, rows)), alone, rtol=1e-4, atol=1e-5)


def test_encoders_without_positions_of_their_own_are_refused_for_the_approximation(encoders, scierc_labels):
    for family in ("deberta", "deberta-v2", "modernbert"):
        with pytest.raises(NoPositionsError, match=f"{family} encoders do not support"):
            marker_stage(encoders(family), scierc_labels, True)
        marker_stage(encoders(family), scierc_labels, False)


def test_new_markers_are_new_rows_and_the_tokenizer_knows_nothing_of_them(encoders, scierc_labels):
    encoder = encoders("bert")
    before = load_encoder(encoder)
    stage = marker_stage(encoder, scierc_labels, False)
    size = before[0].get_input_embeddings().num_embeddings
    assert stage.model.encoder.get_input_embeddings().num_embeddings == size + 4 * len(scierc_labels.entity_types)
    old, new = (model.get_input_embeddings().weight[:size] for model in (before[0], stage.model.encoder))
    assert torch.equal(old, new)
    assert load_encoder(encoder)[1].get_vocab_size() == before[1].get_vocab_size() == size
