"""The `unire` command."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from unire import __version__
from unire.cli import adapt as adapt_module
from unire.cli import console, data, study
from unire.cli import distill as distill_module
from unire.cli import evaluate as evaluate_module
from unire.cli import extract as extract_module
from unire.cli import markers as markers_module
from unire.cli import models as models_module
from unire.cli import serve as serve_module
from unire.cli import train as train_module
from unire.errors import UnireError, require_extra

__all__ = ["app", "main"]

app = typer.Typer(
    name="unire",
    help="Joint entity and relation extraction by filling one table.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(no_args_is_help=True)(train_module.train)
app.command(no_args_is_help=True)(adapt_module.adapt)
app.command(no_args_is_help=True)(distill_module.teach)
app.command(no_args_is_help=True)(markers_module.markers)
app.command(no_args_is_help=True)(markers_module.relabel)
app.command(no_args_is_help=True)(distill_module.distill)
app.command(no_args_is_help=True)(evaluate_module.evaluate)
app.command(no_args_is_help=True)(evaluate_module.calibrate)
app.command()(extract_module.extract)  # without arguments it reads standard input
app.command(no_args_is_help=True)(evaluate_module.score)
app.command(no_args_is_help=True)(models_module.export)
app.command()(serve_module.serve)
app.command()(models_module.models)
app.command(no_args_is_help=True)(models_module.push)
app.add_typer(data.app, name="data")
app.add_typer(study.app, name="study")


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"unire {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


def main() -> None:
    """Run the command. A mistake of the user gives one sentence instead of a traceback."""
    try:
        try:
            with require_extra():
                app()
        finally:
            if sys.stdout is not None:  # report a failing write now, not after the end
                sys.stdout.flush()
    except SystemExit as end:
        # threads finish their work at exit; an interrupt then would look like a crash
        if end.code == extract_module.INTERRUPTED:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise
    except UnireError as error:
        console.fail(name_options(str(error), sys.argv[1:]))
        sys.exit(1)
    except BrokenPipeError:  # the reader of the output is gone, as in `unire … | head`
        _discard_output()
        sys.exit(141)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _discard_output()
        console.fail(f"the output cannot be written: {error.strerror}")
        sys.exit(1)


def name_options(sentence: str, words: Sequence[str]) -> str:
    """Replace the Python arguments in an error of the library by the options of the command.

    The library says `resume=True`, `out=...` or `spans="characters"`; the command says `--resume`, `--out` or
    `--spans characters`. Arguments that the command does not have stay as they are.

    Args:
        sentence: The error.
        words: The words on the command line, which name the command.
    """
    command = typer.main.get_command(app)
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    options = {param.name: param.opts[0] for param in command.params if param.opts[0].startswith("--")}

    def replace(found: re.Match[str]) -> str:
        name, value = found[1], found[2]
        if name not in options:
            return found[0]
        return f"{options[name]} {value[1:-1]}" if value.startswith('"') else options[name]

    return re.sub(r'\b([a-z_]+)=(True|\.\.\.|"[^"]*")', replace, sentence)


def _discard_output() -> None:
    """Discard the rest of the output, so that Python does not fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
