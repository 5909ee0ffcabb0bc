"""What tests share: small annotated data, and tiny random encoders that know its words."""

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
    """Have Ctrl-C do what it does for users: a shell that starts tests in the background has it ignored."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that open a browser."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")


def pytest_collection_finish() -> None:
    """What is imported by now stays, and need not be searched for garbage in every test."""
    gc.collect()
    tune_gc()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Count no lines in tests that are marked so.

    In processes of pytest-xdist pytest-cov has begun to count twice over, and when it stops the later counting, the
    earlier one goes on.
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


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that takes long to make: one of the processes that run the tests makes it, the others wait for it."""
    mine = factory.getbasetemp()
    everybodys = mine.parent if "PYTEST_XDIST_WORKER" in os.environ else mine
    out = everybodys / "made-once" / name
    out.parent.mkdir(exist_ok=True)
    with FileLock(out.with_suffix(".lock")):
        if not out.exists():
            make(out)
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
    """The model in the box, without a GPU."""
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
    """A model with random weights, which finds something everywhere."""
    import torch

    from unire.training.config import TrainingConfig
    from unire.training.initialization import init_model

    torch.manual_seed(0)
    model = init_model(str(encoder), scierc_labels, TrainingConfig(max_table=64, alpha=0.5))
    torch.nn.init.normal_(model.biaffine.U, std=0.05)
    out = tmp_path_factory.mktemp("models") / "random"
    model.save_pretrained(out)
    return out


@pytest.fixture(scope="session")
def random_findings(random_model: Path, twenty: list[Document]) -> list[Document]:
    """What it finds in the twenty sentences."""
    return list(Extractor.load(random_model, device="cpu").annotate(twenty))


@pytest.fixture(scope="session")
def teacher(
    encoder: Path, twenty: list[Document], scierc_labels: LabelSpace, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A tiny model that knows the twenty sentences by heart."""
    from helpers.distillation import quick
    from unire.training.train import train

    def make(out: Path) -> None:
        config = quick(epochs=60, batch_size=10)
        train(encoder, twenty, labels=scierc_labels, config=config, out=out, save_every_minutes=None)

    return made_once(tmp_path_factory, "teacher", make)


@pytest.fixture(scope="session")
def pupil(twenty: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder of another family, with another tokenizer."""
    words = {word for document in twenty for word in document.words}
    return tiny_encoder("roberta", tmp_path_factory.mktemp("pupil") / "roberta", words, seed=5)


@pytest.fixture(scope="session")
def unexported(encoder: Path, scierc_labels: LabelSpace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model that reads shared windows and tables of any size."""
    import torch

    from unire.training.config import TrainingConfig
    from unire.training.initialization import init_model

    torch.manual_seed(0)
    model = init_model(str(encoder), scierc_labels, TrainingConfig(layout="shared", alpha=0.5), ["twenty.jsonl"])
    torch.nn.init.normal_(model.biaffine.U, std=0.1)
    out = tmp_path_factory.mktemp("models") / "unexported"
    model.save_pretrained(out)
    return out


@pytest.fixture(scope="session")
def exported(unexported: Path, twenty: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in eight bits, for both engines."""
    from unire.export.export import export_onnx

    about = {"base": "someone/tiny-bert", "licence": "mit", "rebuild": "make it"}
    return made_once(tmp_path_factory, "exported", lambda out: export_onnx(unexported, out, test=twenty, about=about))


@pytest.fixture(scope="module")
def tensors_as_on_a_gpu() -> Iterator[None]:
    """Leave tensors to torch when tables are decoded, though they lie on the CPU."""
    from unire.decoding import backend

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "NUMPY_DEVICE", None)
        yield


@pytest.fixture
def unrecordable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every recording fails, as a GPU says it; and there need be no GPU to read memory of the host."""
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
    """The real data sets, where there are any."""
    folder = os.environ.get("UNIRE_DATA")
    if not folder:
        pytest.skip("set UNIRE_DATA to the folder of the data sets to run this")
    return Path(folder)
