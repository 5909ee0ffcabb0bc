"""What `check_graph` refuses: fields that readers of protocol buffers understand differently, and foreign operators."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from unire.errors import UnireError
from unire.inference.onnx_check import check_graph

GRAPH_FIELD, BYTES = 7, 2
"""The number of `graph` in a ModelProto, and the encoding of messages."""


@pytest.fixture
def copy(exported: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(exported, tmp_path / "copy"))


def load(folder: Path) -> onnx.ModelProto:
    return onnx.load(folder / "model.onnx", load_external_data=False)


def varint(number: int, length: int = 0) -> bytes:
    """A number in the encoding of protocol buffers, with superfluous bytes up to a length."""
    parts = []
    while number >= 128 or len(parts) + 1 < length:
        parts.append(number % 128 + 128)
        number //= 128
    return bytes([*parts, number])


def with_loop() -> bytes:
    """A graph with a node that has a graph of its own."""
    node = onnx.helper.make_node("Loop", ["n", "go"], ["x"], body=onnx.GraphProto(name="body"))
    return onnx.GraphProto(node=[node]).SerializeToString()


def with_secret() -> bytes:
    """A graph with a tensor that is stored in another file."""
    tensor = onnx.TensorProto(name="x", data_type=1, dims=[1], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="../secret")
    return onnx.GraphProto(initializer=[tensor]).SerializeToString()


TAG = GRAPH_FIELD << 3 | BYTES


@pytest.mark.parametrize("part", [with_loop, with_secret])
@pytest.mark.parametrize(
    "tag",
    [varint(TAG + 2**32), varint(TAG + 2**35), varint(TAG, 5), varint(TAG, 10)],
    ids=["2**32", "2**35", "5 bytes", "10 bytes"],
)
def test_a_field_cannot_be_hidden_by_an_overlong_number(copy: Path, tag: bytes, part: Callable[[], bytes]):
    path, hidden = copy / "model.onnx", part()
    path.write_bytes(path.read_bytes() + tag + varint(len(hidden)) + hidden)
    with pytest.raises(UnireError, match="not written by `unire export`"):
        check_graph(copy)


@pytest.mark.parametrize(
    "extra",
    [
        varint(TAG) + varint(0, 9),  # an overlong length
        varint(999 << 3 | BYTES) + varint(0),  # an unknown field
        varint(0 << 3 | BYTES) + varint(0),  # no field has number 0
        varint(999 << 3 | 3) + varint(999 << 3 | 4),  # a group
        varint(999 << 3 | 6),  # an unknown encoding
    ],
    ids=["length", "unknown field", "field 0", "group", "encoding"],
)
def test_unknown_fields_in_the_graph_are_refused(copy: Path, extra: bytes):
    path = copy / "model.onnx"
    path.write_bytes(path.read_bytes() + extra)
    with pytest.raises(UnireError, match="not written by `unire export`"):
        check_graph(copy)


@pytest.mark.parametrize(
    ("domain", "name"), [("", "Loop"), ("", "Foreign"), ("com.microsoft", "Foreign"), ("a", "Add")]
)
def test_only_operators_of_exports_are_allowed(copy: Path, domain: str, name: str):
    model = load(copy)
    check_graph(copy)
    model.graph.node[0].op_type, model.graph.node[0].domain = name, domain
    (copy / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(UnireError, match=f"not written by `unire export`.*{name}"):
        check_graph(copy)


def test_settings_of_onnxruntime_in_the_graph_are_refused(copy: Path):
    model = load(copy)
    model.metadata_props.add(key="ort_config", value='{"session_options": {}}')
    (copy / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(UnireError, match="not written by `unire export`"):
        check_graph(copy)


def test_a_tensor_larger_than_its_bytes_is_refused(copy: Path):
    model = load(copy)
    stored = next(tensor for tensor in model.graph.initializer if tensor.external_data)
    stored.dims[0] = 2**40
    (copy / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(UnireError):
        check_graph(copy)
