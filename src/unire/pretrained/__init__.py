"""The bundled models: trained models that come with unire, one folder each, written by `unire export`.

    >>> from unire import pretrained
    >>> pretrained.names()  # doctest: +SKIP
    ('news', 'science')

Every folder of this package that holds a model is bundled, under the name of the folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from unire.config import ModelConfig
from unire.errors import UnireError
from unire.labels import LabelSpace

__all__ = ["DEFAULT", "ModelInfo", "find", "is_bundled", "list_models", "names"]

BUNDLED_DIR = Path(__file__).parent
DEFAULT = "science"
"""The model used when none is named."""


def names() -> tuple[str, ...]:
    """The names of the bundled models."""
    return tuple(sorted(config.parent.name for config in BUNDLED_DIR.glob("*/config.json")))


def is_bundled(folder: Path) -> bool:
    """Whether a model directory is one of those in this package."""
    return folder.resolve().parent == BUNDLED_DIR.resolve()


def find(name: str) -> Path:
    """Return the folder of a bundled model."""
    if name not in names():
        raise UnireError(f"there is no bundled model {name!r}; {list_bundled()}")
    return BUNDLED_DIR / name


def list_bundled() -> str:
    """List the bundled models, as the end of a sentence."""
    return f"the bundled models are {' and '.join(names())}" if names() else "no model is bundled"


@dataclass(frozen=True, repr=False)
class ModelInfo:
    """What is known about a bundled model.

    >>> list_models()[0].labels.entity_types  # doctest: +SKIP
    ('Loc', 'Org', 'Other', 'Peop')
    """

    name: str
    """The name for `Extractor.load`."""
    base: str
    """The checkpoint that the encoder comes from."""
    licence: str | None
    """The licence, if it is known."""
    data: Sequence[str]
    """The files that the model was trained on."""
    labels: LabelSpace
    """The entity and relation types."""
    scores: Mapping[str, Any]
    """P, R and F1 by data set: `dev`, `test`, and `test, exported` for the model as it is bundled."""
    bytes: int
    """Size of the folder."""

    @property
    def f1(self) -> tuple[float, float, str] | None:
        """Ent F1, Rel F1 and the data set: test as exported, else test, else dev; `None` without any."""
        for part in ("test, exported", "test", "dev"):
            if part in self.scores:
                return self.scores[part]["entities"]["f1"], self.scores[part]["relations"]["f1"], part
        return None

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain JSON values, as `unire models` prints them."""
        return {**asdict(self), "labels": self.labels.to_dict()}

    def __repr__(self) -> str:
        f1 = self.f1 and f"Ent {100 * self.f1[0]:.1f}, Rel {100 * self.f1[1]:.1f} on {self.f1[2]}, "
        return f"<ModelInfo {self.name!r}: {f1 or ''}{self.bytes / 1e6:.1f} MB>"


def list_models() -> list[ModelInfo]:
    """List the bundled models with their scores, labels and sizes.

    >>> [model.name for model in list_models()]  # doctest: +SKIP
    ['news', 'science']

    Returns:
        The models, by name.
    """
    return [_describe(name) for name in names()]


def _describe(name: str) -> ModelInfo:
    folder = find(name)
    provenance = ModelConfig.load(folder).provenance
    return ModelInfo(
        name,
        str(provenance.get("base", provenance.get("encoder", "unknown"))),
        provenance.get("licence"),
        provenance.get("data", []),
        LabelSpace.load(folder),
        provenance.get("scores", {}),
        sum(file.stat().st_size for file in folder.iterdir()),
    )
