"""Joint entity and relation extraction by filling one table.

The names below are imported when they are first used, so that `import unire` is quick and needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unire.exceptions import told_of_the_extra

__version__ = "0.1.0"

_HOMES = {
    "DistillConfig": "unire.training.distill",
    "Document": "unire.documents",
    "Entity": "unire.documents",
    "Extractor": "unire.extractor",
    "LabelSpace": "unire.labels",
    "Protocol": "unire.scoring",
    "Relation": "unire.documents",
    "Scores": "unire.scoring",
    "Sentence": "unire.documents",
    "TrainingConfig": "unire.training",
    "UniRE": "unire.modeling.model",
    "UnireError": "unire.exceptions",
    "distill": "unire.training.distill",
    "push_to_hub": "unire.folders",
    "relabel": "unire.marking.relabelling",
    "score": "unire.scoring",
    "teach": "unire.training.teach",
    "train": "unire.training",
    "train_markers": "unire.marking.train",
}

__all__ = [
    "DistillConfig",
    "Document",
    "Entity",
    "Extractor",
    "LabelSpace",
    "Protocol",
    "Relation",
    "Scores",
    "Sentence",
    "TrainingConfig",
    "UniRE",
    "UnireError",
    "__version__",
    "distill",
    "push_to_hub",
    "relabel",
    "score",
    "teach",
    "train",
    "train_markers",
]

if TYPE_CHECKING:
    from unire.documents import Document, Entity, Relation, Sentence
    from unire.exceptions import UnireError
    from unire.extractor import Extractor
    from unire.folders import push_to_hub
    from unire.labels import LabelSpace
    from unire.marking.relabelling import relabel
    from unire.marking.train import train_markers
    from unire.modeling.model import UniRE
    from unire.scoring import Protocol, Scores, score
    from unire.training import TrainingConfig, train
    from unire.training.distill import DistillConfig, distill
    from unire.training.teach import teach


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'unire' has no attribute {name!r}")
    with told_of_the_extra():
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
