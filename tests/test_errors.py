"""Errors that name what to install: a missing extra, or a package that is too old."""

from __future__ import annotations

import importlib.metadata

import pytest

import unire.__main__
from unire.cli import main as cli
from unire.errors import NEEDS_EXTRA, UnireError, describe_outdated, require_extra


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Versions that take the place of those of installed packages."""
    versions: dict[str, str] = {}
    version = importlib.metadata.version
    lines = ["typer>=0.19", "rich<99,>=13.7", "ray[data]>=2.51; extra == 'ray'", "pytest>=8.2; extra == 'dev'"]
    monkeypatch.setattr(importlib.metadata, "requires", {"unire": lines}.get)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: versions.get(name) or version(name))
    return versions


def test_packages_that_are_new_enough_explain_no_error(installed):
    installed |= {"typer": "0.19.0", "rich": "13.10", "ray": "3.0.0rc1", "pytest": "7.0"}
    assert describe_outdated(TypeError()) is None


def test_packages_that_are_too_old_are_named_with_the_command_to_upgrade_them(installed):
    installed |= {"typer": "0.9.4", "rich": "13.7.0", "ray": "2.50.1"}
    assert describe_outdated(TypeError("no\nLiteral")) == (
        "typer 0.9.4 and ray 2.50.1 are too old for unire: "
        'pip install -U "typer>=0.19" "ray>=2.51" (TypeError: no Literal)'
    )


def test_a_name_that_an_old_package_lacks_is_explained(installed):
    def use() -> None:
        with require_extra():
            raise ImportError("cannot import name 'x' from 'ray'", name="ray")

    installed["ray"] = "3.0"
    with pytest.raises(ImportError, match="cannot import"):
        use()
    installed["ray"] = "2.9.3"
    with pytest.raises(UnireError, match=r'^ray 2\.9\.3 is too old for unire: pip install -U "ray>=2\.51"'):
        use()


def test_a_missing_extra_is_named_whatever_is_old(installed):
    installed["typer"] = "0.1"
    with pytest.raises(UnireError) as error, require_extra():
        import_missing()
    assert str(error.value) == NEEDS_EXTRA


def import_missing() -> None:
    raise ModuleNotFoundError("No module named 'torch'", name="torch.nn")


def test_the_command_ends_with_a_sentence_if_a_package_is_too_old(installed, monkeypatch):
    def fail() -> None:
        raise RuntimeError("Type not yet supported")

    monkeypatch.setattr(cli, "main", fail)
    installed["typer"] = "0.19.2"
    with pytest.raises(RuntimeError):
        unire.__main__.main()
    installed["typer"] = "0.12.5"
    with pytest.raises(SystemExit, match=r"^error: typer 0\.12\.5 is too old for unire: pip install"):
        unire.__main__.main()
