"""The recipes: stages that can be made in order, tables that say what was measured."""

from __future__ import annotations

import json
import lzma
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from typer.main import get_command

from helpers.paths import ROOT, TWENTY
from unire import Extractor, formats
from unire.cli.main import app
from unire.errors import UnireError
from unire.evaluation.scorer import score
from unire.evaluation.scores import Protocol
from unire.training import trainer
from unire.training.adaptation import adapt as adaptation
from unire.training.callbacks import Callback
from unire.training.config import AdaptationConfig
from unire.training.resume import has_checkpoint

RECIPES = ROOT / "recipes"


@pytest.fixture
def recipes(monkeypatch):
    monkeypatch.syspath_prepend(str(RECIPES))
    import plan
    import reproduce
    import tables

    yield plan, reproduce, tables
    for name in ("plan", "reproduce", "tables"):
        sys.modules.pop(name)


@pytest.fixture
def stages(recipes):
    plan, _, _ = recipes
    parts = (Path(name) for name in ("encoders", "data", "corpus", "work"))
    return plan.plan(plan.Parts(*parts))


@pytest.fixture
def parts(recipes, tmp_path):
    """Raw parts and what is made of them, in one folder."""
    plan, _, _ = recipes
    return plan.Parts(*(tmp_path / name for name in ("encoders", "data", "corpus", "work")))


def test_every_stage_is_a_command_with_options_that_it_has(stages, recipes):
    plan, _, _ = recipes
    commands = get_command(app).commands
    for stage in stages.values():
        if stage.command[0] not in plan.SCRIPTS:
            command = commands[stage.command[0]]
            known = {option for parameter in command.params for option in parameter.opts}
            assert {word for word in stage.command if word.startswith("--")} <= known, stage.name


def test_stages_run_after_the_stages_they_need(stages, recipes):
    _, reproduce, _ = recipes
    order = [stage.name for stage in reproduce.wanted(stages, ["science", "conll04-unmarked"])]
    assert order[-1] == "conll04-unmarked-2"
    assert len(order) == len(set(order))
    for stage in stages.values():
        for need in stage.needs:
            assert need in stages
            assert stage.name not in order or order.index(need) < order.index(stage.name)


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("scierc-marked", [f"scierc-marked-{seed}" for seed in range(5)]),
        ("scierc-small", ["scierc-small-0", "scierc-small-1"]),
        ("scierc-small-1", ["scierc-small-1"]),
        ("ade-best-fold", [f"ade-best-fold-{k}" for k in range(1, 11)]),
        ("ade-best", ["ade-best"]),
        ("relabelled.soft", ["relabelled.soft"]),
    ],
)
def test_a_name_stands_for_its_stage_and_for_its_runs_alone(stages, recipes, name, runs):
    _, reproduce, _ = recipes
    alone = {stage: replace(stages[stage], needs=()) for stage in stages}
    assert [stage.name for stage in reproduce.wanted(alone, [name])] == runs


@pytest.mark.parametrize("name", ["scierc", "scierc-self", "scierc-marked-", "scierc.marked", ""])
def test_a_name_of_no_stage_and_of_no_runs_is_refused(stages, recipes, name):
    _, reproduce, _ = recipes
    with pytest.raises(SystemExit, match=f"there is no stage {name!r}; there are mpnet-science, "):
        reproduce.wanted(stages, [name])


@pytest.mark.parametrize(
    ("name", "text", "teachers", "students"),
    [
        ("near.soft", "near.txt", "scierc-best", ["scierc-self-trained-0", "scierc-self-trained-4"]),
        ("second.soft", "near.txt", "scierc-marked", ["scierc-marked-twice-0", "scierc-marked-twice-4"]),
        ("related.soft", "related.txt", "conll04-best", ["conll04-unmarked-0", "conll04-unmarked-2"]),
    ],
)
def test_five_teachers_run_once_for_all_their_students(stages, name, text, teachers, students):
    soft_labels = stages[name]
    asked = [f"{teachers}-{seed}" for seed in range(5)]
    assert soft_labels.needs == (*asked, text)
    words = [word for teacher in asked for word in ("--teacher", f"work/{teacher}")]
    assert soft_labels.command == ("teach", *words, "--corpus", f"work/{text}")
    for student in students:
        command = stages[student].command
        assert command[:3] == ("distill", "--soft-labels", f"work/{name}")
        assert "--teacher" not in command
        assert name in stages[student].needs


