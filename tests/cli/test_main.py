"""The command line: every command, for people and as JSON, and one clear sentence for every mistake."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest
from rich.console import Console

from helpers.ace import news
from helpers.cli import command, error, error_of_process, result, run
from helpers.paths import FIXTURES, TWENTY
from helpers.scored_documents import BOTH_WAYS, GOLD, LABELS
from unire import formats
from unire.__main__ import main as start
from unire.cli import console
from unire.cli.main import name_options
from unire.documents import Document
from unire.errors import UnireError


@pytest.fixture(scope="module")
def model(encoder, tmp_path_factory) -> Path:
    """A model that knows the twenty sentences by heart."""
    out = tmp_path_factory.mktemp("models") / "twenty"
    quick = ["bf16=false", "mlp_dropout=0", "logit_dropout=0", "evaluate_every=5", "evaluate_after=40"]
    ran = run(
        *("train", "--encoder", encoder, "--data", TWENTY, "--dev", TWENTY, "--labels", "scierc", "--out", out),
        *("--epochs", 100, "--lr", 0.001, "--head-lr", 0.003, "--layout", "shared", "--batch-size", 10),
        *("--patience", 100, *(part for setting in quick for part in ("--set", setting))),
    )
    assert ran.exit_code == 0, ran.output
    assert "dev Ent 100.0  Rel 100.0" in ran.output
    return out


@pytest.mark.slow
@pytest.mark.no_cover
def test_help_of_every_command_shows_its_usage():
    for words in (
        [],
        ["train"],
        ["adapt"],
        ["teach"],
        ["markers"],
        ["relabel"],
        ["distill"],
        ["evaluate"],
        ["extract"],
        ["export"],
        ["models"],
        ["score"],
        ["serve"],
        ["data", "stats"],
        *(["study", name] for name in ("ablate", "window", "dropout", "beta2", "threshold", "errors", "speed")),
        ["study", "compare"],
        ["study", "report"],
    ):
        ran = run(*words, "--help")
        assert ran.exit_code == 0
        assert len(ran.output) > 300
        if words:
            assert "unire " + " ".join(words) in ran.output


def test_ctrl_c_during_import_shows_no_traceback(monkeypatch):
    class Interrupted(MetaPathFinder):
        def find_spec(self, name: str, *_: object) -> None:
            if name == "unire.cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "unire.cli.main")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as left:
        start()
    assert left.value.code == 130


def test_a_narrow_terminal_cuts_nothing_from_a_table(monkeypatch):
    monkeypatch.setattr(console, "out", Console(file=(shown := io.StringIO()), width=30, force_terminal=True))
    console.table("a title", ("", "base checkpoint"), [("science", "thenlper/gte-small-and-more")])
    assert "thenlper/gte-small-and-more" in "".join(shown.getvalue().split())


SPEED = ("windows", "encoder", "biaffine", "decoder")


@pytest.mark.parametrize("width", [50, 52, 60])
def test_a_narrow_table_breaks_no_word(width, monkeypatch):
    monkeypatch.setattr(
        console, "out", Console(file=(shown := io.StringIO()), width=width, force_terminal=True, color_system=None)
    )
    console.table("Speed", ("", *SPEED), [("batches of 65,536 tokens", *["0.123"] * 4)])
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert set(shown.getvalue().split()) == {"Speed", *SPEED, "batches", "of", "65,536", "tokens", "0.123"}


def test_a_table_that_no_terminal_shows_is_as_wide_as_its_rows(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    name = " ".join(["a name of many words"] * 20)
    console.table("Long", ("", *SPEED), [(name, *["0.123"] * 4)])
    assert capsys.readouterr().out.splitlines()[-2].split("  ")[0] == name


def test_the_version_is_printed():
    assert run("--version").output.startswith("unire ")


def test_stats_count_sentences_and_relations():
    total = result("data", "stats", TWENTY, "--labels", "scierc")["total"]
    assert total["sentences"] == 20
    assert total["relations_doubled"] > total["relations"]
    ran = run("data", "stats", TWENTY, TWENTY, "--labels", "scierc")
    assert "relations doubled" in ran.output
    assert "total" in ran.output


def test_stats_of_scierc_are_the_papers(data_folder):
    files = [data_folder / "scierc" / f"{part}.json" for part in ("train", "dev", "test")]
    total = result("data", "stats", *files, "--labels", "scierc")["total"]
    assert total["sentences"] == 2687
    assert total["entities"] == 8094
    assert total["relations"] == 4648
    assert total["relations_doubled"] == 5463


def test_the_oracle_reads_gold_tables_without_a_model():
    scores = result("evaluate", "--oracle", "--labels", "scierc", "--data", TWENTY)["scores"]
    assert scores["entities"]["f1"] == scores["relations"]["f1"] == 1.0


def test_the_decoders_ceiling_on_scierc(data_folder):
    test = data_folder / "scierc" / "test.json"
    scores = result("evaluate", "--oracle", "--labels", "scierc", "--data", test)["scores"]
    assert scores["entities"]["f1"] >= 0.994
    assert scores["relations"]["f1"] >= 0.995


def test_a_model_is_evaluated(model, tmp_path):
    predictions = tmp_path / "predictions.jsonl"
    report = result("evaluate", "--model", model, "--data", TWENTY, "--predictions", predictions, "--device", "cpu")
    assert report["scores"]["entities"]["f1"] == 1.0
    again = result("score", TWENTY, predictions, "--labels", "scierc", "--all-protocols", "--bootstrap", 50)
    assert again["scores"] == report["scores"]
    assert len(again["protocols"]) == 6
    assert again["intervals"]["samples"] == 50
    ran = run("score", TWENTY, predictions, "--labels", "scierc", "--all-protocols", "--bootstrap", 50)
    assert "boundaries, once, micro" in ran.output


def test_gold_is_not_replaced_by_predictions(tmp_path):
    gold, folder = tmp_path / "gold.jsonl", tmp_path / "gold"
    gold.write_bytes(Path(TWENTY).read_bytes())
    oracle = ("evaluate", "--oracle", "--labels", "scierc", "--data")
    assert "gold.jsonl is also an input" in error(*oracle, gold, "--predictions", gold)
    assert gold.read_bytes() == Path(TWENTY).read_bytes()
    run("data", "convert", gold, "--to", "brat", "--out", folder)
    for name in ("found.txt", "deep/found.ANN"):
        assert f"{name} is inside" in error(*oracle, folder, "--predictions", folder / name)
    for _ in range(2):  # which a folder of brat may hold
        assert run(*oracle, folder, "--predictions", folder / "found.jsonl").exit_code == 0


def test_gold_and_predictions_have_each_a_format_of_their_own(tmp_path):
    ace, found = news().write(tmp_path / "ace"), tmp_path / "found.jsonl"
    run("data", "convert", ace, "--from", "ace05", "--out", found)
    for more in ((), ("--predictions-format", "unire")):
        assert result("score", ace, found, "--format", "ace05", *more)["scores"]["entities"]["f1"] == 1
    assert "cannot be read" in error("score", ace, found, "--format", "ace05", "--predictions-format", "brat")


def test_a_model_evaluated_with_another_decoder_says_so_in_its_score(model):
    hard = result("evaluate", "--model", model, "--data", TWENTY, "--decoder", "hard", "--device", "cpu")
    blunt = result("evaluate", "--model", model, "--data", TWENTY, "--alpha", 50, "--device", "cpu")
    assert hard["scores"]["entities"]["f1"] > 0.8
    assert blunt["scores"]["entities"]["f1"] < 0.5


def test_words_on_standard_input_are_annotated(model):
    document = next(formats.read(TWENTY))
    words = "\n".join(" ".join(sentence.words) for sentence in document.sentences)
    ran = run("extract", "--words", "--model", model, "--device", "cpu", stdin=words + "\n\n" + words)
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(lines) == 2
    assert [(e["start"], e["end"], e["label"]) for e in lines[0]["entities"]] == sorted(
        (e.start, e.end, e.label) for e in document.entities
    )
    assert all(0 <= e["score"] <= 1 for e in lines[0]["entities"])


def test_a_file_of_documents_is_annotated_into_another(model, tmp_path):
    out = tmp_path / "found.jsonl"
    summary = result("extract", TWENTY, "--model", model, "--out", out, "--device", "cpu")
    found = list(formats.read(out))
    assert summary["documents"] == len(found)
    assert [d.words for d in found] == [d.words for d in formats.read(TWENTY)]
    text = tmp_path / "words.txt"
    text.write_text("a b c\n")
    ran = run("extract", "--words", text, "--model", model, "--device", "cpu")
    assert json.loads(ran.stdout)["text"] == "a b c"


def test_symmetric_types_may_be_named_for_ones_own_data():
    named = result("data", "stats", TWENTY, "--symmetric", "COMPARE,CONJUNCTION")["total"]
    built_in = result("data", "stats", TWENTY, "--labels", "scierc")["total"]
    assert named["relations_doubled"] == built_in["relations_doubled"]


@pytest.mark.slow
def test_mistakes_get_one_sentence(tmp_path):
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert "holds no document" in error("data", "stats", empty)
    assert "cannot be read" in error_of_process("data", "stats", tmp_path / "nothing.jsonl")
    assert "unknown label space" in error("data", "stats", TWENTY, "--labels", "nothing")
    assert "unknown entity type" in error("data", "stats", TWENTY, "--labels", "conll04")
    assert "--oracle" in error("evaluate", "--data", TWENTY)
    assert "no model folder" in error("evaluate", "--data", TWENTY, "--model", tmp_path / "nothing")
    assert "no model folder" in error("extract", TWENTY, "--model", tmp_path / "nothing")
    assert "--symmetric is only for labels learned from the data" in error(
        "score", TWENTY, TWENTY, "--labels", "scierc", "--symmetric", "A"
    )


@pytest.mark.slow
def test_mistakes_in_training_get_one_sentence(tmp_path):
    pytest.importorskip("torch")
    assert "encoder" in error_of_process("train", "--encoder", tmp_path, "--data", TWENTY, "--out", tmp_path / "m")
    assert "unknown preset" in error("train", "--encoder", "x", "--data", TWENTY, "-o", tmp_path / "m", "--preset", "y")


@pytest.mark.parametrize(
    "option", [("--odds", 3), ("--device", "cpu"), ("--constraints", "learnt"), ("--reliability",)]
)
def test_the_oracle_refuses_what_only_a_model_heeds(option):
    sentence = "--odds, --constraints, --device and --reliability need --model; leave them out with --oracle"
    assert sentence in error("evaluate", "--oracle", "--labels", "scierc", "--data", TWENTY, *option)


def test_data_with_labels_that_a_model_does_not_know_are_refused(model):
    assert "unknown entity type" in error("evaluate", "--model", model, "--data", FIXTURES / "people.json")


def test_invalid_devices_and_thresholds_get_one_sentence(model, tmp_path):
    assert "cannot use the device 'foo'" in error("extract", TWENTY, "--model", model, "--device", "foo")
    for arguments in (
        ("evaluate", "--model", model, "--data", TWENTY, "--device", "cpu", "--alpha", "nan"),
        ("evaluate", "--oracle", "--labels", "scierc", "--data", TWENTY, "--alpha", "nan"),
        ("adapt", "--encoder", "x", "--corpus", __file__, "--out", tmp_path / "a", "--max-steps", 1, "--device", "foo"),
    ):
        ran = run(*arguments)
        assert isinstance(ran.exception, UnireError)
        assert "alpha must be above 0" in str(ran.exception) or "cannot use the device 'foo'" in str(ran.exception)
    oracle = ("evaluate", "--oracle", "--labels", "scierc", "--data", TWENTY)
    assert error(*oracle, "--alpha", 0) == "error: --alpha must be above 0, not 0.0\n"
    assert "--relation-odds" not in (wrong := error("evaluate", "--model", "science", "--data", TWENTY, "--odds", -1))
    assert wrong == "error: --odds must be above 0, not -1.0\n"
    lengths = ("adapt", "--encoder", "x", "--corpus", __file__, "--out", tmp_path / "b", "--max-steps", 1)
    refused = error(*lengths, "--batch-tokens", 64)
    assert refused == "error: adaptation setting --batch-tokens must be at least the length, 256, not 64\n"


@pytest.mark.slow
def test_standard_input_that_is_closed_or_no_text_gets_one_sentence(exported, tmp_path):
    arguments = ("extract", "--words", "--model", exported, "--device", "cpu")
    shell = shlex.join(command(*arguments)) + " <&-"
    closed = subprocess.run(shell, shell=True, capture_output=True, text=True, check=False)
    assert closed.returncode == 1
    assert closed.stderr == "error: standard input is closed; pipe text to it, or give a file\n"
    latin = tmp_path / "latin.txt"
    latin.write_bytes("caf\u00e9 noir\n".encode("latin-1"))
    with latin.open("rb") as file:
        assert re.search("standard input(, line 1)? is not UTF-8", error_of_process(*arguments, stdin=file))
    ran = run(*arguments, latin)
    assert isinstance(ran.exception, UnireError)
    assert "is not UTF-8" in str(ran.exception)


@pytest.mark.slow
def test_words_are_utf_8_with_any_terminal_encoding(exported, tmp_path):
    text = tmp_path / "words.txt"
    text.write_text("\ufeffcaf\u00e9 noir\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1:strict", "PYTHONUTF8": "0"}
    with text.open("rb") as file:
        ran = subprocess.run(
            command("extract", "--words", "--model", exported, "--device", "cpu"),
            stdin=file,
            env=environment,
            capture_output=True,
            check=True,
        )
    assert json.loads(ran.stdout.decode())["sentences"] == [["caf\u00e9", "noir"]]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_behind_standard_output_gets_one_sentence():
    with Path("/dev/full").open("w") as full:
        assert "No space left on device" in error_of_process("data", "stats", TWENTY, "--json", stdout=full)
        assert "No space left on device" in error_of_process("data", "stats", TWENTY, stdout=full)


@pytest.mark.slow
@pytest.mark.parametrize("json_option", [[], ["--json"]])
def test_a_closed_output_pipe_prints_no_error(json_option):
    reading, writing = os.pipe()
    os.close(reading)
    ran = subprocess.run(
        command("data", "stats", TWENTY, *json_option), stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert ran.returncode != 0
    assert ran.stderr == b""


def test_notes_are_not_lost_beside_json_lines(model, tmp_path):
    text = tmp_path / "long.txt"
    text.write_text(" ".join(200 * ["a"]))
    ran = run("extract", "--words", text, "--model", model, "--device", "cpu", "--json")
    assert len(json.loads(ran.stdout)["sentences"][0]) == 200
    assert "1 × sentence longer than the encoder, stitched" in ran.stderr
    summary = result("extract", "--words", text, "--model", model, "--device", "cpu", "--out", tmp_path / "found.jsonl")
    assert summary["notes"] == {"sentence longer than the encoder, stitched": 1}


def test_nan_is_not_printed_as_json():
    with pytest.raises(ValueError, match="JSON"):
        console.print_json({"f1": float("nan")})


def test_user_text_is_printed_without_markup(capsys):
    odd = "x[red]:smile:[/bold]\\[/].jsonl"
    console.say(f"written to {odd}, in ", (odd, "bold"))
    console.fail(odd)
    console.print_notes({odd: 2})
    assert capsys.readouterr().err == f"written to {odd}, in {odd}\nerror: {odd}\nnote: 2 × {odd}\n"
    console.say("\x1b[31mred\u202e", to=console.out)
    console.table(odd, ("", odd), [(odd, 1000)])
    shown = capsys.readouterr().out
    assert "␛[31mred‹U+202E›" in shown
    assert "\x1b" not in shown
    assert shown.count(odd) == 3
    assert "1,000" in shown


def test_a_predicted_type_that_gold_does_not_have_is_a_false_positive(tmp_path):
    gold = Document.from_words([["a", "b"]], [(0, 1, "X")], id="d")
    predicted = Document.from_words([["a", "b"]], [(0, 1, "X"), (1, 2, "Y")], id="d")
    formats.write([gold], tmp_path / "gold.jsonl")
    formats.write([predicted], tmp_path / "predictions.jsonl")
    scores = result("score", tmp_path / "gold.jsonl", tmp_path / "predictions.jsonl")["scores"]
    assert scores["entities"]["precision"] == 0.5
    assert scores["entities"]["recall"] == 1.0


def test_symmetric_relations_predicted_one_way_are_counted_in_a_note_where_they_cost(tmp_path):
    gold, labels = tmp_path / "gold.jsonl", tmp_path / "labels.json"
    labels.write_text(json.dumps(LABELS.to_dict()), encoding="utf-8")
    formats.write([GOLD], gold)
    ran = run("score", gold, gold, "--labels", labels)
    assert "note: 1 × symmetric relation predicted one way only" in ran.stderr
    assert "--directions once" in ran.stderr
    assert list(result("score", gold, gold, "--labels", labels)["notes"].values()) == [1]
    assert result("score", gold, gold, "--labels", labels, "--directions", "once")["notes"] == {}
    formats.write([BOTH_WAYS], both := tmp_path / "both.jsonl")
    assert "note:" not in run("score", gold, both, "--labels", labels).stderr


def test_errors_name_the_options_of_the_command(tmp_path):
    assert "give a new folder with --out\n" in error("calibrate", "science", "--data", TWENTY)
    sentence = 'use resume=True, spans="characters" or out=..., but not beta=True'
    assert name_options(sentence, ["train", "--x"]) == 'use --resume, spans="characters" or --out, but not beta=True'
    assert "--spans characters" in name_options(sentence, ["score", "gold", "found"])
    assert name_options("symmetric=...", ["data", "stats"]) == "--symmetric"
    assert name_options("format=...", ["data", "convert"]) == "--from"
    plain = 'lr must be above 0; --lr must be, head_lr is, beta must be, "lr" must be'
    assert name_options(plain, ["train"]) == f"--{plain}"
    assert name_options(sentence, []) == sentence
