"""A model as an ONNX graph whose initializers refer to `model.safetensors`.

While the graph is traced, layers that onnxruntime runs fastest replace those of the model. Their parameters and buffers
have the names of the tensors in the file of the weights.
"""

from __future__ import annotations

import copy
import logging
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import onnx
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.onnx import ops
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder

from unire.errors import UnireError
from unire.hub.model_dir import GRAPH, WEIGHTS
from unire.inference.onnx_check import duplicate_name, original_name
from unire.model_files import TensorLocation, read_tensor_locations
from unire.models.batch import TensorBatch
from unire.models.checkpoint import INT8_SUFFIX, INT8_TRANSPOSED_SUFFIX, SCALE_SUFFIX, Int8Tensor, write_tensors
from unire.models.unire import Biaffine, UniRE

__all__ = [
    "Precision",
    "export_attention",
    "replace_layers",
    "write_graph",
]

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
    """The model with export layers: from the arrays of a batch to the probabilities P and the vectors h of words."""

    def __init__(self, model: UniRE, precision: Precision) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).cpu().eval()
        self._shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
        replace_layers(self.model, int8=precision == "int8")

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, words: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        lengths = words.new_empty(0)  # not used by the model
        h = self.model.encode(TensorBatch(input_ids, attention_mask, token_type_ids, words, lengths))
        logits: Tensor = self.model.biaffine(*self.model.project(h))
        return logits.softmax(-1), h

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
                output_names=["P", "h"],
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


# Layers for onnxruntime

ORT_DOMAIN = "com.microsoft::"
"""The domain of the operators that onnxruntime adds to those of ONNX."""
MIN_INT8_WEIGHTS = 1024
"""Matrices with fewer weights are not quantized."""
MASK_BIAS = -1e4
"""Added to the attention scores of padding. With an infinity, rows of padding would become NaN."""


def replace_layers(module: nn.Module, *, int8: bool) -> None:
    """Replace all layers of `module` that have a faster counterpart here, in place."""
    for name, child in module.named_children():
        if isinstance(child, MPNetEncoder):
            child.__class__ = MPNetEncoder  # our own way to compute the position bias cannot be traced
        small = getattr(child, "weight", torch.empty(0)).numel() < MIN_INT8_WEIGHTS
        if isinstance(child, nn.Linear):
            setattr(module, name, Int8Linear(child) if int8 and not small else FloatLinear(child))
        elif isinstance(child, nn.Embedding) and int8 and not small:
            setattr(module, name, Int8Embedding(child))
        elif isinstance(child, Biaffine):
            setattr(module, name, Int8Biaffine(child) if int8 else FloatBiaffine(child))
        else:
            replace_layers(child, int8=int8)


class Int8Linear(nn.Module):
    """A linear layer with int8 weights and activations.

    Each vector of activations is quantized with its own scale. ONNX has an operator with one scale for all vectors,
    which is about a quarter faster, but has five times the rounding error, because a few tokens have large values. It
    would also make the result of a sentence depend on the rest of the batch.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        values, scale = Int8Tensor.quantize(linear.weight.detach())
        self.register_buffer("weight" + INT8_TRANSPOSED_SUFFIX, values.T.contiguous())
        self.register_buffer("weight" + SCALE_SUFFIX, scale)
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        product = _int8_product(
            x, getattr(self, "weight" + INT8_TRANSPOSED_SUFFIX), getattr(self, "weight" + SCALE_SUFFIX)
        )
        return product if self.bias is None else product + self.bias

    @property
    def weight(self) -> Tensor:
        """For encoders that access the weight of a layer."""
        return Int8Tensor(
            getattr(self, "weight" + INT8_TRANSPOSED_SUFFIX).T, getattr(self, "weight" + SCALE_SUFFIX)
        ).dequantize()


class FloatLinear(nn.Module):
    """A linear layer that uses its weight as stored, without a transposed copy."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias

    def forward(self, x: Tensor) -> Tensor:
        product = _times_transposed(x, self.weight)
        return product if self.bias is None else product + self.bias


class Int8Embedding(nn.Module):
    """An embedding with int8 rows; the rows that are looked up become float32."""

    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__()
        values, scale = Int8Tensor.quantize(embedding.weight.detach())
        self.register_buffer("weight" + INT8_SUFFIX, values)
        self.register_buffer("weight" + SCALE_SUFFIX, scale.unsqueeze(-1))
        self.padding_idx = embedding.padding_idx

    def forward(self, ids: Tensor) -> Tensor:
        rows = F.embedding(ids, getattr(self, "weight" + INT8_SUFFIX)).float()
        return rows * F.embedding(ids, getattr(self, "weight" + SCALE_SUFFIX))

    @property
    def weight(self) -> Tensor:
        """For encoders that access the weight of a layer."""
        weight: Tensor = getattr(self, "weight" + INT8_SUFFIX).float() * getattr(self, "weight" + SCALE_SUFFIX)
        return weight


