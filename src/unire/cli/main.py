"""The `unire` command."""

from __future__ import annotations

import inspect
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from importlib import import_module
from itertools import pairwise
from types import FrameType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from unire import __version__
from unire.cli import console
from unire.errors import UnireError, describe_os_error, describe_out_of_memory, require_extra
from unire.limits import DEFAULT_LIMITS

__all__ = ["build_app", "main"]

USAGE_ERROR: Any = typer.BadParameter.__base__
"""The base class `UsageError`, which is in click or in typer, depending on the version."""

BROKEN_PIPE = 128 + getattr(signal, "SIGPIPE", 13)
"""Exit status of a command whose reader has gone, as in `unire … | head`. Other Unix tools have the same."""
LIMIT_NAMES = vars(DEFAULT_LIMITS).keys()
LIMIT_REMEDY = re.compile(rf", or raise (?:{'|'.join(LIMIT_NAMES)})=\.\.\.")
"""Advice that commands without options for the limits cannot give."""

HELP_STYLES = {
    "STYLE_OPTION": "bold color(31)",
    "STYLE_COMMANDS_TABLE_FIRST_COLUMN": "bold color(31)",
    "STYLE_SWITCH": "bold color(29)",
    "STYLE_TYPES": "color(130)",
    "STYLE_METAVAR": "color(130)",  # of older versions
    "STYLE_USAGE": "bold",
    "STYLE_HELPTEXT": "",
    "STYLE_OPTION_ENVVAR": "dim",
}
"""Colours of `--help` that are readable on dark and on light grounds. Typer's yellow is not readable on white."""

HELP = """Extract entities and relations from text, with calibrated probabilities.

Examples:

    unire extract "We train a parser on the Penn Treebank."
    unire extract abstracts/ --out graph.graphml
    unire train --encoder bert-base-uncased --data train.jsonl -o models/mine

`unire COMMAND --help` shows the options of a command, with examples.
"""

USE, DATA, TRAIN, STUDY = "Use", "Data", "Train", "Study"
"""Panels of `unire --help`."""
COMMANDS = {
    "extract": ("extract", USE),
    "serve": ("serve", USE),
    "models": ("models", USE),
    "evaluate": ("evaluate", USE),
    "score": ("evaluate", USE),
    "calibrate": ("evaluate", USE),
    "export": ("models", USE),
    "package": ("models", USE),
    "push": ("models", USE),
    "train": ("train", TRAIN),
    "adapt": ("adapt", TRAIN),
    "teach": ("distill", TRAIN),
    "distill": ("distill", TRAIN),
    "markers": ("markers", TRAIN),
    "relabel": ("markers", TRAIN),
}
"""Each command, with its module and its panel."""
GROUPS = {"graph": USE, "data": DATA, "annotate": DATA, "study": STUDY}
"""Each group of commands, which is a module too, with its panel."""
RUN_WITHOUT_ARGUMENTS = ("extract", "serve", "models")
"""Other commands without arguments print their help."""


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"unire {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", metavar="", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None: ...


