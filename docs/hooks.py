"""Hooks of the documentation build: tables of commands and settings, examples in docstrings, and no other hosts.

| in a page | becomes |
|---|---|
| `<!-- commands -->` | a section for every command, with its options |
| `<!-- fields PATH FIRST LAST -->` | a table of the fields FIRST to LAST of the dataclass at PATH |
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import griffe
import typer
from mkdocs.exceptions import PluginError
from rich.text import Text

from unire.cli.main import app

COMMANDS = "<!-- commands -->"
FIELDS = re.compile(r"<!-- fields (\S+) (\w+) (\w+) -->")
HIGHLIGHTED = re.compile(r'(<div class="language-(\w+) highlight">)(<pre>.*?</pre>)', re.DOTALL)
SHELL_OPTION = re.compile(r"(?<=>)--?[a-z][\w-]*(?=[<\n])")
TEXT_COLUMNS = 80
"""Outputs with longer lines have no columns to align."""
OPTION = re.compile(r"(?<![\w`-])--[a-z][a-z0-9-]*(?: [a-z0-9_]+=[^\s,.)]+)?")


SEARCH_BOOSTS = {"how-to/": 4, "tutorials/": 4, "reference/glossary.md": 2, "lab-notes/": 0.5}
"""Rank of pages in the search, relative to others."""
SEARCH_WORDS = {
    "index.md": ("licence", "license", "citation"),
    "get-started/index.md": ("language", "German", "multilingual"),
    "get-started/install.md": ("offline", "setup", "requirements"),
    "how-to/choose-threshold.md": ("confidence", "precision", "recall"),
    "how-to/extract-files.md": ("PDF", "CSV"),
    "how-to/filter-types.md": ("filter", "ignore", "only", "restrict", "select", "subset"),
    "how-to/knowledge-graph.md": ("Gephi", "Neo4j", "RDF", "merge", "node", "edge"),
    "how-to/large-corpora.md": ("big", "corpus", "millions", "parallel", "scale", "speed"),
    "how-to/overlapping-entities.md": ("discontinuous", "nested"),
    "how-to/publish-model.md": ("HuggingFace", "publish", "share", "upload"),
    "how-to/serve.md": ("REST", "server"),
    "how-to/use-gpu.md": ("CUDA", "faster", "speed"),
    "tutorials/correct-and-retrain.md": (
        "active",
        "brat",
        "continue",
        "errors",
        "fine-tune",
        "finetune",
        "human",
        "improve",
        "Prodigy",
        "Studio",
    ),
    "tutorials/train-own-labels.md": ("custom",),
}
"""Words that should find a page first. Each word of a query matches them by its first letters."""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    for path, boost in SEARCH_BOOSTS.items():
        if page.file.src_uri.startswith(path):
            page.meta.setdefault("search", {"boost": boost})
    page.meta.setdefault("tags", list(SEARCH_WORDS.get(page.file.src_uri, ())))
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, "\n".join(describe_commands()))
    return FIELDS.sub(lambda found: "\n".join(describe_fields(*found.groups())), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Keep options and intervals on one line, and mark outputs whose lines may wrap."""
    html = re.sub(r"<code>(--[^<]{1,30}</code>)", r'<code class="option">\1', html)
    html = re.sub(r"(\[\d+\.\d,) (\d+\.\d\])", "\\1\N{NO-BREAK SPACE}\\2", html)
    return HIGHLIGHTED.sub(prepare_wrapping, html)


def prepare_wrapping(found: re.Match[str]) -> str:
    """Shell code wraps between words, not within options. Outputs wrap if they are one line or have long lines."""
    opening, language, code = found.groups()
    if language in ("bash", "shell"):
        return opening + SHELL_OPTION.sub(r'<span class="option">\g<0></span>', code)
    lines = [len(unescape(re.sub(r"<[^>]+>", "", line))) for line in code.splitlines()[:-1]]
    wraps = language in ("text", "console") and (len(lines) == 1 or max(lines, default=0) > TEXT_COLUMNS)
    return f"{opening.replace('highlight', 'highlight wrap') if wraps else opening}{code}"


def on_post_page(output: str, page: Any, **_: Any) -> None:
    """Refuse a page that loads something from another host; links to other hosts are fine."""
    parser = LoadedUrls()
    parser.feed(output)
    if foreign := [url for url in parser.urls if re.match(r"(https?:)?//", url)]:
        raise PluginError(f"{page.file.src_path} loads {', '.join(foreign)}; the site must work without a network")


class LoadedUrls(HTMLParser):
    """Collects what a browser loads with a page."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "link" and values.get("rel") != "canonical":
            self.urls.append(values.get("href") or "")
        self.urls.append(values.get("src") or "")


# The command line


def describe_commands() -> Iterator[str]:
    """Yield the Markdown of all commands, in the order of `unire --help`."""
    root: Any = typer.main.get_command(app)
    panels: dict[str, list[tuple[str, Any]]] = {}
    for name, command in root.commands.items():
        panels.setdefault(getattr(command, "rich_help_panel", None) or "Commands", []).append((name, command))
    for panel, commands in panels.items():
        rows = [(f"[`unire {name}`](#unire-{name})", format_inline(summarize(command))) for name, command in commands]
        yield format_table(panel, "", rows)
    for commands in panels.values():
        for name, command in commands:
            if hasattr(command, "commands"):
                yield f"\n## unire {name}\n\n{format_help(command)}"
                for child_name, child in command.commands.items():
                    yield from describe_command(f"unire {name} {child_name}", child, level=3)
            else:
                yield from describe_command(f"unire {name}", command, level=2)


def summarize(command: Any) -> str:
    """The first sentence of a command's help."""
    return re.split(r"(?<=\.)\s|\n\s*\n", inspect.cleandoc(command.help or ""))[0].replace("\n", " ")


