"""The engine without torch: what it computes, which engine is chosen, and what it refuses to read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from functools import reduce
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from unire import Document, Extractor
from unire.errors import UnireError
from unire.hub.model_dir import ModelDir
from unire.inference import engine as engine_module
from unire.inference import onnx_engine
from unire.inference.engine import choose_engine
from unire.inference.onnx_check import check_graph
from unire.inference.onnx_engine import OnnxEngine
from unire.model_files import read_tensor_locations
from unire.windows.collator import collate


@pytest.fixture(scope="module")
def extractor(exported) -> Extractor:
    return Extractor.load(exported, engine="onnx")


@pytest.fixture
def copy(exported, tmp_path) -> Path:
    return Path(shutil.copytree(exported, tmp_path / "copy"))


def groups(extractor: Extractor, documents):
    return [group for i, document in enumerate(documents) for group in extractor.window_builder.build([document], i)]


# What it computes


def test_tables_do_not_depend_on_what_else_is_in_the_batch(extractor, twenty):
    spec = extractor.config.spec
    some = groups(extractor, twenty)
    batch = collate(some, spec)
    together = extractor.engine.predict_tables(batch)
    assert together.dtype == np.float32
    position = 0
    for group in some:
        alone = extractor.engine.predict_tables(collate([group], spec))
        for table, n in zip(alone, map(len, group.table_spans), strict=True):
            assert np.abs(together[position, :n, :n] - table[:n, :n]).max() < 1e-4
            assert np.allclose(table[:n, :n].sum(-1), 1, atol=1e-5)
            position += 1


def test_padding_of_whole_windows_and_tables_changes_nothing(extractor, twenty):
    some = groups(extractor, twenty[:5])
    plain, padded = (collate(some, extractor.config.spec, padding=what) for what in ("exact", "fixed"))
    P, Q = extractor.engine.predict_tables(plain), extractor.engine.predict_tables(padded)
    assert Q.shape[:3] == (*padded.words.shape, padded.words.shape[1])
    for p, q, n in zip(P, Q, plain.lengths, strict=False):
        assert np.abs(p[:n, :n] - q[:n, :n]).max() < 1e-4


def test_a_table_that_is_read_off_several_windows_keeps_them_together(extractor, twenty):
    words = [word for document in twenty for word in document.words]
    long = Document.from_words([words[:300], words[:5]])
    batch = collate(groups(extractor, [long, twenty[0]]), extractor.config.spec)
    parts = onnx_engine._plan_runs(batch)
    assert len(batch.input_ids) > 3
    assert parts[0].windows.stop - parts[0].windows.start > 2
    assert sum(part.tables.stop - part.tables.start for part in parts) == len(batch.words)
    torch_tables = Extractor.load(extractor_folder(extractor), engine="torch", device="cpu").engine.predict_tables(
        batch
    )
    for p, q, n in zip(extractor.engine.predict_tables(batch), torch_tables, batch.lengths, strict=True):
        assert np.abs(p[:n, :n] - q[:n, :n].numpy()).mean() < 0.02


def extractor_folder(extractor: Extractor) -> Path:
    return Path(extractor.engine._session._model_path).parent


def test_short_windows_share_a_run_and_long_ones_do_not(extractor, twenty):
    short = collate(groups(extractor, [Document.from_words([["a"]])] * 50), extractor.config.spec)
    assert [part.tokens for part in onnx_engine._plan_runs(short)] == [150]
    long = collate(groups(extractor, [Document.from_words([100 * ["a"]])] * 4), extractor.config.spec)
    assert len(onnx_engine._plan_runs(long)) == 2


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=8))
def test_a_batch_is_split_into_the_cheapest_runs(extractor, lengths):
    documents = [Document.from_words([n * ["a"]]) for n in sorted(lengths, reverse=True)]
    batch = collate(groups(extractor, documents), extractor.config.spec)
    parts = list(onnx_engine._smallest_runs(batch))

    def all_runs(parts):
        for end in range(1, len(parts) + 1):
            first = reduce(onnx_engine._Run.join, parts[:end])
            if end == 1 or first.tokens <= onnx_engine.MAX_RUN_TOKENS:
                for others in all_runs(parts[end:]) if parts[end:] else [[]]:
                    yield [first, *others]

    def cost(runs):
        return sum(run.cost for run in runs)

    runs = onnx_engine._plan_runs(batch)
    assert runs in list(all_runs(parts))
    assert cost(runs) == pytest.approx(min(map(cost, all_runs(parts))))


def test_four_threads_find_what_one_finds(extractor, twenty):
    expected = list(extractor.annotate(twenty))
    assert any(document.relations for document in expected)
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(lambda _: list(extractor.annotate(twenty)), range(4)):
            assert found == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_goes_on_with_threads_of_its_own(exported):
    program = f"""
