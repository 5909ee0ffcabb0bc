"""Models as packages: the wheel that is built, and the models of installed packages, which are loaded by name."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from typer.testing import CliRunner

from unire import Extractor, UnireError, calibrate, list_models, package_model, pretrained
from unire.cli.main import app
from unire.hub.model_dir import FILES, is_model_dir, locate_model
from unire.serving.server import model_name
from unire.training.train import encoder_provenance

TEXT = "Ada Lovelace worked with Charles Babbage."


def build(model: Path, out: Path, **changes: str):
    return package_model(model, **{"name": "tiny-seas", "version": "1.0", "out": out, **changes})


@pytest.fixture(scope="module")
def wheel(exported: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with a tiny model."""
    return build(exported, tmp_path_factory.mktemp("dist")).wheel


@pytest.fixture
def installed(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of packages in which the package is installed."""
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    monkeypatch.syspath_prepend(str(site))
    return site


def run(*arguments: object) -> str:
    ran = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return ran.output


def test_a_wheel_holds_the_files_of_the_model_and_no_code(wheel, exported):
    assert wheel.name == "unire_model_tiny_seas-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    module, info = "unire_model_tiny_seas", "unire_model_tiny_seas-1.0.dist-info"
    model = {name for name in FILES if (exported / name).is_file()}
    described = {"METADATA", "RECORD", "WHEEL", "entry_points.txt"}
    assert set(files) == {f"{module}/{name}" for name in model | {"__init__.py"}} | {f"{info}/{n}" for n in described}
    assert files[f"{module}/__init__.py"] == b'"""The model \'tiny-seas\' for unire."""\n'
    for name in model - {"README.md", "config.json"}:
        assert files[f"{module}/{name}"] == (exported / name).read_bytes()
    card = files[f"{module}/README.md"].decode()
    assert "\n# tiny-seas\n" in card
    assert 'Extractor.load("tiny-seas")' in card
    metadata = Metadata.from_email(files[f"{info}/METADATA"])
    assert (metadata.name, str(metadata.version), metadata.license) == ("unire-model-tiny-seas", "1.0", "mit")
    assert [str(requirement) for requirement in metadata.requires_dist] == ["unire>=0.1.0"]
    assert metadata.description.startswith("# tiny-seas\n")
    assert files[f"{info}/entry_points.txt"] == b"[unire_models]\ntiny-seas = unire_model_tiny_seas\n"


def test_the_same_model_gives_the_same_bytes(wheel, exported, tmp_path):
    assert build(exported, tmp_path).wheel.read_bytes() == wheel.read_bytes()
    assert build(exported, tmp_path, version="1.1").wheel.read_bytes() != wheel.read_bytes()


def test_a_model_that_was_not_exported_needs_torch(unexported, tmp_path):
    built = build(unexported, tmp_path, licence="mit", description="What swims.\nAnd dives.")
    with zipfile.ZipFile(built.wheel) as archive:
        metadata = Metadata.from_email(archive.read("unire_model_tiny_seas-1.0.dist-info/METADATA"))
    assert [str(requirement) for requirement in metadata.requires_dist] == ["unire[train]>=0.1.0"]
    assert metadata.summary == "What swims. And dives."
    assert "What swims.\nAnd dives." in metadata.description
    assert "Found" in repr(built)


@pytest.mark.parametrize("name", ["", "Seas", "a_b", "-a", "a--b", "a/b", "../a", "a.b", "a b", "a\n"])
def test_a_name_that_pip_would_change_is_refused(name, exported, tmp_path):
    with pytest.raises(UnireError, match="is not the name of a package; use lower-case letters"):
        build(exported, tmp_path, name=name)


@pytest.mark.parametrize("version", ["", "1.x", "v1", "01", "1.0-a", "1.0\n", "1.0/..", "latest"])
def test_a_version_that_pip_would_change_is_refused(version, exported, tmp_path):
    with pytest.raises(UnireError, match="is not a version; give numbers with dots"):
        build(exported, tmp_path, version=version)


def test_bundled_names_unknown_licences_and_incomplete_models_are_refused(exported, unexported, tmp_path):
    with pytest.raises(UnireError, match="'science' is the name of a bundled model"):
        build(exported, tmp_path, name="science")
    with pytest.raises(UnireError, match="the licence of the model is unknown; give licence"):
        build(unexported, tmp_path)
    with pytest.raises(UnireError, match="there is no model folder 'nowhere'"):
        build("nowhere", tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UnireError, match="cannot be written"):
        build(exported, tmp_path / "file")


def test_a_model_that_does_not_extract_leaves_no_wheel(exported, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise UnireError("it fails")

    monkeypatch.setattr(Extractor, "extract", fail)
    with pytest.raises(UnireError, match="it fails"):
        build(exported, tmp_path / "dist")
    assert not (tmp_path / "dist").exists()


def test_an_installed_model_is_found_by_its_name(installed, exported):
    assert pretrained.get("tiny-seas") == installed / "unire_model_tiny_seas"
    assert pretrained.find("tiny-seas") == locate_model("tiny-seas")
    assert is_model_dir("tiny-seas")
    assert model_name("tiny-seas") == "tiny-seas"
    found = Extractor.load("tiny-seas").extract(TEXT)
    assert found.entities == Extractor.load(exported).extract(TEXT).entities
    assert json.loads(run("extract", "--model", "tiny-seas", TEXT))["text"] == TEXT
    assert encoder_provenance("tiny-seas")["encoder"] == "tiny-seas"
    assert "unire_model_tiny_seas" not in sys.modules


@pytest.mark.parametrize("content", [b"[unire_models]\nseas = \xff", b"[unire_models]\nno value", b"[", b"seas = seas"])
def test_the_broken_metadata_of_another_package_hides_no_model(content, installed):
    broken = installed / "another-1.0.dist-info"
    broken.mkdir()
    (broken / "entry_points.txt").write_bytes(content)
    assert list(pretrained.find_packages()) == ["tiny-seas"]


def test_installed_models_are_listed_with_their_packages(installed, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    (model,) = [model for model in list_models() if model.package]
    assert (model.name, model.package, model.licence) == ("tiny-seas", "unire-model-tiny-seas==1.0", "mit")
    assert "unire-model-tiny-seas==1.0" in run("models")
    assert json.loads(run("models", "--json"))["models"][-1]["package"] == "unire-model-tiny-seas==1.0"
    with pytest.raises(UnireError, match=r"no model folder 'nope'; .*; packages hold tiny-seas$"):
        locate_model("nope")
    with pytest.raises(UnireError, match=r"no bundled or installed model 'nope'; .*; packages hold tiny-seas$"):
        pretrained.find("nope")


def test_an_installed_model_is_not_changed_in_place(installed, twenty):
    with pytest.raises(UnireError, match="'tiny-seas' cannot be changed in place"):
        calibrate("tiny-seas", twenty)


@pytest.mark.parametrize("module", ["../site/unire_model_tiny_seas", "unire_model_missing", "os.path"])
def test_a_package_without_a_folder_of_its_own_is_ignored(installed, module):
    points = installed / "unire_model_tiny_seas-1.0.dist-info" / "entry_points.txt"
    points.write_text(f"[unire_models]\ntiny-seas = {module}\n", encoding="utf-8")
    assert pretrained.get("tiny-seas") is None
    assert pretrained.find_packages([str(installed)]) == {}


def test_a_bundled_model_wins_over_a_package(installed):
    points = installed / "unire_model_tiny_seas-1.0.dist-info" / "entry_points.txt"
    points.write_text("[unire_models]\nscience = unire_model_tiny_seas\n", encoding="utf-8")
    assert pretrained.find("science") == pretrained.BUNDLED_DIR / "science"
    assert [model.name for model in list_models()] == list(pretrained.names())


def test_a_package_is_built_by_command(exported, tmp_path):
    arguments = ("package", exported, "--name", "seas", "--version", "2.0", "--out", tmp_path)
    arguments = (*arguments, "--licence", "apache-2.0")
    text = run(*arguments)
    assert "Loaded the packaged model, and found" in text
    assert "licence apache-2.0, in" in text
    report = json.loads(run(*arguments, "--json"))
    assert report["wheel"] == str(tmp_path / "unire_model_seas-2.0-py3-none-any.whl")
    assert (report["requirement"], report["licence"]) == ("unire-model-seas==2.0", "apache-2.0")