def test_three_marker_models_name_the_relations_of_soft_labels_for_all_their_students(stages, recipes):
    plan, reproduce, _ = recipes
    markers = [f"scierc-markers-{seed}" for seed in range(3)]
    for seed, name in enumerate(markers):
        files = ("--data", "data/scierc/train.json", "--dev", "data/scierc/dev.json")
        options = (*files, "--labels", "scierc", "--seed", str(seed))
        assert stages[name].command == ("markers", "--encoder", "work/mpnet-science", *options)
        assert stages[name].needs == ("mpnet-science",)
    relabelled = stages["relabelled.soft"]
    assert relabelled.needs == ("near.soft", *markers)
    assert relabelled.alone
    words = [word for name in markers for word in ("--markers", f"work/{name}")]
    assert relabelled.command == ("relabel", "--soft-labels", "work/near.soft", *words)
    job = reproduce._job(relabelled, Path("work"))
    assert job.command == ("-m", "unire", *relabelled.command, "--out", "work/relabelled.soft", "--json")
    for seed in range(5):
        student, plain = (stages[f"scierc-{kind}-{seed}"] for kind in ("marked", "self-trained"))
        assert student.command == tuple(word.replace("near.", "relabelled.") for word in plain.command)
        assert student.needs == ("mpnet-science", "relabelled.soft")
    order = [stage.name for stage in reproduce.wanted(stages, ["scierc-marked-0"])]
    assert order[-2:] == ["relabelled.soft", "scierc-marked-0"]
    assert all((RECIPES / f"{name}.py").exists() for name in plan.SCRIPTS)


def test_marker_models_without_context_teach_the_conll04_models(stages):
    markers = [f"conll04-markers-{seed}" for seed in range(3)]
    for name in markers:
        assert stages[name].needs == ("mpnet-news",)
        assert stages[name].command[-6:] == ("--set", "case_marks=true", "--set", "window=0", "--epochs", "10")
    for text in ("related", "news"):
        assert stages[f"{text}-relabelled.soft"].needs == (f"{text}.soft", *markers)
    read = [word for flag, word in pairwise(stages["news.soft"].command) if flag == "--corpus"]
    assert read == ["work/related.txt", "work/articles.txt"]
    for seed in range(3):
        student, plain = (stages[f"conll04-{kind}-{seed}"].command for kind in ("marked", "unmarked"))
        assert student == tuple(word.replace("related.", "related-relabelled.") for word in plain)
    assert stages["conll04-small-0"].needs == ("gte-news", "news-relabelled.soft")
    assert stages["news"].needs == ("conll04-small-0",)


def test_models_trained_on_train_and_dev_are_not_tuned(stages):
    teachers = [f"conll04-train-and-dev-likely-{seed}" for seed in range(5)]
    markers = [f"conll04-markers-train-and-dev-{seed}" for seed in range(3)]
    students = [f"conll04-marked-train-and-dev-{seed}" for seed in range(3)]
    for name in (*teachers, *markers, *students):
        command = stages[name].command
        assert "--dev" not in command
        learnt = [word for flag, word in pairwise(command) if flag == "--data"]
        assert learnt == ["data/conll04/train.json", "data/conll04/dev.json"]
        assert name in markers or {"tune_alpha=false", "tune_odds=false"} <= set(command)
    soft_labels = "related-train-and-dev.soft"
    assert stages[soft_labels].needs == (*teachers, "related.txt")
    assert stages["related-train-and-dev-relabelled.soft"].needs == (soft_labels, *markers)
    assert all("related-train-and-dev-relabelled.soft" in stages[student].needs for student in students)


