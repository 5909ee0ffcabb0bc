"""A plugin of pytest for environments without some extras: tests that need a missing package are skipped.

`.ci/floors` loads it with `-p helpers.missing_extras`. Other runs do not, so that no test is skipped where all packages
should be installed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from itertools import chain

import pytest

from helpers.paths import ROOT

NAME = re.compile(r"[\w-]+")
HINT = re.compile(r'pip install "unire\[(\w+)\]"')


def modules_of_extras() -> dict[str, list[str]]:
    """The modules that come with each extra; they are named as the packages are."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    return {extra: [NAME.match(line)[0].replace("-", "_") for line in lines] for extra, lines in extras.items()}


EXTRAS = modules_of_extras()
TRANSITIVE = ("griffe",)
"""Modules that come with a package of an extra, and that a test imports."""
MISSING = {module for module in chain(TRANSITIVE, *EXTRAS.values()) if find_spec(module) is None}


def iter_causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that it was raised from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def missing_package(error: BaseException | None) -> str | None:
    """The package of an extra that is not installed and that the error is about."""
    for cause in iter_causes(error):
        if isinstance(cause, ModuleNotFoundError):
            named = [(cause.name or "").partition(".")[0]]
        elif hint := HINT.search(str(cause)):  # an error of unire, or what a command has printed
            named = EXTRAS[hint[1]]
        else:
            continue
        if found := MISSING.intersection(named):
            return min(found)
    return None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    failed = report.failed and report.call and report.call.excinfo
    if failed and (package := missing_package(failed.value)):
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: needs {package}")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and call.excinfo and (package := missing_package(call.excinfo.value)):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, f"Skipped: needs {package}")
    return report
