"""Shared fixtures: small annotated data, tiny random encoders and models."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from helpers.paths import FIXTURES
from helpers.tiny_encoders import tiny_encoder
from unire import formats
from unire.cli.extract import tune_gc
from unire.documents import Document
from unire.extractor import Extractor
from unire.labels import LabelSpace

pytest_plugins = [f"helpers.{name}" for name in ("browser", "extract", "ray", "server", "spacy", "teachers")]


def pytest_configure() -> None:
    """Restore the handler of Ctrl-C, which shells disable for processes in the background."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that open a browser."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")


def pytest_collection_finish() -> None:
    """Exclude everything that is imported by now from garbage collection, which makes tests faster."""
    gc.collect()
    tune_gc()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Switch off line counting in tests marked `no_cover`.

    In workers of pytest-xdist, pytest-cov starts two tracers and stops only one of them.
    """
    if not item.get_closest_marker("no_cover"):
        return (yield)
    counting = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    try:
        return (yield)
    finally:
        sys.settrace(counting[0])
        threading.settrace(counting[1])  # type: ignore[arg-type]


def build_once(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], object]) -> Path:
    """Build a folder once for all workers of pytest-xdist; the others wait for it."""
    own = factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    out = shared / "built-once" / name
    out.parent.mkdir(exist_ok=True)
    with FileLock(out.with_suffix(".lock")):
        if not out.exists():
            build(out)
    return out


@pytest.fixture(scope="session")
def twenty() -> list[Document]:
    """Twenty annotated sentences with SciERC's labels."""
    return list(formats.read(FIXTURES / "twenty.jsonl"))


@pytest.fixture(scope="session")
def scierc_labels() -> LabelSpace:
    return LabelSpace.load("scierc")


@pytest.fixture(scope="session")
def science() -> Extractor:
    """The bundled model `science`, on the CPU."""
    return Extractor.load("science", device="cpu")


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory, twenty: list[Document]) -> Path:
    """A tiny BERT whose tokenizer knows the words of the twenty sentences."""
    words = {word for document in twenty for word in document.words}
    return tiny_encoder("bert", tmp_path_factory.mktemp("encoder") / "bert", words)


@pytest.fixture(scope="session")
def few(twenty: list[Document]) -> list[Document]:
    """Three documents of nine sentences."""
    return twenty[:3]


@pytest.fixture(scope="session")
def encoders(twenty: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """A tiny encoder of any family."""
    words = {word for document in twenty for word in document.words}
    folder = tmp_path_factory.mktemp("encoders")

    def make(family: str, **more: int) -> str:
        out = folder / "-".join([family, *map(str, more.values())])
        return str(out if out.exists() else tiny_encoder(family, out, words, **more))

    return make


@pytest.fixture(scope="session")
def random_model(encoder: Path, scierc_labels: LabelSpace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with random weights, which predicts many entities and relations."""
    import torch

    from unire.training.config import TrainingConfig
    from unire.training.train import init_model

    torch.manual_seed(0)
    model = init_model(str(encoder), scierc_labels, TrainingConfig(max_table=64, alpha=0.5))
    torch.nn.init.normal_(model.biaffine.U, std=0.05)
    out = tmp_path_factory.mktemp("models") / "random"
    model.save_pretrained(out)
    return out


@pytest.fixture(scope="session")
def random_predictions(random_model: Path, twenty: list[Document]) -> list[Document]:
    """Its predictions on the twenty sentences."""
    return list(Extractor.load(random_model, device="cpu").annotate(twenty))


@pytest.fixture(scope="session")
def teacher(
    encoder: Path, twenty: list[Document], scierc_labels: LabelSpace, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A tiny model, overfitted on the twenty sentences."""
    from helpers.distillation import quick
    from unire.training.train import train

    def make(out: Path) -> None:
        config = quick(epochs=60, batch_size=10)
        train(encoder, twenty, labels=scierc_labels, config=config, out=out, save_every_minutes=None)

    return build_once(tmp_path_factory, "teacher", make)


@pytest.fixture(scope="session")
def student_encoder(twenty: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder of another family, with another tokenizer."""
    words = {word for document in twenty for word in document.words}
    return tiny_encoder("roberta", tmp_path_factory.mktemp("student_encoder") / "roberta", words, seed=5)


@pytest.fixture(scope="session")
def unexported(encoder: Path, scierc_labels: LabelSpace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model with shared windows and tables of any size, as a PyTorch checkpoint."""
    import torch

    from unire.training.config import TrainingConfig
    from unire.training.train import init_model

    torch.manual_seed(0)
    model = init_model(str(encoder), scierc_labels, TrainingConfig(layout="shared", alpha=0.5), ["twenty.jsonl"])
    torch.nn.init.normal_(model.biaffine.U, std=0.1)
    out = tmp_path_factory.mktemp("models") / "unexported"
    model.save_pretrained(out)
    return out


@pytest.fixture(scope="session")
def exported(unexported: Path, twenty: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model in int8, for both engines."""
    from unire.export.export import export_onnx

    about = {"base": "someone/tiny-bert", "licence": "mit", "rebuild": "make it"}
    return build_once(tmp_path_factory, "exported", lambda out: export_onnx(unexported, out, test=twenty, about=about))


@pytest.fixture(scope="module")
def decode_with_torch() -> Iterator[None]:
    """Decode CPU tensors with torch instead of numpy, as on a GPU."""
    from unire.decoding import backend

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "NUMPY_DEVICE", None)
        yield


@pytest.fixture
def failing_graph_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every capture of a CUDA graph fail with the error of a GPU; works without one."""
    import torch

    from unire.models import cuda_graphs

    @contextmanager
    def refuse(graph: object, pool: object, capture_error_mode: str) -> Iterator[None]:
        raise RuntimeError("operation not permitted when stream is capturing")
        yield

    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph", refuse)
    monkeypatch.setattr(cuda_graphs, "pin_tensors", lambda tensors: tensors)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of the real data sets; skips the test if `UNIRE_DATA` is not set."""
    folder = os.environ.get("UNIRE_DATA")
    if not folder:
        pytest.skip("set UNIRE_DATA to the folder of the data sets to run this")
    return Path(folder)
