"""The public names: all of them can be imported, and `import unire` stays quick."""

from __future__ import annotations

import subprocess
import sys

import pytest

import unire


@pytest.mark.parametrize("name", unire.__all__)
def test_every_public_name_is_there_and_documented(name):
    value = getattr(unire, name)
    assert isinstance(value, str) or value.__doc__
    assert name in dir(unire)


def test_public_functions_have_their_own_names():
    """An error then names what the user called."""
    for name in set(unire.__all__) - {"__version__"}:
        assert getattr(unire, name).__name__ == name


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'unire' has no attribute 'nothing'"):
        _ = unire.nothing


def test_public_names_are_imported_when_they_are_used():
    code = "import sys, unire; print(sorted({'numpy', 'rich', 'tokenizers', 'torch', 'pandas'} & sys.modules.keys()))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_packages_for_users_need_no_import_of_their_own():
    code = "import unire; print(len(unire.formats.FORMATS), unire.graph.Graph, unire.pretrained.names())"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
