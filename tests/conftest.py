"""What tests share: small annotated data, and tiny random encoders that know its words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tiny import tiny_encoder
from unire import formats
from unire.documents import Document
from unire.extractor import Extractor
from unire.labels import LabelSpace

pytest_plugins = ["browsing", "serving"]

FIXTURES = Path(__file__).parent / "fixtures"


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
def random_model(encoder: Path, scierc_labels: LabelSpace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with random weights, which finds something everywhere."""
    import torch

    from unire.training import TrainingConfig
    from unire.training.new_model import new_model

    torch.manual_seed(0)
    model = new_model(str(encoder), scierc_labels, TrainingConfig(max_table=64, alpha=0.5))
    torch.nn.init.normal_(model.biaffine.U, std=0.05)
    out = tmp_path_factory.mktemp("models") / "random"
    model.save_pretrained(out)
    return out


@pytest.fixture(scope="session")
def found(random_model: Path, twenty: list[Document]) -> list[Document]:
    """What it finds in the twenty sentences."""
    return list(Extractor.load(random_model, device="cpu").annotate(twenty))


@pytest.fixture(scope="session")
def unexported(encoder: Path, scierc_labels: LabelSpace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model that reads shared windows and tables of any size."""
    import torch

    from unire.training import TrainingConfig
    from unire.training.new_model import new_model

    torch.manual_seed(0)
    model = new_model(str(encoder), scierc_labels, TrainingConfig(layout="shared", alpha=0.5), ["twenty.jsonl"])
    torch.nn.init.normal_(model.biaffine.U, std=0.1)
    out = tmp_path_factory.mktemp("models") / "unexported"
    model.save_pretrained(out)
    return out


@pytest.fixture(scope="session")
def exported(unexported: Path, twenty: list[Document]) -> Path:
    """The same in eight bits, for both engines."""
    from unire.exporting.export import export

    out = unexported.with_name("exported")
    export(unexported, out, test=twenty, about={"base": "someone/tiny-bert", "licence": "mit", "rebuild": "make it"})
    return out


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The real data sets, where there are any."""
    folder = os.environ.get("UNIRE_DATA")
    if not folder:
        pytest.skip("set UNIRE_DATA to the folder of the data sets to run this")
    return Path(folder)
