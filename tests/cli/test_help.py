"""`--help` and mistakes on the command line: panels, short lines, and errors that name the right argument."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
from rich.text import Text

from helpers.cli import run, usage_error
from helpers.docs import COMMAND
from unire.cli.main import find_command
from unire.training.config import PRESETS

NAMES = [
    *COMMAND.commands,
    *(f"{group} {name}" for group in ("data", "study") for name in COMMAND.commands[group].commands),
]
COMMANDS = {name: find_command(name.split())[0] for name in NAMES}
MAX_HELP_COLUMNS = 78
"""A terminal of 80 columns, without the margins."""
MAX_OPTION_COLUMNS = 92
"""An option of average length fits on one line of 120 columns."""


def options(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "option" and "--help" not in each.opts]


def test_help_groups_the_commands_and_begins_with_extract(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("--help").output.splitlines()
    panels = [found[1] for line in lines if (found := re.match(r"╭─ (\w+) ─", line))]
    assert panels == ["Options", "Use", "Train", "Data", "Study"]
    rows = [found[1] for line in lines if (found := re.match(r"│ ([a-z]+) +[A-Z]", line))]
    assert rows[0] == "extract"
    assert set(rows) == set(COMMAND.commands)  # one line each
    assert '     unire extract "We train a parser on the Penn Treebank."' in [line.rstrip() for line in lines]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_in_a_panel_and_described_in_one_line(name):
    for option in options(COMMANDS[name]):
        assert option.rich_help_panel, option.opts
        described = Text.from_markup(option.help).plain
        assert described[0].isupper() or described[0] == "`"
        assert re.search(r"[.\]]$", described)
        if "spert" not in described:  # the list of formats
            assert len(described) <= MAX_OPTION_COLUMNS, described


def test_the_help_of_training_shows_the_settings_of_the_preset_best():
    shown = {option.name: Text.from_markup(option.help).plain for option in options(COMMANDS["train"])}
    best = PRESETS["best"]
    for name in ("epochs", "batch_size", "lr", "head_lr", "beta2", "layout", "patience"):
        assert f"[default: {getattr(best, name)} in best" in shown[name]


@pytest.mark.parametrize("name", NAMES)
def test_help_has_examples_and_fits_80_columns(name):
    text = inspect.cleandoc(COMMANDS[name].help)
    assert max(map(len, text.splitlines())) <= MAX_HELP_COLUMNS
    assert f"\n    unire {name}" in text.partition("Examples:")[2]
    assert not text.splitlines()[-1].startswith(" ")  # typer does not indent examples at the end


@pytest.mark.parametrize("name", NAMES)
def test_models_and_outputs_have_short_flags(name):
    for option in options(COMMANDS[name]):
        short = {"--model": "-m", "--out": "-o"}.get(option.opts[0])
        assert option.opts == [option.opts[0], *filter(None, [short])]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("extrct",), "there is no command 'extrct'; did you mean extract?"),
        (("data", "stat", "x"), "there is no command 'stat'; did you mean stats?"),
        (("xyz",), "there is no command 'xyz'; see `unire --help`"),
        (("--vesion",), "there is no option --vesion; did you mean --version?"),
        (("extract", "--modle", "x"), "there is no option --modle; did you mean --model?"),
        (("study", "speed", "--xyz"), "there is no option --xyz; see `unire study speed --help`"),
        (("serve", "--port", "x"), "--port must be a whole number from 0 to 65535, not 'x'; see `unire serve --help`"),
        (("serve", "--port=99999"), "--port must be a whole number from 0 to 65535, not '99999'; see `unire serve"),
        (("extract", "--min-score", 3, "A text."), "--min-score must be a number from 0 to 1, or auto, not '3'; see"),
        (("teach", "--documents", 0), "--documents must be a whole number, at least 1, not '0'; see `unire teach --"),
        (("train", "--layout", "x"), "--layout must be one of in-place, released, shared, not 'x'; see `unire train"),
        (("evaluate", "--relations=x"), "--relations must be one of strict, boundaries, not 'x'; see `unire eval"),
        (("evaluate", "--alpha", "x"), "--alpha must be a number, not 'x'; see `unire evaluate --help`"),
        (("train", "--fold", 1, "--fold", "x"), "--fold must be a whole number, not 'x'; see `unire train --help`"),
        (("train", "--encoder", "x"), "missing option '--data'"),
        (("push", "name"), "missing argument 'USER/MODEL'"),
        (("extract", "-m"), "option '-m' requires an argument; see `unire extract --help`"),
        (("models", "science"), "got unexpected extra argument"),
    ],
)
def test_a_mistake_on_the_command_line_is_explained_in_one_sentence(words, sentence):
    assert sentence in usage_error(*words)


@pytest.mark.parametrize("words", [(), ("train",), ("data",), ("data", "stats")])
def test_a_command_that_needs_arguments_shows_its_help(words, capsys):
    assert usage_error(*words) == ""
    assert f"Usage: unire {' '.join(words)}".strip() in " ".join(capsys.readouterr().out.split())
