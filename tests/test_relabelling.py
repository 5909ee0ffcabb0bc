"""Lessons whose relations marker models have named: rectangles hold their mean, and nothing else is touched."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from distilling import taught
from pipelining import marker_stage
from teaching import turned
from unire.decoding import arrays, decode
from unire.documents import Document
from unire.exceptions import UnireError
from unire.labels import LabelSpace
from unire.studies.pipeline import relabelling
from unire.studies.pipeline.cells import Cell, Marker, saved_markers
from unire.studies.pipeline.config import PipelineConfig
from unire.studies.pipeline.markers import collate
from unire.studies.pipeline.relabelling import PARTED, UNREAD, relabel
from unire.studies.pipeline.relations import RelationFinder, rows_of
from unire.training import TrainingConfig
from unire.training import lessons as storage
from unire.training.interrupt import SIGNALS
from unire.training.lessons import Lessons
from unire.training.teach import teach

TWENTY = Path(__file__).parent / "fixtures" / "twenty.jsonl"
RECIPES = Path(__file__).parents[1] / "recipes"


def marker(finder: RelationFinder, name: str = "marker") -> Marker:
    return Marker({"name": name, "encoder": "tiny", "scores": {}}, finder)


@pytest.fixture(scope="module")
def markers(encoders, scierc_labels) -> list[Marker]:
    """Two that read the same, and one of another kind, encoder and order of labels."""
    exact = marker_stage(encoders("bert"), scierc_labels, False)
    approximate = marker_stage(encoders("mpnet"), turned(scierc_labels), True)
    same = marker_stage(encoders("bert"), scierc_labels, False)
    for finder in (exact, approximate, same):
        torch.nn.init.normal_(finder.model.classifier.weight, std=0.3)  # so that they are sure of something
    return [marker(exact, "exact"), marker(approximate, "approximate"), marker(same, "same")]


@pytest.fixture(scope="module")
def sure(teacher, tmp_path_factory) -> Path:
    """Lessons of a teacher who finds all entities of the twenty sentences."""
    out = tmp_path_factory.mktemp("sure") / "sure.lessons"
    teach([teacher], [TWENTY], out, device="cpu")
    return out


@torch.no_grad()
def said(finder: RelationFinder, document: Document, sentence: int) -> dict[tuple[int, int], dict[str, float]]:
    """The probability of every relation, and of none, for each pair of entities: read pair by pair."""
    reading = next(r for r in finder.reader.read([document]) if r.place.sentence == sentence)
    entities = document.sentences[sentence].entities
    found = {}
    for row in rows_of(finder.model, reading, entities, finder.labels):
        scores = finder.model(collate([row], finder.reader.spec.pad_id, finder.model.first_position))
        for pair, chances in zip(row.pairs.tolist(), scores.softmax(-1).tolist(), strict=True):
            found[tuple(pair)] = dict(zip(["⊥", *finder.labels.relation_types], chances, strict=True))
    return found


def tables_of(folder: Path) -> Iterator[tuple[Document, int, np.ndarray]]:
    """Every table with its document and its sentence."""
    lessons = Lessons(folder)
    for documents, tables, cells in lessons.parts():
        first = 0
        for table in tables:
            n = len(table)
            yield documents[table.document], table.sentence, cells[first : first + n * n].reshape(n, n, -1)
            first += n * n


def found_in(document: Document, sentence: int, cells: np.ndarray, lessons: Lessons) -> Document:
    """A document with the entities of one table, decoded by itself."""
    P = cells / np.maximum(cells.sum(-1, keepdims=True), 1)
    decoded = decode(P[None].astype(np.float32), [len(P)], lessons.labels, alpha=lessons.alpha)
    start = document.sentences[sentence].start
    return document.annotated(
        [document.entity(start + a, start + b, lessons.labels.names[label]) for _, a, b, label in decoded.entities]
    )


# What is written


@pytest.mark.parametrize(("chunk", "as_numpy", "share"), [(300, "cpu", 1.0), (2**20, None, 0.25)])
def test_rectangles_hold_the_mean_of_what_is_said_of_pairs_and_nothing_else_is_changed(
    sure, markers, chunk, as_numpy, share, tmp_path, monkeypatch
):
    monkeypatch.setattr(storage, "CHUNK", chunk)
    monkeypatch.setattr(relabelling, "CELLS", 3 * chunk)
    monkeypatch.setattr(arrays, "AS_NUMPY", as_numpy)
    seen = []
    done = relabel(sure, markers, tmp_path / "marked", share=share, on_progress=lambda *counts: seen.append(counts))
    assert len(seen) > 3 if chunk == 300 else seen == [(7, 7)]
    given = Lessons(sure)
    names = given.labels.names
    pairs = sentences = 0
    told_apart = False
    for (document, sentence, before), (_, _, after) in zip(
        tables_of(sure), tables_of(tmp_path / "marked"), strict=True
    ):
        annotated = found_in(document, sentence, before, given)
        start, entities = document.sentences[sentence].start, annotated.sentences[sentence].entities
        voices = [said(one.finder, annotated, sentence) for one in markers]
        rest = np.ones(before.shape[:2], bool)
        sentences += bool(voices[0])
        for head, tail in voices[0]:
            rows, columns = (slice(e.start - start, e.end - start) for e in (entities[head], entities[tail]))
            rest[rows, columns] = False
            mean = [np.mean([voice[head, tail].get(name, 0.0) for voice in voices]) for name in names]
            expected = share * 255 * np.array(mean) + (1 - share) * before[rows, columns]
            np.testing.assert_allclose(after[rows, columns], expected, atol=0.51)
            told_apart |= any(abs(mean[0] - voice[head, tail]["⊥"]) > 0.1 for voice in voices)
            pairs += 1
        assert (after[rest] == before[rest]).all()
    assert told_apart
    assert (done.sentences, done.pairs) == (sentences, pairs)
    assert pairs > 40
    assert (done.documents, done.tables, done.notes) == (7, 20, {})


def test_all_but_tables_and_who_named_relations_is_as_it_was(lessons, markers, tmp_path):
    out = tmp_path / "marked"
    relabel(lessons, markers, out)
    for name in ("documents.jsonl", "examples.jsonl", "index.npy"):
        assert (out / name).read_bytes() == (lessons / name).read_bytes()
    before, after = (json.loads((folder / "lessons.json").read_text(encoding="utf-8")) for folder in (lessons, out))
    assert after.pop("relations_by") == [{**one.about, "share": 0.3333} for one in markers]
    assert after.pop("digest") != before.pop("digest")
    assert after == before
    assert [about["name"] for about in Lessons(out).teachers] == ["teacher", "other", "exact", "approximate", "same"]
    relabel(out, markers[:1], tmp_path / "again")
    assert [about["name"] for about in Lessons(tmp_path / "again").about["relations_by"]] == [
        "exact",
        "approximate",
        "same",
        "exact",
    ]


def test_who_has_named_relations_before_counts_what_later_ones_leave(lessons, markers, tmp_path):
    relabel(lessons, markers, tmp_path / "once", share=0.6)
    relabel(tmp_path / "once", markers[:1], tmp_path / "twice", share=0.25)
    shares = [about["share"] for about in Lessons(tmp_path / "twice").about["relations_by"]]
    assert shares == [0.15, 0.15, 0.15, 0.25]
    teachers = (1 - 0.6) * (1 - 0.25)
    assert sum(shares) + teachers == pytest.approx(1)


@pytest.fixture(scope="module")
def long(random_model, tmp_path_factory) -> Path:
    """Lessons of a sentence that has two tables, one of 30 words, and one of 8."""
    folder = tmp_path_factory.mktemp("long")
    words = ["we", "parse", "trees", "and", "graphs", "by", "models", "of", "grammar", "that", "are", "learnt"]
    sentences = [" ".join(words[k % len(words)] for k in range(n - 1)) + " ." for n in (90, 30, 8)]
    (folder / "text.jsonl").write_text(
        json.dumps({"id": "a", "text": "\n".join(sentences), "sentences": [s.split() for s in sentences]}) + "\n",
        encoding="utf-8",
    )
    teach([random_model], [folder / "text.jsonl"], folder / "lessons", device="cpu")
    return folder / "lessons"


def test_sentences_of_several_tables_or_longer_than_an_encoder_stay_as_they_were(
    long, encoders, scierc_labels, tmp_path
):
    wide, narrow = (marker_stage(encoders("bert", max_positions=n), scierc_labels, True) for n in (512, 24))
    expected = {
        "wide": ([False, False, True, True], {PARTED: 1}),
        "both": ([False] * 3 + [True], {PARTED: 1, UNREAD: 1}),
    }
    for name, finders in {"wide": [wide], "both": [wide, narrow]}.items():
        done = relabel(long, [marker(finder) for finder in finders], tmp_path / name)
        changed = [
            bool((before != after).any())
            for (_, _, before), (_, _, after) in zip(tables_of(long), tables_of(tmp_path / name), strict=True)
        ]
        assert (changed, done.notes) == expected[name]
        assert Lessons(tmp_path / name).about["notes"] == {**Lessons(long).about["notes"], **done.notes}


# What is refused, and what is left


def test_marker_models_of_other_labels_and_none_are_refused(lessons, encoders, markers, tmp_path):
    news = marker(marker_stage(encoders("bert"), LabelSpace.load("conll04"), True), "news")
    with pytest.raises(UnireError, match="marker model 'news' and lessons do not have the same entity types"):
        relabel(lessons, [*markers, news], tmp_path / "out")
    with pytest.raises(UnireError, match="there is no marker model; give one"):
        relabel(lessons, [], tmp_path / "out")
    with pytest.raises(UnireError, match="marker models cannot count 2; give a share"):
        relabel(lessons, markers, tmp_path / "out", share=2)
    with pytest.raises(UnireError, match="is not empty; give a new folder"):
        relabel(lessons, markers, lessons)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", SIGNALS)
def test_nothing_is_left_where_it_fails_or_is_stopped(lessons, markers, number, tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "CHUNK", 300)

    def interrupt(done, of):
        assert 0 < done < of == 7
        signal.raise_signal(number)

    with pytest.raises(KeyboardInterrupt, match=str(int(number))):
        relabel(lessons, markers, tmp_path / "out", on_progress=interrupt)
    assert not list(tmp_path.iterdir())

    def broken(*arguments):
        raise UnireError("the model is ill")

    monkeypatch.setattr(RelationFinder, "judge", broken)
    with pytest.raises(UnireError, match="the model is ill"):
        relabel(lessons, markers, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_student_learns_from_them_and_says_from_whom(sure, markers, encoder, tmp_path):
    relabel(sure, markers, tmp_path / "marked")
    trained = taught([], encoder, tmp_path / "student", lessons=tmp_path / "marked")
    plain = taught([], encoder, tmp_path / "plain", lessons=sure)
    assert trained.history != plain.history
    made = trained.model.settings.provenance["distillation"]
    assert [teacher["name"] for teacher in made["teachers"]] == ["teacher", "exact", "approximate", "same"]
    assert "exact (tiny), approximate (tiny)" in (tmp_path / "student" / "README.md").read_text(encoding="utf-8")


# Lessons, part by part


@pytest.mark.parametrize("chunk", [1, 300, 2**20])
def test_lessons_are_read_in_order_part_by_part(lessons, long, chunk, monkeypatch):
    monkeypatch.setattr(storage, "CHUNK", chunk)
    for folder in (lessons, long):
        given = Lessons(folder)
        parts = list(given.parts())
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
    assert [table.sentence for part in Lessons(long).parts() for table in part[1]] == [0, 0, 1, 2]


def test_sentences_without_words_do_not_lead_astray(random_model, tmp_path):
    documents = [
        {"id": "a", "text": "\n\na b\n\n", "sentences": [[], [], ["a", "b"], [], []]},
        {"id": "b", "text": "c", "sentences": [["c"]]},
    ]
    (tmp_path / "text.jsonl").write_text("\n".join(map(json.dumps, documents)), encoding="utf-8")
    teach([random_model], [tmp_path / "text.jsonl"], tmp_path / "lessons", device="cpu")
    ((_, tables, _),) = Lessons(tmp_path / "lessons").parts()
    assert [(table.document, table.sentence) for table in tables] == [(0, 2), (1, 0)]


def test_tables_that_do_not_fit_the_documents_are_refused(copied):
    lines = (copied / "documents.jsonl").read_bytes().splitlines(keepends=True)
    (copied / "documents.jsonl").write_bytes(b"".join(lines[::-1]))
    with pytest.raises(UnireError, match=r"damaged \(index\.npy and documents\.jsonl differ\); make the lessons again"):
        list(Lessons(copied).parts())


# Marker models


@pytest.mark.parametrize("approximate", [False, True])
def test_every_pair_is_judged_as_it_is_alone(encoders, few, scierc_labels, approximate):
    finder = replace(marker_stage(encoders("bert"), scierc_labels, approximate), max_pieces=100)
    judged = finder.judge(few)
    places = [(k, i) for k, d in enumerate(few) for i, sentence in enumerate(d.sentences) if len(sentence.entities) > 1]
    assert [(one.place.document, one.place.sentence) for one in judged] == places
    for one in judged:
        expected = said(finder, few[one.place.document], one.place.sentence)
        assert [tuple(pair) for pair in one.pairs.tolist()] == sorted(expected)
        np.testing.assert_allclose(one.chances, [[*expected[pair].values()] for pair in sorted(expected)], atol=1e-4)
    best = sorted(
        (one.entities[head].span, one.entities[tail].span, scierc_labels.relation_types[chances.argmax() - 1])
        for one in judged
        for (head, tail), chances in zip(one.pairs.tolist(), one.chances, strict=True)
        if chances.argmax()
    )
    assert best == sorted((r.head.span, r.tail.span, r.label) for d in finder.find(few) for r in d.relations)
    assert finder.judge([document.bare for document in few]) == []


def cell(encoder: str, out: Path, part: str) -> Cell:
    pipeline = asdict(PipelineConfig(entity_epochs=1, relation_epochs=1, relation_lr=3e-3, relation_head_lr=3e-3))
    files = [str(TWENTY)]
    labels, training = LabelSpace.load("scierc").to_dict(), asdict(TrainingConfig(seed=3))
    return Cell(part, encoder, files, files, [], None, labels, training, pipeline, str(out))


@pytest.mark.parametrize("part", ["exact", "approximate"])
def test_a_marker_model_that_a_cell_has_saved_says_the_same_when_it_is_loaded(
    part, encoders, few, tmp_path, monkeypatch
):
    trained = []
    fit = sys.modules["unire.studies.pipeline.cells"].fit

    def seen(model, *arguments, **more):
        trained.append(model)
        return fit(model, *arguments, **more)

    monkeypatch.setattr("unire.studies.pipeline.cells.fit", seen)
    made = cell(encoders("mpnet"), tmp_path / "out", part)
    made.run()
    (loaded,) = saved_markers(tmp_path / "out")
    assert loaded.about == {"name": f"pipeline-{part}-3", "encoder": "mpnet", "scores": {}}
    expected = replace(loaded.finder, model=trained[0]).judge(few)
    elsewhere = (tmp_path / "out" / "models" / f"pipeline-{part}-3").rename(tmp_path / "elsewhere")
    (moved,) = saved_markers(elsewhere)
    untrained = made._finder(part).judge(few)
    for one, two, three, other in zip(
        expected, loaded.finder.judge(few), moved.finder.judge(few), untrained, strict=True
    ):
        assert (one.chances == two.chances).all()
        assert (one.chances == three.chances).all()
        assert abs(one.chances - other.chances).max() > 1e-3


def test_a_model_that_cannot_be_saved_leaves_the_one_before_whole(encoders, tmp_path, monkeypatch):
    made = cell(encoders("bert"), tmp_path, "exact")
    made.run()
    folder = tmp_path / "models" / "pipeline-exact-3"
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    def full(path, tensors):
        path.write_bytes(b"half")
        raise OSError("No space left on device (os error 28)")

    monkeypatch.setattr("unire.studies.pipeline.cells.tensors_to", full)
    with pytest.raises(UnireError, match=r"could not be saved as '.*pipeline-exact-3': No space left on device"):
        replace(made, encoder=encoders("mpnet")).run()
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert list(folder.parent.iterdir()) == [folder]


def test_folders_without_marker_models_are_refused(encoders, tmp_path):
    with pytest.raises(UnireError, match=r"there is no marker model in .*nowhere'"):
        saved_markers(tmp_path / "nowhere")
    cell(encoders("bert"), tmp_path, "entities").run()
    with pytest.raises(UnireError, match="there is no marker model in"):
        saved_markers(tmp_path)
    spans = tmp_path / "models" / "pipeline-entities-3"
    with pytest.raises(UnireError, match="holds no marker model, but what the part 'entities' has saved"):
        saved_markers(spans)
    (spans / "cell.json").write_text("[]", encoding="utf-8")
    with pytest.raises(UnireError, match=r"cell\.json' cannot be read .*; train the model again"):
        saved_markers(spans)


# By recipe


@pytest.fixture
def recipe(monkeypatch):
    """Runs a script of the recipes in this process."""
    monkeypatch.syspath_prepend(str(RECIPES))

    def run(name: str, *arguments: object) -> None:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        script, module = __import__("script"), __import__(name)
        script.run(module.main, module.__doc__)

    yield run
    for name in ("marked", "markers", "script"):
        sys.modules.pop(name, None)


def test_the_recipes_train_marker_models_and_relabel(recipe, lessons, encoders, tmp_path, capsys):
    for seed in (0, 1):
        recipe("markers", "approximate", encoders("bert"), TWENTY, TWENTY, "scierc", seed, tmp_path / f"m-{seed}")
        assert [record["epoch"] for record in json.loads(capsys.readouterr().out)["history"]] == [1, 2, 3, 4, 5]
    recipe("marked", 0.5, lessons, tmp_path / "m-0", tmp_path / "m-1", tmp_path / "marked")
    printed = capsys.readouterr()
    assert json.loads(printed.out)["tables"] == 20
    assert "7 of 7 documents" in printed.err
    names = [about["name"] for about in Lessons(tmp_path / "marked").about["relations_by"]]
    assert names == ["pipeline-approximate-0", "pipeline-approximate-1"]
    weights = [one.finder.model.classifier.weight for k in (0, 1) for one in saved_markers(tmp_path / f"m-{k}")]
    assert not torch.equal(*weights)


def test_a_marker_model_takes_settings_of_its_own_and_of_trainings(recipe, encoders, tmp_path, capsys):
    settings = ("relation_epochs=1", "relation_window=0", "lr=1e-3")
    recipe("markers", "approximate", encoders("bert"), TWENTY, TWENTY, "scierc", 3, *settings, tmp_path / "m")
    assert len(json.loads(capsys.readouterr().out)["history"]) == 1
    (made,) = saved_markers(tmp_path / "m")
    assert made.about["name"] == "pipeline-approximate-3"
    (file,) = (tmp_path / "m").glob("models/*/cell.json")
    cell = Cell.from_json(file.read_text(encoding="utf-8"))
    assert cell.config == PipelineConfig(relation_epochs=1, relation_window=0)
    assert cell.joint == TrainingConfig.from_preset("best", seed=3, lr=1e-3)


def test_the_recipes_say_in_one_sentence_what_is_wrong(recipe, lessons, encoders, tmp_path):
    files = (TWENTY, TWENTY, "scierc", 0, tmp_path / "m")
    with pytest.raises(SystemExit, match="no marker model 'span'; there are exact and approximate"):
        recipe("markers", "span", encoders("bert"), *files)
    with pytest.raises(SystemExit, match="encoders of the kind deberta cannot"):
        recipe("markers", "approximate", encoders("deberta"), *files)
    with pytest.raises(SystemExit, match="encoder"):
        recipe("markers", "exact", tmp_path / "none", *files)
    with pytest.raises(SystemExit, match=r"SEED must be a whole number, not '1\.5'"):
        recipe("markers", "exact", encoders("bert"), *files[:3], 1.5, tmp_path / "m")
    with pytest.raises(SystemExit, match="a setting takes NAME=VALUE, not 'case_marks'"):
        recipe("markers", "exact", encoders("bert"), *files[:4], "case_marks", tmp_path / "m")
    with pytest.raises(SystemExit, match="no training setting 'marks'"):
        recipe("markers", "exact", encoders("bert"), *files[:4], "marks=true", tmp_path / "m")
    with pytest.raises(SystemExit, match="--seed 0 and a setting seed=1 contradict each other"):
        recipe("markers", "exact", encoders("bert"), *files[:4], "seed=1", tmp_path / "m")
    with pytest.raises(SystemExit, match=r"'.*fixtures' is not empty; give a new folder"):
        recipe("markers", "exact", encoders("bert"), *files[:4], TWENTY.parent)
    with pytest.raises(SystemExit, match="SHARE must be a number, not 'half'"):
        recipe("marked", "half", lessons, tmp_path / "out")
    with pytest.raises(SystemExit, match=r"SHARE LESSONS MARKERS\.\.\. OUT"):
        recipe("marked", 0.5, lessons)
    with pytest.raises(SystemExit, match="there is no marker model in"):
        recipe("marked", 0.5, lessons, tmp_path / "m", tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def ends(monkeypatch):
    """How a script ends that fails with an error."""
    monkeypatch.syspath_prepend(str(RECIPES))
    monkeypatch.setattr(sys, "argv", ["script"])
    script = __import__("script")

    def run(error: BaseException) -> object:
        def main():
            raise error

        with pytest.raises(SystemExit) as ended:
            script.run(main, None)
        return ended.value.code

    yield run
    sys.modules.pop("script")


def test_a_script_ends_in_a_sentence_or_as_the_signal_says_but_a_bug_is_told_in_full(ends, capsys):
    assert ends(OSError("No space left on device (os error 28)")) == "No space left on device (os error 28)"
    assert ends(FileNotFoundError(2, "No such file", "x.txt")) == "[Errno 2] No such file: 'x.txt'"
    assert ends(KeyboardInterrupt()) == 130
    assert ends(KeyboardInterrupt(signal.SIGTERM)) == 143
    assert capsys.readouterr().err == "interrupted; nothing was kept\n" * 2
    with pytest.raises(ValueError, match="a bug"):
        ends(ValueError("a bug"))
