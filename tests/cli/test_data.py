"""`unire data convert`, `split`, `show` and the plot of `stats`, and the parts that they deal."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from helpers.paths import FIXTURES
from unire import formats
from unire.analysis.splits import draw_folds, read_lists, split_by_lists, stratified_split
from unire.cli.main import app
from unire.documents import Document
from unire.errors import UnireError
from unire.labels import LabelSpace

TWENTY, PEOPLE = FIXTURES / "twenty.jsonl", FIXTURES / "people.json"
runner = CliRunner()


def data(*arguments: object):
    return runner.invoke(app, ["data", *map(str, arguments)])


def reason(*arguments: object) -> str:
    ran = data(*arguments)
    assert isinstance(ran.exception, UnireError), ran.output
    return str(ran.exception)


# convert


def test_a_file_is_converted_and_losses_are_reported(tmp_path: Path) -> None:
    ran = data("convert", TWENTY, "--to", "spert", "--out", tmp_path / "out.json")
    count = len(list(formats.read(TWENTY)))
    assert f"Converted {count} documents (dygie → spert) to" in ran.output
    assert f"lost: {count} × document of several sentences, written as one document for each" in ran.output
    assert len(list(formats.read(tmp_path / "out.json"))) == 20


def test_the_way_there_and_back_is_no_change(tmp_path: Path) -> None:
    assert data("convert", PEOPLE, "--to", "brat", "--out", tmp_path / "brat").exit_code == 0
    assert data("convert", tmp_path / "brat", "--words", "--to", "spert", "--out", tmp_path / "b.json").exit_code == 0
    assert list(formats.read(tmp_path / "b.json")) == list(formats.read(PEOPLE))


def test_broken_lines_are_reported_with_their_number_and_do_not_stop_the_rest(tmp_path: Path) -> None:
    lines = TWENTY.read_text(encoding="utf-8").splitlines()
    (tmp_path / "a.jsonl").write_text("\n".join([lines[0], "{", *lines[1:]]), encoding="utf-8")
    ran = data("convert", tmp_path / "a.jsonl", "--out", tmp_path / "b.jsonl")
    assert ran.exit_code == 1
    assert "a.jsonl, line 2: not valid JSON" in " ".join(ran.output.split())
    assert "skipped: 1 × document that cannot be read or written" in ran.output
    assert list(formats.read(tmp_path / "b.jsonl")) == list(formats.read(TWENTY))


def test_repeated_errors_are_printed_once_and_counted(tmp_path: Path) -> None:
    broken = ["{", '{"doc_key": "a"}', "{"]
    (tmp_path / "a.jsonl").write_text(TWENTY.read_text(encoding="utf-8") + "\n".join(broken), encoding="utf-8")
    ran = data("convert", tmp_path / "a.jsonl", "--out", tmp_path / "b.jsonl")
    assert ran.output.count("a.jsonl, line") == 2
    assert "skipped: 2 × not valid JSON" in ran.output
    assert "skipped: 3 × document that cannot be read or written" in ran.output
    ran = data("convert", tmp_path / "a.jsonl", "--out", tmp_path / "b.jsonl", "--json")
    assert ran.exit_code == 1
    assert len(json.loads(ran.stdout)["left_out"]) == 3


def test_a_conversion_of_which_nothing_can_be_written_is_a_failure(tmp_path: Path) -> None:
    formats.write([Document.from_words([["a"]], [(0, 1, "A B")], id="d")], tmp_path / "a.jsonl")
    for more in ((), ("--json",)):
        ran = data("convert", tmp_path / "a.jsonl", "--to", "brat", "--out", tmp_path / "b", *more)
        assert ran.exit_code == 1


def test_a_folder_that_holds_something_is_not_replaced(tmp_path: Path) -> None:
    thesis = tmp_path / "work" / "thesis.tex"
    thesis.parent.mkdir()
    thesis.write_text("years of work", encoding="utf-8")
    for target in ("brat", "datasets"):
        wrong = reason("convert", PEOPLE, "--to", target, "--out", thesis.parent)
        assert wrong == f"output folder {str(thesis.parent)!r} already exists and holds 'thesis.tex'; pass a new folder"
    assert thesis.read_text(encoding="utf-8") == "years of work"
    (tmp_path / "empty").mkdir()
    assert data("convert", PEOPLE, "--to", "brat", "--out", tmp_path / "empty").exit_code == 0


def test_strict_stops_at_the_first_broken_line_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(TWENTY.read_text(encoding="utf-8") + "{\n", encoding="utf-8")
    wrong = reason("convert", tmp_path / "a.jsonl", "--strict", "--out", tmp_path / "b.jsonl")
    assert "not valid JSON" in wrong
    assert not (tmp_path / "b.jsonl").exists()


def test_convert_prints_a_json_summary(tmp_path: Path) -> None:
    ran = data("convert", PEOPLE, "--to", "conll04", "--out", tmp_path / "out", "--json")
    assert json.loads(ran.stdout) == {
        "documents": 6,
        "from": "spert",
        "to": "conll04",
        "out": str(tmp_path / "out"),
        "notes": {},
        "lost": {},
        "left_out": [],
    }


def unire(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What a shell makes of a line in which `unire` is a command."""
    line = f'unire() {{ "{sys.executable}" -m unire "$@"; }}; {command}'
    return subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True)