class FloatBiaffine(Biaffine):
    """The biaffine model with U multiplied by the tails first. For that, the stored U is a matrix."""

    def __init__(self, biaffine: Biaffine) -> None:
        nn.Module.__init__(self)
        self.register_buffer("U", biaffine.U.detach().flatten(0, 1))

    def products(self, head: Tensor, tail: Tensor) -> Tensor:
        T, N, d = tail.shape
        right = self._times_u(tail).view(T, -1, d)  # [T, N * Y, d]
        scores = right @ head.transpose(1, 2)  # [T, N * Y, N]
        return scores.view(T, N, -1, N).permute(0, 3, 1, 2)

    def _times_u(self, tail: Tensor) -> Tensor:
        """[T, N, d] → [T, N, |Y| · d]"""
        return _times_transposed(tail, self.U)


class Int8Biaffine(FloatBiaffine):
    """The product with U in int8; the product of both vectors, which gives the scores, in float32."""

    def __init__(self, biaffine: Biaffine) -> None:
        nn.Module.__init__(self)
        values, scale = Int8Tensor.quantize(biaffine.U.detach())
        self.register_buffer("U" + INT8_SUFFIX, values.flatten(0, 1))
        self.register_buffer("U" + SCALE_SUFFIX, scale.flatten())

    def _times_u(self, tail: Tensor) -> Tensor:
        # The conversions keep PyTorch from writing a transposed copy of U into the graph.
        transposed = getattr(self, "U" + INT8_SUFFIX).int().T.to(torch.int8)
        return _int8_product(tail, transposed, getattr(self, "U" + SCALE_SUFFIX))


@contextmanager
def export_attention() -> Iterator[None]:
    """Trace fused attention as onnxruntime's attention operator."""
    original = F.scaled_dot_product_attention
    F.scaled_dot_product_attention = _attention  # type: ignore[assignment]
    try:
        yield
    finally:
        F.scaled_dot_product_attention = original


def _attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, scale: float | None = None, **_: Any
) -> Tensor:
    """[B, H, L, d], as in PyTorch, without dropout and causal mask, which an encoder does not have in evaluation."""
    B, H, L, d = query.shape
    bias = attn_mask
    if bias is not None:
        bias = torch.where(bias, 0.0, MASK_BIAS) if bias.dtype == torch.bool else bias.clamp(min=MASK_BIAS)
        bias = bias.expand(-1, -1, L, -1)
    q, k, v = (x.transpose(1, 2).flatten(2) for x in (query, key, value))
    attributes: dict[str, int | float] = {"num_heads": H}
    if scale is not None:
        attributes["scale"] = scale
    mixed = _operator("MultiHeadAttention", (q, k, v, None, None, bias), (B, L, H * d), attributes)
    return mixed.view(B, L, H, d).transpose(1, 2)


def _int8_product(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """x W with int8 W [in, out] and a scale per column; each vector of x is quantized with its own scale."""
    rows = x.flatten(0, -2)
    step = rows.abs().amax(-1) * (1 / 127)  # 0 for a vector of zeros, whose product is multiplied by 0 again
    zero = torch.full((), 128, dtype=torch.uint8)
    quantized = ops.symbolic(
        "QuantizeLinear", (rows, step, zero.expand(step.shape)), {"axis": 0}, dtype=torch.uint8, shape=rows.shape
    )
    shape = (rows.shape[0], weight.shape[1])
    product = _operator("MatMulIntegerToFloat", (quantized, weight, torch.ones(()), scale, zero), shape)
    return (step.unsqueeze(-1) * product).view(*x.shape[:-1], weight.shape[1])


def _times_transposed(x: Tensor, weight: Tensor) -> Tensor:
    """x Wᵀ"""
    return _operator("FusedMatMul", (x, weight), (*x.shape[:-1], weight.shape[0]), {"transB": 1})


def _operator(
    name: str, inputs: tuple[Tensor | None, ...], shape: tuple[Any, ...], attributes: dict[str, Any] | None = None
) -> Tensor:
    """Call one of onnxruntime's own operators, with a result in float32."""
    while inputs[-1] is None:
        inputs = inputs[:-1]
    return ops.symbolic(ORT_DOMAIN + name, inputs, attributes or {}, dtype=torch.float32, shape=shape, version=1)