import os
from unire import Extractor
extractor = Extractor.load({str(exported)!r}, device="cpu")
before = extractor.extract("a b c").to_dict()
child = os.fork()
if not child:
    os._exit(0 if extractor.extract("a b c").to_dict() == before else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def test_a_cancelled_batch_is_not_computed(extractor, twenty):
    batch = next(extractor.build_batches(twenty))
    held = threading.Event()
    busy = [extractor.engine._pool.submit(held.wait, 10) for _ in range(extractor.engine._threads)]
    started = extractor.engine.start(batch)
    started.cancel()
    held.set()
    with pytest.raises(CancelledError):
        started.result()
    assert all(one.result() for one in busy)
    assert extractor.engine.predict_tables(batch).shape[0] == len(batch.table_spans)


def test_the_onnx_engine_imports_no_torch(exported, twenty):
    code = f"""
import sys
for name in ("accelerate", "onnx", "onnxscript", "safetensors", "torch", "transformers"):
    sys.modules[name] = None
from unire import Extractor
document = Extractor.load({str(exported)!r}).extract_words([{list(twenty[0].words)!r}])
print(len(document.entities))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 0


def test_a_folder_of_links_as_in_the_hub_cache_is_read(exported, twenty, tmp_path):
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "main"
    shutil.copytree(exported, blobs)
    snapshot.mkdir(parents=True)
    for number, file in enumerate(sorted(blobs.iterdir())):
        file.rename(blobs / str(number))
        (snapshot / file.name).symlink_to(Path("../../blobs") / str(number))
    found = Extractor.load(snapshot, engine="onnx").extract_words([twenty[0].words])
    assert found == Extractor.load(exported, engine="onnx").extract_words([twenty[0].words])


def test_products_are_guarded_against_overflow_only_where_they_overflow(exported, twenty, extractor, monkeypatch):
    exact = onnx_engine._products_are_exact()
    guarded = []
    for answer in (True, False):
        monkeypatch.setattr(onnx_engine, "_products_are_exact", lambda answer=answer: answer)
        engine = OnnxEngine(exported, threads=1)
        with suppress(RuntimeError):
            guarded.append(engine._session.get_session_options().get_session_config_entry("session.x64quantprecision"))
        if exact:  # then the guard changes nothing
            batch = collate(groups(extractor, twenty[:2]), extractor.config.spec)
            assert np.abs(engine.predict_tables(batch) - extractor.engine.predict_tables(batch)).max() < 1e-4
    assert guarded == ["1"]


def test_an_overflow_is_noticed(monkeypatch):
    class Overflowing:
        def __init__(self, graph: bytes, **_: object) -> None:
            onnx.checker.check_model(graph)
            node, weight = onnx.load_from_string(graph).graph.node[0], onnx.load_from_string(graph).graph.initializer[0]
            assert node.op_type == "MatMulInteger"
            assert (onnx.numpy_helper.to_array(weight) == np.full((4, 1), 127, np.int8)).all()

        def run(self, _: None, given: dict[str, np.ndarray]) -> list[np.ndarray]:
            return [np.full((2, 1), 2 * np.iinfo(np.int16).max)]  # sums of two products that end at 32,767

    monkeypatch.setattr("onnxruntime.InferenceSession", Overflowing)
    assert not onnx_engine._products_are_exact.__wrapped__()


# Which engine


def test_an_exported_model_runs_in_onnxruntime_and_any_other_in_torch(exported, unexported, monkeypatch):
    one, other = ModelDir.open(exported), ModelDir.open(unexported)
    monkeypatch.setattr(engine_module, "GPU_DRIVERS", ())
    assert choose_engine(one) == "onnx"
    assert choose_engine(one, device="cpu") == "onnx"
    assert choose_engine(one, device="cuda") == "torch"
    assert choose_engine(one, "torch") == "torch"
    assert choose_engine(other) == "torch"


def test_a_gpu_is_preferred_where_torch_can_use_it(exported, monkeypatch):
    monkeypatch.setattr(engine_module, "GPU_DRIVERS", ("nothing-of-the-kind.so", None))  # None is this very process
    for available, engine in ((True, "torch"), (False, "onnx")):
        monkeypatch.setattr("torch.cuda.is_available", lambda available=available: available)
        assert choose_engine(ModelDir.open(exported)) == engine


@pytest.mark.parametrize(
    ("which", "options", "message"),
    [
        ("exported", {"engine": "numpy"}, "unknown engine 'numpy'; give onnx or torch"),
        ("exported", {"engine": "onnx", "device": "cuda"}, "use the engine torch"),
        ("unexported", {"engine": "onnx"}, "has no graph for onnxruntime; create one with unire export"),
    ],
)
def test_an_engine_that_cannot_run_is_refused(which, options, message, request):
    with pytest.raises(UnireError, match=message):
        Extractor.load(request.getfixturevalue(which), **options)


@pytest.mark.parametrize("which", ["exported", "unexported"])
def test_without_torch_one_sentence_says_what_to_do(which, request, monkeypatch):
    folder = request.getfixturevalue(which)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UnireError, match=r'needs PyTorch: pip install "unire\[train\]"') as caught:
        Extractor.load(folder, engine="torch")
    assert ("unire export" in str(caught.value)) == (which == "unexported")
    assert str(caught.value).startswith("the engine torch" if which == "exported" else "this model")


def test_without_torch_it_is_the_device_that_needs_it(exported, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UnireError, match=r"^the device 'cuda' needs PyTorch: pip install \"unire\[train\]\"$"):
        Extractor.load(exported, device="cuda")


# What it refuses to read


def test_weights_that_are_cut_short_are_refused(copy):
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(UnireError, match="truncated"):
        Extractor.load(copy, engine="onnx")


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 100, b"\x02" + bytes(7) + b"[]", b"\x10" + bytes(7) + b'{"a": {"b": 1}} ']
)
def test_invalid_weight_files_are_refused(copy, content):
    (copy / "model.safetensors").write_bytes(content)
    with pytest.raises(UnireError, match="not a safetensors file"):
        read_tensor_locations(copy / "model.safetensors")


def test_weights_of_another_model_are_refused(copy, unexported):
    shutil.copy(unexported / "model.safetensors", copy)
    with pytest.raises(UnireError, match="do not match"):
        Extractor.load(copy, engine="onnx")


def test_weights_that_have_moved_in_their_file_are_refused(copy):
    tensors = load_file(copy / "model.safetensors")
    save_file({**tensors, "a": tensors["biaffine.U_scale"].clone()}, copy / "model.safetensors")
    with pytest.raises(UnireError, match="do not match"):
        Extractor.load(copy, engine="onnx")


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "config.json", "./model.safetensors"])
def test_a_graph_that_reads_another_file_is_refused(copy, location):
    graph = onnx.load(copy / "model.onnx", load_external_data=False)
    outside = next(tensor for tensor in graph.graph.initializer if tensor.external_data)
    next(entry for entry in outside.external_data if entry.key == "location").value = location
    (copy / "model.onnx").write_bytes(graph.SerializeToString())
    with pytest.raises(UnireError, match=f"refers to the file '{location}'"):
        Extractor.load(copy, engine="onnx")


def hide_in_constant(model: onnx.ModelProto, outside: onnx.TensorProto) -> None:
    model.graph.node.add(op_type="Constant", output=["x"]).attribute.add(name="value", t=outside)


def hide_in_subgraph(model: onnx.ModelProto, outside: onnx.TensorProto) -> None:
    model.graph.node.add(op_type="If").attribute.add(name="then_branch").g.initializer.append(outside)


def hide_in_sparse(model: onnx.ModelProto, outside: onnx.TensorProto) -> None:
    model.graph.sparse_initializer.add().values.CopyFrom(outside)


def hide_in_function(model: onnx.ModelProto, outside: onnx.TensorProto) -> None:
    model.functions.add(name="f")


def leave_nowhere(model: onnx.ModelProto, outside: onnx.TensorProto) -> None:
    del next(tensor for tensor in model.graph.initializer if tensor.name == outside.name).external_data[:]


def hide_behind_its_like(model: onnx.ModelProto, outside: onnx.TensorProto) -> None:
    next(entry for entry in outside.external_data if entry.key == "location").value = "/etc/passwd"
    model.graph.initializer.insert(0, outside)


def hide_behind_another_place(model: onnx.ModelProto, outside: onnx.TensorProto) -> None:
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == outside.name)
    tensor.external_data.insert(0, onnx.StringStringEntryProto(key="location", value="/etc/passwd"))


@pytest.mark.parametrize(
    "hide",
    [
        hide_in_constant,
        hide_in_subgraph,
        hide_in_sparse,
        hide_in_function,
        leave_nowhere,
        hide_behind_its_like,
        hide_behind_another_place,
    ],
    ids=lambda f: f.__name__,
)
def test_a_graph_with_a_tensor_where_ours_have_none_is_refused(copy, hide):
    model = onnx.load(copy / "model.onnx", load_external_data=False)
    outside = onnx.TensorProto()
    outside.CopyFrom(next(tensor for tensor in model.graph.initializer if tensor.external_data))
    hide(model, outside)
    (copy / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(UnireError, match="not written by `unire export`"):
        check_graph(copy)


@pytest.mark.parametrize("content", [b"\x07", b"\x3a\xff\xff\x03ab", b"\xff" * 20, b"hello, this is text", b"\x38\x01"])
def test_a_file_that_is_no_graph_is_refused(copy, content):
    (copy / "model.onnx").write_bytes(content)
    with pytest.raises(UnireError, match="damaged, or was not written"):
        check_graph(copy)


def test_a_graph_that_onnxruntime_cannot_use_gets_one_sentence(copy):
    model = onnx.load(copy / "model.onnx", load_external_data=False)
    model.graph.node[0].input[0] = "no such thing"
    (copy / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(UnireError, match="onnxruntime cannot use the graph") as caught:
        Extractor.load(copy, engine="onnx")
    assert "\n" not in str(caught.value)


def test_a_graph_that_cannot_be_opened_gets_one_sentence(copy):
    (copy / "model.onnx").unlink()
    (copy / "model.onnx").mkdir()
    with pytest.raises(UnireError, match="cannot be read"):
        check_graph(copy)
