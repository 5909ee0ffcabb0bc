"""A model as an ONNX graph whose initializers refer to `model.safetensors`."""

from __future__ import annotations

import copy
import logging
import warnings
from collections import Counter
from pathlib import Path
from typing import Literal

import onnx
import torch
from torch import Tensor, nn

from unire.errors import UnireError
from unire.export.onnx_layers import export_attention, replace_layers
from unire.hub.model_dir import GRAPH, WEIGHTS
from unire.inference.onnx_check import duplicate_name, original_name
from unire.model_files import TensorLocation, read_tensor_locations
from unire.models.batch import TensorBatch
from unire.models.checkpoint import INT8_SUFFIX, SCALE_SUFFIX, write_tensors
from unire.models.unire import UniRE

__all__ = ["Precision", "write_graph"]

Precision = Literal["int8", "fp32"]

OPSET_VERSION = 20
"""The first version with GELU."""


def write_graph(model: UniRE, folder: Path, precision: Precision) -> dict[str, Tensor]:
    """Write `model.onnx` and `model.safetensors`; returns the tensors of the latter."""
    module = _ExportModule(model, precision)
    tensors = module.tensors()
    write_tensors(folder / WEIGHTS, tensors)
    graph = _trace(module, token_types=model.config.spec.token_types)
    _refer_to_weights(graph, read_tensor_locations(folder / WEIGHTS))
    (folder / GRAPH).write_bytes(graph.SerializeToString())
    return tensors


class _ExportModule(nn.Module):
    """The model with export layers: from the arrays of a batch to the probabilities P."""

    def __init__(self, model: UniRE, precision: Precision) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).cpu().eval()
        self._shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
        replace_layers(self.model, int8=precision == "int8")

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, words: Tensor, token_type_ids: Tensor | None = None
    ) -> Tensor:
        lengths = words.new_empty(0)  # not used by the model
        logits: Tensor = self.model(TensorBatch(input_ids, attention_mask, token_type_ids, words, lengths))
        return logits.softmax(-1)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors to store, in the shapes of the model; the graph uses some of them flattened."""
        stored = {}
        for name, tensor in self.model.state_dict().items():
            base = name.removesuffix(INT8_SUFFIX).removesuffix(SCALE_SUFFIX)
            shape = self._shapes.get(base, tensor.shape)
            stored[name] = tensor.view(shape[:-1] if name.endswith(SCALE_SUFFIX) else shape)
        return stored


def _trace(module: _ExportModule, *, token_types: bool) -> onnx.ModelProto:
    """Trace the module into an ONNX graph with dynamic shapes."""
    dynamic = torch.export.Dim.DYNAMIC
    # All sizes differ, so that the exporter cannot confuse them. There is padding, so that the mask has an effect.
    tokens, words = torch.full((2, 13), 1), torch.zeros(3, 7, dtype=torch.long)
    mask = torch.ones_like(tokens)
    mask[0, 8:] = 0
    inputs = {"input_ids": tokens, "attention_mask": mask, "words": words}
    if token_types:
        inputs["token_type_ids"] = torch.zeros_like(tokens)
    try:
        with warnings.catch_warnings(), _QuietExporter(), export_attention(), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                module,
                kwargs=inputs,
                input_names=list(inputs),
                output_names=["P"],
                dynamic_shapes={name: {0: dynamic, 1: dynamic} for name in inputs},
                opset_version=OPSET_VERSION,
                dynamo=True,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        kind = module.model.config.encoder.get("model_type", "of this kind")
        reason = str(error.__cause__ or error).strip().splitlines()
        raise UnireError(f"encoders {kind} cannot be exported: {next(iter(reason), type(error).__name__)}") from error
    graph: onnx.ModelProto = program.model_proto  # type: ignore[union-attr]
    return graph


def _refer_to_weights(model: onnx.ModelProto, places: dict[str, TensorLocation]) -> None:
    """Replace initializers by references into the file of the weights, and remove metadata of the tracing."""
    graph = model.graph
    del graph.value_info[:]
    del model.metadata_props[:], graph.metadata_props[:]
    for node in graph.node:
        del node.metadata_props[:]
        node.name = node.doc_string = ""
        for i, name in enumerate(node.input):
            node.input[i] = name.removeprefix("model.")
    for tensor in graph.initializer:
        tensor.name = tensor.name.removeprefix("model.")
    _duplicate_shared_weights(graph)
    for tensor in graph.initializer:
        place = places.get(original_name(tensor.name))
        if place is None:
            continue
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", WEIGHTS), ("offset", place.start), ("length", place.length)):
            tensor.external_data.add(key=key, value=str(value))


def _duplicate_shared_weights(graph: onnx.GraphProto) -> None:
    """Give every matrix product its own initializer for int8 weights that several products share, as in ALBERT.

    On CPUs whose int8 products may overflow, onnxruntime replaces such weights, and fails if it has already done so.
    """
    weights = {tensor.name: tensor for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.INT8}
    uses: Counter[str] = Counter()
    for node in graph.node:
        for i, name in enumerate(node.input):
            if name not in weights:
                continue
            uses[name] += 1
            if uses[name] > 1:
                node.input[i] = duplicate_name(name, uses[name])
                graph.initializer.add().CopyFrom(weights[name])
                graph.initializer[-1].name = node.input[i]


class _QuietExporter:
    """Silences what PyTorch logs about optional libraries that are not installed."""

    def __enter__(self) -> None:
        self._logger = logging.getLogger("torch.onnx")
        self._level = self._logger.level
        self._logger.setLevel(logging.ERROR)

    def __exit__(self, *_: object) -> None:
        self._logger.setLevel(self._level)
