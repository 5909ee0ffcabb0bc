"""docs/integrations.md says what is so: its Python runs and prints what stands below it, its commands exist."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import shlex
from pathlib import Path

import pytest

from helpers.docs import COMMAND, commands, options
from helpers.paths import ROOT
from unire.hub.model_dir import FILES
from unire.integrations.spacy.component import make_pipe

PAGE = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_every_python_block_prints_what_stands_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = 0
    for (language, text), (following, expected) in zip(BLOCKS, [*BLOCKS[1:], ("", "")], strict=True):
        if language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(text, "docs/integrations.md", "exec"), {})
            assert following == "text"
            assert rounded(printed.getvalue()) == rounded(expected)
            shown += 1
    assert shown == 2


def rounded(text: str) -> str:
    """Without the last digit of scores, which may be another on another CPU."""
    return re.sub(r"(0\.\d)\d", r"\1", text)


def test_every_option_of_the_page_exists() -> None:
    mentioned = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*(?![a-z_])", PAGE))
    assert mentioned <= set().union(*(options(command) for command in commands(COMMAND)))
    lines = [line for language, text in BLOCKS if language == "text" for line in text.splitlines()]
    for line in lines:
        if line.startswith(("accelerate", "torchrun")):
            words = shlex.split(line)
            assert words[words.index("-m") + 1 :][:2] == ["unire", "train"]


def test_every_setting_of_the_component_is_told() -> None:
    told = [name for row in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)]
    assert told == list(inspect.signature(make_pipe).parameters)[2:]


def test_a_model_has_as_many_files_as_the_page_says() -> None:
    assert len(FILES) == 6
    assert "only the six\nfiles of a model" in PAGE