def test_the_bundled_science_model_learns_from_relabelled_soft_labels(stages):
    for seed in range(2):
        student, plain = (stages[f"scierc-small{kind}-{seed}"] for kind in ("", "-unmarked"))
        assert student.needs == ("gte-science", "relabelled.soft")
        assert plain.command == tuple(word.replace("relabelled.", "near.") for word in student.command)
        assert not student.alone
    assert stages["science"].needs == ("scierc-small-0",)


def test_models_are_decoded_in_the_papers_way_too_with_thresholds_tuned_on_dev(stages, recipes):
    _, reproduce, _ = recipes
    other = stages["scierc-best-split-3"]
    files = ("--data", "data/scierc/dev.json", "--test", "data/scierc/test.json")
    assert other.command == ("calibrate", "work/scierc-best-3", "--tune", "--decoder", "split", *files)
    assert other.needs == ("scierc-best-3",)
    assert stages["scierc-marked-split-0"].needs == ("scierc-marked-0",)
    assert reproduce._job(other, Path("work")).fresh_output == Path("work/scierc-best-split-3")


@pytest.mark.slow
def test_soft_labels_are_made_in_the_folder_of_work(recipes, parts, teacher, tmp_path):
    plan, reproduce, _ = recipes
    corpus = RECIPES.parent / "tests" / "fixtures" / "twenty.jsonl"
    stage = plan.Stage("some.soft", ("teach", "--teacher", str(teacher), "--corpus", str(corpus)))
    for _ in range(2):  # what is there is not made again
        reproduce.make([stage], parts, jobs=1)
    assert (tmp_path / "work" / "some.soft" / "lessons.json").exists()
    printed = json.loads((tmp_path / "work" / "some.soft.json").read_text(encoding="utf-8"))["printed"]
    assert (printed["documents"], printed["tables"]) == (7, 20)


def test_outputs_are_removed_before_a_rebuild_unless_it_resumes(recipes, stages, tmp_path):
    _, reproduce, _ = recipes
    work = tmp_path / "work"

    def fresh_output(name):
        return reproduce._job(stages[name], work).fresh_output

    assert fresh_output("scierc-best-0") == work / "scierc-best-0"
    assert fresh_output("scierc-small-0") == work / "scierc-small-0"
    assert fresh_output("science") == work / "science"
    assert fresh_output("scierc-markers-0") == work / "scierc-markers-0"
    assert fresh_output("relabelled.soft") is None
    assert fresh_output("ade-best-fold-3") == work / "ade-best" / "fold-03"
    assert fresh_output("ade-best") is None  # it goes on with what the folds have made
    assert fresh_output("ade-best-counted") is None  # it makes nothing
    assert fresh_output("mpnet-science") is None  # it may come from elsewhere
    for name in ("scierc-best-0", "ade-best/fold-03"):
        (work / f"{name}.resume").mkdir(parents=True)
    for name in ("scierc-best-0", "ade-best-fold-3"):
        assert fresh_output(name) is None
        assert reproduce._job(stages[name], work).command[-1] == "--resume"


@pytest.mark.slow
def test_an_adaptation_that_was_stopped_goes_on(recipes, parts, encoder, tmp_path, monkeypatch):
    plan, reproduce, _ = recipes
    text = tmp_path / "texts.txt"
    text.write_text("we parse trees and graphs by models of grammar\n" * 50, encoding="utf-8")
    options = ("--max-steps", "2", "--length", "32", "--batch-tokens", "64", "--device", "cpu")
    stage = plan.Stage("adapted", ("adapt", "--encoder", str(encoder), "--corpus", str(text), *options))
    work = tmp_path / "work"

    class Stop(Callback):
        def on_log(self, metrics):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(trainer, "LOG_SECONDS", 0)
    config = AdaptationConfig(max_steps=2, length=32, batch_tokens=64)
    with pytest.raises(KeyboardInterrupt):
        adaptation.adapt(encoder, [text], work / "adapted", config, device="cpu", callbacks=[Stop()])
    assert has_checkpoint(work / "adapted")
    (work / "adapted.log").touch()
    assert reproduce._job(stage, work).command[-1] == "--resume"
    (state,) = (work / "adapted.resume").iterdir()  # as by a process that was killed while it replaced the checkpoint
    state.rename(state.with_name(f".{state.name}.0123abcd.previous"))
    assert reproduce._job(stage, work).command[-1] == "--resume"
    reproduce.make([stage], parts, jobs=1)
    assert json.loads((work / "adapted" / "adaptation.json").read_text(encoding="utf-8"))["steps"] == 2
    assert reproduce._job(stage, work).command[-1] == "--json"


