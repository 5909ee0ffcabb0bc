"""What tests of the documentation share: names in backticks, and commands with their options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from unire.cli.main import app

COMMAND: Any = typer.main.get_command(app)


def in_backticks(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def commands(group: Any) -> Iterator[Any]:
    """A command and all that are below it."""
    yield group
    for command in getattr(group, "commands", {}).values():
        yield from commands(command)


def options(command: Any) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
