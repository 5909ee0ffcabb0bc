"""The README: its blocks run, its figures are those of the models, and it is short."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
import struct

import pytest

from helpers.pages import fill_folder, read_blocks, run_page
from helpers.paths import ROOT
from unire import pretrained
from unire.config import ModelConfig

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = read_blocks("README.md")


@pytest.mark.slow
@pytest.mark.no_cover
def test_every_block_runs(tmp_path, monkeypatch, encoder, teacher):
    fill_folder(tmp_path, encoder, teacher)
    run_page("README.md", tmp_path, monkeypatch)
    for written in ("relations.csv", "graph.graphml", "found.jsonl", "predictions.jsonl"):
        assert (tmp_path / written).stat().st_size, written
    assert (tmp_path / "models" / "mine" / "model.safetensors").exists()
    assert list((tmp_path / "results").glob("*.parquet"))


def test_every_block_is_run_or_installs_or_shows():
    assert {block.language for block in BLOCKS} == {"bash", "python", "text", "bibtex"}
    (code,) = (block.text for block in BLOCKS if block.language == "python")
    assert len([line for line in code.splitlines() if line]) == 3


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 220


def test_extras_and_targets_exist():
    extras = importlib.metadata.metadata("unire").get_all("Provides-Extra")
    assert set(re.findall(r"unire\[(\w+)\]", README)) <= set(extras)
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"`make (\w+)`", README)) <= set(targets)
    installs = [
        shlex.split(line, comments=True) for block in BLOCKS if block.is_installer for line in block.text.splitlines()
    ]
    assert ["pip", "install", "unire"] in installs
    assert ["pip", "install", "."] in installs


def test_the_models_have_the_scores_and_labels_of_their_cards():
    """`recipes/tables.py` writes the table from the records; `tests/recipes` checks that it is up to date."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in README.splitlines() if line.startswith("|")
    ]
    table = {row[0]: row[1:] for row in rows if len(row) == 3}
    names = [cell.strip("`") for cell in table[""]]
    assert sorted(names) == sorted(pretrained.names())
    for i, name in enumerate(names):
        config = ModelConfig.load(pretrained.find(name))
        scores = config.provenance["scores"]["test, exported"]
        for title, kind in (("Ent F1", "entities"), ("Rel F1", "relations")):
            assert table[title][i].startswith(f"{100 * scores[kind]['f1']:.1f} [")
        labels = pretrained.find(name) / "labels.json"
        for label in (*table["entity types"][i].split(", "), *table["relation types"][i].split(", ")):
            assert f'"{label}"' in labels.read_text(encoding="utf-8")


def test_the_picture_has_two_pixels_for_one_in_light_and_dark():
    light, dark = (re.search(rf'{attribute}="([^"]+\.png)"', README)[1] for attribute in ("src", "srcset"))
    width = int(re.search(r'<img[^>]* width="(\d+)"', README)[1])
    for picture in (light, dark):
        header = (ROOT / picture).read_bytes()[:24]
        assert struct.unpack(">II", header[16:24])[0] == 2 * width
    assert 'media="(prefers-color-scheme: dark)"' in README


def test_the_citation_matches_the_citation_file():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    entry = re.sub(r"\s+", " ", README.split("```bibtex\n")[1].split("```")[0]).replace("{U}ni{RE}", "UniRE")
    for field in ("title", "url"):
        (value,) = re.findall(rf"^    {field}: \"?([^\"\n]+)", citation, re.MULTILINE)
        assert value in entry
    for family, given in re.findall(r"family-names: (\w+), given-names: (\w+)", citation):
        assert f"{family}, {given}" in entry
