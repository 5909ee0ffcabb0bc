"""The README says what is so: its commands run, its names exist, its tables agree."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import json
import os
import re
import shlex
import shutil
import socket
import sys
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import pytest

from helpers.architecture import LAYERS
from helpers.cli import run_shell
from helpers.docs import COMMAND, commands, in_backticks, options
from helpers.paths import ROOT, TWENTY
from unire import formats, pretrained
from unire.config import ModelConfig
from unire.documents import Document
from unire.labels import LabelSpace
from unire.tables import fill_sentence
from unire.training.config import PRESETS, TrainingConfig
from unire.writers.writers import WRITERS

README = (ROOT / "README.md").read_text(encoding="utf-8")


class Block(NamedTuple):
    language: str
    text: str
    line: int


BLOCKS = [
    Block(fence[1], fence[2], README.count("\n", 0, fence.start()) + 1)
    for fence in re.finditer(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
]
INSTALLERS = ("pip", "make")
SETTINGS = fields(TrainingConfig)


def is_installer(block: Block) -> bool:
    return all(line.split()[0] in INSTALLERS for line in block.text.splitlines())


SCORE = re.compile(r"^  (0\.\d\d)  ", re.MULTILINE)


def unscored(text: str) -> str:
    """Without the scores at the beginning of lines, whose last digit may be another on another CPU."""
    return SCORE.sub("  0.··  ", text)


def scores_in(text: str) -> list[float]:
    return [float(score) for score in SCORE.findall(text)]


def section(title: str) -> str:
    return README.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def body(title: str) -> list[list[str]]:
    """The cells of every row of the section's table, but for its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


# The README


@pytest.mark.slow
@pytest.mark.no_cover  # it runs nearly everything, and would take twice as long
def test_every_command_and_every_python_block_runs(tmp_path, monkeypatch, encoder):
    """In order and in one folder, where a tiny encoder has the name of a large one, for two epochs or steps."""
    fixture = TWENTY
    for name in ("train.jsonl", "more.jsonl", "dev.jsonl", "test.jsonl"):
        shutil.copy(fixture, tmp_path / name)
    texts = (" ".join(reversed(document.words)) for document in formats.read(fixture))  # no text of dev or test
    (tmp_path / "abstracts.txt").write_text("\n".join(texts), encoding="utf-8")
    shutil.copytree(encoder, tmp_path / "bert-base-uncased")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    for block, following in zip(BLOCKS, [*BLOCKS[1:], None], strict=True):
        text = re.sub(r"\b8000\b", port, block.text)
        text = re.sub(r"(epochs[ =])\d+", r"\g<1>2", text)
        text = re.sub(r"--minutes \d+", "--max-steps 2 --batch-tokens 512 --length 64", text)
        if block.language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(text, f"README.md, after line {block.line}", "exec"), {})
            if following and following.language == "text":
                assert printed.getvalue() == following.text
        elif block.language == "bash" and not is_installer(block):
            shown = following.text if following and following.language == "text" else None
            text = text if shown is None else f"{text.rstrip()} --format text"  # what a terminal gets, without colour
            status, said, complained = run_shell(text)
            assert status == 0, f"README.md, line {block.line}: {complained}"
            if shown is not None:
                assert unscored(said) == unscored(shown)
                assert scores_in(said) == pytest.approx(scores_in(shown), abs=0.025)
            elif "unire extract" in text and not re.search("--out|--format", text):
                assert json.loads(said)["text"].startswith("We present")
            else:
                assert said.strip() or (tmp_path / "results.jsonl").read_text(encoding="utf-8")
    assert (tmp_path / "models" / "mine" / "model.safetensors").exists()
    assert (tmp_path / "models" / "shared" / "model.safetensors").exists()
    assert (tmp_path / "models" / "student" / "model.safetensors").exists()
    assert (tmp_path / "models" / "pupil" / "model.safetensors").exists()
    assert (tmp_path / "models" / "scholar" / "model.safetensors").exists()


def test_what_is_to_be_installed_and_made_is_there():
    extras = importlib.metadata.metadata("unire").get_all("Provides-Extra")
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    commands = [
        shlex.split(line, comments=True)
        for block in BLOCKS
        if block.language == "bash" and is_installer(block)
        for line in block.text.splitlines()
    ]
    assert ["pip", "install", "unire"] in commands
    assert commands[0] == ["make", "demo"]
    assert ["make", "test"] in commands
    for tool, *words in commands:
        if tool == "make":
            assert set(words) <= set(targets)
        else:
            assert words[0] == "install"
            name, _, extra = words[1].rstrip("]").partition("[")
            assert name == "unire"
            assert not extra or extra in extras