def test_standard_output_is_a_dash_and_holds_nothing_but_the_documents(tmp_path: Path) -> None:
    data("convert", PEOPLE, "--out", tmp_path / "a.jsonl")
    ran = data("convert", PEOPLE, "--out", "-")
    assert ran.stdout == (tmp_path / "a.jsonl").read_text(encoding="utf-8")
    assert "Converted 6 documents (spert → unire) to -" in ran.stderr
    assert data("convert", PEOPLE, "--out", "/dev/stdout").stdout == ran.stdout
    assert not Path("-").exists()


def test_standard_output_is_refused_what_it_cannot_hold(tmp_path: Path) -> None:
    assert "the format 'brat' needs a folder" in reason("convert", PEOPLE, "--to", "brat", "--out", "-")
    assert "--splits needs a folder" in reason("convert", PEOPLE, "--splits", tmp_path, "--out", "-")
    assert "--json prints to standard output too" in reason("convert", PEOPLE, "--json", "--out", "-")


@pytest.mark.slow
def test_documents_go_through_pipes(tmp_path: Path) -> None:
    shutil.copy(PEOPLE, tmp_path / "people.json")
    data("convert", PEOPLE, "--out", tmp_path / "a.jsonl")
    expected = (tmp_path / "a.jsonl").read_text(encoding="utf-8")
    ran = unire("unire data convert people.json --out /dev/stdout | cat", tmp_path)
    assert ran.stdout == expected
    ran = unire(
        "unire data convert people.json --out >(cat > b.jsonl; echo done > c) && until [ -s c ]; do :; done", tmp_path
    )
    assert "6 documents" in ran.stdout
    assert (tmp_path / "b.jsonl").read_text(encoding="utf-8") == expected
    ran = unire("cat people.json | unire data convert --from spert /dev/stdin --out -", tmp_path)
    assert ran.stdout == expected
    ran = unire("unire data convert <(cat people.json) --out -", tmp_path)
    assert ran.returncode == 1
    assert "can be read only once, so its format cannot be guessed; pass --from" in ran.stderr


def test_unknown_formats_are_refused(tmp_path: Path) -> None:
    assert "unknown format 'x'" in reason("convert", PEOPLE, "--to", "x", "--out", tmp_path / "o")
    assert "unknown format 'x'" in reason("convert", PEOPLE, "--from", "x", "--out", tmp_path / "o")


@pytest.mark.parametrize("option", [("--dev-fraction", 0.1), ("--seed", 0)])
def test_a_sample_of_lists_that_are_not_given_is_refused(tmp_path: Path, option: tuple[object, ...]) -> None:
    assert "--dev-fraction and --seed need --splits" in reason("convert", PEOPLE, *option, "--out", tmp_path / "o")
    assert not (tmp_path / "o").exists()


