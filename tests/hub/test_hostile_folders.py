"""Model folders of strangers: whatever is in their files, loading and using them ends in one sentence, and soon."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

from unire import Extractor
from unire.errors import UnireError
from unire.labels import LabelSpace
from unire.windows.tokenizer import WordTokenizer


@pytest.fixture
def copy(exported: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(exported, tmp_path / "copy"))


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def edit_encoder(folder: Path, **changes: Any) -> None:
    edit(folder / "config.json", lambda config: config["encoder"].update(changes))


def edit_graph(folder: Path, change: Callable[[onnx.ModelProto], Any]) -> None:
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    change(model)
    (folder / "model.onnx").write_bytes(model.SerializeToString())


def put(name: str, text: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_text(text)


def make_pipe(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return change


def multiply_words(folder: Path) -> None:
    """Replace every letter by two, thirty times."""
    steps = [{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}] * 30
    edit(folder / "tokenizer.json", lambda data: data.update(normalizer={"type": "Sequence", "normalizers": steps}))


def double_output(model: onnx.ModelProto) -> None:
    model.graph.output.append(model.graph.output[0])


def remove_output(model: onnx.ModelProto) -> None:
    del model.graph.output[:]


FAULTS: dict[str, Callable[[Path], Any]] = {
    "deep config": put("config.json", "[" * 100_000),
    "deep labels": put("labels.json", '{"a":' * 100_000),
    "deep but valid": put("config.json", "[" * 900 + "]" * 900),
    "infinite number": lambda folder: (folder / "config.json").write_text(
        (folder / "config.json").read_text().replace("{", '{"alpha": 1e400, ', 1)
    ),
    "huge id": lambda folder: edit(folder / "config.json", lambda config: config["spec"].update(pad_id=10**30)),
    "huge head": lambda folder: edit(folder / "config.json", lambda config: config["head"].update(d=10**9)),
    "a million layers": lambda folder: edit_encoder(folder, num_hidden_layers=10**6),
    "100,000 labels": lambda folder: edit(
        folder / "labels.json", lambda labels: labels.update(entity_types=[f"T{i}" for i in range(100_000)])
    ),
    "control characters": lambda folder: edit(
        folder / "labels.json", lambda labels: labels["entity_types"].append("\x1b[2J\x07")
    ),
    "pipe as configuration": make_pipe("config.json"),
    "pipe as labels": make_pipe("labels.json"),
    "pipe as tokenizer": make_pipe("tokenizer.json"),
    "pipe as weights": make_pipe("model.safetensors"),
    "pipe as graph": make_pipe("model.onnx"),
    "normalizer": multiply_words,
    "two outputs": lambda folder: edit_graph(folder, double_output),
    "no output": lambda folder: edit_graph(folder, remove_output),
    "other output": lambda folder: edit_graph(folder, lambda model: setattr(model.graph.output[0], "name", "\x1b[31m")),
}


def use(folder: Path) -> None:
    """Load a model in both engines, and extract."""
    for engine in ("onnx", "torch"):
        Extractor.load(folder, engine=engine).extract("A text with a word.")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_hostile_folder_ends_in_one_sentence_and_soon(copy: Path, fault: str, capfd: pytest.CaptureFixture[str]):
    FAULTS[fault](copy)
    began = time.monotonic()
    with pytest.raises(UnireError) as caught:
        use(copy)
    assert time.monotonic() - began < 5
    assert str(caught.value).isprintable()
    assert "\x1b" not in "".join(capfd.readouterr())  # onnxruntime has a log of its own


def test_a_large_label_space_takes_linear_time():
    names = [f"type {i}" for i in range(4000)]
    began = time.monotonic()
    labels = LabelSpace(names, ())
    assert [labels.entity_id(name) for name in names] == sorted(labels.entity_id(name) for name in names)
    with pytest.raises(UnireError, match="at most"):
        LabelSpace([f"type {i}" for i in range(100_000)], ())
    assert time.monotonic() - began < 1


def test_a_panic_of_the_tokenizer_is_an_error(exported: Path, monkeypatch: pytest.MonkeyPatch):
    class PanicException(BaseException):
        pass

    class Panics:
        def __init__(self, tokenizer: Any) -> None:
            self.tokenizer = tokenizer

        def __getattr__(self, name: str) -> Any:
            return getattr(self.tokenizer, name)

        def encode_batch(self, *_: Any, **__: Any) -> Any:
            raise PanicException("index out of bounds")

        encode_batch_fast = encode_batch

    extractor = Extractor.load(exported)
    words = next(value for value in vars(extractor.window_builder).values() if isinstance(value, WordTokenizer))
    monkeypatch.setattr(words, "_tokenizer", Panics(words._tokenizer))
    with pytest.raises(UnireError, match="index out of bounds"):
        extractor.extract("A neverbeforeseen word.")
