"""Check an ONNX graph before onnxruntime reads it, without the onnx package.

A graph from a stranger could name any file of the machine as the home of its weights, loop forever, or name an operator
that reads files. `check_graph` accepts only what `unire export` writes:

- The fields of onnx.proto in `MODEL` and the tables below it, in the plain encoding. Readers of protocol buffers
  disagree about everything else, such as overlong numbers, so that a field could be hidden from this check.
- The operators in `OPERATORS`. None of them has a sub-graph, and all compute on numbers only.
- Shapes of few dimensions, because onnxruntime lists the dimensions of every result when it loads a graph.
- Tensors whose sizes match their bytes. They are in the graph, or in the folder's own `model.safetensors`: at the
  location of a tensor of the same name, or a name derived from it (`duplicate_name`), and of the same type.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from unire.errors import UnireError, describe_error, shorten
from unire.hub.model_dir import GRAPH, WEIGHTS
from unire.model_files import TensorLocation, count_bytes, read_bytes, read_tensor_locations

__all__ = ["OPERATORS", "check_graph", "duplicate_name", "original_name"]

MAX_GRAPH_BYTES = 2**26
"""Size of the largest graph. A base encoder needs 0.1 MB; tables of relative positions may add some MB."""
MAX_FIELDS = 1_000_000
"""Fields of all messages of a graph. A large encoder needs about 100,000."""
MAX_NODES = 20_000
"""Nodes of the largest graph. A large encoder with 48 layers needs about 6000."""
DTYPES = {1: "F32", 2: "U8", 3: "I8", 6: "I32", 7: "I64", 9: "BOOL", 10: "F16", 11: "F64"}
"""The safetensors dtype of the numbers of dtypes in ONNX."""
INPUTS = {"input_ids", "attention_mask", "token_type_ids", "words"}
OUTPUTS = ["P", "h"]
"""The tables, and the vectors of words, which older graphs lack."""
DUPLICATE_SEPARATOR = "@"
"""Separates the name of a tensor from a number, if the graph holds the tensor more than once."""

OPERATORS = {
    "": {
        *("Abs", "Add", "Clip", "Cos", "Div", "Erf", "Exp", "Floor", "Gelu", "Log", "Max", "Min", "Mul", "Neg", "Pow"),
        *("Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sqrt", "Sub", "Tanh"),
        *("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or", "Where"),
        *("Cast", "ConstantOfShape", "CumSum", "Identity", "Range", "Shape", "Trilu"),
        *("Concat", "Expand", "Gather", "GatherElements", "GatherND", "Pad", "Reshape", "ScatterElements", "ScatterND"),
        *("Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
        *("ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"),
        *("Conv", "DFT", "Gemm", "LayerNormalization", "MatMul", "Softmax"),
        *("DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "QuantizeLinear"),
    },
    "com.microsoft": {"FusedMatMul", "MatMulIntegerToFloat", "MultiHeadAttention"},
}
"""By domain, the operators of the encoders of transformers as PyTorch exports them, and of quantized ones."""
MAX_RANK = 64
"""Dimensions of the largest tensor. Encoders need 6."""
SAME_LENGTH = {"Abs", "Cast", "Identity", "Neg", "Slice", "Squeeze"}
"""Operators whose result has at most as many numbers as their first input."""
BROADCASTING = {"Add", "Div", "Equal", "Max", "Min", "Mul", "Sub", "Where"}
"""Operators whose result has at most the product of the lengths of their inputs."""


def duplicate_name(name: str, number: int) -> str:
    """Name the copy of a tensor in a graph."""
    return f"{name}{DUPLICATE_SEPARATOR}{number}"


def original_name(name: str) -> str:
    """Return the name that a tensor of a graph has in the weights file."""
    return name.partition(DUPLICATE_SEPARATOR)[0]


def check_graph(folder: Path) -> None:
    """Refuse a graph that does anything but compute with the tensors of the folder's own weights."""
    path, locations = folder / GRAPH, read_tensor_locations(folder / WEIGHTS)
    try:
        reader = _GraphReader()
        reader.read(read_bytes(path, MAX_GRAPH_BYTES))
    except OSError as error:
        raise UnireError(f"{str(path)!r} cannot be read: {describe_error(error)}") from None
    except ValueError as error:
        raise UnireError(
            f"{str(path)!r} is damaged, or was not written by `unire export` ({describe_error(error)})"
        ) from None
    for name, dtype, data in reader.external:
        if data.get("location") != WEIGHTS:
            raise UnireError(f"{str(path)!r} refers to the file {shorten(data.get('location'))}, which is not allowed")
        location = locations.get(original_name(name))
        if location is None or data != _external_data(location) or dtype != location.dtype:
            raise UnireError(
                f"{GRAPH} and {WEIGHTS} of {str(folder)!r} do not match (tensor {shorten(name)}); "
                "export the model again"
            )


