"""How scripts of the recipes end."""

from __future__ import annotations

import signal
import sys

import pytest

from helpers.paths import ROOT

RECIPES = ROOT / "recipes"


@pytest.fixture
def ends(monkeypatch):
    """How a script ends that fails with an error."""
    monkeypatch.syspath_prepend(str(RECIPES))
    monkeypatch.setattr(sys, "argv", ["script"])
    script = __import__("script")

    def run(error: BaseException) -> object:
        def main():
            raise error

        with pytest.raises(SystemExit) as ended:
            script.run(main, None)
        return ended.value.code

    yield run
    sys.modules.pop("script")


def test_a_script_ends_with_a_sentence_or_a_signal_status_and_raises_bugs(ends, capsys):
    assert ends(OSError("No space left on device (os error 28)")) == "No space left on device (os error 28)"
    assert ends(FileNotFoundError(2, "No such file", "x.txt")) == "[Errno 2] No such file: 'x.txt'"
    assert ends(KeyboardInterrupt()) == 130
    assert ends(KeyboardInterrupt(signal.SIGTERM)) == 143
    assert capsys.readouterr().err == "interrupted; nothing was kept\n" * 2
    with pytest.raises(ValueError, match="a bug"):
        ends(ValueError("a bug"))
