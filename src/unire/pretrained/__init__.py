"""The box: trained models that come with unire, a folder each, written by `unire export`.

    >>> from unire import pretrained
    >>> pretrained.names()  # doctest: +SKIP
    ('news', 'science')

Whatever folder of this package holds a model is in the box, under the folder's name.
"""

from __future__ import annotations

from pathlib import Path

from unire.errors import UnireError

__all__ = ["DEFAULT", "find", "names"]

BUNDLED_DIR = Path(__file__).parent
DEFAULT = "science"
"""The model used when none is named."""


def names() -> tuple[str, ...]:
    """The models in the box."""
    return tuple(sorted(config.parent.name for config in BUNDLED_DIR.glob("*/config.json")))


def find(name: str) -> Path:
    """The folder of a model in the box."""
    if name not in names():
        raise UnireError(f"there is no model {name!r} in the box; {list_bundled()}")
    return BUNDLED_DIR / name


def list_bundled() -> str:
    """What is in the box, as the end of a sentence."""
    return f"the box holds {' and '.join(names())}" if names() else "the box is empty"