def test_a_rebuild_that_is_interrupted_ends_in_a_sentence(recipes, tmp_path, monkeypatch, capsys):
    _, reproduce, _ = recipes

    def interrupted(*arguments, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduce, "run_jobs", interrupted)
    monkeypatch.setattr(reproduce, "check", lambda stages, parts: None)
    folders = [word for part in ("encoders", "data", "corpus", "work") for word in (f"--{part}", str(tmp_path / part))]
    monkeypatch.setattr(sys, "argv", ["reproduce", "mpnet-science", *folders])
    with pytest.raises(SystemExit) as ended:
        reproduce.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err.startswith("interrupted; finished stages are kept")


def test_existing_outputs_are_not_rebuilt_and_failures_are_reported(stages, recipes, parts, tmp_path):
    plan, reproduce, _ = recipes
    text = tmp_path / "texts.txt"
    text.write_text(
        "\n".join(f"{topic} " * 50 for topic in ("parsing", "cooking", "grammar parsing")), encoding="utf-8"
    )
    like = TWENTY
    stage = plan.Stage("near.txt", ("select_similar", str(text), str(like), "2"))
    work = tmp_path / "work"
    reproduce.make([stage], parts, jobs=1)
    made = tmp_path / "work" / "near.txt"
    assert len(made.read_text(encoding="utf-8").splitlines()) == 2
    made.write_text("kept", encoding="utf-8")
    reproduce.make([stage], parts, jobs=1)
    assert made.read_text(encoding="utf-8") == "kept"
    (work / "near.txt.json").unlink()
    (work / "near.txt.log").unlink()
    reproduce.make([stage], parts, jobs=1)  # brought from elsewhere
    assert made.read_text(encoding="utf-8") == "kept"
    with pytest.raises(UnireError, match=r"far failed: .*'no-such-file' cannot be read: No such file.*far\.log"):
        reproduce.make([plan.Stage("far", ("select_similar", "no-such-file", str(like), "2"))], parts, jobs=1)


def test_the_first_texts_of_a_corpus_are_taken_as_they_are(recipes, parts):
    plan, reproduce, _ = recipes
    parts.corpus.mkdir()
    text = parts.corpus / "news.txt.xz"
    text.write_bytes(lzma.compress("One.\nTwo, “quoted”.\nThree.\n".encode()))
    reproduce.make([plan.Stage("articles.txt", ("take_first", str(text), "2"))], parts, jobs=1)
    assert (parts.work / "articles.txt").read_text(encoding="utf-8") == "One.\nTwo, “quoted”.\n"
    with pytest.raises(UnireError, match="the number of texts must be 1 or more, not 0"):
        reproduce.make([plan.Stage("none.txt", ("take_first", str(text), "0"))], parts, jobs=1)


