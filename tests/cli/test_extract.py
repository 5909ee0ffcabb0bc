"""`unire extract`: every kind of input, every kind of output, and errors in one sentence."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import subprocess
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

from helpers.cli import command, error_of_process
from helpers.extract import TEXT
from helpers.paths import FIXTURES
from unire import formats
from unire.cli import console
from unire.cli.main import app, name_options
from unire.errors import UnireError
from unire.graph.names import fold_name, is_pronoun
from unire.rendering import html
from unire.writers import WRITERS


def test_a_text_gives_entities_and_relations_at_their_characters(found):
    (item,) = found(TEXT)
    assert (item["id"], item["text"]) == ("", TEXT)
    assert item["entities"]
    assert item["relations"]
    arguments = [relation[side] for relation in item["relations"] for side in ("head", "tail")]
    for entity in (*item["entities"], *arguments):
        assert TEXT[entity["char_start"] : entity["char_end"]] == entity["text"]
        assert entity["label"]
    assert all(0 <= result["score"] <= 1 for result in (*item["entities"], *item["relations"]))
    bare = [{key: value for key, value in entity.items() if key != "score"} for entity in item["entities"]]
    assert all(argument in bare for argument in arguments)


def test_files_folders_lines_fields_and_columns_are_read(found, tmp_path):
    (tmp_path / "a.txt").write_text("One line.\nAnother line.\n")
    (tmp_path / "b.jsonl").write_text('{"id": "x", "text": "In JSON.", "abstract": "Abstract."}\n')
    pq.write_table(pa.table({"text": ["In Parquet.", ""]}), tmp_path / "c.parquet")
    (tmp_path / "d.csv").write_text('id,text,abstract\ny,"In ""CSV"".\nTwo lines.",Short.\n')
    assert [item["text"] for item in found(tmp_path)] == [
        *("One line.\nAnother line.\n", "In JSON.", "In Parquet.", ""),
    ]
    assert [item["text"] for item in found("--lines", tmp_path / "a.txt")] == ["One line.", "Another line."]
    abstracts = found("--field", "abstract", tmp_path / "b.jsonl", tmp_path / "d.csv")
    assert [(item["id"], item["text"]) for item in abstracts] == [("x", "Abstract."), ("y", "Short.")]
    assert [item["text"] for item in found(tmp_path / "a.txt", "A text.")] == ["One line.\nAnother line.\n", "A text."]
    assert found(tmp_path / "c.parquet")[1] == {
        "id": f"{tmp_path / 'c.parquet'}:2",
        "text": "",
        "entities": [],
        "relations": [],
    }


def test_standard_input_is_one_text_or_one_a_line(found):
    assert [item["text"] for item in found(stdin="one\ntwo\n")] == ["one\ntwo\n"]
    assert [item["text"] for item in found("--lines", stdin="one\n\ntwo")] == ["one", "", "two"]
    assert [item["text"] for item in found("--field", "t", "-", stdin='{"t": "one"}')] == ["one"]
    assert [item["text"] for item in found("--field", "t", stdin='n,t\n1,"one, two"\n')] == ["one, two"]
    assert found("--lines", stdin="") == []


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", " \n\t", "👍 👩‍💻", "שלום עולם", "a\x00b", "\u00a0\u3000\u200b", "word " * 2000])
def test_odd_texts_have_sane_results(found, text):
    (item,) = found(stdin=text.encode())
    assert item["text"] == text
    assert all(text[e["char_start"] : e["char_end"]] == e["text"] for e in item["entities"])


def test_words_stay_as_they_were_given(found):
    (item,) = found("--words", stdin="Ada lives-in London .\n")
    assert item["sentences"] == [["Ada", "lives-in", "London", "."]]
    assert "sentences" not in found("--words", "--format", "jsonl", stdin="Ada")[0]


def test_min_score_drops_lower_scores(found):
    (everything,) = found(TEXT)
    scores = sorted(entity["score"] for entity in everything["entities"])
    between = (scores[0] + scores[-1]) / 2
    (some,) = found(TEXT, "--min-score", between)
    assert some["entities"] == [entity for entity in everything["entities"] if entity["score"] > between]
    assert 0 < len(some["entities"]) < len(everything["entities"])
    assert all(relation["score"] > between for relation in some["relations"])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in WRITERS if name not in ("brat", "datasets", "parquet", "spacy")])
def test_every_format_leaves_out_other_types(extract, found, name, tmp_path):
    """The output is what a model that predicts only these types would give."""
    (item,) = found(TEXT)
    labels = Counter(entity["label"] for entity in item["entities"])
    assert len(labels) > 1
    kept = labels.most_common(1)[0][0]
    out = tmp_path / "found"
    assert extract(TEXT, "--format", name, "--out", out, "--types", kept).exit_code == 0
    written = out.read_text()
    if name == "jsonl":
        assert {entity["label"] for entity in json.loads(written)["entities"]} == {kept}
    if name in ("jsonl", "unire", "csv", "entities-csv", "graphml", "cypher", "labelstudio"):
        assert kept in written
        assert not [label for label in labels if label != kept and re.search(rf"\b{label}\b", written)]


def test_relations_of_some_types_are_written_with_their_arguments(found):
    (everything,) = found(TEXT)
    label = everything["relations"][0]["label"]
    (item,) = found(TEXT, "--relations", label)
    assert {relation["label"] for relation in item["relations"]} == {label}
    arguments = {(m["char_start"], m["label"]) for r in item["relations"] for m in (r["head"], r["tail"])}
    assert {(entity["char_start"], entity["label"]) for entity in item["entities"]} == arguments
    assert len(arguments) < len(everything["entities"])
    kept = item["relations"][0]["head"]["label"]
    (item,) = found(TEXT, "--entities", kept)
    assert {entity["label"] for entity in item["entities"]} == {kept}


def test_an_unknown_type_is_refused_before_anything_is_written(extract, tmp_path):
    out = tmp_path / "found.jsonl"
    ran = extract(TEXT, "--out", out, "--types", "Method,Person")
    assert name_options(str(ran.exception), ["extract"]).startswith(
        "--types names 'Person', which the model does not have; the entity types are "
    )
    assert not list(tmp_path.iterdir())


def test_a_format_is_named_or_read_off_the_file(extract, tmp_path):
    named, spert = tmp_path / "found.jsonl", tmp_path / "found.json"
    assert extract(TEXT, "--out", named, "--format", "unire").exit_code == 0
    (document,) = formats.read(named)
    assert document.text == TEXT
    assert extract(FIXTURES / "twenty.jsonl", "--out", spert, "--format", "dygie").exit_code == 0
    assert [d.words for d in formats.read(spert)] == [d.words for d in formats.read(FIXTURES / "twenty.jsonl")]


def test_brat_and_parquet_hold_what_was_found(extract, found, tmp_path):
    items = found(TEXT, TEXT)
    for name in ("brat", "parquet"):
        ran = extract(TEXT, TEXT, "--out", tmp_path / name, "--format", name)
        assert ran.exit_code == 0, ran.output
        assert "cuts" not in ran.stderr
        documents = list(formats.read(tmp_path / name))
        assert [document.id for document in documents] == ["text-1", "text-2"]
        for document, item in zip(documents, items, strict=True):
            spans = {(entity["char_start"], entity["char_end"], entity["label"]) for entity in item["entities"]}
            assert {(e.char_start, e.char_end, e.label) for e in document.entities} == spans
            assert len(document.relations) == len(item["relations"])


def test_losses_of_a_format_are_noted(extract, tmp_path):
    ran = extract(TEXT, "--out", tmp_path / "found.corp", "--format", "conll04")
    assert ran.exit_code == 0
    assert "score" in ran.stderr
    assert "text that is not the words joined by spaces" in ran.stderr.replace("\n", " ")


def test_output_with_a_compressed_suffix_is_refused(extract, tmp_path):
    ran = extract(TEXT, "--out", tmp_path / "found.jsonl.gz", "--format", "jsonl")
    assert "found.jsonl.gz cannot be written compressed" in str(ran.exception)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["found.cvs", "found.json"])
def test_an_ending_that_names_no_format_is_not_taken_for_lines_of_json(name, extract, tmp_path):
    ran = extract(TEXT, "--out", tmp_path / name)
    assert f"{name} is not that of a format; pass format=..." in str(ran.exception)
    assert not list(tmp_path.iterdir())
    assert extract(TEXT, "--out", tmp_path / name, "--format", "jsonl").exit_code == 0


def test_a_summary_is_printed_beside_the_file(extract, random_model, tmp_path):
    out = tmp_path / "new" / "found.jsonl"
    ran = extract(TEXT, "--out", out)
    assert ran.stdout == ""
    assert "Extracted 1 document with" in ran.stderr.replace("\n", " ")
    assert f" to {out}" in ran.stderr.replace("\n", " ")
    assert json.loads(out.read_text())["text"] == TEXT
    summary = {"documents": 1, "model": str(random_model), "out": str(out), "notes": {}}
    assert json.loads(extract(TEXT, "--out", out, "--json").stdout) == summary


def test_files_that_are_left_out_are_in_the_summary(extract, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("a.txt", "b.rst", "c.rst"):
        (folder / name).write_text(TEXT)
    ran = extract(folder, "--out", tmp_path / "found.jsonl", "--json")
    assert json.loads(ran.stdout)["notes"] == {"file of another kind left out (.rst)": 2}
    assert "note: 2 × file of another kind left out (.rst)" in " ".join(ran.stderr.split())


@pytest.mark.parametrize("name", ["x[red].jsonl", "x[/red].jsonl", ":smile:.jsonl"])
def test_file_names_are_printed_without_markup(name, extract, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = extract(TEXT, "--out", name)
    assert ran.exit_code == 0, ran.exception
    assert ran.stderr.endswith(f" to {name}\n")
    message = " ".join(extract(TEXT, "--out", name, "--resume").stderr.split())
    assert message.startswith(f"{name} is complete, with nothing to resume;")


def test_an_input_that_has_changed_is_not_taken_for_done(extract, tmp_path):
    file, out = tmp_path / "lines.txt", tmp_path / "found.jsonl"
    file.write_text(f"{TEXT}\n")
    options = ("--lines", file, "--out", out, "--resume")
    assert extract(*options).exit_code == 0
    assert extract(*options).exit_code == 0
    file.write_text(f"{TEXT}\n{TEXT}\n")
    os.utime(file, ns=(2 * out.stat().st_mtime_ns,) * 2)
    message = " ".join(str(extract(*options).exception).split())
    assert message == f"{out} is complete, but {file} has changed since; run without resume=True to write it again"
    assert len(out.read_text().splitlines()) == 1
    assert extract(*options[:-1]).exit_code == 0
    assert len(out.read_text().splitlines()) == 2


def test_a_dash_as_output_is_standard_output(found, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert found(TEXT, "--out", "-") == found(TEXT)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("papers.jsonl", '{"text": "A text."}\n', ()),
        ("papers.csv", "text,abstract\na,A text.\n", ("--field", "abstract")),
        ("n.txt", "A text.\n", ()),
        ("n.html", "A text.\n", ()),
    ],
)
def test_an_output_that_is_also_an_input_is_refused(name, content, options, error, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(content)
    Path("link").symlink_to(name)
    for source, out in ((name, name), ("link", name), (name, tmp_path / name)):
        assert "is also an input; write to another file" in error(source, *options, "--out", out)
    assert "is also an input" in error(name, *options, "--out", "link", "--format", "jsonl")
    Path("found.jsonl.part").hardlink_to(name)
    assert "found.jsonl.part is also an input" in error("found.jsonl.part", "--lines", "--out", "found.jsonl")
    assert Path(name).read_text() == Path("found.jsonl.part").read_text() == content


@pytest.mark.slow
def test_standard_input_is_not_replaced_either(exported, tmp_path):
    file = tmp_path / "n.txt"
    file.write_text("A text.")
    with file.open() as stdin:
        message = error_of_process("extract", "--model", exported, "--device", "cpu", "--out", file, stdin=stdin)
    assert "n.txt is also an input" in message
    assert file.read_text() == "A text."


def test_an_output_within_an_input_folder_is_refused(error, extract, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.txt").write_text("A text.")
    for out, options in (
        *(("found.jsonl", ()), ("deep/found.txt", ()), ("found.parquet", ()), ("found.csv", ("--field", "text"))),
        ("brat", ("--format", "brat")),
    ):
        assert error(folder, *options, "--out", folder / out) == (
            f"{folder / out} is inside the input folder {folder}; write to another folder"
        )
    for out in ("found.csv", "found.html"):
        assert extract(folder, "--out", folder / out).exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt", "found.csv", "found.html"]


def test_a_link_is_followed(extract, tmp_path):
    link, target = tmp_path / "link.jsonl", tmp_path / "store" / "found.jsonl"
    link.symlink_to(target)
    for text in ("A text.", "Another text."):
        assert extract(text, "--out", link).exit_code == 0
        assert link.is_symlink()
        assert json.loads(target.read_text())["text"] == text


def test_a_device_is_written_directly(extract):
    assert extract(TEXT, "--out", "/dev/null").exit_code == 0
    assert not Path("/dev/null.part").exists()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs names for open files")
def test_a_closed_file_descriptor_cannot_be_written(error):
    assert error(TEXT, "--out", "/dev/fd/987") == "/dev/fd/987 cannot be written: Bad file descriptor"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="needs a name for standard output")
@pytest.mark.parametrize("options", [(), ("--format", "cypher"), ("--format", "html"), ("--format", "spert")])
def test_the_file_that_standard_output_goes_to_is_added_to(options, exported, tmp_path):
    words = ("extract", "--model", exported, "--device", "cpu", TEXT, *options, "--out", "/dev/stdout")
    shell = shlex.join(command(*words))
    text = f"echo header > a; {shell} >> a && {{ echo one; {shell}; echo two; }} > b"
    ran = subprocess.run(["sh", "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    header, found = (tmp_path / "a").read_text().split("\n", 1)
    assert header == "header"
    assert "parser" in found
    assert (tmp_path / "b").read_text() == f"one\n{found}two\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    assert Path("/dev/stdout").is_symlink()


def test_a_mistake_is_one_sentence(error, tmp_path):
    latin, binary = tmp_path / "latin.txt", tmp_path / "binary.txt"
    latin.write_bytes("café".encode("latin-1"))
    binary.write_bytes(bytes(range(256)))
    pq.write_table(pa.table({"title": ["a"]}), tmp_path / "titles.parquet")
    assert "is not UTF-8; convert it first" in error(latin)
    assert "standard input is not UTF-8" in error(stdin=b"caf\xe9")
    assert "is binary, not text" in error(binary)
    assert "has no column 'text', only 'title'" in error(tmp_path / "titles.parquet")
    assert "there is no file or folder 'missing.txt'" in error("missing.txt")
    assert "--lines and --words" in error("--lines", "--words", stdin="a")
    assert "unknown format 'xml'" in error(TEXT, "--format", "xml")
    assert "'dygie' needs a file" in error(TEXT, "--format", "dygie")
    assert "'brat' needs a folder" in error(TEXT, "--format", "brat")
    assert "already exists and holds" in error(TEXT, "--format", "brat", "--out", tmp_path)
    assert "--resume needs --out and a format with one line" in error(TEXT, "--resume")
    assert "--resume needs --out and a format with one line" in error(
        TEXT, "--resume", "--out", tmp_path / "x", "--format", "dygie"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("papers.csv", "--field", "abstrct", "--format", "csv"), "has no column 'abstrct'"),
        (("latin.txt", "--format", "csv"), "is not UTF-8"),
        (("A text.", "--format", "xml"), "unknown format 'xml'"),
        (("A text.", "--constraints", "none", "--resume"), "resume=True needs out=..."),
    ],
)
def test_an_invalid_input_is_an_error_before_the_model_is_loaded(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("papers.csv").write_text("id,abstract\nx,A text.\n")
    Path("latin.txt").write_bytes(b"caf\xe9")
    monkeypatch.setattr("unire.extractor.Extractor.load", None)  # which is not needed to know it
    ran = CliRunner().invoke(app, ["extract", *arguments])
    assert message in str(ran.exception)
    assert ran.output == ""


def test_an_output_that_cannot_be_written_is_reported_before_the_model_is_loaded(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr("unire.extractor.Extractor.load", None)
    for out in (tmp_path / "file" / "found.jsonl", tmp_path, Path("/proc/found.jsonl")):
        ran = CliRunner().invoke(app, ["extract", TEXT, "--out", str(out)])
        assert isinstance(ran.exception, UnireError)
        assert "cannot be written" in str(ran.exception) or "is a folder" in str(ran.exception)


@pytest.mark.parametrize("text", ["hi", "hi there", "nothing.txt"])
def test_a_wrong_model_is_reported_before_a_wrong_text(text):
    ran = CliRunner().invoke(app, ["extract", "--model", "nope", text])
    assert str(ran.exception) == "there is no model folder 'nope'; the bundled models are news and science"


def test_a_folder_without_a_model_is_reported(tmp_path):
    ran = CliRunner().invoke(app, ["extract", "--model", str(tmp_path), TEXT, "--out", str(tmp_path / "x.jsonl")])
    assert isinstance(ran.exception, UnireError)
    assert "config.json" in str(ran.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_without_input_is_asked_for_some(error, monkeypatch):
    monkeypatch.setattr("unire.cli.extract._waits_for_typing", lambda: True)
    assert "pass a text, a file or a folder" in error()


def test_a_terminal_gets_texts_with_their_entities_in_colour_and_no_bar_where_none_is_needed(
    random_model, monkeypatch, capsys
):
    screen = io.StringIO()
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(console, "BAR_DELAY_SECONDS", 600.0)
    monkeypatch.setattr(console, "out", Console(file=screen, force_terminal=True, color_system="256", width=200))
    monkeypatch.setattr(console, "errors", Console(file=screen, force_terminal=True, width=100))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for more in ([], ["--format", "text"]):
        app(["extract", "--model", str(random_model), "--device", "cpu", TEXT, *more], standalone_mode=False)
        shown = screen.getvalue()
        assert "\x1b[1;4;38;5;" in shown
        assert "documents" not in shown
        assert capsys.readouterr().out == ""
        screen.truncate(0)
    app(["extract", "--model", str(random_model), "--device", "cpu", TEXT, "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["text"] == TEXT


def test_text_is_for_reading_without_a_terminal_too(extract, found, tmp_path):
    (item,) = found(TEXT)
    shown = extract(TEXT, "--format", "text").stdout
    for relation in item["relations"]:
        assert f"— {relation['label']} →" in shown
    assert all(f"|{entity['label']}]" in shown for entity in item["entities"])
    extract(TEXT, "--out", tmp_path / "found.txt")
    assert (tmp_path / "found.txt").read_text(encoding="utf-8") == shown


@pytest.mark.parametrize(("name", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_triples_have_a_head_and_a_line_for_each_relation(extract, found, tmp_path, name, delimiter):
    texts = [TEXT, "Another parser (slow)."]
    relations = [relation for item in found(*texts) for relation in item["relations"]]
    out = tmp_path / f"triples.{name}"
    assert extract(*texts, "--out", out).exit_code == 0
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if name == "csv" else 3))
    assert [(row["head"], row["relation"], row["tail"]) for row in rows] == [
        (relation["head"]["text"], relation["label"], relation["tail"]["text"]) for relation in relations
    ]
    assert extract(*texts, "--format", name).stdout_bytes == out.read_bytes()
    head = out.read_bytes().splitlines(keepends=True)[0]
    assert extract("--lines", "--format", name, stdin="").stdout_bytes == head


def test_entities_have_a_row_each_in_a_format_of_their_own(extract, found, tmp_path):
    (item,), out = found(TEXT), tmp_path / "entities.csv"
    assert extract(TEXT, "--format", "entities-csv", "--out", out).exit_code == 0
    with out.open(encoding="utf-8", newline="") as file:
        rows = [(row["entity"], row["label"], int(row["start"]), int(row["end"])) for row in csv.DictReader(file)]
    assert rows == [(e["text"], e["label"], e["char_start"], e["char_end"]) for e in item["entities"]]
    assert rows


@pytest.mark.parametrize("name", ["graphml", "cypher", "ttl", "jsonld"])
def test_a_graph_is_merged_from_all_texts(extract, found, tmp_path, name):
    out = tmp_path / f"graph.{name}"
    assert extract(TEXT, TEXT, "--out", out).exit_code == 0
    (item,) = found(TEXT)
    graph = out.read_text(encoding="utf-8")
    nodes = {fold_name(entity["text"]) for entity in item["entities"] if not is_pronoun(entity["text"])}
    start = {"graphml": "<node ", "cypher": "MERGE (n:Entity", "ttl": "rdfs:label ", "jsonld": '"name": "'}[name]
    assert graph.count(start) == len(nodes) + (name == "jsonld")  # whose context names it
    assert extract(TEXT, TEXT, "--format", "turtle" if name == "ttl" else name).stdout_bytes == out.read_bytes()


def test_a_page_has_the_tables_of_all_texts_and_keeps_to_the_lowest_score(extract, found, tmp_path):
    out = tmp_path / "page.html"
    assert extract(TEXT, "--out", out).exit_code == 0
    page, (item,) = out.read_text(encoding="utf-8"), found(TEXT)
    assert page.count('class="sentence-tables"') == 2
    assert page.count("<mark ") == len(item["entities"])
    assert extract(TEXT, "--format", "html").stdout_bytes == out.read_bytes()
    assert "<mark " not in extract(TEXT, "--format", "html", "--min-score", 1).stdout


def test_a_page_that_leaves_documents_out_says_so(extract, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("A line.\n" * (html.MAX_DOCUMENTS + 1))
    ran = extract("--lines", lines, "--out", tmp_path / "page.html")
    assert ran.exit_code == 0
    assert "the page shows only the first 200 documents" in ran.stderr.replace("\n", " ")
    assert "Extracted 200 documents with" in ran.stderr.replace("\n", " ")


def test_help_has_examples(extract):
    text = CliRunner().invoke(app, ["extract", "--help"], env={"COLUMNS": "120"}).output
    for part in ("--lines", "--field", "--resume", "--min-score", "papers.parquet", "cat article.txt | unire extract"):
        assert part in text


def test_extracted_files_can_be_converted_shown_counted_and_scored(extract, tmp_path):
    out, kept, converted = (tmp_path / name for name in ("found.jsonl", "kept.jsonl", "converted.jsonl"))
    assert extract(TEXT, "A second parser, of papers.", "--out", out).exit_code == 0
    assert extract(TEXT, "A second parser, of papers.", "--out", kept, "--format", "unire").exit_code == 0

    def unire(*arguments: object) -> str:
        ran = CliRunner().invoke(app, list(map(str, arguments)))
        assert ran.exit_code == 0, ran.output
        return ran.stdout

    summary = json.loads(unire("data", "convert", out, "--out", converted, "--json"))
    assert (summary["from"], summary["notes"], summary["lost"]) == ("jsonl", {}, {})
    known = [document.to_dict() for document in formats.read(kept)]
    assert [document.to_dict() for document in formats.read(converted)] == known
    assert any(item["relations"] for item in known)
    assert json.loads(unire("score", kept, out, "--json"))["scores"]["relations"]["f1"] == 1
    assert known[0]["entities"][0]["label"] in unire("data", "show", out)
    assert unire("data", "stats", out, "--json") == unire("data", "stats", kept, "--json").replace("kept", "found")


@pytest.mark.parametrize("out", [".", "/", ""])
def test_a_folder_as_output_is_refused_whatever_it_is_called(error, out):
    assert "is a folder; give the name of a file" in error("A text.", "--out", out)
