"""Tables of the reference and the explanation pages are those of the code."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import get_args

import pytest

import unire
from helpers.architecture import LAYERS
from helpers.docs import in_backticks
from helpers.pages import read_blocks
from helpers.paths import ROOT
from unire import formats
from unire.analysis.statistics import TABLE_2
from unire.config import Layout, ModelConfig
from unire.decoding.decoders import DECODERS
from unire.documents import Document
from unire.evaluation.error_analysis import ERROR_KINDS
from unire.evaluation.scores import Average, Protocol, RelationMatch, SpanUnit, SymmetricGold
from unire.formats.base import Capability
from unire.hub.model_dir import FILES
from unire.labels import LabelSpace
from unire.tables import fill_sentence
from unire.training.config import MARKER_SETTINGS, PRESETS, AdaptationConfig, TrainingConfig
from unire.training.distillation.distill import DistillConfig

CAPABILITIES = {
    "text": Capability.TEXT,
    "words": Capability.WORDS,
    "sentences": Capability.SENTENCES,
    "across": Capability.SPANNING_RELATIONS,
    "overlaps": Capability.OVERLAPS,
    "same span": Capability.TWINS,
    "scores": Capability.SCORES,
    "attributes": Capability.ATTRIBUTES,
    "meta": Capability.META,
    "cuts": Capability.CUTS,
    "clusters": Capability.CLUSTERS,
}


def read_page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def read_table(page: str, head: str) -> list[list[str]]:
    """The rows of the table whose head begins with these cells."""
    lines = read_page(page).partition(f"\n| {head} |")[2].partition("\n\n")[0].splitlines()[2:]
    assert lines, f"docs/{page}.md has no table {head!r}"
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def first_column(page: str, head: str) -> list[str]:
    return [name for cells in read_table(page, head) for name in in_backticks(cells[0])]


def to_value(cell: str) -> object:
    text = cell.strip("`")
    try:
        return json.loads(text)
    except ValueError:
        return text


# Configuration


def test_the_table_of_presets_shows_where_they_differ():
    page, head = "reference/configuration", " | ".join(["setting", *(f"`{name}`" for name in PRESETS)])
    shown = {in_backticks(name)[0]: tuple(map(to_value, values)) for name, *values in read_table(page, head)}
    names = [field.name for field in fields(TrainingConfig) if field.name != "preset"]
    values = {name: tuple(getattr(preset, name) for preset in PRESETS.values()) for name in names}
    assert shown == {name: each for name, each in values.items() if len(set(each)) > 1}


def test_the_table_of_marker_models_shows_their_settings():
    table = read_table("reference/configuration", "setting | marker models")
    assert {in_backticks(name)[0]: to_value(value) for name, value in table} == MARKER_SETTINGS


@pytest.mark.parametrize("kind", [TrainingConfig, DistillConfig, AdaptationConfig, ModelConfig])
def test_every_setting_is_in_a_table(kind):
    """The build of the site fills `<!-- fields PATH FIRST LAST -->` with the fields from the first to the last."""
    path = f"{kind.__module__}.{kind.__name__}"
    names = [field.name for field in fields(kind) if field.name != "preset"]
    shown = [
        name
        for first, last in re.findall(rf"<!-- fields {path} (\w+) (\w+) -->", read_page("reference/configuration"))
        for name in names[names.index(first) : names.index(last) + 1]
    ]
    assert shown == names


# Python


def test_every_public_name_is_in_the_reference():
    page = read_page("reference/python")
    documented = re.findall(r"^::: unire\.(\w+)$", page, re.MULTILINE)
    assert sorted(documented) == sorted(set(unire.__all__) - {"__version__"})
    listed = in_backticks(page.partition("\n## ")[0])
    assert set(documented) <= set(listed)


# Formats


def test_the_table_of_formats_lists_them_all():
    rows = read_table("reference/formats", "format | file")
    assert [in_backticks(cells[0])[0] for cells in rows] == list(formats.FORMATS)
    marks = {True: "✓", False: "–"}
    assert [cells[2:4] for cells in rows] == [["✓", marks[name in formats.WRITABLE]] for name in formats.FORMATS]


def test_the_table_of_capabilities_matches_the_code():
    rows = read_table("reference/formats", f" | {' | '.join(CAPABILITIES)}".lstrip())
    assert [in_backticks(cells[0])[0] for cells in rows] == list(formats.WRITABLE)
    for name, *cells in rows:
        holds = formats.FORMATS[name.strip("`")].capabilities
        assert cells == ["✓" if capability in holds else "–" for capability in CAPABILITIES.values()], name
        assert (Capability.SPANNING_ENTITIES in holds) == (Capability.SPANNING_RELATIONS in holds)


def test_the_paper_s_counts_of_ace_are_those_that_the_command_prints():
    for corpus in ("ace04", "ace05"):
        counts = " | ".join(f"{count:,}" for count in TABLE_2[corpus].values())
        assert f"| {corpus.upper()} | {counts} |" in read_page("reference/formats")


def test_the_example_of_a_file_can_be_read(tmp_path):
    (example,) = [block.text for block in read_blocks("docs/reference/formats.md") if block.language == "json"]
    file = tmp_path / "mine.json"
    file.write_text(example, encoding="utf-8")
    (document,) = formats.read(file)
    assert str(document.relations[0]) == "Ada [Peop] –Live_In→ London [Loc]"


# Scores


def test_the_table_of_protocols_has_every_choice_with_the_default_first():
    choices: dict[str, list[str]] = {}
    for option, value, _ in read_table("reference/scores", "option | value"):
        names = in_backticks(option) or [list(choices)[-1]]
        choices.setdefault(names[0], []).extend(in_backticks(value))
    kinds = {"relations": RelationMatch, "directions": SymmetricGold, "average": Average, "spans": SpanUnit}
    assert choices == {f"--{name}": list(get_args(kind)) for name, kind in kinds.items()} | {"--drop-overlapping": []}
    protocol = Protocol()
    defaults = [protocol.relations, protocol.symmetric, protocol.average, protocol.spans]
    assert defaults == [get_args(kind)[0] for kind in kinds.values()]


# Explanation


def test_the_drawn_table_is_the_one_that_is_filled():
    drawing = next(block.text for block in read_blocks("docs/explanation/method.md") if "┏" in block.text)
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


def test_the_method_names_every_layout_decoder_and_kind_of_error():
    page = "explanation/method"
    assert first_column(page, "`layout`") == list(get_args(Layout))
    assert sorted(first_column(page, "`decoder`")) == sorted(DECODERS)
    assert first_column(page, "kind") == list(ERROR_KINDS)


def test_the_architecture_lists_every_package_once_and_in_the_order_of_layers():
    rows = [in_backticks(cells[0]) for cells in read_table("explanation/architecture", "`src/unire/`")]
    packages = [name.rstrip("/").removesuffix(".py") for row in rows for name in row]
    assert sorted(packages) == sorted(name for layer in LAYERS for name in layer)
    levels = [next(k for k, layer in enumerate(LAYERS) if name in layer) for name in packages]
    assert levels == sorted(levels)


def test_the_architecture_lists_the_files_of_a_model():
    assert sorted(first_column("explanation/architecture", "file")) == sorted(FILES)