@pytest.mark.slow
def test_a_row_that_was_made_is_scored_by_every_protocol_and_written_down(recipes, parts, exported):
    plan, reproduce, _ = recipes
    work = parts.work
    shutil.copytree(exported, work / "row")
    (work / "row.log").touch()
    (work / "row.json").write_text(json.dumps({"printed": {"epoch": 7, "folder": "row"}}), encoding="utf-8")
    parts.data.mkdir()
    data = shutil.copy(RECIPES.parent / "tests" / "fixtures" / "twenty.jsonl", parts.data)
    recorded = ("--base", "thenlper/gte-small", "--rebuild", "python recipes/reproduce.py row --data DATA")
    command = ("train", "--data", str(data), "--student", str(parts.work / "encoder"), *recorded)
    reproduce.make([plan.Stage("row", command, test=data)], parts, jobs=1)
    record = json.loads((work / "results" / "row.json").read_text(encoding="utf-8"))
    protocols = record.pop("protocols")
    assert record == {
        "command": ["unire", "train", "--data", "twenty.jsonl", "--student", "encoder", *recorded],
        "epoch": 7,
    }
    assert {"strict, doubled, micro", "boundaries, as-annotated, micro"} <= protocols.keys()
    assert all(0 <= scores["relations"]["f1"] <= 1 for scores in protocols.values())


@pytest.mark.slow
def test_models_of_folds_are_scored_with_and_without_sentences_of_overlapping_entities(recipes, parts, exported):
    plan, reproduce, _ = recipes
    lines = (RECIPES.parent / "tests" / "fixtures" / "twenty.jsonl").read_text(encoding="utf-8").splitlines()
    first = json.loads(lines[0])
    first["ner"][0].append([3, 3, "Method"])  # in one that ends with the word 4
    parts.data.mkdir()
    data, folds = parts.data / "data.jsonl", parts.data / "folds.json"
    data.write_text("\n".join([json.dumps(first), *lines[1:]]), encoding="utf-8")
    documents = list(formats.read(data))
    folds.write_text(json.dumps([[document.id for document in documents[k::2]] for k in range(2)]), encoding="utf-8")
    for k in (1, 2):
        shutil.copytree(exported, parts.work / "some" / f"fold-{k:02d}")
    reproduce.make([plan.Stage("some-counted", ("score_folds", str(data), str(folds)), part_of="some")], parts, jobs=1)
    record = json.loads((parts.work / "results" / "some-counted.json").read_text(encoding="utf-8"))
    assert record["command"] == ["recipes/score_folds.py", "data.jsonl", "folds.json"]
    extractor = Extractor.load(exported)
    for drop, counted in zip((False, True), record["protocols"].values(), strict=True):
        protocol = Protocol(average="macro", drop_overlapping=drop)
        by_fold = [
            score(documents[k::2], extractor.annotate(documents[k::2]), extractor.labels, protocol) for k in range(2)
        ]
        assert counted["entities"]["f1"] == pytest.approx(sum(fold.entities.f1 for fold in by_fold) / 2)
        assert counted["dropped"] == int(drop)


def test_missing_inputs_are_reported_before_the_first_stage_runs(recipes, parts):
    plan, reproduce, _ = recipes
    for folder in (parts.encoders / "gte-small", parts.corpus):
        folder.mkdir(parents=True)
    (parts.corpus / "news.txt.xz").touch()
    stages = plan.plan(parts)
    reproduce.check([stages["gte-news"]], parts)
    assert str(parts.corpus / "news.txt.xz") in stages["gte-news"].command
    with pytest.raises(UnireError, match=r"there is no \S+/science\.txt, no \S+/mpnet; --help says what must be there"):
        reproduce.check([stages["gte-news"], stages["mpnet-science"], stages["mpnet-news"]], parts)


def test_a_document_is_a_line_whatever_else_it_holds(recipes, parts, tmp_path):
    plan, reproduce, _ = recipes
    lines = ["one\u2028two\x85three", "four\x0cfive", "six"]
    text = tmp_path / "texts.txt.xz"
    text.write_bytes(lzma.compress("\n\n".join(lines).encode()))
    like = TWENTY
    reproduce.make([plan.Stage("near.txt", ("select_similar", str(text), str(like), "9"))], parts, jobs=1)
    assert (tmp_path / "work" / "near.txt").read_bytes().decode() == "".join(f"{line}\n" for line in lines)