def build_app(*names: str) -> typer.Typer:
    """Build the command line from the modules of some commands or groups, or of all.

    Each command imports only what it needs, so that the first result comes soon.
    """
    app = typer.Typer(
        name="unire",
        help=HELP,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name, (module, panel) in COMMANDS.items():
        if not names or name in names:
            function = getattr(import_module(f"unire.cli.{module}"), name)
            app.command(rich_help_panel=panel, no_args_is_help=name not in RUN_WITHOUT_ARGUMENTS)(function)
    for name, panel in GROUPS.items():
        if not names or name in names:
            app.add_typer(import_module(f"unire.cli.{name}").app, name=name, rich_help_panel=panel)
    return app


def _style_help() -> None:
    from typer import rich_utils

    for name, style in HELP_STYLES.items():
        setattr(rich_utils, name, style)


def _build_called(words: Sequence[str]) -> typer.Typer:
    """Build the command that the words call. Without a known one, build all, for the help and for suggestions."""
    return build_app(*(name for name in words[:1] if name in {**COMMANDS, **GROUPS}))


def __getattr__(name: str) -> typer.Typer:
    if name == "app":
        return build_app()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main() -> None:
    """Run the command. A mistake of the user gives one sentence instead of a traceback."""
    words = sys.argv[1:]
    if {"-h", "--help"} & {*words} or (len(words) < 2 and not {*RUN_WITHOUT_ARGUMENTS} & {*words}):
        _style_help()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # characters that the terminal lacks are no reason to stop
    try:
        try:
            with _sigterm_as_ctrl_c() as signals, require_extra():
                status = _run(words)
        finally:
            if sys.stdout is not None:  # report a failing write now, not after the end
                sys.stdout.flush()
        if status == console.INTERRUPTED:
            status = 128 + (signals or [signal.SIGINT])[0]
            # threads finish their work at exit; an interrupt then would look like a crash
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.exit(status)
    except USAGE_ERROR as error:
        if sentence := describe_usage_error(error, words):
            console.fail(sentence)
        sys.exit(error.exit_code)
    except UnireError as error:
        console.fail(name_options(str(error), words))
        sys.exit(1)
    except BrokenPipeError:  # the reader of the output is gone, as in `unire … | head`
        _discard_output()
        sys.exit(BROKEN_PIPE)
    except OSError as error:
        reason = describe_out_of_memory(error) or describe_os_error(error)
        if reason is None:
            raise
        _discard_output()
        console.fail(reason)
        sys.exit(1)


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[list[int]]:
    """Let SIGTERM interrupt a command as Ctrl-C does, so that it cleans up. Yield a list of the signals that came."""
    signals: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not disturb the end
        signals.append(number)
        raise KeyboardInterrupt(number)

    if threading.current_thread() is not threading.main_thread():  # which alone may handle signals
        yield signals
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield signals
    finally:
        if not signals:
            signal.signal(signal.SIGTERM, before)


def _discard_output() -> None:
    """Discard what is still to be written, so that Python does not fail again at exit."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: Sequence[str]) -> Any:
    try:
        return _build_called(words)(prog_name="unire", standalone_mode=False)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer would exit with status 1
            raise end.__context__ from None
        raise


def describe_usage_error(error: Any, words: Sequence[str]) -> str:
    """Describe a mistake on the command line in one sentence, as the library describes its errors.

    Args:
        error: A `UsageError` of typer, for example an unknown option or a value of the wrong type.
        words: The words on the command line.

    Returns:
        The sentence; empty if typer has printed the help instead, for a command without arguments.
    """
    command, path, rest = find_command(words)
    commands, option = getattr(command, "commands", {}), getattr(error, "option_name", "")
    options = [name for param in command.params for name in (*param.opts, *param.secondary_opts)]
    hint = f"see `{' '.join(path)} --help`"
    if option and option not in options:
        return _suggest(f"there is no option {option}", option, options, hint)
    if commands and rest and not rest[0].startswith("-"):
        return _suggest(f"there is no command {rest[0]!r}", rest[0], list(commands), hint)
    sentence = _describe_value(command, getattr(error, "param", None), rest) or error.format_message()
    sentence = " ".join(sentence.split()).rstrip(".")
    return sentence and f"{sentence[0].lower()}{sentence[1:]}; {hint}"


def _suggest(sentence: str, word: str, choices: Sequence[str], hint: str) -> str:
    similar = get_close_matches(word, choices, n=1)
    return f"{sentence}; did you mean {similar[0]}?" if similar else f"{sentence}; {hint}"


def _describe_value(command: Any, param: Any, words: Sequence[str]) -> str:
    """Describe what the value of an option must be; empty if the option is not among the words."""
    values = {**dict(pairwise([*words, ""])), **dict(word.split("=", 1) for word in words if "=" in word)}
    name = next((name for name in getattr(param, "opts", ()) if name in values and name.startswith("-")), None)
    if name is None:
        return ""
    kind, info = get_args(get_type_hints(inspect.unwrap(command.callback), include_extras=True)[param.name])[:2]
    choices = [choice for each in (kind, *get_args(kind)) if get_origin(each) is Literal for choice in get_args(each)]
    wanted = f"one of {', '.join(choices)}" if choices else "a whole number" if "int" in str(kind) else "a number"
    if info.min is not None:
        wanted += f" from {info.min:g} to {info.max:g}" if info.max is not None else f", at least {info.min:g}"
    if str(info.metavar).endswith("|auto"):
        wanted += ", or auto"
    return f"{param.opts[0]} must be {wanted}, not {values[name]!r}"


def find_command(words: Sequence[str]) -> tuple[Any, list[str], list[str]]:
    """Return the command that the words call, its full name, and the words after it."""
    command: Any = typer.main.get_command(_build_called(words))
    name, rest = ["unire"], list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest[0]]
        name.append(rest.pop(0))
    return command, name, rest


def name_options(sentence: str, words: Sequence[str]) -> str:
    """Replace the Python arguments in an error of the library by the options of the command.

    The library says `resume=True`, `out=...`, `spans="characters"` or `lr must be`; the command says `--resume`,
    `--out`, `--spans characters` or `--lr must be`. Arguments that the command does not have stay as they are.

    Args:
        sentence: The error.
        words: The words on the command line, which name the command.
    """
    command, _, _ = find_command(words)
    options = {param.name: param.opts[0] for param in command.params if param.opts[0].startswith("--")}

    def replace(found: re.Match[str]) -> str:
        name, value = found[1], found[2] or ""
        if name not in options:
            return found[0]
        return f"{options[name]} {value[1:-1]}" if value.startswith('"') else options[name]

    if not options.keys() & LIMIT_NAMES:
        sentence = LIMIT_REMEDY.sub("", sentence)
    return re.sub(r'(?<![\w-])([a-z0-9_]+)(?:=(True|\.\.\.|"[^"]*")|(?= must ))', replace, sentence)