# split


def labelled(labels: list[str], name: int) -> Document:
    return Document.from_words([["w"] * 9], [(i, i + 1, label) for i, label in enumerate(labels)], id=str(name))


@given(st.lists(st.lists(st.sampled_from("ABC"), max_size=4), max_size=20), st.integers(0, 3))
def test_every_document_is_dealt_once_and_sizes_are_exact(contents: list[list[str]], seed: int) -> None:
    documents = [labelled(labels, i) for i, labels in enumerate(contents)]
    parts = stratified_split(documents, [8, 1, 1], seed)
    assert Counter(d.id for part in parts for d in part) == Counter(d.id for d in documents)
    exact = [len(documents) * share for share in (0.8, 0.1, 0.1)]
    assert all(abs(len(part) - size) < 1 for part, size in zip(parts, exact, strict=True))
    assert all([d.id for d in part] == [d.id for d in documents if d in part] for part in parts)
    assert stratified_split(documents, [8, 1, 1], seed) == parts


def test_rare_labels_are_dealt_to_every_part() -> None:
    documents = [labelled(["common"] + ["rare"] * (i % 10 == 0), i) for i in range(100)]
    for seed in range(5):
        parts = stratified_split(documents, [8, 1, 1], seed)
        assert [sum(len(d.entities) - 1 for d in part) for part in parts] == [8, 1, 1]
    assert stratified_split(documents, [8, 1, 1], 0) != stratified_split(documents, [8, 1, 1], 1)


def test_folds_are_of_equal_size_and_like_labels() -> None:
    documents = [labelled(["A"] * (i % 5 == 0) + ["B"] * (i % 2), i) for i in range(50)]
    folds = draw_folds(documents, 5)
    assert [len(fold) for fold in folds] == [10] * 5
    assert [sum(int(name) % 5 == 0 for name in fold) for fold in folds] == [2] * 5
    with pytest.raises(UnireError, match="50 documents cannot be split into 51 folds"):
        draw_folds(documents, 51)


def test_folds_of_documents_that_share_an_id_are_refused(tmp_path: Path) -> None:
    wrong = reason("split", PEOPLE, PEOPLE, "--folds", 3, "--out", tmp_path / "folds.json")
    assert "need documents with different ids, but 2 are called '101'" in wrong
    assert not (tmp_path / "folds.json").exists()


def test_parts_are_written_and_are_the_same_again(tmp_path: Path) -> None:
    for out in ("one", "two"):
        ran = data("split", PEOPLE, "--parts", "train=4,test=2", "--out", tmp_path / out, "--json")
        assert json.loads(ran.stdout)["documents"] == {"train": 4, "test": 2}
    train = list(formats.read(tmp_path / "one" / "train.jsonl"))
    assert train == list(formats.read(tmp_path / "two" / "train.jsonl"))
    assert len(train) == 4


def test_folds_are_written_as_training_reads_them(tmp_path: Path) -> None:
    ran = data("split", PEOPLE, "--folds", 3, "--out", tmp_path / "folds.json")
    assert "fold 3" in ran.output
    folds = json.loads((tmp_path / "folds.json").read_text())
    assert sorted(name for fold in folds for name in fold) == ["101", "102", "103", "104", "105", "106"]
    assert "cannot be written" in reason("split", PEOPLE, "--folds", 3, "--out", tmp_path)


@pytest.mark.parametrize("parts", ["train", "train=x", "train=0", "=1", "../x=1", "a=inf", "a=1,a=1"])
def test_shares_that_make_no_sense_are_refused(tmp_path: Path, parts: str) -> None:
    assert "must have different names and shares above 0" in reason(
        "split", PEOPLE, "--parts", parts, "--out", tmp_path / "o"
    )
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(("parts", "total"), [("train=0.6,dev=0.2", "0.8"), ("train=1,dev=0.1", "1.1")])
def test_shares_that_do_not_add_up_are_refused(tmp_path: Path, parts: str, total: str) -> None:
    assert f"add up to {total}; they must" in reason("split", PEOPLE, "--parts", parts, "--out", tmp_path / "o")
    assert not (tmp_path / "o").exists()


