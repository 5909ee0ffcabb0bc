"""Tables and estimates of the guides: they agree with the code and with the records of experiments."""

from __future__ import annotations

import inspect
import json
import re
import tomllib

import pytest

from helpers.docs import in_backticks
from helpers.paths import ROOT
from unire import formats
from unire.integrations.spacy.component import make_pipe
from unire.writers import WRITERS

SENTENCES_PER_ABSTRACT = 5.5


def read_page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def read_rows(text: str, header: str) -> list[list[str]]:
    """The rows of the table with this header."""
    lines = text[text.index(f"| {header}") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip(" |").split("|")] for line in lines]


def test_every_extra_is_listed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = [in_backticks(row[0])[0] for row in read_rows(read_page("get-started/install.md"), "extra |")]
    assert sorted(listed) == sorted(project["optional-dependencies"])


def test_every_output_format_is_listed():
    rows = read_rows(read_page("how-to/extract-files.md"), "format |")
    listed = [name for row in rows for name in in_backticks(row[0])]
    assert listed == [name for name in WRITERS if name not in formats.FORMATS or not formats.FORMATS[name].write]


def test_every_setting_of_the_spacy_component_is_listed():
    listed = [in_backticks(row[0])[0] for row in read_rows(read_page("how-to/spacy.md"), "setting |")]
    assert listed == list(inspect.signature(make_pipe).parameters)[2:]


def test_time_estimates_follow_from_the_records():
    cpu = json.loads((ROOT / "results" / "extraction-cpu.json").read_text(encoding="utf-8"))["ours"]
    gpu = json.loads((ROOT / "results" / "extraction-gpu-science.json").read_text(encoding="utf-8"))
    on_gpu = gpu["shared sentences/s"]
    *speeds, from_raw_text = [row[1] for row in read_rows(read_page("how-to/use-gpu.md"), "`science` |")]
    assert speeds == [f"{cpu:.0f}", f"{on_gpu:,.0f}"]

    page = read_page("how-to/large-corpora.md")
    lab = read_page("lab-notes/speed.md")
    (splitting,) = re.findall(r"into ([\d,]+) sentences per second", page)
    assert f"{on_gpu:,.0f} tokenized sentences" in page
    assert f"| {splitting} |" in lab
    plain, ray = (float(row[3]) for row in read_rows(lab, "| seconds | abstracts/s | without the start")[:2])
    seconds_on_gpu = SENTENCES_PER_ABSTRACT * (1 / on_gpu + 1 / float(splitting.replace(",", "")))
    assert float(from_raw_text.replace(",", "")) == pytest.approx(SENTENCES_PER_ABSTRACT / seconds_on_gpu, rel=0.01)
    assert f"{SENTENCES_PER_ABSTRACT * plain:.0f}\n  sentences per second" in page
    expected = [plain, ray, 8 * ray, 64 * ray, 1 / seconds_on_gpu]
    rows = read_rows(page, "hardware |")
    assert [float(row[1].replace(",", "")) for row in rows] == pytest.approx(expected, rel=0.01)
    assert [float(row[2].split()[0]) for row in rows] == pytest.approx(
        [1e7 / 3600 / rate for rate in expected], rel=0.05
    )