def test_sentences_with_relations_are_chosen(recipes, parts, tmp_path):
    plan, reproduce, _ = recipes
    related = "John Wilkes Booth killed President Lincoln in Washington."
    text = tmp_path / "texts.txt"
    text.write_text(f"That was a long time ago. {related}\nIt rains.\n", encoding="utf-8")
    reproduce.make([plan.Stage("related.txt", ("select_related", str(text), "news"))], parts, jobs=1)
    assert (tmp_path / "work" / "related.txt").read_text(encoding="utf-8") == f"{related}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count"),
    [("../README.md", 1), ("results/index.md", 7), ("lab-notes/accuracy.md", 8), ("lab-notes/studies.md", 9)],
)
def test_the_tables_of_a_page_are_up_to_date(recipes, name, count):
    _, _, tables = recipes
    page = (tables.DOCS / name).read_text(encoding="utf-8")
    assert tables.updated(page) == page
    assert page.count("<!-- end -->") == count


@pytest.fixture
def studies(monkeypatch):
    monkeypatch.syspath_prepend(str(RECIPES))
    import studies

    yield studies
    sys.modules.pop("studies")


def test_the_studies_are_commands_with_options_that_they_have(studies):
    group = get_command(app).commands["study"]
    for name, words in studies.commands("encoder", Path("data"), Path("out"), 5).items():
        known = {option for parameter in group.commands[name].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, name


@pytest.mark.slow
def test_a_study_that_fails_says_why_and_nothing_else_and_the_rest_is_not_run(tmp_path):
    words = ("threshold", "errors", "--encoder", "none", "--data", tmp_path, "--out", tmp_path / "out")
    command = [sys.executable, RECIPES / "studies.py", *words]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 1
    assert ran.stdout.startswith("unire study threshold")
    assert "study errors" not in ran.stdout
    assert ran.stderr.startswith("error: ")
    assert "Traceback" not in ran.stderr


def test_an_interrupt_waits_for_the_running_study(studies, monkeypatch):
    waits = []

    class Process:
        def __init__(self, command):
            assert command[1:] == ["-m", "unire", "study", "beta2"]

        def wait(self):
            waits.append(self)
            if len(waits) == 1:
                raise KeyboardInterrupt
            return 130

    monkeypatch.setattr(studies.subprocess, "Popen", Process)
    with pytest.raises(SystemExit) as ended:
        studies.run(["study", "beta2"])
    assert (ended.value.code, len(waits)) == (130, 2)


def test_a_study_that_is_killed_has_the_status_of_its_signal(studies, monkeypatch):
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    start = subprocess.Popen
    monkeypatch.setattr(studies.subprocess, "Popen", lambda command: start([command[0], "-c", code]))
    with pytest.raises(SystemExit) as ended:
        studies.run(["study", "beta2"])
    assert ended.value.code == 137


def test_no_sentence_of_the_data_is_published(studies, recipes, tmp_path, monkeypatch):
    _, _, tables = recipes
    result = {
        "study": "errors",
        "sentences": 2,
        "gold": 3,
        "correct": 1,
        "errors": {"span splitting": 2},
        "cases": [{"text": "A secret sentence."}],
    }
    (tmp_path / "errors.json").write_text(json.dumps(result), encoding="utf-8")
    monkeypatch.setattr(studies, "CHARTS", tmp_path / "docs" / "lab-notes" / "charts")
    monkeypatch.setattr(studies, "RESULTS", tmp_path / "results" / "studies")
    monkeypatch.setattr(tables, "RESULTS", tmp_path / "results")
    studies.publish(tmp_path, ["errors"])
    assert "secret" not in (tmp_path / "results" / "studies" / "errors.json").read_text(encoding="utf-8")
    page = tables.study_tables("errors")
    assert "| span splitting | 2 |" in page
    assert "(charts/errors.svg)" in page
    assert "span splitting" in (tmp_path / "docs" / "lab-notes" / "charts" / "errors.svg").read_text(encoding="utf-8")
