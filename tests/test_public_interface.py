"""Nothing that users rely on disappears or changes: names, options, configuration, checkpoints, files and HTTP.

The snapshot was made from the code before the redesign. Additions pass. A deliberate change is recorded by

    UNIRE_UPDATE_SNAPSHOT=1 pytest tests/test_public_interface.py
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from helpers.paths import FIXTURES
from helpers.public_interface import SECTIONS, describe, find_breaks

SNAPSHOT = FIXTURES / "public_interface.json"
RENAMED = {"--lessons": "--soft-labels"}


@pytest.fixture(scope="module")
def snapshot() -> dict[str, Any]:
    return json.loads(SNAPSHOT.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("section", SECTIONS)
def test_the_public_interface_matches_the_snapshot(section: str, snapshot: dict[str, Any], tmp_path: Path):
    described = describe(section, tmp_path)
    if os.environ.get("UNIRE_UPDATE_SNAPSHOT"):
        snapshot[section] = described
        text = json.dumps(snapshot, indent=1, ensure_ascii=False, sort_keys=True)
        SNAPSHOT.write_text(f"{text}\n", encoding="utf-8")
    assert not find_breaks(snapshot[section], described, RENAMED, section)


def test_losing_or_changing_something_is_noticed(snapshot: dict[str, Any]):
    """The comparison above would be worthless if it let anything through."""
    for section, old in snapshot.items():
        assert find_breaks(old, old, RENAMED) == []
        for name in old:
            without = {key: value for key, value in old.items() if key != name}
            assert find_breaks(old, without, RENAMED) == [f" / {name} is missing"]
        assert find_breaks(snapshot, {**snapshot, section: {}}, RENAMED)
    option = {"--lessons": {"default": None, "choices": ["a", "b"]}}
    assert find_breaks(option, {"--soft-labels": {"default": None, "choices": ["b", "a", "c"]}}, RENAMED) == []
    assert find_breaks(option, {"--soft-labels": {"default": 0, "choices": ["b"]}}, RENAMED) == [
        " / --soft-labels / default was None and is 0",
        " / --soft-labels / choices no longer has 'a'",
    ]
    assert find_breaks({"default": 1}, {"default": True}, RENAMED)
