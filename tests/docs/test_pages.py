"""The pages of the documentation: their blocks run, their commands, options and links exist."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.docs import COMMAND, commands, options
from helpers.pages import PAGES, check_command, check_python, fill_folder, iter_commands, read_blocks, run_page
from helpers.paths import ROOT
from unire.decoding.decoders import DECODERS, SPAN_DECODERS
from unire.formats import FORMATS
from unire.windows.windows import LAYOUTS

RUNNABLE = [page for page in PAGES if any(block.language in ("bash", "python") for block in read_blocks(page))]
ALL_OPTIONS = {"--help"}.union(*(options(command) for command in commands(COMMAND)))
OTHER_COMMANDS = (
    "docker curl ray pip accelerate torchrun mkdocs prodigy cypher-shell neo4j-admin pytest git kubectl python"
    " .ci/floors"
)
OTHER_OPTIONS = re.compile(rf"(?:{OTHER_COMMANDS.replace(' ', '|')})\b[^\n`]*")
"""Commands of others, whose options are their own."""


@pytest.fixture
def _registries() -> Iterator[None]:
    """Forget the formats, decoders and layouts that a page adds."""
    before = [(registry, dict(registry)) for registry in (FORMATS, DECODERS, SPAN_DECODERS, LAYOUTS)]
    yield
    for registry, entries in before:
        registry.clear()
        registry.update(entries)


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.usefixtures("_registries")
@pytest.mark.parametrize("page", RUNNABLE)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch, encoder, teacher):
    fill_folder(tmp_path, encoder, teacher)
    run_page(page, tmp_path, monkeypatch)


@pytest.mark.parametrize("page", [*PAGES, "README.md", "CONTRIBUTING.md"])
def test_commands_options_and_names_of_a_page_exist(page):
    for block in read_blocks(page):
        where = f"{page}, line {block.line}"
        if block.language in ("bash", "shell"):
            for words in iter_commands(block):
                check_command(words, where)
        elif block.language in ("python", "py"):
            check_python(block, where)
    text = OTHER_OPTIONS.sub("", (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " "))
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text)) <= ALL_OPTIONS


def test_every_block_has_a_language():
    for page in [*PAGES, "README.md"]:
        fences = re.findall(r"^ *```(.*)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
        assert all(fences[::2]), page


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md"])
def test_links_to_files_exist(page):
    """`make docs` checks the links between pages of the site."""
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text(encoding="utf-8"))
    assert not [link for link in links if "://" not in link and not ((ROOT / page).parent / link).exists()]


def test_words_for_the_search_belong_to_pages():
    words = runpy.run_path(str(ROOT / "docs" / "hooks.py"))["SEARCH_WORDS"]
    assert words.keys() <= {str(Path(page).relative_to("docs")) for page in PAGES}


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [page for page in PAGES if str(Path(page).relative_to("docs")) not in navigation] == []
