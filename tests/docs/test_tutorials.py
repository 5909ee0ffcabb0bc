"""The tutorials on annotation tools show the labels of their data and of the model."""

from __future__ import annotations

import re

import pytest

from helpers.pages import read_blocks
from helpers.paths import FIXTURES, ROOT
from unire import formats
from unire.analysis.checks import IssueKind
from unire.labels import LabelSpace


def read_interface(page: str) -> tuple[list[str], list[str]]:
    """The entity and relation types of Label Studio's interface on a page."""
    (interface,) = [block.text for block in read_blocks(page) if block.language == "xml"]
    return re.findall(r'<Label value="(.*?)"', interface), re.findall(r'<Relation value="(.*?)"', interface)


def test_the_twenty_sentences_have_the_labels_of_the_interface() -> None:
    documents = list(formats.read(FIXTURES / "export.json"))
    assert len(documents) == 20
    labels = LabelSpace.learn(documents)
    entities, relations = read_interface("docs/tutorials/train-own-labels.md")
    assert (sorted(entities), sorted(relations)) == (list(labels.entity_types), list(labels.relation_types))


def test_the_interface_for_corrections_has_the_labels_of_science() -> None:
    labels = LabelSpace.load("scierc")
    assert read_interface("docs/tutorials/correct-and-retrain.md") == ([*labels.entity_types], [*labels.relation_types])


@pytest.mark.parametrize("option", ["--label", "--span-label"])
def test_the_prodigy_recipe_has_the_labels_of_science(option: str) -> None:
    labels = LabelSpace.load("scierc")
    expected = labels.relation_types if option == "--label" else labels.entity_types
    (recipe,) = [
        block.text for block in read_blocks("docs/tutorials/correct-and-retrain.md") if "rel.manual" in block.text
    ]
    assert re.search(rf"{option} (\S+)", recipe)[1].split(",") == [*expected]


def test_the_messages_of_data_check_exist() -> None:
    page = (ROOT / "docs/how-to/prepare-data.md").read_text(encoding="utf-8")
    table = page.split("| message | what to do |\n|---|---|\n")[1].split("\n\n")[0]
    messages = [message for row in table.splitlines() for message in row.split("|")[1].split(";")]
    known = {kind.what for kind in IssueKind}
    assert {re.sub(r" \(.*\)$", "", message.strip()) for message in messages} <= known