def test_rounded_thirds_and_ratios_are_shares(tmp_path: Path) -> None:
    for i, parts in enumerate(("a=0.33,b=0.33,c=0.33", "a=0.333,b=0.333,c=0.334", "a=2,b=2,c=2")):
        ran = data("split", PEOPLE, "--parts", parts, "--out", tmp_path / str(i), "--json")
        assert json.loads(ran.stdout)["documents"] == {"a": 2, "b": 2, "c": 2}


def test_parts_are_not_put_among_those_of_an_earlier_split(tmp_path: Path) -> None:
    out = tmp_path / "parts"
    assert data("split", PEOPLE, "--out", out).exit_code == 0
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    wrong = reason("split", PEOPLE, "--parts", "train=0.5,dev=0.5", "--out", out)
    assert "parts' already exists and holds 'dev.jsonl'; pass a new folder" in wrong
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
    (tmp_path / "empty").mkdir()
    assert data("split", PEOPLE, "--out", tmp_path / "empty").exit_code == 0


def test_a_split_that_fails_leaves_no_part(tmp_path: Path) -> None:
    documents = [Document.from_words([["a"]], [(0, 1, "A B")], id=str(i)) for i in range(4)]
    formats.write(documents, tmp_path / "a.jsonl")
    assert reason("split", tmp_path / "a.jsonl", "--to", "brat", "--out", tmp_path / "parts")
    assert [file.name for file in tmp_path.iterdir()] == ["a.jsonl"]


def test_an_unknown_format_of_parts_is_refused(tmp_path: Path) -> None:
    assert "unknown format 'x'" in reason("split", PEOPLE, "--to", "x", "--out", tmp_path / "o")


# Lists of names


def test_lists_are_read_with_whatever_paths_and_endings_they_have(tmp_path: Path) -> None:
    (tmp_path / "fold0").mkdir()
    (tmp_path / "train.txt").write_text("\ufeffnw/timex2norm/A.1\n\nB.sgm\n", encoding="utf-8")
    (tmp_path / "fold0" / "test").write_text("..\\C.apf.xml\n")
    (tmp_path / ".hidden").write_text("x")
    documents = [Document.from_words([["w"]], id=name) for name in ("A.1", "texts/B", "C")]
    parts = split_by_lists(documents, read_lists(tmp_path), dev_fraction=0)
    ids = {part: [document.id for document in dealt] for part, dealt in parts.items()}
    assert ids == {"fold0/test": ["C"], "train": ["A.1", "texts/B"], "dev": []}


def test_folders_that_hold_no_lists_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnireError, match="has no files; add a list of document ids"):
        read_lists(tmp_path)
    (tmp_path / "train").write_bytes(b"\xff")
    with pytest.raises(UnireError, match="is not UTF-8"):
        read_lists(tmp_path)
    with pytest.raises(UnireError, match="is not a folder"):
        read_lists(tmp_path / "train")


def test_documents_that_share_a_name_cannot_be_listed() -> None:
    with pytest.raises(UnireError, match="need documents with different ids"):
        split_by_lists([labelled([], 0), labelled([], 0)], {"train": ["0"]})


def listed(ids: list[str], lists: dict[str, list[str]]) -> dict[str, list[str]]:
    parts = split_by_lists([Document.from_words([["w"]], id=name) for name in ids], lists, dev_fraction=0)
    return {part: [document.id for document in parts[part]] for part in lists}


def test_a_listed_name_matches_a_whole_id_before_the_end_of_one() -> None:
    ids = ["train/001", "test/001", "001"]
    lists = {"train": ["train/001.txt", "001", "001.ann"], "test": ["test\\001"]}
    assert listed(ids, lists) == {"train": ["train/001", "001"], "test": ["test/001"]}


@pytest.mark.parametrize("name", ["001", "elsewhere/001.txt"])
def test_a_name_that_may_be_that_of_two_documents_is_refused(name: str) -> None:
    ambiguous = "the split list 'dev' names '.*001.*', which may mean 'train/001' or 'test/001'; give the full id"
    with pytest.raises(UnireError, match=ambiguous):
        listed(["train/001", "test/001"], {"train": ["train/001"], "dev": [name]})