def _external_data(location: TensorLocation) -> dict[str, str]:
    return {"location": WEIGHTS, "offset": str(location.start), "length": str(location.length)}


class _External(NamedTuple):
    """A tensor that is stored in another file."""

    name: str
    dtype: str
    data: dict[str, str]
    """Location, offset and length."""


# The messages of onnx.proto, as far as they may occur. In a protocol buffer, a field has a number instead of its name.

INT, FLOAT, BYTES = 0, 5, 2
"""Encodings of a field: a number of variable length, four bytes, or a length and this number of bytes."""
EXTERNAL = 1


class _Field(NamedTuple):
    """A field that a message may have."""

    name: str
    encoding: int = BYTES
    repeated: bool = False
    """Whether there may be several. Numbers may then be packed into one field."""


_Fields = Mapping[int, _Field]
_Message = Mapping[str, Any]
"""The values of a message by name."""

MODEL: _Fields = {
    1: _Field("ir_version", INT),
    2: _Field("producer_name"),
    3: _Field("producer_version"),
    4: _Field("domain"),
    5: _Field("model_version", INT),
    6: _Field("doc_string"),
    7: _Field("graph"),
    8: _Field("opset_import", repeated=True),
}
OPSET: _Fields = {1: _Field("domain"), 2: _Field("version", INT)}
GRAPH_FIELDS: _Fields = {
    1: _Field("node", repeated=True),
    2: _Field("name"),
    5: _Field("initializer", repeated=True),
    10: _Field("doc_string"),
    11: _Field("input", repeated=True),
    12: _Field("output", repeated=True),
}
NODE: _Fields = {
    1: _Field("input", repeated=True),
    2: _Field("output", repeated=True),
    3: _Field("name"),
    4: _Field("op_type"),
    5: _Field("attribute", repeated=True),
    6: _Field("doc_string"),
    7: _Field("domain"),
}
ATTRIBUTE: _Fields = {
    1: _Field("name"),
    2: _Field("f", FLOAT),
    3: _Field("i", INT),
    4: _Field("s"),
    5: _Field("t"),
    7: _Field("floats", FLOAT, repeated=True),
    8: _Field("ints", INT, repeated=True),
    13: _Field("doc_string"),
    20: _Field("type", INT),
}
ATTRIBUTE_TYPES = {1: "f", 2: "i", 3: "s", 4: "t", 6: "floats", 7: "ints"}
"""The field with the value of an attribute, by its type."""
TENSOR: _Fields = {
    1: _Field("dims", INT, repeated=True),
    2: _Field("dtype", INT),
    8: _Field("name"),
    9: _Field("raw_data"),
    12: _Field("doc_string"),
    13: _Field("external_data", repeated=True),
    14: _Field("location", INT),
}
ENTRY: _Fields = {1: _Field("key"), 2: _Field("value")}
VALUE: _Fields = {
    1: _Field("name"),
    2: _Field("type"),
    3: _Field("doc_string"),
    4: _Field("metadata_props", repeated=True),
}
TYPE: _Fields = {1: _Field("tensor_type")}
TENSOR_TYPE: _Fields = {1: _Field("dtype", INT), 2: _Field("shape")}
SHAPE: _Fields = {1: _Field("sizes", repeated=True)}
SIZE: _Fields = {1: _Field("value", INT), 2: _Field("name")}


class _Bound(NamedTuple):
    """An upper bound of the size of a tensor."""

    rank: float
    """Number of dimensions."""
    length: float
    """Number of numbers."""
    values: tuple[int, ...] | None = None
    """The numbers of a constant shape."""


UNBOUNDED = _Bound(math.inf, math.inf)


