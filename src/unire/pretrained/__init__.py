"""Models that are loaded by a name: those that come with unire, and those of installed packages.

    >>> from unire import pretrained
    >>> pretrained.names()  # doctest: +SKIP
    ('news', 'science')

Every folder of this package that holds a model is bundled, under the name of the folder. Other packages, which
`unire package` builds, have an entry point of the group `unire_models`: the name of the model, and the module whose
folder holds it. The module is never imported.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from unire.config import ModelConfig
from unire.errors import UnireError
from unire.labels import LabelSpace

__all__ = ["DEFAULT", "ENTRY_POINTS", "ModelInfo", "find", "find_packages", "is_bundled", "list_models", "names"]

BUNDLED_DIR = Path(__file__).parent
DEFAULT = "science"
"""The model used when none is named."""
ENTRY_POINTS = "unire_models"
"""The group of entry points by which models of packages are found."""
MODEL_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
"""The name of a model in a package, which is a part of the name of the package."""


def names() -> tuple[str, ...]:
    """The names of the bundled models."""
    return tuple(sorted(config.parent.name for config in BUNDLED_DIR.glob("*/config.json")))


def is_bundled(folder: Path) -> bool:
    """Whether a model directory is one of those in this package."""
    return folder.resolve().parent == BUNDLED_DIR.resolve()


class ModelPackage(NamedTuple):
    """An installed package that holds a model."""

    folder: Path
    requirement: str
    """Name and version, as pip takes them: `unire-model-news==1.0`."""


def find_packages(path: Sequence[str] | None = None) -> dict[str, ModelPackage]:
    """Find the models of installed packages, by name.

    Args:
        path: Folders with installed packages. [default: `sys.path`]
    """
    import importlib.metadata  # takes longer than the rest of this module

    found: dict[str, ModelPackage] = {}
    for distribution in importlib.metadata.distributions(path=list(sys.path if path is None else path)):
        with suppress(Exception):  # broken metadata of any package, for which importlib raises errors of many types
            for point in distribution.entry_points.select(group=ENTRY_POINTS):
                folder = Path(str(distribution.locate_file(point.value)))
                is_name = MODEL_NAME.fullmatch(point.name) and point.value.isidentifier()
                if is_name and (folder / "config.json").is_file():
                    requirement = f"{distribution.metadata['Name']}=={distribution.version}"
                    found.setdefault(point.name, ModelPackage(folder, requirement))
    return dict(sorted(found.items()))


def get(name: str) -> Path | None:
    """Return the folder of a bundled model, else of one of an installed package, else `None`."""
    if name in names():
        return BUNDLED_DIR / name
    package = find_packages().get(name) if MODEL_NAME.fullmatch(name) else None
    return package and package.folder


def find(name: str) -> Path:
    """Return the folder of a bundled model, or of one of an installed package."""
    folder = get(name)
    if folder is None:
        raise UnireError(f"there is no bundled or installed model {name!r}; {describe_available()}")
    return folder


def describe_available() -> str:
    """List the models that have a name, as the end of a sentence."""
    bundled = f"the bundled models are {' and '.join(names())}" if names() else "no model is bundled"
    installed = find_packages()
    return f"{bundled}; packages hold {' and '.join(installed)}" if installed else bundled


@dataclass(frozen=True, repr=False)
class ModelInfo:
    """What is known about a bundled model, or about the model of an installed package.

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
    package: str | None = None
    """Name and version of the package; `None` for a bundled model."""

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
    """List the bundled models, then those of installed packages, with their scores, labels and sizes.

    >>> [model.name for model in list_models()]  # doctest: +SKIP
    ['news', 'science']

    Returns:
        The models, by name.
    """
    packages = {name: package for name, package in find_packages().items() if name not in names()}
    return [
        *(_describe(name, BUNDLED_DIR / name) for name in names()),
        *(_describe(name, package.folder, package.requirement) for name, package in packages.items()),
    ]


def _describe(name: str, folder: Path, package: str | None = None) -> ModelInfo:
    provenance = ModelConfig.load(folder).provenance
    return ModelInfo(
        name,
        str(provenance.get("base", provenance.get("encoder", "unknown"))),
        provenance.get("licence"),
        provenance.get("data", []),
        LabelSpace.load(folder),
        provenance.get("scores", {}),
        sum(file.stat().st_size for file in folder.iterdir() if file.is_file()),
        package,
    )