def test_a_document_on_two_lists_of_a_fold_is_refused_and_one_of_two_folds_is_not() -> None:
    twice = "the document 'a/1' is on the split lists 'fold-1/test' and 'fold-1/train'; remove it from one"
    with pytest.raises(UnireError, match=twice):
        listed(["a/1", "2"], {"fold-1/test": ["1"], "fold-1/train": ["2", "a/1.txt"]})
    folds = {"fold-1/train": ["1"], "fold-1/test": ["2"], "fold-2/train": ["2"], "fold-2/test": ["1"]}
    assert listed(["1", "2"], folds) == folds
    assert listed(["1"], {"test0": ["1"], "test1": ["1"]}) == {"test0": ["1"], "test1": ["1"]}


# show, stats


def test_documents_are_shown_by_name_and_by_label() -> None:
    shown = " ".join(data("show", PEOPLE, "--id", "105").output.split())
    assert "Jun Okafor — Work_For → Norrland Rail" in shown
    shown = data("show", PEOPLE, "--label", "OrgBased_In", "--limit", 1).output
    assert shown.count("OrgBased_In") >= 1
    assert len(data("show", PEOPLE, "--limit", 0).output) > len(data("show", PEOPLE, "--limit", 2).output)
    assert "has the id 'nobody'" in reason("show", PEOPLE, "--id", "nobody")


def test_a_page_is_made_of_documents(tmp_path: Path) -> None:
    ran = data("show", PEOPLE, "--html", tmp_path / "a.html", "--limit", 0)
    assert "6 documents written to" in ran.output
    assert "Norrland" in (tmp_path / "a.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
def test_statistics_are_drawn(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("matplotlib")
    ran = data("stats", TWENTY, "--labels", "scierc", "--plot", tmp_path / f"a.{kind}")
    assert ran.exit_code == 0, ran.output
    starts = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}
    assert (tmp_path / f"a.{kind}").read_bytes().startswith(starts[kind])


def test_a_plot_has_a_key_axis_labels_and_linear_scales(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert data("stats", PEOPLE, "--plot", tmp_path / "a.svg").exit_code == 0
    texts = re.findall(r"<!-- (.*?) -->", (tmp_path / "a.svg").read_text(encoding="utf-8"))
    assert {"entity types", "relation types", "words", "sentences", "entities", "cells"} <= set(texts)
    ticks = [int(text.replace(",", "")) for text in texts if re.fullmatch(r"[\d,]+", text)]
    assert ticks[:6] == [0, 1, 2, 3, 4, 5]


def test_data_are_not_replaced_by_a_page_or_a_picture_of_them(tmp_path: Path) -> None:
    file = tmp_path / "data.svg"
    shutil.copy(TWENTY, file)
    for words in (("show", file, "--html"), ("stats", file, "--plot")):
        assert "data.svg is also an input" in reason(*words, file)
    assert file.read_bytes() == TWENTY.read_bytes()


def test_pictures_of_unknown_kinds_and_without_matplotlib_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    assert "must end in .png, .svg or .pdf" in reason("stats", TWENTY, "--plot", tmp_path / "a.gif")
    (tmp_path / "b.svg").mkdir()
    assert "cannot be written" in reason("stats", TWENTY, "--plot", tmp_path / "b.svg")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    assert "unire[plot]" in reason("stats", TWENTY, "--plot", tmp_path / "a.svg")


def test_table_2_and_lengths_are_counted(data_folder: Path) -> None:
    files = [data_folder / "scierc" / f"{name}.json" for name in ("train", "dev", "test")]
    ran = data("stats", *files, "--labels", "scierc")
    flat = " ".join(ran.output.split())
    assert "total 2,687 8,094 (6) 5,463 (7)" in flat
    assert "maximum 101 68 97 101" in flat


def test_check_reports_skipped_annotation_and_keeps_an_issue_on_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Ada lives\nin pro-Iraqi London", encoding="utf-8")
    annotation = "T1\tPeop 0 3\tAda\nT2\tLoc 3 4\t \nT3\tLoc 17 22\tIraqi\nT4\tOdd 4 12\tlives in\n"
    (tmp_path / "a.ann").write_text(annotation, encoding="utf-8")
    ran = data("check", tmp_path, "--words")
    assert "1 × entity that covers no word, skipped" in ran.output
    assert "extended to the whole word" not in ran.output
    assert "'Iraqi' in pro-Iraqi [Loc]; its square covers the whole words" in " ".join(ran.output.split())
    assert "lives in [Odd]; no table holds it" in ran.output
    found = json.loads(data("check", tmp_path, "--words", "--json").stdout)
    assert found["notes"] == {"entity that covers no word, skipped": 1}


def test_unreadable_data_are_reported_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"tokens": ["a"], "entities": 7}]')
    for command in (("check",), ("convert", "--out", tmp_path / "b.jsonl")):
        wrong = reason(*command, tmp_path / "a.json")
        assert 'a.json holds no document that can be read: item 0 (counted from 0): "entities" must be a list' in wrong
    assert not (tmp_path / "b.jsonl").exists()


