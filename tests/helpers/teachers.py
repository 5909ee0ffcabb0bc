"""Two teachers that differ in everything but their labels, and the soft_labels that they give."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from helpers.paths import TWENTY
from unire.documents import Document
from unire.labels import LabelSpace


def turned(labels: LabelSpace) -> LabelSpace:
    """The same labels in another order."""
    return LabelSpace(labels.entity_types[::-1], labels.relation_types[::-1], labels.symmetric)


@pytest.fixture(scope="session")
def other(
    student_encoder: Path, twenty: list[Document], scierc_labels: LabelSpace, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A second teacher, with another tokenizer, another layout, and its labels in another order."""
    from helpers.distillation import quick
    from unire.training.train import train

    out = tmp_path_factory.mktemp("teachers") / "other"
    config = quick(epochs=2, layout="shared", alpha=1.0, tune_alpha=False)
    train(student_encoder, twenty, labels=turned(scierc_labels), config=config, out=out)
    return out


@pytest.fixture(scope="session")
def soft_labels(teacher: Path, other: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of both teachers, about the twenty sentences."""
    from unire.training.distillation.teach import teach

    out = tmp_path_factory.mktemp("soft_labels") / "twenty.soft"
    teach([teacher, other], [TWENTY], out, device="cpu")
    return out


@pytest.fixture
def copied(soft_labels: Path, tmp_path: Path) -> Path:
    """Soft labels that a test may break."""
    return Path(shutil.copytree(soft_labels, tmp_path / "copied"))
