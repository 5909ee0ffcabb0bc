"""The bundled models for a new user: found by name, quick to start, and robust to any input."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

from unire import Extractor
from unire.cli.main import app, name_options
from unire.errors import UnireError
from unire.segmentation import segment

SENTENCE = "We train a chart parser on the Penn Treebank for dependency parsing."
ENTITIES = [("chart parser", "Method"), ("Penn Treebank", "Material"), ("dependency parsing", "Task")]


def extract(*arguments: object, stdin: bytes | None = None):
    return CliRunner().invoke(app, ["extract", "--device", "cpu", *map(str, arguments)], input=stdin)


def error(*arguments: object, stdin: bytes | None = None) -> str:
    ran = extract(*arguments, stdin=stdin)
    assert isinstance(ran.exception, UnireError), ran.output
    assert "\n" not in str(ran.exception)
    return name_options(str(ran.exception), ["extract"])


def test_a_text_alone_is_enough_and_the_model_is_named():
    ran = extract(SENTENCE)
    assert ran.exit_code == 0
    assert "model: science" in ran.stderr
    item = json.loads(ran.stdout)
    assert [(entity["text"], entity["label"]) for entity in item["entities"]] == ENTITIES
    assert "model:" not in extract(SENTENCE, "--model", "science").stderr


def test_min_score_auto_takes_the_recommended_scores():
    (kept,), (found,) = (
        [json.loads(line) for line in extract(SENTENCE, "--min-score", least).stdout.splitlines()]
        for least in ("auto", 0)
    )
    assert kept == json.loads(json.dumps(Extractor.load("science").extract(SENTENCE, min_score="auto").to_dict()))
    recommended = Extractor.load("science").config.calibration.entity_min_scores
    assert kept["entities"] == [e for e in found["entities"] if e["score"] >= recommended[e["label"]]] != []


def test_a_filter_that_leaves_nothing_says_what_was_below_it(tmp_path):
    (item,) = [json.loads(line) for line in extract(SENTENCE).stdout.splitlines()]
    scores = [found["score"] for kind in ("entities", "relations") for found in item[kind]]
    note = (
        f"note: nothing is left: {len(scores)} entities and relations have scores below --min-score 0.99; the best is"
    )
    for arguments in ((), ("--format", "html"), ("--out", tmp_path / "found.jsonl")):
        assert f"{note} {max(scores):.2f}\n" in extract(SENTENCE, "--min-score", 0.99, *arguments).stderr
    assert "nothing is left" not in extract(SENTENCE, "--min-score", 0.3).stderr
    assert "nothing is left" not in extract("No.", "--min-score", 0.99).stderr


def test_the_bundled_news_model_finds_people_and_places():
    text = "Lee Harvey Oswald assassinated President John F. Kennedy. Ann Smith works for Reuters in Paris, France."
    item = json.loads(extract(text, "--model", "news").stdout)
    assert ("Lee Harvey Oswald", "Peop") in [(entity["text"], entity["label"]) for entity in item["entities"]]
    found = [(r["head"]["text"], r["label"], r["tail"]["text"]) for r in item["relations"]]
    assert ("Lee Harvey Oswald", "Kill", "President John F. Kennedy") in found
    assert ("Ann Smith", "Work_For", "Reuters") in found
    assert ("Paris", "Located_In", "France") in found


def test_standard_input_alone_is_enough():
    item = json.loads(extract(stdin=SENTENCE.encode()).stdout)
    assert [(entity["text"], entity["label"]) for entity in item["entities"]] == ENTITIES


ODD = {
    "nothing": "",
    "white space": " \n\t\u00a0\u3000",
    "emoji": "We train 🤖 parsers 👩‍💻 on the 🌲bank 🎉.",
    "right to left": "אנחנו מציגים parser חדש עבור dependency parsing. نقدم نموذجا.",
    "NUL": "We train a parser\x00 on the Penn\x00Treebank.",
    "one long word": "x" * 200_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("name", ["jsonl", "text", "tables", "csv", "graphml", "cypher", "html"])
def test_odd_texts_have_sane_results_in_every_format(text, name, tmp_path):
    ran = extract("--format", name, "--out", tmp_path / "found", stdin=text.encode())
    assert ran.exit_code == 0, ran.output
    written = (tmp_path / "found").read_text(encoding="utf-8")
    assert "\x00" not in written or name in ("csv", "tsv")
    if name == "jsonl":
        item = json.loads(written)
        assert item["text"] == text
        assert all(text[e["char_start"] : e["char_end"]] == e["text"] for e in item["entities"])


def test_an_argument_may_be_empty():
    assert json.loads(extract("").stdout)["entities"] == []


@pytest.mark.slow
@pytest.mark.no_cover
def test_five_megabytes_without_a_full_stop_are_one_sentence_whose_parts_are_read(science):
    words = "we train a neural parser on the Penn Treebank with features for translation "
    text = words * (5_000_000 // len(words) + 1)
    document = segment(text)
    assert len(document.sentences) == 1
    assert document.words[-13:] == tuple(words.split())
    assert text[slice(*document.offsets[-1])] == "translation"
    notes: Counter[str] = Counter()
    part = text[:10_000]  # the others are read in the same way, in a quarter of an hour
    found = science.extract(part, notes=notes)
    assert notes["sentence larger than a table, split"] == 1
    assert found.entities
    assert all(part[e.char_start : e.char_end] == e.text for e in found.entities)


def test_an_unreadable_input_is_one_sentence(tmp_path):
    latin, binary, lines = tmp_path / "latin.txt", tmp_path / "binary.dat", tmp_path / "papers.jsonl"
    latin.write_bytes("We train a café parser.".encode("latin-1"))
    binary.write_bytes(bytes(range(256)))
    lines.write_text('{"title": "A parser"}\n')
    pq.write_table(pa.table({"title": ["A parser"]}), tmp_path / "papers.parquet")
    assert error(latin) == f"{latin} is not UTF-8; convert it first"
    assert error(stdin=latin.read_bytes()) == "standard input is not UTF-8; convert it first"
    assert error(binary) == f"{binary} is binary, not text"
    assert error(lines) == f"{lines}, line 1 has no field 'text', only 'title'; choose one with --field"
    missing = f"{tmp_path / 'papers.parquet'} has no column 'text', only 'title'; choose one with --field"
    assert error(tmp_path / "papers.parquet") == missing


@pytest.mark.skipif(not Path("/proc").exists(), reason="there is no folder here that even root cannot write to")
@pytest.mark.parametrize("ending", ["jsonl", "csv", "txt", "graphml", "cypher", "html", "json"])
def test_an_unwritable_folder_is_reported(ending):
    more = ["--format", "spert"] if ending == "json" else []
    assert f"/proc/found.{ending} cannot be written" in error(SENTENCE, "--out", f"/proc/found.{ending}", *more)


def test_a_folder_without_a_model_is_reported(tmp_path):
    folder = f"model folder {str(tmp_path)!r} has no config.json; it is not a unire model"
    assert error(SENTENCE, "--model", tmp_path) == folder
    assert "the bundled models are news and science" in error(SENTENCE, "--model", "sciense")


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here, which torch is imported for")
def test_the_first_result_is_fast_and_imports_no_torch():
    """Within two seconds on a machine with nothing else to do; a busy one is given more."""
    code = "import sys; from unire.cli.main import app; app(sys.argv[1:], standalone_mode=False); "
    code += "print([m for m in ('torch', 'transformers', 'pyarrow', 'networkx') if m in sys.modules], file=sys.stderr)"
    command = [sys.executable, "-c", code, "extract", "--model", "science", SENTENCE]
    best = min(_seconds(command) for _ in range(2))
    assert best < 6


def test_the_package_is_imported_at_once():
    code = "import time; start = time.perf_counter(); import unire; print(time.perf_counter() - start)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(ran.stdout) < 0.3


def _seconds(command: list[str]) -> float:
    start = time.monotonic()
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stderr.strip() == "[]"
    assert len(json.loads(ran.stdout)["entities"]) == len(ENTITIES)
    return time.monotonic() - start