ONE_BAD_SPAN = """[{"tokens": ["Ada", "left"],
  "entities": [{"type": "P", "start": 0, "end": 1}, {"type": "P", "start": 1, "end": 9}],
  "relations": [{"type": "R", "head": 0, "tail": 1}, {"type": "R", "head": 0, "tail": 0}]}]"""


def test_one_bad_span_costs_that_span_and_not_the_document(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(ONE_BAD_SPAN)
    ran = data("convert", "--out", tmp_path / "b.jsonl", tmp_path / "a.json")
    assert ran.exit_code == 1
    assert "a.json, item 0 (counted from 0): entity" in ran.output
    assert "is outside the document, which has 2 words" in " ".join(ran.output.split())
    assert "1 × entity that cannot be read, left out" in ran.output
    assert "1 × relation whose entity is left out" in ran.output
    (document,) = formats.read(tmp_path / "b.jsonl")
    assert ([str(e) for e in document.entities], len(document.relations)) == (["Ada [P]"], 1)
    ran = data("check", tmp_path / "a.json")
    assert "entity or relation that cannot be read: item 0 (counted from 0): entity" in " ".join(ran.output.split())
    ran = data("stats", tmp_path / "a.json")
    assert (ran.exit_code, "1 × entity that cannot be read, left out" in ran.output) == (0, True)
    assert "is outside the document" in reason(
        "convert", "--strict", "--out", tmp_path / "c.jsonl", tmp_path / "a.json"
    )
    with pytest.raises(UnireError, match="is outside the document"):  # nowhere to count it
        list(formats.read(tmp_path / "a.json"))


def test_a_label_space_is_written_and_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(ONE_BAD_SPAN)
    ran = data("labels", tmp_path / "a.json", TWENTY, "--symmetric", "R", "--out", tmp_path / "labels.json")
    assert "7 entity types and 8 relation types written to" in ran.output
    labels = LabelSpace.load(tmp_path / "labels.json")
    assert (set(labels.entity_types) >= {"P"}, labels.symmetric) == (True, {"R"})
    assert data("check", TWENTY, "--labels", tmp_path / "labels.json").exit_code == 0
    assert "twenty.jsonl" in reason("labels", TWENTY, "--out", TWENTY)


def test_statistics_show_the_most_frequent_types_unless_all_are_asked_for(tmp_path: Path) -> None:
    entities = [{"type": f"T{i:02}", "start": i % 3, "end": i % 3 + 1} for i in range(12) for _ in range(i + 1)]
    (tmp_path / "a.json").write_text(json.dumps([{"tokens": ["a", "b", "c"], "entities": entities}]))
    short, long = (data("stats", tmp_path / "a.json", *options).output for options in ((), ("--all-types",)))
    assert [f"T{i:02}" in short for i in range(12)] == [i > 1 for i in range(12)]
    assert "… 2 more (--all-types)" in short
    assert all(f"T{i:02}" in long for i in range(12))
    assert "more (" not in long
    assert len(long.splitlines()) > len(short.splitlines())


EVENTS = {
    "a.txt": "Ada moved from Rome to Oslo.",
    "a.ann": "T1\tP 0 3\tAda\nT2\tMove 4 9\tmoved\nT3\tL 15 19\tRome\nT4\tL 23 27\tOslo\n"
    "E1\tMove:T2 Who:T1 Place:T3 Place2:T4\nA1\tCertain E1\n",
}


def test_events_of_brat_become_relations_as_configured(tmp_path: Path) -> None:
    for name, text in EVENTS.items():
        (tmp_path / "brat" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "brat" / name).write_text(text)
    expected = {
        (): "moved–Who→Ada moved–Place→Rome moved–Place→Oslo",
        ("--events", "pairs"): "Ada–Move→Rome Ada–Move→Oslo Rome–Move→Oslo",
    }
    for options, relations in expected.items():
        ran = data("convert", tmp_path / "brat", *options, "--out", tmp_path / "a.jsonl")
        assert ran.exit_code == 0
        (document,) = formats.read(tmp_path / "a.jsonl")
        assert " ".join(f"{r.head.text}–{r.label}→{r.tail.text}" for r in document.relations) == relations
        assert document.entities[1].attributes == {"Certain": True}
        assert "3 × role of an event" in ran.output
        assert "3 × pair of arguments of an event" in ran.output


def test_line_ends_end_sentences_if_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "Ada met\nBob in Oslo.", "entities": []}) + "\n")
    for options, sentences in (((), 1), (("--line-breaks",), 2)):
        assert data("convert", path, *options, "--out", tmp_path / "b.jsonl").exit_code == 0
        (document,) = formats.read(tmp_path / "b.jsonl")
        assert len(document.sentences) == sentences


