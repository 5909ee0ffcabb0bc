"""Pages of the documentation: their code blocks, and a folder with everything that the blocks need.

| block | test |
|---|---|
| `bash` | runs; pip, make, docker and git lines are only checked |
| `python` | runs; the blocks of a page share their names |
| `text` after one of these | is what it prints; scores may differ in the second digit |
| `shell`, `py` | not run, for a reason in CONTRIBUTING.md. Commands, options and names must exist |
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shlex
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import unire
from helpers.cli import run_shell
from helpers.docs import COMMAND, options
from helpers.paths import FIXTURES, ROOT, TWENTY
from unire import formats

PAGES = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))
INSTALLERS = ("pip", "make", "docker", "git", "cd")
ABSTRACT = (ROOT / "demo" / "abstract.txt").read_text(encoding="utf-8")
SCORE = re.compile(r"\b[01]\.\d\d\b")
SCORE_TOLERANCE = 0.025
"""The last digits of a score depend on the CPU."""


class Block(NamedTuple):
    language: str
    text: str
    line: int
    follows: bool = False
    """Whether only a blank line separates it from the block before."""

    @property
    def is_installer(self) -> bool:
        return all(line.split()[0] in INSTALLERS for line in self.text.splitlines() if line.strip())


def read_blocks(page: str) -> list[Block]:
    """The code blocks of a page, those in lists and tabs included."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks: list[Block] = []
    end = 0
    for fence in re.finditer(r"^( *)```(\w+)[^\n]*\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL):
        code = re.sub(rf"^{fence[1]}", "", fence[3], flags=re.MULTILINE)
        follows = not text[end : fence.start()].strip()
        blocks.append(Block(fence[2], code, text.count("\n", 0, fence.start()) + 1, follows))
        end = fence.end()
    return blocks


def fill_folder(folder: Path, encoder: Path, model: Path) -> None:
    """Write what the blocks read: annotated files, texts, an encoder and trained models, all tiny."""
    for name in ("train.jsonl", "more.jsonl", "dev.jsonl", "test.jsonl"):
        shutil.copy(TWENTY, folder / name)
    shutil.copy(FIXTURES / "export.json", folder)
    texts = (" ".join(reversed(document.words)) for document in formats.read(TWENTY))  # no text of dev or test
    (folder / "abstracts.txt").write_text("\n".join(texts), encoding="utf-8")
    (folder / "papers").mkdir()
    for number, text in enumerate((ABSTRACT, "We train a chart parser on the Penn Treebank for dependency parsing.")):
        (folder / "papers" / f"{number + 1}.txt").write_text(text, encoding="utf-8")
    (folder / "abstracts").mkdir()
    for number, name in enumerate(("parser", "tagger", "grammar", "translator", "search engine")):
        text = f"{ABSTRACT}\nWe train a {name} on the Penn Treebank for dependency parsing."
        (folder / "abstracts" / f"{number + 1}.txt").write_text(text, encoding="utf-8")
    shutil.copytree(encoder, folder / "bert-base-uncased")
    shutil.copytree(model, folder / "models" / "trained")


def run_page(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the blocks of a page in order, in one folder. Trainings take two epochs or steps."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    names: dict[str, Any] = {"__name__": "__page__"}
    blocks = read_blocks(page)
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        shown = following.text if following and following.follows and following.language == "text" else None
        text = shorten(block.text.replace("8000", port))
        where = f"{page}, line {block.line}"
        if block.language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(text, where, "exec"), names)
            if shown is not None:
                check_output(printed.getvalue(), shown, where)
        elif block.language == "bash" and not block.is_installer:
            if shown is not None and re.fullmatch(r"unire extract [^|>]*", text) and "--format" not in text:
                text = f"{text.rstrip()} --format text"  # what a terminal shows, without colour
            status, printed_text, errors = run_shell(text)
            assert status == 0, f"{where}: {errors}"
            if shown is not None:
                check_output(printed_text, shown, where)


def shorten(text: str) -> str:
    """Let trainings end after two epochs or steps."""
    text = re.sub(r"(epochs[ =])\d+", r"\g<1>2", text)
    if "unire train" in text and "--epochs" in text:
        text = re.sub(r"(--epochs 2)", r"\1 --set evaluate_after=0 --set evaluate_every=1", text)
    limit = "--max-steps 2 --batch-tokens 512 --length 64" if "unire adapt" in text else "--minutes 0.02"
    return re.sub(r"--minutes \d+", limit, text)


def check_output(printed: str, shown: str, where: str) -> None:
    """Compare what a block prints with what the page shows. `…` stands for anything."""
    pattern = ".*".join(re.escape(part) for part in SCORE.sub("0.00", shown.strip()).split("…"))
    assert re.fullmatch(pattern, SCORE.sub("0.00", printed.strip()), re.DOTALL), f"{where} prints:\n{printed}"
    if "…" not in shown:
        scores = [float(score) for score in SCORE.findall(printed)]
        expected = [float(score) for score in SCORE.findall(shown)]
        assert scores == pytest.approx(expected, abs=SCORE_TOLERANCE), where


def iter_commands(block: Block) -> Iterator[list[str]]:
    """The words of every `unire` command in a block."""
    text = block.text.replace("\\\n", " ")
    for line in text.splitlines():
        for part in re.split(r"[|;&]+(?=\s)|\$\(", line):
            if found := re.search(r"(?:^|\s)(?:python3? -m )?unire(?=\s)(.*)", part):
                try:
                    yield shlex.split(found[1], comments=True)
                except ValueError:  # quotes around a pipe
                    yield found[1].split()


def check_command(words: list[str], where: str) -> None:
    """The command and its options must exist."""
    command: Any = COMMAND
    for word in words:
        if word in getattr(command, "commands", {}):
            command = command.commands[word]
        elif word.startswith("-") and not re.fullmatch(r"-|-?\d.*", word):
            name = word.partition("=")[0]
            assert name in {"--help", "-h"} | options(command), f"{where}: {command.name} has no option {name}"


def check_python(block: Block, where: str) -> None:
    """A block that is not run must compile, and what it imports from unire must exist."""
    for node in ast.walk(ast.parse(block.text, where)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "unire":
            module = __import__(node.module or "", fromlist=["_"])
            for alias in node.names:
                assert hasattr(module, alias.name), f"{where}: {node.module} has no {alias.name}"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "unire":
            assert hasattr(unire, node.attr), f"{where}: unire has no {node.attr}"
