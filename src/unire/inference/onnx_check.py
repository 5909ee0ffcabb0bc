"""Check what an ONNX graph reads from other files, without the onnx package.

A graph may name any file of the machine as the home of its weights. `check_graph` runs before onnxruntime opens a
graph: every external tensor must be a tensor of the folder's own `model.safetensors`, with the same dtype and location,
and with the same name or a name derived from it (`duplicate_name`). So a graph cannot read other files, and a graph
that does not belong to the weights is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from unire.errors import UnireError
from unire.hub.model_dir import GRAPH, WEIGHTS

__all__ = ["TensorLocation", "check_graph", "duplicate_name", "original_name", "read_tensor_locations"]

ONNX_DTYPES = {"F32": 1, "U8": 2, "I8": 3, "I64": 7, "BOOL": 9, "F16": 10}
"""The number of a safetensors dtype in ONNX."""
DUPLICATE_SEPARATOR = "@"
"""Separates the name of a tensor from a number, if the graph holds the tensor more than once."""


class TensorLocation(NamedTuple):
    """Where a tensor lies in the weights file."""

    dtype: int
    start: int
    length: int


def read_tensor_locations(path: Path) -> dict[str, TensorLocation]:
    """Read the header of a complete safetensors file: the location of every tensor."""
    damaged = UnireError(f"{str(path)!r} is missing, cut short or no safetensors file")
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            begin = 8 + int.from_bytes(file.read(8), "little")
            if begin > size:
                raise damaged
            header = json.loads(file.read(begin - 8))
        header.pop("__metadata__", None)
        locations = {}
        for name, entry in header.items():
            first, end = entry["data_offsets"]
            if not 0 <= first <= end <= size - begin:
                raise damaged
            locations[name] = TensorLocation(ONNX_DTYPES[entry["dtype"]], begin + first, end - first)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise damaged from None
    return locations


def duplicate_name(name: str, number: int) -> str:
    """Name the copy of a tensor in a graph."""
    return f"{name}{DUPLICATE_SEPARATOR}{number}"


def original_name(name: str) -> str:
    """Return the name that a tensor of a graph has in the weights file."""
    return name.partition(DUPLICATE_SEPARATOR)[0]


def check_graph(folder: Path) -> None:
    """Refuse a graph that reads anything but the tensors of the folder's own weights."""
    path, locations = folder / GRAPH, read_tensor_locations(folder / WEIGHTS)
    try:
        external = list(_iter_external_tensors(path.read_bytes()))
    except OSError as error:
        raise UnireError(f"{str(path)!r} cannot be read: {error.strerror or error}") from None
    except (LookupError, ValueError, TypeError, AttributeError):
        raise UnireError(f"{str(path)!r} is damaged, or not a graph that `unire export` wrote") from None
    for name, dtype, data in external:
        if data.get("location") != WEIGHTS:
            raise UnireError(f"{str(path)!r} wants to read {data.get('location')!r}; it is not used")
        location = locations.get(original_name(name))
        if location is None or data != _external_data(location) or dtype != location.dtype:
            raise UnireError(
                f"{GRAPH} and {WEIGHTS} of {str(folder)!r} do not belong together (tensor {name!r}); "
                "export the model again"
            )


def _external_data(location: TensorLocation) -> dict[str, str]:
    return {"location": WEIGHTS, "offset": str(location.start), "length": str(location.length)}


# The parser reads only the ONNX messages that lead to tensors. The field numbers are those of onnx.proto.

MODEL_GRAPH, MODEL_TRAINING, MODEL_FUNCTIONS = 7, 20, 25
GRAPH_NODE, GRAPH_INITIALIZER, GRAPH_SPARSE = 1, 5, 15
NODE_ATTRIBUTE = 5
ATTRIBUTE_TENSOR, ATTRIBUTES_WITH_MORE = 5, {6, 10, 11, 22, 23}
TENSOR_DTYPE, TENSOR_NAME, TENSOR_EXTERNAL, TENSOR_LOCATION = 2, 8, 13, 14


def _iter_external_tensors(model: bytes) -> Iterator[tuple[str, int, dict[str, str]]]:
    """Yield name, dtype and location of each external tensor; whatever could hide another one is an error."""
    names: set[str] = set()
    for number, graph in _fields(model):
        if number in (MODEL_TRAINING, MODEL_FUNCTIONS):
            raise ValueError("training or functions in a graph")
        if number != MODEL_GRAPH:
            continue
        for part, value in _fields(graph):
            if part == GRAPH_SPARSE:
                raise ValueError("sparse tensor")
            if part == GRAPH_INITIALIZER:
                tensor = _parse_tensor(value)
                if tensor[TENSOR_NAME] in names:
                    raise ValueError("two tensors of one name")
                names.add(tensor[TENSOR_NAME])
                if tensor[TENSOR_EXTERNAL]:
                    yield tensor[TENSOR_NAME], tensor[TENSOR_DTYPE], tensor[TENSOR_EXTERNAL]
            elif part == GRAPH_NODE:
                _check_node(value)


def _check_node(node: bytes) -> None:
    """Refuse nodes with sub-graphs or external tensors."""
    for number, attribute in _fields(node):
        if number != NODE_ATTRIBUTE:
            continue
        for part, value in _fields(attribute):
            if part in ATTRIBUTES_WITH_MORE or (part == ATTRIBUTE_TENSOR and _parse_tensor(value)[TENSOR_EXTERNAL]):
                raise ValueError("a node with a graph, or with a tensor outside")


def _parse_tensor(message: bytes) -> Mapping[int, Any]:
    fields: dict[int, Any] = {TENSOR_DTYPE: 0, TENSOR_NAME: "", TENSOR_EXTERNAL: {}}
    for number, value in _fields(message):
        if number == TENSOR_EXTERNAL:
            entry = dict(_fields(value))
            key = entry[1].decode()
            if key in fields[number]:
                raise ValueError("a tensor in two locations")
            fields[number][key] = entry[2].decode()
        elif number == TENSOR_NAME:
            fields[number] = value.decode()
        elif number in (TENSOR_DTYPE, TENSOR_LOCATION):
            fields[number] = value
    if fields.get(TENSOR_LOCATION) and not fields[TENSOR_EXTERNAL]:
        raise ValueError("a tensor that is nowhere")
    return fields


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each field of a protocol-buffer message."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, position = _varint(message, position)
            yield number, value
            continue
        if wire == 2:
            length, position = _varint(message, position)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise ValueError("no protocol buffer")
        if position + length > len(message):
            raise ValueError("cut short")
        yield number, message[position : position + length]
        position += length


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("no number")
