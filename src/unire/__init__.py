"""Joint entity and relation extraction by filling one table.

The names below are imported when they are first used, so that `import unire` is quick and needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unire.errors import require_extra

__version__ = "0.1.0"

_HOMES = {
    "AdaptationConfig": "unire.training.adaptation.adapt",
    "CalibrationReport": "unire.evaluation.tuning",
    "DistillConfig": "unire.training.distillation.distill",
    "Document": "unire.documents",
    "Documents": "unire.document_list",
    "Entity": "unire.documents",
    "ExportReport": "unire.export.export",
    "Extractor": "unire.extractor",
    "LabelSpace": "unire.labels",
    "ModelInfo": "unire.pretrained",
    "PackageReport": "unire.model_package",
    "Protocol": "unire.evaluation",
    "ReadLimits": "unire.limits",
    "Relation": "unire.documents",
    "Report": "unire.evaluation.evaluate",
    "Scores": "unire.evaluation",
    "Sentence": "unire.documents",
    "Suggestion": "unire.suggestions",
    "TrainingConfig": "unire.training.config",
    "UniRE": "unire.models.unire",
    "UnireError": "unire.errors",
    "adapt": "unire.training.adaptation.adapt",
    "calibrate": "unire.evaluation.tuning",
    "cross_validate": "unire.training.cross_validation",
    "distill": "unire.training.distillation.distill",
    "evaluate": "unire.evaluation.evaluate",
    "evaluate_oracle": "unire.evaluation.evaluate",
    "evaluate_predictions": "unire.evaluation.evaluate",
    "export_onnx": "unire.export.export",
    "list_models": "unire.pretrained",
    "package_model": "unire.model_package",
    "push_to_hub": "unire.hub.model_dir",
    "read_documents": "unire.formats",
    "relabel": "unire.training.markers.relabel",
    "score": "unire.evaluation",
    "serve": "unire.serving.server",
    "suggest": "unire.suggestions",
    "teach": "unire.training.distillation.teach",
    "to_dataframe": "unire.document_list",
    "train": "unire.training.train",
    "train_markers": "unire.training.markers.train",
    "write_tasks": "unire.suggestions",
}

__all__ = [
    "AdaptationConfig",
    "CalibrationReport",
    "DistillConfig",
    "Document",
    "Documents",
    "Entity",
    "ExportReport",
    "Extractor",
    "LabelSpace",
    "ModelInfo",
    "PackageReport",
    "Protocol",
    "ReadLimits",
    "Relation",
    "Report",
    "Scores",
    "Sentence",
    "Suggestion",
    "TrainingConfig",
    "UniRE",
    "UnireError",
    "__version__",
    "adapt",
    "calibrate",
    "cross_validate",
    "distill",
    "evaluate",
    "evaluate_oracle",
    "evaluate_predictions",
    "export_onnx",
    "list_models",
    "package_model",
    "push_to_hub",
    "read_documents",
    "relabel",
    "score",
    "serve",
    "suggest",
    "teach",
    "to_dataframe",
    "train",
    "train_markers",
    "write_tasks",
]

_MODULES = ("formats", "graph", "pretrained", "rendering")
"""Packages that users call by name, as in `unire.formats.write`."""

if TYPE_CHECKING:
    from unire.document_list import Documents, to_dataframe
    from unire.documents import Document, Entity, Relation, Sentence
    from unire.errors import UnireError
    from unire.evaluation.evaluate import Report, evaluate, evaluate_oracle, evaluate_predictions
    from unire.evaluation.scorer import score
    from unire.evaluation.scores import Protocol, Scores
    from unire.evaluation.tuning import CalibrationReport, calibrate
    from unire.export.export import ExportReport, export_onnx
    from unire.extractor import Extractor
    from unire.formats import read_documents
    from unire.hub.model_dir import push_to_hub
    from unire.labels import LabelSpace
    from unire.limits import ReadLimits
    from unire.model_package import PackageReport, package_model
    from unire.models.unire import UniRE
    from unire.pretrained import ModelInfo, list_models
    from unire.serving.server import serve
    from unire.suggestions import Suggestion, suggest, write_tasks
    from unire.training.adaptation.adapt import AdaptationConfig, adapt
    from unire.training.config import TrainingConfig
    from unire.training.cross_validation import cross_validate
    from unire.training.distillation.distill import DistillConfig, distill
    from unire.training.distillation.teach import teach
    from unire.training.markers.relabel import relabel
    from unire.training.markers.train import train_markers
    from unire.training.train import train


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"unire.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'unire' has no attribute {name!r}")
    with require_extra():
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