def test_the_drawn_table_is_the_one_that_is_filled():
    drawing = next(block.text for block in BLOCKS if "┏" in block.text)
    lines = [re.sub(r"[│┃]", " ", line).split() for line in drawing.splitlines() if not re.search(r"[━─]", line)]
    words, drawn = lines[0], lines[1:]
    document = Document.from_words(
        [words],
        entities=[(0, 2, "PER"), (3, 5, "PER"), (7, 8, "GPE")],
        relations=[(0, 1, "PER-SOC"), (0, 2, "PHYS"), (1, 2, "PHYS")],
    )
    labels = LabelSpace.load("ace05")
    table = fill_sentence(document.sentences[0], labels).labels
    names = [name.replace("⊥", "·") for name in labels.names]
    assert drawn == [[word, *(names[cell] for cell in row)] for word, row in zip(words, table, strict=True)]


def test_the_example_of_a_file_can_be_read(tmp_path):
    example = next(block.text for block in BLOCKS if block.language == "json")
    file = tmp_path / "mine.json"
    file.write_text(example, encoding="utf-8")
    (document,) = formats.read(file)
    assert str(document.relations[0]) == "Ada [Peop] –Live_In→ London [Loc]"


def test_formats_and_label_spaces_are_all_named():
    assert [in_backticks(cells[0]) for cells in body("Formats")] == [[name] for name in formats.FORMATS]
    sentence = re.search(r"Built-in label spaces: (.*)", README)[1]
    assert in_backticks(sentence) == list(LabelSpace.built_in())


def test_what_extraction_writes_is_all_named():
    named = [name for cells in body("Your text") for name in in_backticks(cells[0])]
    assert named == [name for name in WRITERS if name not in formats.FORMATS or not formats.FORMATS[name].write]


def test_the_scores_of_the_model_in_the_box_are_those_of_its_card():
    scores = ModelConfig.load(pretrained.find(pretrained.DEFAULT)).provenance["scores"]["test, exported"]
    entities, relations = (f"{100 * scores[part]['f1']:.1f}" for part in ("entities", "relations"))
    assert f"{entities} Ent and {relations} Rel F1" in README


def test_the_table_of_presets_is_their_difference():
    def value(cell: str) -> object:
        """The first word of a cell, which may go on to explain it."""
        word = re.split(r"[\s:]", cell.replace("`", ""))[0]
        try:
            return {"yes": True, "no": False}[word] if word in ("yes", "no") else json.loads(word)
        except ValueError:
            return word

    told = {in_backticks(name)[0]: tuple(map(value, values)) for name, *values in body("Presets")}
    values = {field.name: tuple(getattr(preset, field.name) for preset in PRESETS.values()) for field in SETTINGS}
    assert list(PRESETS) == ["paper", "released", "best"]
    assert told == {name: each for name, each in values.items() if len(set(each)) > 1 and name != "preset"}


def test_the_architecture_lists_every_package_once_and_in_the_order_of_layers():
    rows = [[name.rstrip("/").removesuffix(".py") for name in in_backticks(cells[0])] for cells in body("Architecture")]
    assert sorted(name for row in rows for name in row) == sorted(name for layer in LAYERS for name in layer)
    levels = [next(k for k, layer in enumerate(LAYERS) if name in layer) for row in rows for name in row]
    assert levels == sorted(levels)


def test_every_option_in_the_readme_exists():
    ours = re.sub(r"^curl .*", "", README, flags=re.MULTILINE)
    mentioned = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", ours))
    assert "--drop-overlapping" in mentioned
    assert mentioned <= {"--help"}.union(*(options(command) for command in commands(COMMAND)))


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "docs/paper-to-code.md",
        "docs/cluster.md",
        "docs/formats.md",
        "docs/integrations.md",
        "docs/serving.md",
        "docs/studies.md",
        "docs/your-data.md",
    ],
)
def test_every_link_to_a_file_leads_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text(encoding="utf-8"))
    broken = [link for link in links if "://" not in link and not ((ROOT / page).parent / link).exists()]
    assert not broken
