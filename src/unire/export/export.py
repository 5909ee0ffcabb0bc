"""`export_onnx`: write a trained model as a folder that runs in both engines, with one file of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import unire
from unire.documents import Document
from unire.evaluation.scorer import score
from unire.evaluation.scores import Scores
from unire.export.onnx_graph import Precision, write_graph
from unire.export.parity import SENTENCES, Parity, compare_engines
from unire.extractor import Extractor
from unire.files import check_output_folder
from unire.inference.onnx_engine import OnnxEngine
from unire.inference.torch_engine import TorchEngine
from unire.models.checkpoint import dequantize, load_checkpoint, write_checkpoint

__all__ = ["ExportReport", "export_onnx"]


@dataclass(frozen=True, repr=False)
class ExportReport:
    """What `export_onnx` wrote, and how closely it computes what the model computes."""

    folder: Path
    precision: Precision
    size: int
    """Bytes of the whole folder."""
    engines: Parity
    """onnxruntime against PyTorch, both from the exported weights."""
    model: Parity
    """onnxruntime against the model as it was, in PyTorch."""
    scores: Scores | None
    """Of the exported model, by onnxruntime, on the test documents; `None` without any."""

    def to_dict(self) -> dict[str, Any]:
        """Convert the report to plain JSON values, as `unire export` prints them."""
        scores = self.scores and self.scores.to_dict()
        return {**asdict(self), "folder": str(self.folder), "scores": scores}

    def __repr__(self) -> str:
        lines = [f"Exported model in {str(self.folder)!r}: {self.size / 1e6:.1f} MB of {self.precision}"]
        lines += [f"  {self.scores}"] if self.scores else []
        lines += [f"  onnxruntime against PyTorch with the same weights: {self.engines}"]
        lines += [f"  onnxruntime against the model itself: {self.model}"]
        return "\n".join(lines)


def export_onnx(
    source: str | Path,
    out: str | Path,
    *,
    precision: Precision = "int8",
    test: Sequence[Document] = (),
    about: Mapping[str, str] | None = None,
) -> ExportReport:
    """Export a trained model to ONNX, and check that both engines compute the same.

    The new folder needs no PyTorch, and is still a model like any other: PyTorch can load it and train it further.

    >>> export_onnx("models/mine", "models/mine-int8", test=test)  # doctest: +SKIP

    Args:
        source: The model: a folder, the name of a bundled model, or a name on the Hub.
        out: A new folder.
        precision: Precision of the stored weights: `int8` (a quarter of the size) or `fp32` (exact).
        test: Annotated documents. The engines are compared on them, and the exported model is scored for its card.
            Without any, the engines are compared on a few sentences.
        about: Facts for the model card: `title`, `description`, `base` (the checkpoint that the encoder comes from),
            `licence`, `rebuild` (the commands that train the model again).

    Returns:
        Size, agreement of the engines, and scores.

    Raises:
        UnireError: `out` is not empty, there is no such model, or it cannot be exported.
    """
    out = Path(out)
    check_output_folder(out)
    model = load_checkpoint(source)
    sample = [document.bare for document in test] or [Document.from_words([text.split()]) for text in SENTENCES]
    with write_checkpoint(model, out) as folder:
        stored = write_graph(model, folder, precision)

        settings, labels = model.config, model.labels
        as_it_was = Extractor(TorchEngine(model), model.tokenizer, settings, labels)
        exported = Extractor(OnnxEngine(folder), model.tokenizer, settings, labels)
        to_model = compare_engines(exported, as_it_was, sample)
        model.load_state_dict(dequantize(stored))
        to_weights = to_model if precision == "fp32" else compare_engines(exported, as_it_was, sample)
        scores = score(test, exported.annotate(test), labels) if test else None
        model.config = settings.with_(
            provenance={
                **settings.provenance,
                **(about or {}),
                "scores": {
                    **settings.provenance.get("scores", {}),
                    **({"test, exported": scores.to_dict()} if scores else {}),
                },
                "export": {
                    "unire": unire.__version__,
                    "precision": precision,
                    "engines": asdict(to_weights),
                    "model": asdict(to_model),
                },
            }
        )
    size = sum(file.stat().st_size for file in out.iterdir())
    return ExportReport(out, precision, size, to_weights, to_model, scores)
