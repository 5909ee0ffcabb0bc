"""Relabelled soft labels: rectangles hold the weighted mean of marker models and teachers; other cells are copied."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.distillation import taught
from helpers.paths import TWENTY
from helpers.pipeline import marker_stage
from helpers.teachers import turned
from unire.decoding import backend
from unire.decoding.decoders import decode
from unire.documents import Document
from unire.errors import UnireError
from unire.labels import LabelSpace
from unire.training.callbacks import SIGNALS, Callback
from unire.training.distillation import soft_labels as storage
from unire.training.distillation.soft_labels import SoftLabelStore
from unire.training.distillation.teach import teach
from unire.training.markers import relabel as relabel_module
from unire.training.markers.classifier import RelationClassifier, TrainedMarker
from unire.training.markers.data import build_rows, collate_rows
from unire.training.markers.relabel import SPLIT, TOO_LONG, relabel


def marker(finder: RelationClassifier, name: str = "marker") -> TrainedMarker:
    return TrainedMarker({"name": name, "encoder": "tiny", "scores": {}}, finder)


@pytest.fixture(scope="module")
def markers(encoders, scierc_labels) -> list[TrainedMarker]:
    """Two that read the same, and one of another kind, encoder and order of labels."""
    exact = marker_stage(encoders("bert"), scierc_labels, False)
    approximate = marker_stage(encoders("mpnet"), turned(scierc_labels), True)
    same = marker_stage(encoders("bert"), scierc_labels, False)
    for finder in (exact, approximate, same):
        torch.nn.init.normal_(finder.model.classifier.weight, std=0.3)  # so that they are sure of something
    return [marker(exact, "exact"), marker(approximate, "approximate"), marker(same, "same")]


@pytest.fixture(scope="module")
def sure(teacher, tmp_path_factory) -> Path:
    """Soft labels of a teacher that finds all entities of the twenty sentences."""
    out = tmp_path_factory.mktemp("sure") / "sure.soft"
    teach([teacher], [TWENTY], out, device="cpu")
    return out


@torch.no_grad()
def pair_probabilities(
    finder: RelationClassifier, document: Document, sentence: int
) -> dict[tuple[int, int], dict[str, float]]:
    """The probability of every relation, and of none, for each pair of entities: read pair by pair."""
    reading = next(r for r in finder.reader.read([document]) if r.span.sentence == sentence)
    entities = document.sentences[sentence].entities
    found = {}
    for row in build_rows(finder.model, reading, entities, finder.labels):
        scores = finder.model(collate_rows([row], finder.reader.spec.pad_id, finder.model.first_position))
        for pair, chances in zip(row.pairs.tolist(), scores.softmax(-1).tolist(), strict=True):
            found[tuple(pair)] = dict(zip(["⊥", *finder.labels.relation_types], chances, strict=True))
    return found


def tables_of(folder: Path) -> Iterator[tuple[Document, int, np.ndarray]]:
    """Every table with its document and its sentence."""
    soft_labels = SoftLabelStore(folder)
    for documents, tables, cells in soft_labels.chunks():
        first = 0
        for table in tables:
            n = len(table)
            yield documents[table.document], table.sentence, cells[first : first + n * n].reshape(n, n, -1)
            first += n * n


def found_in(document: Document, sentence: int, cells: np.ndarray, soft_labels: SoftLabelStore) -> Document:
    """A document with the entities of one table, decoded by itself."""
    P = cells / np.maximum(cells.sum(-1, keepdims=True), 1)
    decoded = decode(P[None].astype(np.float32), [len(P)], soft_labels.labels, alpha=soft_labels.alpha)
    start = document.sentences[sentence].start
    return document.annotated(
        [document.entity(start + a, start + b, soft_labels.labels.names[label]) for _, a, b, label in decoded.entities]
    )


# What is written


@pytest.mark.parametrize(("chunk", "as_numpy", "share"), [(300, "cpu", 1.0), (2**20, None, 0.25)])
def test_rectangles_hold_the_mean_pair_probabilities_and_other_cells_do_not_change(
    sure, markers, chunk, as_numpy, share, tmp_path, monkeypatch
):
    monkeypatch.setattr(storage, "CHUNK_CHARACTERS", chunk)
    monkeypatch.setattr(relabel_module, "MAX_DECODED_CELLS", 3 * chunk)
    monkeypatch.setattr(backend, "NUMPY_DEVICE", as_numpy)
    seen = []

    class Counting(Callback):
        def on_documents_labelled(self, done, total):
            seen.append((done, total))

    done = relabel(sure, markers, tmp_path / "marked", share=share, callbacks=[Counting()])
    assert len(seen) > 3 if chunk == 300 else seen == [(7, 7)]
    given = SoftLabelStore(sure)
    names = given.labels.names
    pairs = sentences = 0
    distinguished = False
    for (document, sentence, before), (_, _, after) in zip(
        tables_of(sure), tables_of(tmp_path / "marked"), strict=True
    ):
        annotated = found_in(document, sentence, before, given)
        start, entities = document.sentences[sentence].start, annotated.sentences[sentence].entities
        voices = [pair_probabilities(one.classifier, annotated, sentence) for one in markers]
        rest = np.ones(before.shape[:2], bool)
        sentences += bool(voices[0])
        for head, tail in voices[0]:
            rows, columns = (slice(e.start - start, e.end - start) for e in (entities[head], entities[tail]))
            rest[rows, columns] = False
            mean = [np.mean([voice[head, tail].get(name, 0.0) for voice in voices]) for name in names]
            expected = share * 255 * np.array(mean) + (1 - share) * before[rows, columns]
            np.testing.assert_allclose(after[rows, columns], expected, atol=0.51)
            distinguished |= any(abs(mean[0] - voice[head, tail]["⊥"]) > 0.1 for voice in voices)
            pairs += 1
        assert (after[rest] == before[rest]).all()
    assert distinguished
    assert (done.sentences, done.pairs) == (sentences, pairs)
    assert pairs > 40
    assert (done.documents, done.tables, done.notes) == (7, 20, {})


def test_relabel_changes_only_tables_and_the_recorded_marker_models(soft_labels, markers, tmp_path):
    out = tmp_path / "marked"
    relabel(soft_labels, markers, out, share=1)
    for name in ("documents.jsonl", "examples.jsonl", "index.npy"):
        assert (out / name).read_bytes() == (soft_labels / name).read_bytes()
    before, after = (json.loads((folder / "lessons.json").read_text(encoding="utf-8")) for folder in (soft_labels, out))
    assert after.pop("relations_by") == [{**one.info, "share": 0.3333} for one in markers]
    assert after.pop("digest") != before.pop("digest")
    assert after == before
    assert [about["name"] for about in SoftLabelStore(out).teachers] == [
        "teacher",
        "other",
        "exact",
        "approximate",
        "same",
    ]
    relabel(out, markers[:1], tmp_path / "again", share=1)
    assert [about["name"] for about in SoftLabelStore(tmp_path / "again").info["relations_by"]] == [
        "exact",
        "approximate",
        "same",
        "exact",
    ]


def test_a_second_relabel_scales_down_the_earlier_shares(soft_labels, markers, tmp_path):
    relabel(soft_labels, markers, tmp_path / "once", share=0.6)
    relabel(tmp_path / "once", markers[:1], tmp_path / "twice", share=0.25)
    shares = [about["share"] for about in SoftLabelStore(tmp_path / "twice").info["relations_by"]]
    assert shares == [0.15, 0.15, 0.15, 0.25]
    teachers = (1 - 0.6) * (1 - 0.25)
    assert sum(shares) + teachers == pytest.approx(1)


@pytest.fixture(scope="module")
def long(random_model, tmp_path_factory) -> Path:
    """Soft labels of a sentence that has two tables, one of 30 words, and one of 8."""
    folder = tmp_path_factory.mktemp("long")
    words = ["we", "parse", "trees", "and", "graphs", "by", "models", "of", "grammar", "that", "are", "learnt"]
    sentences = [" ".join(words[k % len(words)] for k in range(n - 1)) + " ." for n in (90, 30, 8)]
    (folder / "text.jsonl").write_text(
        json.dumps({"id": "a", "text": "\n".join(sentences), "sentences": [s.split() for s in sentences]}) + "\n",
        encoding="utf-8",
    )
    teach([random_model], [folder / "text.jsonl"], folder / "soft_labels", device="cpu")
    return folder / "soft_labels"


def test_sentences_of_several_tables_or_longer_than_an_encoder_stay_as_they_were(
    long, encoders, scierc_labels, tmp_path
):
    wide, narrow = (marker_stage(encoders("bert", max_positions=n), scierc_labels, True) for n in (512, 24))
    expected = {
        "wide": ([False, False, True, True], {SPLIT: 1}),
        "both": ([False] * 3 + [True], {SPLIT: 1, TOO_LONG: 1}),
    }
    for name, finders in {"wide": [wide], "both": [wide, narrow]}.items():
        done = relabel(long, [marker(finder) for finder in finders], tmp_path / name)
        changed = [
            bool((before != after).any())
            for (_, _, before), (_, _, after) in zip(tables_of(long), tables_of(tmp_path / name), strict=True)
        ]
        assert (changed, done.notes) == expected[name]
        assert SoftLabelStore(tmp_path / name).info["notes"] == {**SoftLabelStore(long).info["notes"], **done.notes}


# What is refused, and what is left


def test_marker_models_of_other_labels_and_none_are_refused(soft_labels, encoders, markers, tmp_path):
    news = marker(marker_stage(encoders("bert"), LabelSpace.load("conll04"), True), "news")
    with pytest.raises(UnireError, match="marker model 'news' and soft labels do not have the same entity types"):
        relabel(soft_labels, [*markers, news], tmp_path / "out")
    with pytest.raises(UnireError, match="pass at least one marker model"):
        relabel(soft_labels, [], tmp_path / "out")
    with pytest.raises(UnireError, match="share must be above 0 and at most 1, not 2"):
        relabel(soft_labels, markers, tmp_path / "out", share=2)
    with pytest.raises(UnireError, match=r"already exists and holds .*; pass a new folder"):
        relabel(soft_labels, markers, soft_labels)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", SIGNALS)
def test_a_failed_or_stopped_run_leaves_no_output(soft_labels, markers, number, tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "CHUNK_CHARACTERS", 300)

    class Interrupting(Callback):
        def on_documents_labelled(self, done, total):
            assert 0 < done < total == 7
            signal.raise_signal(number)

    with pytest.raises(KeyboardInterrupt, match=str(int(number))):
        relabel(soft_labels, markers, tmp_path / "out", callbacks=[Interrupting()])
    assert not list(tmp_path.iterdir())

    def broken(*arguments):
        raise UnireError("the model is ill")

    monkeypatch.setattr(RelationClassifier, "score_pairs", broken)
    with pytest.raises(UnireError, match="the model is ill"):
        relabel(soft_labels, markers, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_student_learns_from_them_and_says_from_whom(sure, markers, encoder, tmp_path):
    relabel(sure, markers, tmp_path / "marked")
    trained = taught([], encoder, tmp_path / "student", soft_labels=tmp_path / "marked")
    plain = taught([], encoder, tmp_path / "plain", soft_labels=sure)
    assert trained.history != plain.history
    made = trained.model.config.provenance["distillation"]
    assert [teacher["name"] for teacher in made["teachers"]] == ["teacher", "exact", "approximate", "same"]
    assert "exact (tiny), approximate (tiny)" in (tmp_path / "student" / "README.md").read_text(encoding="utf-8")


# Chunks


@pytest.mark.parametrize("chunk", [1, 300, 2**20])
def test_soft_labels_are_read_in_order_part_by_part(soft_labels, long, chunk, monkeypatch):
    monkeypatch.setattr(storage, "CHUNK_CHARACTERS", chunk)
    for folder in (soft_labels, long):
        given = SoftLabelStore(folder)
        parts = list(given.chunks())
        assert [document for part in parts for document in part[0]] == list(given.texts)
        assert b"".join(part[2].tobytes() for part in parts) == (folder / "tables.bin").read_bytes()
        rows, done = [], 0
        for documents, tables, cells in parts:
            assert len(cells) == sum(len(table) ** 2 for table in tables)
            for table in tables:
                sentence = documents[table.document].sentences[table.sentence]
                assert sentence.start <= table.start < table.end <= sentence.start + len(sentence)
                rows.append((done + table.document, table.start, table.end))
            done += len(documents)
        assert rows == [tuple(row) for row in np.load(folder / "index.npy")[:, :3].tolist()]
    assert [table.sentence for part in SoftLabelStore(long).chunks() for table in part[1]] == [0, 0, 1, 2]


def test_sentences_without_words_are_skipped(random_model, tmp_path):
    documents = [
        {"id": "a", "text": "\n\na b\n\n", "sentences": [[], [], ["a", "b"], [], []]},
        {"id": "b", "text": "c", "sentences": [["c"]]},
    ]
    (tmp_path / "text.jsonl").write_text("\n".join(map(json.dumps, documents)), encoding="utf-8")
    teach([random_model], [tmp_path / "text.jsonl"], tmp_path / "soft_labels", device="cpu")
    ((_, tables, _),) = SoftLabelStore(tmp_path / "soft_labels").chunks()
    assert [(table.document, table.sentence) for table in tables] == [(0, 2), (1, 0)]


def test_tables_that_do_not_fit_the_documents_are_refused(copied):
    lines = (copied / "documents.jsonl").read_bytes().splitlines(keepends=True)
    (copied / "documents.jsonl").write_bytes(b"".join(lines[::-1]))
    with pytest.raises(
        UnireError, match=r"damaged \(index\.npy and documents\.jsonl differ\); create the soft labels again"
    ):
        list(SoftLabelStore(copied).chunks())


# Marker models


@pytest.mark.parametrize("approximate", [False, True])
def test_every_pair_is_judged_as_it_is_alone(encoders, few, scierc_labels, approximate):
    finder = replace(marker_stage(encoders("bert"), scierc_labels, approximate), max_batch_tokens=100)
    judged = finder.score_pairs(few)
    places = [(k, i) for k, d in enumerate(few) for i, sentence in enumerate(d.sentences) if len(sentence.entities) > 1]
    assert [(one.span.document, one.span.sentence) for one in judged] == places
    for one in judged:
        expected = pair_probabilities(finder, few[one.span.document], one.span.sentence)
        assert [tuple(pair) for pair in one.pairs.tolist()] == sorted(expected)
        np.testing.assert_allclose(
            one.probabilities, [[*expected[pair].values()] for pair in sorted(expected)], atol=1e-4
        )
    best = sorted(
        (one.entities[head].span, one.entities[tail].span, scierc_labels.relation_types[chances.argmax() - 1])
        for one in judged
        for (head, tail), chances in zip(one.pairs.tolist(), one.probabilities, strict=True)
        if chances.argmax()
    )
    assert best == sorted((r.head.span, r.tail.span, r.label) for d in finder.predict(few) for r in d.relations)
    assert finder.score_pairs([document.bare for document in few]) == []
