"""The pipeline that the joint model is compared with: a span model, and a model of typed markers."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from in_process import runner
from tiny import tiny_encoder
from unire import formats
from unire.cli.main import app
from unire.documents import Document
from unire.exceptions import UnireError
from unire.labels import LabelSpace
from unire.modeling.encoder import load_encoder
from unire.scoring import score
from unire.studies import stopwatch, trainings
from unire.studies.pipeline import __main__ as command
from unire.studies.pipeline import measuring, study
from unire.studies.pipeline.batching import in_parts, random_steps
from unire.studies.pipeline.cells import Cell
from unire.studies.pipeline.config import PipelineConfig
from unire.studies.pipeline.entities import TWO_TYPES, EntityData, EntityFinder, unreachable
from unire.studies.pipeline.fitting import fit
from unire.studies.pipeline.marker_model import MarkerModel, NoPositionsError
from unire.studies.pipeline.markers import PAIRS, Markers, approximate_rows, collate, exact_rows
from unire.studies.pipeline.reading import Reader
from unire.studies.pipeline.relations import TOO_LONG, RelationData, RelationFinder, rows_of, spare
from unire.studies.pipeline.span_model import SpanModel
from unire.studies.report import write
from unire.studies.results import load
from unire.tables import REFLEXIVE, TWO_LABELS
from unire.training import TrainingConfig

TWENTY = Path(__file__).parent / "fixtures" / "twenty.jsonl"
QUICK = PipelineConfig(
    entity_epochs=100,
    relation_epochs=40,
    sentences=3,
    pairs=12,
    entity_lr=3e-3,
    relation_lr=3e-3,
    entity_head_lr=6e-3,
    relation_head_lr=6e-3,
)
TYING = ("bert", "electra", "roberta", "albert", "mpnet")
"""Families whose pieces can share positions."""


@pytest.fixture(scope="module")
def few(twenty) -> list[Document]:
    """Three documents of nine sentences."""
    return twenty[:3]


@pytest.fixture(scope="module")
def encoders(twenty, tmp_path_factory):
    """A tiny encoder of any family."""
    words = {word for document in twenty for word in document.words}
    folder = tmp_path_factory.mktemp("encoders")

    def make(family: str, **more) -> str:
        out = folder / f"{family}-{len(more)}"
        return str(out if out.exists() else tiny_encoder(family, out, words, **more))

    return make


def span_stage(encoder: str, labels: LabelSpace, config: PipelineConfig = QUICK) -> EntityFinder:
    torch.manual_seed(0)
    loaded, tokenizer, spec = load_encoder(encoder)
    model = SpanModel(loaded, len(labels.entity_types), config)
    return EntityFinder(model, Reader(tokenizer, spec, config.entity_window), labels, False, 4096)


def marker_stage(encoder: str, labels: LabelSpace, approximate: bool) -> RelationFinder:
    torch.manual_seed(0)
    loaded, tokenizer, spec = load_encoder(encoder)
    model = MarkerModel(loaded, len(labels.entity_types), len(labels.relation_types), approximate=approximate)
    reader = Reader(tokenizer, spec, QUICK.relation_window, spare=spare(approximate))
    return RelationFinder(model.eval(), reader, labels, False, 4096)


# Both models learn


@pytest.fixture(scope="module", params=["bert", "mpnet"])
def found(request, encoders, few, scierc_labels) -> tuple[str, list[Document]]:
    """What a span model finds in the sentences that it was trained on."""
    encoder = encoders(request.param)
    stage = span_stage(encoder, scierc_labels)
    data = EntityData(few, stage.reader, scierc_labels, QUICK.max_span)
    history = fit(stage.model, data, QUICK.training(TrainingConfig(), entities=True))
    assert history[-1]["loss"] < history[0]["loss"] / 20
    return encoder, stage.find([document.bare for document in few])


def test_a_handful_of_sentences_is_learnt_by_heart(found, few, scierc_labels):
    encoder, entities = found
    assert score(few, entities, scierc_labels).entities.f1 == 1
    for approximate in (False, True):
        stage = marker_stage(encoder, scierc_labels, approximate)
        data = RelationData(few, stage.model, stage.reader, scierc_labels)
        fit(stage.model, data, QUICK.training(TrainingConfig(), entities=False))
        scores = score(few, stage.find(entities), scierc_labels)
        assert scores.relations.f1 == 1, f"approximate: {approximate}"
        assert all(0 < relation.score <= 1 for document in stage.find(entities) for relation in document.relations)


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
    with pytest.raises(UnireError, match="nothing that this model could learn from"):
        fit(stage.model, data, QUICK.training(TrainingConfig(), entities=False))


def test_a_step_in_parts_has_the_gradient_of_the_whole_step(encoders, few, scierc_labels):
    weights = []
    for max_pieces in (4096, 64):
        stage = marker_stage(encoders("bert"), scierc_labels, True)
        data = RelationData(few, stage.model, stage.reader, scierc_labels)
        for module in stage.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        config = replace(QUICK, relation_epochs=1, pairs=1000).training(
            TrainingConfig(max_pieces=max_pieces), entities=False
        )
        fit(stage.model, data, config)
        weights.append(stage.model.classifier.weight)
    torch.testing.assert_close(*weights, rtol=1e-3, atol=1e-4)


# Spans


def test_a_span_is_scored_by_its_first_piece_its_last_piece_and_its_width(encoders, few, scierc_labels):
    """The sum of three layers is the layer over the three joined, as one would first write it."""
    stage = span_stage(encoders("bert"), scierc_labels)
    model = stage.model.eval()
    data = EntityData(few, stage.reader, scierc_labels, QUICK.max_span)
    tensors = data.collate([0, 1])
    with torch.no_grad():
        scores = model(tensors)
        pieces = model.encoder(tensors["input_ids"], tensors["attention_mask"]).last_hidden_state
        row, start, width = 1, 2, 3
        reading = data.readings[row]
        first, last = reading.firsts[start], reading.firsts[start + width] + reading.sizes[start + width] - 1
        joined = torch.cat([pieces[row, first], pieces[row, last], model.widths.weight[width]])
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
    assert score([long], stage.find([long.bare]), scierc_labels).entities.f1 == 1
    for approximate in (False, True):
        marked = marker_stage(short, scierc_labels, approximate)
        assert RelationData([long], marked.model, marked.reader, scierc_labels).notes == {TOO_LONG: 1}
        notes: Counter[str] = Counter()
        (kept,) = marked.find([long], notes)
        assert notes == {TOO_LONG: 1}
        assert (len(kept.entities), kept.relations) == (2, ())


def test_what_no_span_model_can_find_is_counted():
    document = Document.from_words(
        [["a"] * 12, ["b", "c"]],
        [(0, 9, "X"), (0, 8, "X"), (2, 3, "X"), (2, 3, "Y"), (2, 3, "Y"), (11, 13, "X"), (12, 13, "X")],
        [(2, 6, "R")],
    )
    assert unreachable([document], 8) == {
        "entity of more than 8 words": 1,
        TWO_TYPES: 1,
        "entity crosses a table boundary": 1,
        "relation across sentences": 1,
    }


# Markers


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
    """As one would first write it: piece by piece."""
    text, subjects, objects = drawn
    pairs = np.zeros((len(subjects), 2), np.int64)
    for row, subject, target in zip(
        exact_rows(text, subjects, objects, pairs, Markers(1000, 3)), subjects, objects, strict=True
    ):
        expected: list[int] = []
        for place, piece in enumerate(text):
            for role, span in ((0, subject), (2, target)):
                if span[0] == place:
                    expected.append(1000 + 4 * span[2] + role)
            expected.append(piece)
            for role, span in ((1, subject), (3, target)):
                if span[1] == place:
                    expected.append(1000 + 4 * span[2] + role)
        assert row.ids.tolist() == expected
        assert [expected[place] % 4 for place in row.reads[0]] == [0, 2]
        assert (row.owners == 0).all()


def test_markers_behind_a_text_stand_where_its_words_do():
    text = np.arange(50, 60)
    spans = np.array([(1, 2, 0), (4, 4, 1), (6, 8, 2)])
    pairs = np.argwhere(~np.eye(3, dtype=bool))
    (row,) = approximate_rows(text, spans[pairs[:, 0]], spans[pairs[:, 1]], pairs, Markers(100, 3))
    assert row.ids[:10].tolist() == text.tolist()
    assert row.ids[10:14].tolist() == [100, 101, 106, 107]  # from the first, of type 0, to the second, of type 1
    assert row.positions[10:14].tolist() == [1, 2, 4, 4]
    assert row.reads[:2].tolist() == [[10, 12], [14, 16]]
    assert row.owners[10:18].tolist() == [1] * 4 + [2] * 4


def test_very_many_pairs_stand_behind_several_copies_of_a_text():
    n = 13
    spans = np.array([(place, place, 0) for place in range(n)])
    pairs = np.argwhere(~np.eye(n, dtype=bool))
    rows = approximate_rows(np.arange(20), spans[pairs[:, 0]], spans[pairs[:, 1]], pairs, Markers(100, 1))
    assert [len(row.pairs) for row in rows] == [PAIRS, n * (n - 1) - PAIRS]
    assert np.concatenate([row.pairs for row in rows]).tolist() == pairs.tolist()


def sentence_rows(stage: RelationFinder, document: Document, sentence: int = 2):
    reading = list(stage.reader.read([document]))[sentence]
    return rows_of(stage.model, reading, document.sentences[sentence].entities, stage.labels)


def tensors_of(stage: RelationFinder, rows):
    return collate(rows, stage.reader.spec.pad_id, stage.model.first_position)


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
            reads=np.array([[length, length + 2]]),
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
        with pytest.raises(NoPositionsError, match=f"encoders of the kind {family} cannot"):
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
    steps = random_steps(lengths, weights, size, np.random.default_rng(seed))
    assert sorted(item for step in steps for item in step) == list(range(len(items)))
    light = [step for step in steps if sum(weights[item] for item in step) < size]
    assert len(light) <= 1
    assert all(sum(weights[item] for item in step[:-1]) < size for step in steps)


@given(st.lists(st.integers(1, 40), min_size=1), st.integers(1, 100))
def test_a_part_is_no_larger_than_asked_unless_it_is_one_item(lengths, max_pieces):
    parts = list(in_parts(range(len(lengths)), lengths, max_pieces))
    assert sorted(item for part in parts for item in part) == list(range(len(lengths)))
    assert all(len(part) == 1 or len(part) * max(lengths[item] for item in part) <= max_pieces for part in parts)


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(UnireError, match="pipeline setting max_span = 0 makes no sense"):
        PipelineConfig(max_span=0)
    with pytest.raises(UnireError, match="pipeline setting warmup = 1 makes no sense"):
        PipelineConfig(warmup=1)
    with pytest.raises(UnireError, match="no pipeline setting 'spans'; there are max_span"):
        PipelineConfig.changed(spans=3)
    assert PipelineConfig(entity_window=0).entity_window == 0


# The study


@pytest.fixture
def in_process(monkeypatch):
    """Cells in this process: the same commands, started sooner; what was done is listed."""
    made: list[str] = []

    monkeypatch.setattr(study, "run_jobs", runner(made))
    monkeypatch.setattr(stopwatch, "SHORTEST", 0)
    return made


def asked(encoder, out, *more):
    files = ("--data", TWENTY, "--dev", TWENTY, "--test", TWENTY, "--labels", "scierc")
    joint = ("--preset", "best", "--epochs", 2, "--set", "evaluate_after=0", "--set", "lr=0.003")
    quick = {"sentences": 4, "pairs": 16, "entity_lr": 3e-3, "relation_lr": 3e-3, "entity_head_lr": 3e-3, "max_span": 2}
    settings = [word for name, value in quick.items() for word in ("--pipeline", f"{name}={value}")]
    epochs = ("--entity-epochs", 20, "--relation-epochs", 3)
    words = ("study", "pipeline", "--encoder", encoder, *files, *joint, *settings, *epochs, "--out", out, *more)
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_study_puts_joint_model_and_pipeline_side_by_side(encoder, tmp_path, in_process):
    ran = asked(encoder, tmp_path, "--json")
    assert ran.exit_code == 0, ran.output
    result = json.loads(ran.stdout)
    assert in_process == ["default-0", *(f"pipeline-{part}-0" for part in (*study.TRAINED, "measured"))]
    titles = [row["title"] for row in result["rows"]]
    assert titles == [
        "joint, shared, as trained",
        "joint, in-place, W = 200",
        "joint, in-place, W = 100",
        "pipeline, exact",
        "pipeline, approximate",
    ]
    assert result["rows"][3]["entities"]["f1"][0] > 0.1
    assert result["rows"][3]["entities"] == result["rows"][4]["entities"]
    joint, exact = result["rows"][0], result["rows"][3]
    one_encoder = sum(parameter.numel() for parameter in load_encoder(encoder)[0].parameters())
    assert 2 * one_encoder < exact["parameters"] < 4 * one_encoder
    assert exact["sentences_per_second"][0] == pytest.approx(20 / sum(value[0] for value in exact["seconds"].values()))
    long = sum(entity.end - entity.start > 2 for document in formats.read(TWENTY) for entity in document.entities)
    assert result["notes"]["test"] == result["notes"]["training, entities"] == {"entity of more than 2 words": long}

    sides, ratios, stages, notes, paper = study.tables(result)
    assert [row[0] for row in sides.rows] == titles
    assert sides.rows[3][2] == "300 and 100"
    assert [row[2:] for row in ratios.rows[2:]] == [("10.1", "15.8"), ("1.0", "1.6")]
    assert float(ratios.rows[0][1]) == pytest.approx(
        joint["sentences_per_second"][0] / exact["sentences_per_second"][0], abs=0.06
    )
    assert len(stages.rows) == 2
    assert ("test: entity of more than 2 words", str(long)) in notes.rows
    assert ("Zhong & Chen", "219M", "100", "36.7", "19.9") in paper.rows

    page = write(tmp_path).read_text(encoding="utf-8")
    assert '<section id="pipeline">' in page
    assert "pipeline entity_epochs 20" in page

    again = asked(encoder, tmp_path)
    assert again.exit_code == 0
    assert len(in_process) == 5  # nothing was done again
    assert "so many times as fast" in again.output
    (tmp_path / "cells" / "pipeline-measured-0.json").unlink()
    asked(encoder, tmp_path)
    assert in_process[5:] == ["pipeline-measured-0"]
    other = asked(encoder, tmp_path, "--relation-epochs", 4)
    assert "was made with another setting pipeline relation_epochs" in str(other.exception)
    assert load(tmp_path, "pipeline")["seeds"] == [0]


def test_the_study_says_how_often_documents_were_read_where_it_is_known():
    result = load(Path(__file__).parents[1] / "docs" / "studies", "pipeline")
    rows = result["rows"]
    known = {**result, "rows": [{**row, "repeats": [count, 9]} for count, row in enumerate(rows, 2)]}
    unknown = {**result, "rows": [{name: row[name] for name in row if name != "repeats"} for row in rows]}
    often = "read 2 to 9 times over so that a round lasts 1 s, on NVIDIA"
    assert f"seeds; {often}" in study.tables(known)[0].title
    assert f"sentences, {often}" in study.charts(known)["pipeline-speed"]
    assert "seeds; on NVIDIA" in study.tables(unknown)[0].title
    assert "sentences on NVIDIA" in study.charts(unknown)["pipeline-speed"]


@pytest.mark.parametrize("bf16", [True, False])
@pytest.mark.parametrize("family", ["bert", "mpnet"])
def test_what_is_multiplied_in_half_precision_is_kept_so_on_both_sides(
    family, bf16, encoders, scierc_labels, random_model, monkeypatch
):
    monkeypatch.setattr(stopwatch, "SHORTEST", 0)
    ran = []

    class Engine(measuring.TorchEngine):
        def __init__(self, model, **more):
            super().__init__(model, **more)
            ran.append(model)

    monkeypatch.setattr(measuring, "TorchEngine", Engine)
    encoder = encoders(family)
    entities = replace(span_stage(encoder, scierc_labels), bf16=bf16)
    torch.nn.init.zeros_(entities.model.classifier.bias)  # as good as every span is an entity
    ways = ("exact", "approximate")
    relations = {way: replace(marker_stage(encoder, scierc_labels, way != "exact"), bf16=bf16) for way in ways}
    few = [Document.from_words([["we", "parse", "trees"], ["and", "graphs"]], [(1, 2, "Task")])]
    found = entities.find([document.bare for document in few])
    expected = {way: finder.find(found) for way, finder in relations.items()}
    assert all(documents[0].relations for documents in expected.values())

    measuring.measured(random_model, entities, relations, few, QUICK)
    models = [*ran, entities.model, *(finder.model for finder in relations.values())]
    kinds = {layer.weight.dtype for model in models for layer in model.modules() if isinstance(layer, torch.nn.Linear)}
    assert len(models) == 4
    assert kinds == {torch.bfloat16 if bf16 else torch.float32}
    assert entities.find([document.bare for document in few]) == found
    assert {way: finder.find(found) for way, finder in relations.items()} == expected


def cell(encoder, out, part, **more) -> Cell:
    files = [str(TWENTY)]
    training = asdict(TrainingConfig(epochs=1))
    return Cell(
        **{
            "part": part,
            "encoder": str(encoder),
            "data": files,
            "dev": files,
            "test": files,
            "format": None,
            "labels": LabelSpace.load("scierc").to_dict(),
            "training": training,
            "pipeline": asdict(PipelineConfig(entity_epochs=1, relation_epochs=1)),
            "folder": str(out),
            **more,
        }
    )


def test_a_cell_says_in_one_sentence_what_is_wrong(tmp_path, capsys):
    assert command.main([cell(tmp_path / "none", tmp_path, "entities").to_json()]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: encoder")
    assert len(said.splitlines()) == 1


def test_an_interrupt_ends_a_cell_without_a_traceback(encoder, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["unire.studies.pipeline.cells"], "fit", interrupted)
    assert command.main([cell(encoder, tmp_path, "entities").to_json()]) == 130


def test_an_encoder_that_rules_the_approximation_out_is_told_of(encoders, tmp_path):
    printed = cell(encoders("deberta"), tmp_path, "approximate").run()
    (note,) = printed["notes"]
    assert note.startswith("the approximate pipeline has pieces share positions")
    assert not (tmp_path / "models").exists()


def test_the_study_needs_test_data(tmp_path, encoder):
    setup = trainings.Setup(str(encoder), (TWENTY,), (TWENTY,), TrainingConfig(epochs=1), tmp_path)
    with pytest.raises(UnireError, match="give --test"):
        study.run(setup, PipelineConfig(), seeds=1, jobs=1)
