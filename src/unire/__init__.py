"""Joint entity and relation extraction by filling one table.

The names below are imported when they are first used, so that `import unire` is quick and needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unire.errors import require_extra

__version__ = "0.1.0"

_HOMES = {
    "DistillConfig": "unire.training.distillation.distill",
    "Document": "unire.documents",
    "Entity": "unire.documents",
    "Extractor": "unire.extractor",
    "LabelSpace": "unire.labels",
    "Protocol": "unire.evaluation",
    "Relation": "unire.documents",
    "Report": "unire.evaluation.evaluate",
    "Scores": "unire.evaluation",
    "Sentence": "unire.documents",
    "TrainingConfig": "unire.training.config",
    "UniRE": "unire.models.unire",
    "UnireError": "unire.errors",
    "distill": "unire.training.distillation.distill",
    "evaluate": "unire.evaluation.evaluate",
    "evaluate_oracle": "unire.evaluation.evaluate",
    "evaluate_predictions": "unire.evaluation.evaluate",
    "push_to_hub": "unire.hub.model_dir",
    "relabel": "unire.training.markers.relabel",
    "score": "unire.evaluation",
    "teach": "unire.training.distillation.teach",
    "train": "unire.training.train",
    "train_markers": "unire.training.markers.train",
}

__all__ = [
    "DistillConfig",
    "Document",
    "Entity",
    "Extractor",
    "LabelSpace",
    "Protocol",
    "Relation",
    "Report",
    "Scores",
    "Sentence",
    "TrainingConfig",
    "UniRE",
    "UnireError",
    "__version__",
    "distill",
    "evaluate",
    "evaluate_oracle",
    "evaluate_predictions",
    "push_to_hub",
    "relabel",
    "score",
    "teach",
    "train",
    "train_markers",
]

if TYPE_CHECKING:
    from unire.documents import Document, Entity, Relation, Sentence
    from unire.errors import UnireError
    from unire.evaluation.counts import Scores
    from unire.evaluation.evaluate import Report, evaluate, evaluate_oracle, evaluate_predictions
    from unire.evaluation.protocol import Protocol
    from unire.evaluation.scorer import score
    from unire.extractor import Extractor
    from unire.hub.model_dir import push_to_hub
    from unire.labels import LabelSpace
    from unire.models.unire import UniRE
    from unire.training.config import TrainingConfig
    from unire.training.distillation.distill import DistillConfig, distill
    from unire.training.distillation.teach import teach
    from unire.training.markers.relabel import relabel
    from unire.training.markers.train import train_markers
    from unire.training.train import train


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'unire' has no attribute {name!r}")
    with require_extra():
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