# what is read, and what it is taken for


@pytest.mark.slow
def test_standard_input_is_a_dash_where_the_format_is_named(tmp_path: Path) -> None:
    ran = unire(f"cat {TWENTY} | unire data convert - --from dygie --out z.jsonl", tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert list(formats.read(tmp_path / "z.jsonl")) == list(formats.read(TWENTY))
    for command in ("data show - --limit 1", "data check -", f"score - {TWENTY} --labels scierc"):
        ran = unire(f"cat {TWENTY} | unire {command} --format dygie", tmp_path)
        assert ran.returncode == 0, ran.stderr
    ran = unire(f"cat {TWENTY} | unire data show -", tmp_path)
    assert ran.stderr == "error: /dev/stdin can be read only once, so its format cannot be guessed; pass --format\n"


@pytest.mark.slow
def test_predictions_from_a_pipe_have_the_format_of_gold_or_one_that_is_named(tmp_path: Path) -> None:
    score = f"cat {TWENTY} | unire score {TWENTY} --labels scierc"
    for options in ("/dev/stdin --format dygie", "- --format dygie", "- --predictions-format dygie"):
        ran = unire(f"{score} {options}", tmp_path)
        assert ran.returncode == 0, ran.stderr
    expected = "/dev/stdin can be read only once, so its format cannot be guessed; name it with --predictions-format"
    assert unire(f"{score} -", tmp_path).stderr == f"error: {expected}\n"
    formats.write(formats.read(TWENTY), tmp_path / "brat", "brat", lost=Counter())
    ran = unire(f"cat {TWENTY} | unire score brat - --format brat", tmp_path)
    assert ran.stderr == f"error: {expected}\n"


GUESSED = "(format guessed as {}; give the format if that is wrong)"
STRANGE = "a.txt, line 1: not a format that unire knows; name the format, or convert the file first"


@pytest.mark.parametrize(
    ("name", "text", "wrong"),
    [
        ("a.json", '[{"type": "Ada."}]', f'"tokens" is missing {GUESSED.format("spert")}'),
        ("a.json", "[7", f"not valid JSON: Expecting ',' delimiter (column 3) {GUESSED.format('spert')}"),
        ("a.jsonl", '{"ner": []}', f'"sentences" is missing {GUESSED.format("dygie")}'),
        ("a.txt", "Ada lives in London.", STRANGE),
        ("a.txt", "[1] Ada lives.", STRANGE),
        ("a.jsonl", "Ada lives in London.", "a.jsonl, line 1: not valid JSON"),
    ],
)
def test_an_error_names_the_format_that_was_guessed(tmp_path: Path, name: str, text: str, wrong: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    commands: list[tuple[object, ...]] = [("stats",), ("check",), ("convert", "--out", tmp_path / "b.jsonl")]
    for command in commands:
        assert wrong in reason(*command, tmp_path / name)
    assert "guessed" not in reason("stats", tmp_path / name, "--format", "unire")


def test_after_a_valid_document_an_error_does_not_question_the_guessed_format(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"sentences": [["a"]]}\n{"sentences": 7}\n', encoding="utf-8")
    assert reason("stats", tmp_path / "a.jsonl").endswith('line 2: "sentences" must be a list, but is 7')


@pytest.mark.parametrize(("name", "wrong"), [("nonsense", "unknown format 'nonsense'"), ("jsonl", "but not written")])
def test_the_error_for_an_unknown_format_lists_the_writable_ones(tmp_path: Path, name: str, wrong: str) -> None:
    for command in ("convert", "split"):
        message = reason(command, PEOPLE, "--to", name, "--out", tmp_path / "out")
        assert wrong in message
        assert message.endswith("conll04, brat, labelstudio, prodigy, spacy, parquet, datasets")
        assert "ace" not in message
    assert not (tmp_path / "out").exists()


# what readers note


LOST = {
    "annotation beside another one of the same text, left out": 1,
    "entity that covers no word, skipped": 1,
    "relation whose entity is left out": 1,
}


def lossy(path: Path) -> Path:
    """Tasks of Label Studio, of which the reader cannot hold everything."""
    regions = [
        {"id": name, "type": "labels", "value": {"start": start, "end": end, "labels": ["A"]}}
        for name, start, end in (("1", 0, 3), ("2", 3, 4))
    ]
    relation = {"type": "relation", "from_id": "1", "to_id": "2", "labels": ["R"]}
    annotations = [{"result": [*regions, relation]}, {"result": []}]
    tasks = [{"data": {"text": "Ada lives here."}, "annotations": annotations}]
    path.write_text(json.dumps([*tasks, {"data": {"text": "Bob."}, "annotations": [{"result": []}]}]), encoding="utf-8")
    return path


@pytest.mark.slow
def test_every_command_that_reads_data_notes_skipped_annotation(tmp_path: Path) -> None:
    file = lossy(tmp_path / "a.json")
    commands: list[list[object]] = [["stats", file], ["split", file, "--parts", "a=1,b=1", "--out", tmp_path / "parts"]]
    for i, words in enumerate([*commands, ["split", file, "--folds", 2, "--out", tmp_path / "folds.json"]]):
        ran = data(*words)
        assert ran.exit_code == 0, ran.output
        assert all(f"note: 1 × {what}" in ran.stderr for what in LOST), ran.stderr
        as_json = [f"{word}-{i}" if word == tmp_path / "parts" else word for word in words]
        ran = data(*as_json, "--json")
        assert json.loads(ran.stdout)["notes"] == LOST
        assert ran.stderr == ""
    for more in ([], ["--html", tmp_path / "a.html"]):
        assert all(f"note: 1 × {what}" in data("show", file, *more).stderr for what in LOST)
    ran = runner.invoke(app, ["score", str(file), str(file)])
    assert all(f"note: 2 × {what}" in ran.stderr for what in LOST)
    ran = runner.invoke(app, ["score", str(file), str(file), "--json"])
    assert json.loads(ran.stdout)["notes"] == dict.fromkeys(LOST, 2)
    ran = runner.invoke(app, ["evaluate", "--oracle", "--data", str(file), "--json"])
    assert json.loads(ran.stdout)["notes"] == LOST
