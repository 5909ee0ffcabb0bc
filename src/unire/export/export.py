"""From a checkpoint to a folder that runs in both engines, with one file of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import unire
from unire.documents import Document
from unire.evaluation.counts import Scores
from unire.evaluation.scorer import score
from unire.export.onnx_graph import Precision, write_graph
from unire.export.parity import SENTENCES, Parity, compare_engines
from unire.extractor import Extractor
from unire.files import check_output_folder
from unire.inference.onnx_engine import OnnxEngine
from unire.inference.torch_engine import TorchEngine
from unire.models.checkpoint import dequantized, load, writing

__all__ = ["Exported", "export"]


@dataclass(frozen=True)
class Exported:
    """What an export was."""

    folder: Path
    precision: Precision
    size: int
    """Bytes of the whole folder."""
    engines: Parity
    """onnxruntime against PyTorch, both from the exported weights."""
    model: Parity
    """onnxruntime against the model as it was, in PyTorch."""
    scores: Scores | None
    """Of the exported model, by onnxruntime, on the test documents."""


def export(
    source: str | Path,
    out: str | Path,
    *,
    precision: Precision = "int8",
    test: Sequence[Document] = (),
    about: Mapping[str, str] | None = None,
) -> Exported:
    """Write a trained model as a folder that needs no torch, and check that it computes the same.

    Args:
        source: The model: a folder, a name in the box or on the Hub.
        out: A new folder.
        precision: Of the weights in the file.
        test: Annotated documents. The engines are compared on them, and the exported model is scored, for its card;
            without any, the engines are compared on a few sentences.
        about: What the card should say that the checkpoint does not know: `title`, `description`, `base` (the
            checkpoint that the encoder comes from), `licence`, `rebuild` (how to make the model again).
    """
    out = Path(out)
    check_output_folder(out)
    model = load(source)
    sample = [document.bare for document in test] or [Document.from_words([text.split()]) for text in SENTENCES]
    with writing(model, out) as folder:
        stored = write_graph(model, folder, precision)

        settings, labels = model.config, model.labels
        as_it_was = Extractor(TorchEngine(model), model.tokenizer, settings, labels)
        exported = Extractor(OnnxEngine(folder), model.tokenizer, settings, labels)
        to_model = compare_engines(exported, as_it_was, sample)
        model.load_state_dict(dequantized(stored))
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
    return Exported(out, precision, size, to_weights, to_model, scores)
