"""What an ONNX graph reads from beside itself, without the onnx package: places in `model.safetensors`.

A graph may name any file of the machine as the home of its weights. Before onnxruntime is shown one, it is looked
through here: each of its outside tensors must be a tensor of the folder's own weights, of the same kind and place, and
of the same name or of one that is made of it (`again`). So a graph cannot read what is not the model's, and a graph and
weights that do not belong together are noticed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from unire.errors import UnireError
from unire.hub.model_dir import GRAPH, WEIGHTS

__all__ = ["GraphPosition", "again", "check_graph", "in_file", "places_in"]

KINDS = {"F32": 1, "U8": 2, "I8": 3, "I64": 7, "BOOL": 9, "F16": 10}
"""Kinds of numbers as safetensors and as ONNX call them."""


AGAIN = "@"
"""Stands in a graph between the name of a tensor and a number, where the graph has it more than once."""


class GraphPosition(NamedTuple):
    """Where a tensor lies in the file of the weights."""

    kind: int
    start: int
    length: int


def places_in(path: Path) -> dict[str, GraphPosition]:
    """Every tensor of a safetensors file, which is whole."""
    damaged = UnireError(f"{str(path)!r} is missing, cut short or no safetensors file")
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            begin = 8 + int.from_bytes(file.read(8), "little")
            if begin > size:
                raise damaged
            header = json.loads(file.read(begin - 8))
        header.pop("__metadata__", None)
        places = {}
        for name, entry in header.items():
            first, end = entry["data_offsets"]
            if not 0 <= first <= end <= size - begin:
                raise damaged
            places[name] = GraphPosition(KINDS[entry["dtype"]], begin + first, end - first)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise damaged from None
    return places


def again(name: str, number: int) -> str:
    """Another name for a tensor in a graph."""
    return f"{name}{AGAIN}{number}"


def in_file(name: str) -> str:
    """What a tensor of a graph is called in the file of the weights."""
    return name.partition(AGAIN)[0]


def check_graph(folder: Path) -> None:
    """Refuse a graph that asks for anything but the tensors of the folder's own weights."""
    path, places = folder / GRAPH, places_in(folder / WEIGHTS)
    try:
        outside = list(_outside(path.read_bytes()))
    except OSError as error:
        raise UnireError(f"{str(path)!r} cannot be read: {error.strerror or error}") from None
    except (LookupError, ValueError, TypeError, AttributeError):
        raise UnireError(f"{str(path)!r} is damaged, or not a graph that `unire export` wrote") from None
    for name, kind, about in outside:
        if about.get("location") != WEIGHTS:
            raise UnireError(f"{str(path)!r} wants to read {about.get('location')!r}; it is not used")
        place = places.get(in_file(name))
        if place is None or about != _about(place) or kind != place.kind:
            raise UnireError(
                f"{GRAPH} and {WEIGHTS} of {str(folder)!r} do not belong together (tensor {name!r}); "
                "export the model again"
            )


def _about(place: GraphPosition) -> dict[str, str]:
    return {"location": WEIGHTS, "offset": str(place.start), "length": str(place.length)}


# Of ONNX's messages only what leads to a tensor is read. The numbers are those of onnx.proto.

MODEL_GRAPH, MODEL_TRAINING, MODEL_FUNCTIONS = 7, 20, 25
GRAPH_NODE, GRAPH_INITIALIZER, GRAPH_SPARSE = 1, 5, 15
NODE_ATTRIBUTE = 5
ATTRIBUTE_TENSOR, ATTRIBUTES_WITH_MORE = 5, {6, 10, 11, 22, 23}
TENSOR_KIND, TENSOR_NAME, TENSOR_OUTSIDE, TENSOR_LOCATION = 2, 8, 13, 14


def _outside(model: bytes) -> Iterator[tuple[str, int, dict[str, str]]]:
    """Name, kind and place of each tensor that is stored outside; whatever could hide another one is an error."""
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
                tensor = _tensor(value)
                if tensor[TENSOR_NAME] in names:
                    raise ValueError("two tensors of one name")
                names.add(tensor[TENSOR_NAME])
                if tensor[TENSOR_OUTSIDE]:
                    yield tensor[TENSOR_NAME], tensor[TENSOR_KIND], tensor[TENSOR_OUTSIDE]
            elif part == GRAPH_NODE:
                _check_node(value)


def _check_node(node: bytes) -> None:
    """Refuse nodes with graphs of their own, or with tensors outside."""
    for number, attribute in _fields(node):
        if number != NODE_ATTRIBUTE:
            continue
        for part, value in _fields(attribute):
            if part in ATTRIBUTES_WITH_MORE or (part == ATTRIBUTE_TENSOR and _tensor(value)[TENSOR_OUTSIDE]):
                raise ValueError("a node with a graph, or with a tensor outside")


def _tensor(message: bytes) -> Mapping[int, Any]:
    found: dict[int, Any] = {TENSOR_KIND: 0, TENSOR_NAME: "", TENSOR_OUTSIDE: {}}
    for number, value in _fields(message):
        if number == TENSOR_OUTSIDE:
            entry = dict(_fields(value))
            key = entry[1].decode()
            if key in found[number]:
                raise ValueError("a tensor in two places")
            found[number][key] = entry[2].decode()
        elif number == TENSOR_NAME:
            found[number] = value.decode()
        elif number in (TENSOR_KIND, TENSOR_LOCATION):
            found[number] = value
    if found.get(TENSOR_LOCATION) and not found[TENSOR_OUTSIDE]:
        raise ValueError("a tensor that is nowhere")
    return found


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
