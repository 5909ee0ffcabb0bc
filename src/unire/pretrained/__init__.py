"""The box: trained models that come with unire, a folder each, written by `unire export`.

    >>> from unire import pretrained
    >>> pretrained.names()  # doctest: +SKIP
    ('news', 'science')

Whatever folder of this package holds a model is in the box, under the folder's name.
"""

from __future__ import annotations

from pathlib import Path

from unire.exceptions import UnireError

__all__ = ["DEFAULT", "find", "names"]

BOX = Path(__file__).parent
DEFAULT = "science"
"""The model used when none is named."""


def names() -> tuple[str, ...]:
    """The models in the box."""
    return tuple(sorted(config.parent.name for config in BOX.glob("*/config.json")))


def find(name: str) -> Path:
    """The folder of a model in the box."""
    if name not in names():
        raise UnireError(f"there is no model {name!r} in the box; {contents()}")
    return BOX / name


def contents() -> str:
    """What is in the box, as the end of a sentence."""
    return f"the box holds {' and '.join(names())}" if names() else "the box is empty"