class _GraphReader:
    """Checks everything that a graph itself shows, and collects the tensors that are in other files."""

    def __init__(self) -> None:
        self._n_fields = 0
        self._bounds: dict[str, _Bound] = {}
        """The largest sizes of tensors by name, as far as they are known before the graph runs."""
        self.external: list[_External] = []

    def read(self, raw: bytes) -> None:
        model = self._parse(raw, MODEL)
        for opset in model["opset_import"]:
            if (domain := _text(self._parse(opset, OPSET)["domain"])) not in OPERATORS:
                raise ValueError(f"operators of the domain {shorten(domain)}")
        graph = self._parse(model["graph"], GRAPH_FIELDS)
        self._check_interface(graph)
        for initializer in graph["initializer"]:
            tensor = self._parse(initializer, TENSOR)
            if (name := _text(tensor["name"])) in self._bounds:
                raise ValueError(f"two tensors {shorten(name)}")
            dtype, data = self._check_tensor(tensor)
            self._bounds[name] = _Bound(len(tensor["dims"]), math.prod(tensor["dims"]), _shape_values(dtype, tensor))
            if data:
                self.external.append(_External(name, dtype, data))
        if len(graph["node"]) > MAX_NODES:
            raise ValueError(f"more than {MAX_NODES:,} nodes")
        for node in graph["node"]:
            self._check_node(node)

    def _check_interface(self, graph: _Message) -> None:
        """Check names, types and shapes of inputs and outputs. The sizes of inputs must be open."""
        inputs = [self._parse_value(value) for value in graph["input"]]
        names = [name for name, _, _ in inputs]
        if len(set(names)) < len(names) or not {"input_ids", "words"} <= set(names) <= INPUTS:
            raise ValueError(f"the inputs {shorten(names)}")
        if wrong := [name for name, dtype, shape in inputs if dtype != "I64" or shape != [None, None]]:
            raise ValueError(f"the input {wrong[0]!r} is not a matrix of whole numbers")
        outputs = [self._parse_value(value) for value in graph["output"]]
        found = [name for name, _, _ in outputs]
        if not found or found != OUTPUTS[: len(found)]:
            raise ValueError(f"the outputs {shorten(found)} instead of {' and '.join(OUTPUTS)}")
        self._bounds.update((name, _Bound(2, math.inf)) for name in names)
        for (name, dtype, shape), rank in zip(outputs, (4, 3), strict=False):
            if dtype != "F32" or len(shape) != rank or shape[-1] is None:
                raise ValueError(f"the output {name} is not a tensor of {rank} dimensions")

    def _parse_value(self, message: bytes) -> tuple[str, str, list[int | None]]:
        """Name, dtype and shape of an input or output; a size is `None` if it is open."""
        value = self._parse(message, VALUE)
        tensor = self._parse(self._parse(value["type"], TYPE)["tensor_type"], TENSOR_TYPE)
        sizes = [self._parse(size, SIZE) for size in self._parse(tensor["shape"], SHAPE)["sizes"]]
        for size in sizes:
            _text(size["name"])
        return _text(value["name"]), _dtype(tensor), [size["value"] for size in sizes]

    def _check_node(self, message: bytes) -> None:
        """Refuse operators that exported encoders do not have, and attributes that are neither numbers nor text."""
        node = self._parse(message, NODE)
        domain, operator, _ = (_text(node[name]) for name in ("domain", "op_type", "name"))
        if operator not in OPERATORS.get(domain, ()):
            raise ValueError(f"the operator {shorten(operator)} of the domain {shorten(domain)}")
        attributes = [self._parse(raw, ATTRIBUTE) for raw in node["attribute"]]
        self._bound_results(operator, node, {_text(attribute["name"]): attribute["i"] for attribute in attributes})
        for attribute in attributes:
            kind = ATTRIBUTE_TYPES.get(attribute["type"])
            if any(attribute[name] not in (None, []) for name in ATTRIBUTE_TYPES.values() if name != kind):
                raise ValueError(f"an attribute of {operator} has another type than it says")
            if kind is None:
                raise ValueError(f"an attribute of {operator} is not a number, a text or a tensor")
            if kind == "t" and self._check_tensor(self._parse(attribute["t"], TENSOR))[1]:
                raise ValueError(f"an attribute of {operator} is in another file")
            if operator == "Cast" and _text(attribute["name"]) == "to" and attribute["i"] not in DTYPES:
                raise ValueError("a conversion to something other than numbers")

    def _bound_results(self, operator: str, node: _Message, numbers: Mapping[str, int | None]) -> None:
        """Bound the sizes of the results of a node, and refuse results with too many dimensions.

        Args:
            operator: The operator of the node.
            node: The node, after those that compute its inputs.
            numbers: The attributes of the node that are numbers.
        """
        bounds = [self._bounds.get(_text(name), UNBOUNDED) for name in node["input"] if name]
        first, last = (bounds[0], bounds[-1]) if bounds else (UNBOUNDED, UNBOUNDED)
        rank = max([1, *(bound.rank for bound in bounds)])
        length = math.inf
        if operator == "Shape":
            start, end = numbers.get("start") or 0, numbers.get("end")
            length = end - start if end is not None and 0 <= start < end <= MAX_RANK else first.rank
            rank = 1
        elif operator in ("Gather", "GatherND"):
            rank = first.rank + last.rank
            length = last.length if first.rank == 1 else _product((first.length, last.length))
        elif operator == "Unsqueeze":
            rank, length = first.rank + last.length, first.length
        elif operator in ("ConstantOfShape", "Expand", "Reshape"):
            rank = max(last.length, first.rank if operator == "Expand" else 0)
            if operator == "Reshape" and last.values is not None:
                # onnxruntime believes a constant shape, even if the tensor has fewer numbers
                length = _product(value if value > 0 else first.length for value in last.values)
        elif operator == "Concat":
            length = sum(bound.length for bound in bounds)
        elif operator in SAME_LENGTH:
            length = first.length
        elif operator in BROADCASTING:
            length = _product(bound.length for bound in bounds)
        if rank > MAX_RANK:
            raise ValueError(f"a result of {operator} could have more than {MAX_RANK} dimensions")
        self._bounds.update((_text(name), _Bound(rank, length)) for name in node["output"])

    def _check_tensor(self, tensor: _Message) -> tuple[str, dict[str, str]]:
        """Check that a tensor has as many bytes as its shape needs; return its dtype and its location if external."""
        dtype, data = _dtype(tensor), {}
        for entry in tensor["external_data"]:
            key, value = map(_text, self._parse(entry, ENTRY).values())
            if key in data:
                raise ValueError("a tensor in two locations")
            data[key] = value
        if bool(data) != (tensor["location"] == EXTERNAL) or bool(data) == (tensor["raw_data"] is not None):
            raise ValueError("a tensor in no location, or in two")
        length = data.get("length", "") if data else str(len(tensor["raw_data"]))
        if length != str(count_bytes(dtype, tuple(tensor["dims"]))):
            raise ValueError("a tensor whose size does not match its shape")
        return dtype, data

    def _parse(self, message: bytes | None, fields: _Fields) -> _Message:
        """The values of a message by name; `None` or an empty list if a field is missing."""
        if message is None:
            raise ValueError("a message is missing")
        values: dict[str, Any] = {field.name: [] if field.repeated else None for field in fields.values()}
        position = 0
        while position < len(message):
            tag, position = _varint(message, position)
            encoding = tag & 7
            if (field := fields.get(tag >> 3)) is None:
                raise ValueError(f"the unknown field {tag >> 3}")
            packed = field.repeated and field.encoding != BYTES and encoding == BYTES
            if encoding != field.encoding and not packed:
                raise ValueError(f"the field {field.name} is encoded in another way")
            value: Any
            if encoding == INT:
                value, position = _varint(message, position)
            else:
                length, position = _varint(message, position) if encoding == BYTES else (4, position)
                if position + length > len(message):
                    raise ValueError("it is truncated")
                value = message[position : position + length]
                position += length
            numbers = self._unpack(value, field.encoding) if packed else [value]
            self._count(len(numbers))
            if field.repeated:
                values[field.name] += numbers
            elif values[field.name] is not None:
                raise ValueError(f"two fields {field.name}")
            else:
                values[field.name] = value
        return values

    def _unpack(self, packed: bytes, encoding: int) -> list[Any]:
        """The numbers of a packed field."""
        if encoding == FLOAT:
            return [packed[start : start + 4] for start in range(0, len(packed), 4)]
        self._count(len(packed))
        numbers, position = [], 0
        while position < len(packed):
            number, position = _varint(packed, position)
            numbers.append(number)
        return numbers

    def _count(self, n_fields: int) -> None:
        self._n_fields += n_fields
        if self._n_fields > MAX_FIELDS:
            raise ValueError(f"more than {MAX_FIELDS:,} fields")


def _product(numbers: Iterable[float]) -> float:
    """The product of numbers; without a bound if one of them has none, even if another one is 0."""
    factors = list(numbers)
    return math.inf if math.inf in factors else math.prod(factors)


def _shape_values(dtype: str, tensor: _Message) -> tuple[int, ...] | None:
    """The numbers of a tensor that can be a shape."""
    raw = tensor["raw_data"]
    if dtype != "I64" or raw is None or len(raw) > 8 * MAX_RANK:
        return None
    return struct.unpack(f"<{len(raw) // 8}q", raw)


def _dtype(tensor: _Message) -> str:
    if tensor["dtype"] not in DTYPES:
        raise ValueError(f"a tensor of the type {tensor['dtype']}")
    return DTYPES[tensor["dtype"]]


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode()


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """A number of variable length, and where it ends. It must have no more bytes than it needs, and at most 64 bits."""
    value = shift = 0
    while True:
        if position == len(message):
            raise ValueError("it is truncated")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= 2**64 or (byte == 0 and shift):
                raise ValueError("a number is longer than necessary")
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than necessary")
