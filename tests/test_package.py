"""The wheel, installed beside nothing but the base dependencies: what works without torch, and what says so."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import unire
from helpers.paths import ROOT, TWENTY

pytestmark = pytest.mark.slow


def run(*command: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command, without the paths that the user may have added to Python's."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    parts = [str(part) for part in command]
    return subprocess.run(parts, capture_output=True, text=True, check=False, cwd=cwd, env=environment)


@pytest.fixture(scope="module")
def wheel(exported, tmp_path_factory) -> Path:
    """Built from a copy of the tree, which stays as it was; in the copy, a tiny model is bundled."""
    copy = tmp_path_factory.mktemp("tree")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(exported, copy / "src" / "unire" / "pretrained" / "tiny")
    built = run(sys.executable, "-m", "build", "--wheel", "--no-isolation", cwd=copy)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = (copy / "dist").glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def bin_folder(wheel, tmp_path_factory) -> Path:
    """The commands of an environment that holds the wheel and its base dependencies, and nothing else.

    The dependencies are links to those of the environment that runs the tests: installing them again takes time and
    a network.
    """
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
    for distribution in needed_by("unire"):
        for name in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            if not (packages / name).exists():
                (packages / name).symlink_to(Path(distribution.locate_file(name)))
    installed = run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel)
    assert installed.returncode == 0, installed.stderr
    checked = run(sys.executable, "-m", "pip", "--python", python, "check")
    assert checked.returncode == 0, checked.stdout
    return python.parent


def needed_by(name: str) -> list[importlib.metadata.Distribution]:
    """Everything that comes with `pip install NAME`, but for itself."""
    found: dict[tuple[str, str], importlib.metadata.Distribution] = {}
    waiting = [(name, "")]
    while waiting:
        wanted, extra = waiting.pop()
        if (wanted, extra) in found:
            continue
        found[wanted, extra] = importlib.metadata.distribution(wanted)
        for line in found[wanted, extra].requires or ():
            further = Requirement(line)
            if further.marker is None or further.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(further.name), asked) for asked in ("", *further.extras)]
    return [distribution for (key, _), distribution in found.items() if key != name]


def test_the_wheel_holds_the_label_spaces_the_types_and_the_licence(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    source = ROOT / "src"
    shipped = [path for path in source.rglob("*") if path.suffix in (".css", ".html", ".js", ".json", ".py", ".typed")]
    assert {path.relative_to(source).as_posix() for path in shipped} <= set(names)
    assert "unire/py.typed" in names
    assert "unire/label_spaces/scierc.json" in names
    assert any(name.endswith("/LICENSE") for name in names)
    assert not [name for name in names if name.startswith("tests")]


def test_the_base_install_has_no_torch(bin_folder):
    for module in ("torch", "transformers", "accelerate", "onnx", "safetensors", "pytest"):
        assert run(bin_folder / "python", "-c", f"import {module}").returncode == 1


def test_the_installed_package_is_the_one_from_the_wheel(bin_folder):
    code = "import unire, unire.extractor; print(unire.__version__, unire.LabelSpace.built_in(), unire.__file__)"
    ran = run(bin_folder / "python", "-c", code, cwd=bin_folder)
    assert ran.stdout.startswith(f"{unire.__version__} ('ace04', 'ace05', 'ade', 'conll04', 'scierc')"), ran.stderr
    assert str(bin_folder.parent) in ran.stdout


@pytest.mark.slow
def test_data_is_counted_and_scored_without_torch(bin_folder, tmp_path):
    def result(*arguments: object):
        ran = run(bin_folder / "unire", *arguments, "--labels", "scierc", "--json")
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    found = tmp_path / "found.jsonl"
    assert result("data", "stats", TWENTY)["total"]["sentences"] == 20
    oracle = result("evaluate", "--oracle", "--data", TWENTY, "--predictions", found)
    assert oracle["scores"]["relations"]["f1"] == 1.0
    assert result("score", TWENTY, found)["scores"] == oracle["scores"]


@pytest.mark.slow
def test_a_bundled_model_runs_without_torch(bin_folder, exported, tmp_path):
    def result(*arguments: object):
        ran = run(bin_folder / "unire", *arguments, "--json", cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    (model,) = [model for model in result("models")["models"] if model["name"] == "tiny"]
    scores = result("evaluate", "--model", "tiny", "--data", TWENTY)["scores"]
    assert scores == model["scores"]["test, exported"]
    assert result("extract", "--model", "tiny", TWENTY, "--out", "found.jsonl")["documents"] > 1
    assert result("evaluate", "--model", exported, "--data", TWENTY)["scores"] == scores


@pytest.mark.slow
def test_a_model_in_a_package_is_installed_and_used(bin_folder, exported, tmp_path):
    """pip installs the wheel without a network, and everything finds its model by name."""

    def result(*arguments: object):
        ran = run(bin_folder / "unire", *arguments, "--json", cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    built = result("package", exported, "--name", "seas", "--version", "1.0", "--out", tmp_path)
    pip = (sys.executable, "-m", "pip", "--python", bin_folder / "python")
    installed = run(*pip, "install", "--no-deps", "--no-index", built["wheel"])
    assert installed.returncode == 0, installed.stderr
    assert run(*pip, "check").returncode == 0
    (model,) = [model for model in result("models")["models"] if model["name"] == "seas"]
    assert model["package"] == built["requirement"] == "unire-model-seas==1.0"
    scores = result("evaluate", "--model", "seas", "--data", TWENTY)["scores"]
    assert scores == model["scores"]["test, exported"]
    code = "from unire import Extractor; print(len(Extractor.load('seas').extract('We train a parser.').words))"
    assert run(bin_folder / "python", "-c", code).stdout == "5\n"
    assert run(*pip, "uninstall", "--yes", "unire-model-seas").returncode == 0
    assert "seas" not in {model["name"] for model in result("models")["models"]}


@pytest.mark.slow
def test_the_demo_runs_without_torch(bin_folder, tmp_path):
    shutil.copytree(ROOT / "demo", tmp_path / "demo")
    ran = run(bin_folder / "python", tmp_path / "demo" / "demo.py")
    assert ran.returncode == 0, ran.stderr
    printed = re.search(r"\d+ entities and (\d+) relations found; the text of each is at its offsets", ran.stdout)
    assert printed
    (text,) = [shown for shown in ran.stdout.split("\n$ ") if shown.startswith("unire extract --format text")]
    assert int(printed[1]) == text.count("→")
    for shown in ("[chart parser|Method]", "chart parser   — USED-FOR →  dependency parsing", "M Method"):
        assert shown in ran.stdout
    written = {"found.jsonl", "graph.graphml", "page.html", "triples.csv"}
    assert {file.name for file in (tmp_path / "build" / "demo").iterdir()} == written
    # what it checks can fail
    (tmp_path / "demo" / "abstract.txt").write_text("Another text, of which no entity stands there.")
    code = "import demo; from pathlib import Path; demo.check(Path('../build/demo/found.jsonl').resolve())"
    ran = run(bin_folder / "python", "-c", code, cwd=tmp_path / "demo")
    assert "the text at the offsets of" in ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "--encoder", "bert-base-uncased", "--data", TWENTY, "--out", "model"),
        ("adapt", *("--encoder", "e", "--corpus", TWENTY, "--minutes", 1, "--out", "encoder")),
        ("distill", *("--teacher", "m", "--student", "e", "--corpus", TWENTY, "--data", TWENTY, "--out", "model")),
        ("teach", "--teacher", "random", "--corpus", TWENTY, "--out", "soft_labels"),
        ("markers", "--encoder", "e", "--data", TWENTY, "--out", "markers"),
        ("relabel", "--soft-labels", "soft_labels", "--markers", "markers", "--out", "marked"),
        ("evaluate", "--model", "random", "--data", TWENTY),
        ("extract", "--model", "random", TWENTY),
        ("export", "random", "--out", "model"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_command_that_needs_torch_says_what_to_install(bin_folder, random_model, tmp_path, arguments):
    shutil.copytree(random_model, tmp_path / "random")
    ran = run(bin_folder / "unire", *arguments, cwd=tmp_path)
    assert ran.returncode == 1
    assert ran.stderr.startswith("error: ")
    assert len(ran.stderr.splitlines()) == 1, ran.stderr
    assert 'pip install "unire[train]"' in ran.stderr


@pytest.mark.parametrize("use", ["Extractor.load('random')", "train", "distill", "teach", "UniRE"])
def test_a_name_that_needs_torch_says_what_to_install(bin_folder, random_model, use):
    code = f"import unire\ntry:\n    unire.{use}\nexcept unire.UnireError as error:\n    print(error)"
    ran = run(bin_folder / "python", "-c", code, cwd=random_model.parent)
    assert 'pip install "unire[train]"' in ran.stdout, ran.stderr


def test_every_page_names_the_same_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE)[1] == unire.__version__
    assert re.search(r"^## ([\d.]+)", changes, re.MULTILINE)[1] == unire.__version__
