"""The pipeline that the joint model is compared with: a span model, and a model of typed markers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.pipeline import QUICK, marker_stage, span_stage
from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.scorer import score
from unire.studies.pipeline.entities import TWO_TYPES, EntityData, count_unreachable
from unire.studies.pipeline.study import PipelineConfig
from unire.tables import REFLEXIVE, TWO_LABELS
from unire.training.config import TrainingConfig
from unire.training.markers.data import TOO_LONG, RelationData
from unire.training.tasks import ItemTask, shuffle_into_steps
from unire.training.trainer import Trainer
from unire.windows.collator import bucket_items

# Both models learn


def fit(model, data, config, **options) -> list[dict]:
    """The history of a training."""
    trainer = Trainer(ItemTask(model, data, config, **options))
    trainer.run()
    return trainer.state.history


@pytest.fixture(scope="module", params=["bert", "mpnet"])
def found(request, encoders, few, scierc_labels) -> tuple[str, list[Document]]:
    """What a span model finds in the sentences that it was trained on."""
    encoder = encoders(request.param)
    stage = span_stage(encoder, scierc_labels)
    data = EntityData(few, stage.reader, scierc_labels, QUICK.max_span)
    history = fit(stage.model, data, QUICK.training(TrainingConfig(), entities=True))
    assert history[-1]["loss"] < history[0]["loss"] / 20
    return encoder, stage.predict([document.bare for document in few])


@pytest.mark.slow
def test_a_handful_of_sentences_is_learnt_by_heart(found, few, scierc_labels):
    encoder, entities = found
    assert score(few, entities, scierc_labels).entities.f1 == 1
    for approximate in (False, True):
        stage = marker_stage(encoder, scierc_labels, approximate)
        data = RelationData(few, stage.model, stage.reader, scierc_labels)
        fit(stage.model, data, QUICK.training(TrainingConfig(), entities=False))
        scores = score(few, stage.predict(entities), scierc_labels)
        assert scores.relations.f1 == 1, f"approximate: {approximate}"
        assert all(0 < relation.score <= 1 for document in stage.predict(entities) for relation in document.relations)


def test_the_best_epoch_on_dev_is_kept(encoders, few, scierc_labels):
    stage = span_stage(encoders("bert"), scierc_labels)
    data = EntityData(few, stage.reader, scierc_labels, QUICK.max_span)
    seen = []

    def second_is_best() -> float:
        seen.append(stage.model.classifier.weight.detach().clone())
        return 1.0 if len(seen) == 2 else 0.5

    config = replace(QUICK, entity_epochs=4).training(TrainingConfig(), entities=True)
    history = fit(stage.model, data, config, evaluate=second_is_best)
    assert [record["dev"] for record in history] == [0.5, 1.0, 0.5, 0.5]
    assert torch.equal(stage.model.classifier.weight, seen[1])
    assert not torch.equal(seen[1], seen[3])


def test_data_without_a_pair_cannot_train_the_marker_model(encoders, scierc_labels):
    stage = marker_stage(encoders("bert"), scierc_labels, True)
    alone = [Document.from_words([["we", "parse"]], [(1, 2, "Task")])]
    data = RelationData(alone, stage.model, stage.reader, scierc_labels)
    with pytest.raises(UnireError, match="no examples for this model"):
        fit(stage.model, data, QUICK.training(TrainingConfig(), entities=False))


def test_a_step_in_parts_has_the_gradient_of_the_whole_step(encoders, few, scierc_labels):
    weights = []
    for max_tokens in (4096, 64):
        stage = marker_stage(encoders("bert"), scierc_labels, True)
        data = RelationData(few, stage.model, stage.reader, scierc_labels)
        for module in stage.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        config = replace(QUICK, relation_epochs=1, pairs=1000).training(
            TrainingConfig(max_pieces=max_tokens), entities=False
        )
        fit(stage.model, data, config)
        weights.append(stage.model.classifier.weight)
    torch.testing.assert_close(*weights, rtol=1e-3, atol=1e-4)


# Spans


def test_a_span_is_scored_by_its_first_token_its_last_token_and_its_width(encoders, few, scierc_labels):
    """The sum of three layers is the layer over the three joined, as one would first write it."""
    stage = span_stage(encoders("bert"), scierc_labels)
    model = stage.model.eval()
    data = EntityData(few, stage.reader, scierc_labels, QUICK.max_span)
    tensors = data.collate([0, 1])
    with torch.no_grad():
        scores = model(tensors)
        tokens = model.encoder(tensors["input_ids"], tensors["attention_mask"]).last_hidden_state
        row, start, width = 1, 2, 3
        reading = data.readings[row]
        first, last = (
            reading.first_tokens[start],
            reading.first_tokens[start + width] + reading.word_sizes[start + width] - 1,
        )
        joined = torch.cat([tokens[row, first], tokens[row, last], model.widths.weight[width]])
        expected = model.classifier(model.second(model.first(joined).relu()).relu())
    torch.testing.assert_close(scores[row, start, width], expected, rtol=1e-4, atol=1e-5)


def test_gold_spans_end_inside_their_sentence(few, encoders, scierc_labels):
    stage = span_stage(encoders("bert"), scierc_labels)
    data = EntityData(few, stage.reader, scierc_labels, QUICK.max_span)
    gold = data.collate([0])["gold"][0]
    n = len(few[0].sentences[0])
    entities = {(int(start), int(start + width + 1)) for start, width in (gold > 0).nonzero()}
    assert entities == {entity.span for entity in few[0].sentences[0].entities}
    assert (gold >= 0).sum() == sum(min(QUICK.max_span, n - start) for start in range(n))


@pytest.mark.slow
def test_entities_of_a_sentence_longer_than_the_encoder_are_found_and_its_relations_counted(
    encoders, few, scierc_labels
):
    short = encoders("bert", max_positions=24)
    words = [word for sentence in few[0].sentences for word in sentence.words]
    long = Document.from_words([words], [(3, 5, "Method"), (30, 32, "Task")], [(0, 1, "USED-FOR")])
    stage = span_stage(short, scierc_labels)
    data = EntityData([long], stage.reader, scierc_labels, 8)
    assert data.notes["sentence longer than the encoder, stitched"] == 1
    fit(stage.model, data, QUICK.training(TrainingConfig(), entities=True))
    assert score([long], stage.predict([long.bare]), scierc_labels).entities.f1 == 1
    for approximate in (False, True):
        marked = marker_stage(short, scierc_labels, approximate)
        assert RelationData([long], marked.model, marked.reader, scierc_labels).notes == {TOO_LONG: 1}
        notes: Counter[str] = Counter()
        (kept,) = marked.predict([long], notes)
        assert notes == {TOO_LONG: 1}
        assert (len(kept.entities), kept.relations) == (2, ())


def test_annotation_that_no_span_model_can_find_is_counted():
    document = Document.from_words(
        [["a"] * 12, ["b", "c"]],
        [(0, 9, "X"), (0, 8, "X"), (2, 3, "X"), (2, 3, "Y"), (2, 3, "Y"), (11, 13, "X"), (12, 13, "X")],
        [(2, 6, "R")],
    )
    assert count_unreachable([document], 8) == {
        "entity of more than 8 words": 1,
        TWO_TYPES: 1,
        "entity crosses a table boundary": 1,
        "relation across sentences": 1,
    }


# Gold pairs


def test_symmetric_relations_are_learnt_in_both_directions(encoders, scierc_labels):
    document = Document.from_words(
        [["a", "b", "c"]],
        [(0, 1, "Task"), (1, 2, "Method"), (2, 3, "Method"), (0, 1, "Task")],
        [(1, 0, "USED-FOR"), (1, 2, "COMPARE"), (2, 1, "PART-OF"), (0, 0, "PART-OF")],
    )
    stage = marker_stage(encoders("bert"), scierc_labels, False)
    data = RelationData([document], stage.model, stage.reader, scierc_labels)
    names = ("", *scierc_labels.relation_types)
    gold = {
        tuple(row.pairs[0].tolist()): names[int(data.collate([place])["gold"][0])]
        for place, row in enumerate(data.rows)
    }
    assert gold == {(0, 1): "", (0, 2): "", (1, 0): "USED-FOR", (2, 0): "", (1, 2): "COMPARE", (2, 1): "COMPARE"}
    assert data.notes == {TWO_LABELS: 1, REFLEXIVE: 1}


# Batches


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 5)), min_size=1), st.integers(1, 20), st.integers(0, 9))
def test_an_epoch_takes_every_item_once_in_steps_of_enough_weight(items, size, seed):
    lengths, weights = zip(*items, strict=True)
    steps = shuffle_into_steps(lengths, weights, size, np.random.default_rng(seed))
    assert sorted(item for step in steps for item in step) == list(range(len(items)))
    light = [step for step in steps if sum(weights[item] for item in step) < size]
    assert len(light) <= 1
    assert all(sum(weights[item] for item in step[:-1]) < size for step in steps)


@given(st.lists(st.integers(1, 40), min_size=1), st.integers(1, 100))
def test_a_part_is_no_larger_than_asked_unless_it_is_one_item(lengths, max_tokens):
    parts = list(bucket_items(range(len(lengths)), lengths.__getitem__, max_tokens))
    assert sorted(item for part in parts for item in part) == list(range(len(lengths)))
    assert all(len(part) == 1 or len(part) * max(lengths[item] for item in part) <= max_tokens for part in parts)


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(UnireError, match="pipeline setting max_span must be above 0, not 0"):
        PipelineConfig(max_span=0)
    with pytest.raises(UnireError, match="pipeline setting warmup must be 0 or more and below 1, not 1"):
        PipelineConfig(warmup=1)
    with pytest.raises(UnireError, match="unknown pipeline setting 'spans'; give one of max_span"):
        PipelineConfig.with_changes(spans=3)
    assert PipelineConfig(entity_window=0).entity_window == 0