def describe_command(name: str, command: Any, level: int) -> Iterator[str]:
    """Yield the help of a command, and its arguments and options as tables, one for each panel of the help."""
    yield f"\n{'#' * level} {name}\n\n{format_help(command)}"
    types = get_type_hints(inspect.unwrap(command.callback))
    panels: dict[str, list[Any]] = {}
    for parameter in command.params:
        if parameter.name in types and not parameter.hidden:
            panel = "Arguments" if parameter.param_type_name == "argument" else "Options"
            panels.setdefault(parameter.rich_help_panel or panel, []).append(parameter)
    for panel, parameters in panels.items():
        title, _, remark = panel.partition(" (")
        rows = [(format_names(each, types[each.name]), format_description(each)) for each in parameters]
        yield format_table(title, remark.rstrip(")"), rows)


def format_table(title: str, remark: str, rows: list[tuple[str, str]]) -> str:
    lines = [f"| {title} | {remark} |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows)]
    return "\n".join(["", '<div class="commands" markdown>', "", *lines, "", "</div>"])


def format_help(command: Any) -> str:
    """The help of a command. Paragraphs that are indented or keep their line ends become code blocks."""
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")):
        if paragraph.startswith(("\b", "    ")):
            code = textwrap.dedent(paragraph.removeprefix("\b").strip("\n"))
            paragraphs.append(f"```{'shell' if 'unire ' in code else 'text'}\n{code}\n```")
        else:
            paragraphs.append(format_inline(paragraph))
    return "\n\n".join(paragraphs)


def format_names(parameter: Any, kind: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    return names if parameter.is_flag else f"{names} `{parameter.metavar or name_type(kind)}`"


def name_type(kind: Any) -> str:
    """Name the values of an option as `--help` does."""
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    for option in get_args(kind):
        if option is not type(None):
            return name_type(option)
    return {int: "INTEGER", float: "FLOAT", Path: "PATH"}.get(kind, "TEXT")


def format_description(parameter: Any) -> str:
    text = escape(format_inline(Text.from_markup(parameter.help or "").plain))
    if parameter.required:
        return f"{text} *Required.*"
    default = parameter.show_default
    if default is True:
        default = None if isinstance(parameter.default, bool | list | tuple) else parameter.default
    return text if default in (None, False, "") else f"{text} [default: {escape(str(default))}]"


def format_inline(text: str) -> str:
    """Show options as code."""
    return OPTION.sub(lambda found: f"`{found[0]}`", text)


def escape(text: str) -> str:
    """Keep a text in its cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")


# Settings


def describe_fields(path: str, first: str, last: str) -> Iterator[str]:
    """Yield a table of the fields `first` to `last` of a dataclass: name, default, and docstring."""
    module, _, name = path.rpartition(".")
    rows = list(iter_fields(getattr(import_module(module), name)))
    names = [row[0] for row in rows]
    yield "| setting | default | meaning |\n|---|---|---|"
    for field, default, text in rows[names.index(first) : names.index(last) + 1]:
        yield f"| `{field}` | {f'`{default}`' if default else ''} | {escape(text)} |"


def iter_fields(kind: type) -> Iterator[tuple[str, str, str]]:
    """Yield name, default and docstring of the fields of a dataclass, from its source."""
    source = textwrap.dedent(inspect.getsource(kind))
    body = ast.parse(source).body[0].body  # type: ignore[attr-defined]
    for statement, following in pairwise([*body, None]):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            is_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            text = inspect.cleandoc(following.value.value) if is_text else ""
            default = ast.get_source_segment(source, statement.value) if statement.value else ""
            default = "" if default.startswith("field(") else re.sub(r"(?<=\d)_(?=\d)", "", default)
            yield statement.target.id, default, text


# Docstrings


class Docstrings(griffe.Extension):
    """Turns `>>>` lines of docstrings into code blocks, and the attributes of a class into one table."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = re.sub(
                r"(?m)^( *)>>> .*(?:\n\1\S.*)*",
                lambda found: f"{found[1]}```pycon\n{re.sub(r' *# doctest: .*', '', found[0])}\n{found[1]}```",
                obj.docstring.value,
            )

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        tables = [(cls, [*iter_attributes(cls)]) for cls in iter_classes(pkg)]  # before docstrings are removed
        for cls, attributes in tables:
            if cls.docstring and attributes:
                texts = {each.name: each.docstring.value.partition("\n\n")[0] for each in attributes}
                rows = (f"    {name}: {' '.join(text.split())}" for name, text in texts.items())
                cls.docstring.value += "\n\nAttributes:\n" + "\n".join(rows)
        for _cls, attributes in tables:
            for each in attributes:
                (each.final_target if each.is_alias else each).docstring = None


def iter_classes(module: griffe.Module) -> Iterator[griffe.Class]:
    for member in module.members.values():
        if not member.is_alias:
            if member.is_class:
                yield member
            elif member.is_module:
                yield from iter_classes(member)


def iter_attributes(cls: griffe.Class) -> Iterator[Any]:
    """The public attributes and properties of a class that have a docstring, those of its bases first."""
    for name, member in {**cls.inherited_members, **cls.members}.items():
        if member.is_attribute and not name.startswith("_") and member.docstring:
            yield member
