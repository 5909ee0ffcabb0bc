"""docs/explanation/paper-to-code.md: its names exist, its settings are those of the presets, nothing is left out."""

from __future__ import annotations

import ast
import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from helpers.docs import COMMAND, commands, in_backticks, options
from helpers.paths import ROOT, SOURCE
from unire.training.config import PRESETS, TrainingConfig

PAPER_TO_CODE = (ROOT / "docs" / "explanation" / "paper-to-code.md").read_text(encoding="utf-8")


def find_command(words: list[str]) -> Any:
    """The command that `unire …` names, or `None`."""
    command = COMMAND
    for word in words[1:]:
        if word.startswith("-"):
            break
        command = getattr(command, "commands", {}).get(word)
    return command


def units() -> list[str]:
    """The page in parts that speak of something each: the rows of its tables, and its paragraphs."""
    found = []
    for paragraph in re.split(r"\n\s*\n", PAPER_TO_CODE):
        found += paragraph.splitlines() if paragraph.startswith("|") else [paragraph]
    return [unit for unit in found if "`" in unit]


def defined_in(file: Path) -> set[str]:
    """The names of a module, of its classes and of `self`, and the words it quotes; no variable of a function."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names = set()
    for scope in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))):
        for node in scope.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names.add(node.name)
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets:
                names.update(part.id for part in ast.walk(target or ast.Module()) if isinstance(part, ast.Name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            names.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
    return names


def find_file(token: str) -> Path | None:
    return next((base / token for base in (SOURCE, ROOT) if (base / token).exists()), None)


@pytest.mark.parametrize("unit", units(), ids=lambda unit: unit.strip("|# ")[:30])
def test_everything_that_paper_to_code_names_exists(unit):
    """Files; names, in the files beside them; commands with their options; settings with their values."""
    tokens = in_backticks(unit)
    paths = [token for token in tokens if "/" in token or token.endswith((".py", ".json", ".md"))]
    modules = [find_file(token) for token in paths if token.endswith(".py")] or [SOURCE / "training" / "config.py"]
    assert None not in [find_file(token) for token in paths]
    command = None
    for token in tokens:
        if token in paths:
            continue
        words = token.split()
        if words[0] == "unire" or words[0].startswith("--"):
            command = find_command(words) if words[0] == "unire" else command
            assert command is not None or words[0] != "unire", token
            known = options(command) if command else set().union(*map(options, commands(COMMAND)))
            assert {word for word in words if word.startswith("--")} <= known, token
            if "--set" in words[:-1]:
                name, value = words[words.index("--set") + 1].split("=")
                with contextlib.suppress(ValueError):
                    value = json.loads(value)
                TrainingConfig.from_preset("paper", **{name: value})
        elif "=" not in token:
            assert any(token in defined_in(module) for module in modules), f"{token} is not in {modules}"


def test_the_settings_on_the_page_are_those_of_the_presets():
    shown = []
    for line in PAPER_TO_CODE.splitlines():
        cells = line.split("|")
        for column, cell in enumerate(cells):
            for token in in_backticks(cell):
                if re.fullmatch(r"\w+=\S+", token):
                    # the last table has a column for each preset; everywhere else the paper speaks
                    preset = PRESETS["released" if len(cells) == 7 and column == 5 else "paper"]
                    name, value = token.split("=")
                    assert getattr(preset, name) == ast.literal_eval(value), line
                    shown.append(name)
    assert {"layout", "mean", "implication", "bias_correction", "eps", "layer_decay", "evaluate_after"} <= set(shown)


def test_no_item_of_the_paper_is_left_out():
    def numbers(kind: str) -> set[int]:
        return {
            int(number)
            for after in re.findall(rf"{kind}s? ([^|;:]*)", PAPER_TO_CODE, re.IGNORECASE)
            for number in re.findall(r"\b\d+\b", after)
        }

    assert {f"Figure {n}" for n in range(1, 8)} <= set(re.findall(r"Figure \d", PAPER_TO_CODE))
    assert {f"Table {n}" for n in range(1, 7)} <= set(re.findall(r"Table \d", PAPER_TO_CODE))
    assert numbers("footnote") == set(range(1, 16))
    assert "Algorithm 1" in PAPER_TO_CODE
    assert "Equation 1" in PAPER_TO_CODE
    assert re.findall(r"^##+ (.*)", PAPER_TO_CODE, re.MULTILINE)[:5] == [
        "1 Introduction, 2 Task definition",
        "3.1 Biaffine model",
        "3.2 Table filling",
        "3.3 Constraints",
        "3.4 Decoding, and appendix A",
    ]
