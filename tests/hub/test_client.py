"""The Hugging Face Hub, by its own client: only the wire is made up."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import constants
from typer.testing import CliRunner

import unire
from helpers.fake_hub import NAME, FakeHub, http, sha256
from unire import Extractor, UniRE, UnireError, push_to_hub
from unire.cli.main import app
from unire.config import ModelConfig
from unire.hub.model_dir import COREFERENCE, locate_model
from unire.hub.model_dir import FILES as ALL_FILES
from unire.models.encoder import digest_weights, load_encoder, load_tokenizer

FILES = tuple(file for file in ALL_FILES if file != COREFERENCE)
"""Those of a model without coreference."""


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    from huggingface_hub.utils import close_session, set_client_factory  # not in the versions before 1.0

    fake = FakeHub()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # large files by HTTP, which can be made up
    monkeypatch.setenv("HF_TOKEN", "hf_made_up")
    set_client_factory(lambda: http.Client(transport=http.MockTransport(fake), follow_redirects=True))
    yield fake
    close_session()
    set_client_factory(huggingface_hub.utils._http.default_client_factory)


def test_a_model_that_is_pushed_is_found_again(hub: FakeHub, exported: Path):
    address = push_to_hub(exported, NAME, private=True, about={"language": "en", "datasets": ["somebody/scierc"]})
    assert address.endswith(NAME)
    assert hub.private == {NAME: True}
    assert set(hub.repositories[NAME]) == set(FILES)
    assert len(hub.commits) == 1
    text = "We present a parser for dialogue."
    assert Extractor.load(NAME).extract(text) == Extractor.load(exported).extract(text)
    assert (locate_model(NAME) / "model.safetensors").read_bytes() == (exported / "model.safetensors").read_bytes()
    # its metadata were pushed too, and the folder that was pushed is as it was
    assert ModelConfig.load(locate_model(NAME)).provenance["language"] == "en"
    assert "language" not in ModelConfig.load(exported).provenance
    assert f'Extractor.load("{NAME}")' in (locate_model(NAME) / "README.md").read_text(encoding="utf-8")


def test_a_model_in_pytorch_is_pushed_and_found_too(hub: FakeHub, unexported: Path):
    model = UniRE.from_pretrained(unexported)
    model.push_to_hub(NAME)
    assert "model.onnx" not in hub.repositories[NAME]
    found = UniRE.from_pretrained(NAME)
    assert all((found.state_dict()[name] == tensor).all() for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("part", [None, 50_000])
def test_a_model_whose_weights_are_large_files_is_pushed_and_found(hub: FakeHub, exported: Path, part: int | None):
    hub.large, hub.part = 10_000, part
    large = {file: (exported / file).read_bytes() for file in FILES if (exported / file).stat().st_size >= hub.large}
    assert large.keys() == {"model.safetensors", "model.onnx"}
    push_to_hub(exported, NAME)
    assert hub.storage == {sha256(content): content for content in large.values()}
    (lines,) = hub.commits
    assert {line["value"]["path"] for line in lines if line["key"] == "lfsFile"} == large.keys()
    text = "We present a parser for dialogue."
    assert Extractor.load(NAME).extract(text) == Extractor.load(exported).extract(text)
    assert {sha256(content) for content in large.values()} <= set(hub.brought)
    assert (locate_model(NAME) / "model.safetensors").read_bytes() == large["model.safetensors"]
    # the storage has them: a second push sends nothing again
    sent = len(hub.stored)
    assert sent == (len(large) if part is None else sum(-(-len(content) // part) for content in large.values()))
    push_to_hub(exported, NAME, about={"language": "en"})
    assert len(hub.stored) == sent
    assert ModelConfig.load(locate_model(NAME)).provenance["language"] == "en"


def test_a_large_file_that_is_refused_is_named_and_nothing_is_committed(hub: FakeHub, exported: Path):
    hub.large, hub.storage_refuses = 10_000, 403
    with pytest.raises(UnireError, match=r"Error while uploading 'model\.\w+' to the Hub\. .*403") as caught:
        push_to_hub(exported, NAME)
    assert "\n" not in str(caught.value)
    assert hub.commits == []


def test_weights_that_are_damaged_on_their_way_are_not_taken(hub: FakeHub, exported: Path):
    hub.large = 10_000
    push_to_hub(exported, NAME)
    for name, content in hub.storage.items():
        hub.storage[name] = content[:-1]
    with pytest.raises(UnireError, match="the Hub cannot be used for 'somebody/tiny'") as caught:
        locate_model(NAME)
    assert "\n" not in str(caught.value)


def test_only_the_files_of_a_model_are_downloaded_and_each_once(hub: FakeHub, exported: Path):
    push_to_hub(exported, NAME)
    hub.repositories[NAME] |= {"modeling.py": b"print('run me')", "data/README.md": b"more", "pytorch_model.bin": b"x"}
    folder = locate_model(NAME)
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    locate_model(NAME)
    assert sorted(hub.brought) == sorted(FILES)
    hub.down = True  # what is here is used where there is no network
    assert locate_model(NAME) == folder


def test_a_foreign_model_is_refused_before_its_weights_are_downloaded(hub: FakeHub):
    hub.repositories[NAME] = {"config.json": b'{"model_type": "bert"}', "model.safetensors": b"x" * 100}
    with pytest.raises(UnireError, match="it is not a unire model"):
        Extractor.load(NAME)
    assert hub.brought == ["config.json"]


def test_a_revision_can_be_named(hub: FakeHub, exported: Path):
    push_to_hub(exported, NAME)
    assert locate_model(f"{NAME}@{hub.commit(NAME)}") == locate_model(NAME)
    with pytest.raises(UnireError, match="the Hub has no such revision"):
        locate_model(f"{NAME}@nothing")
    with pytest.raises(UnireError, match="the Hub has no"):
        locate_model(f"{NAME}@refs/pr/1")


def test_a_second_push_leaves_nothing_of_the_first(hub: FakeHub, exported: Path, unexported: Path):
    push_to_hub(exported, NAME)
    hub.repositories[NAME]["figure.png"] = b"mine"
    push_to_hub(unexported, NAME)
    assert "model.onnx" not in hub.repositories[NAME]
    assert hub.repositories[NAME]["figure.png"] == b"mine"
    assert Extractor.load(NAME, device="cpu").extract("We present a parser.").entities is not None


def test_a_model_is_published_by_the_command_and_from_python(hub: FakeHub, exported: Path, unexported: Path):
    options = ["--licence", "mit", "--language", "en", "--dataset", "somebody/data", "--private"]
    ran = CliRunner().invoke(app, ["push", str(exported), NAME, *options], catch_exceptions=False)
    assert ran.stdout.strip().endswith(NAME)
    assert hub.private[NAME]
    for publish in (
        lambda: unire.push_to_hub(unexported, NAME, about={"licence": "mit", "language": "en"}),
        lambda: UniRE.from_pretrained(unexported).push_to_hub(NAME),
    ):
        hub.repositories.clear()
        publish()
        assert hub.repositories[NAME]["model.safetensors"]


def test_the_command_prints_the_address(hub: FakeHub, exported: Path):
    options = ["--licence", "Apache 2.0", "--language", "en", "--dataset", "somebody/scierc", "--base", "some/bert"]
    ran = CliRunner().invoke(app, ["push", str(exported), NAME, *options, "--json"], catch_exceptions=False)
    assert json.loads(ran.stdout)["address"].endswith(NAME)
    (metadata,) = hub.metadata  # the Hub's own check, which the client asks for before it commits
    assert metadata["license"] == "apache-2.0"
    assert metadata["language"] == "en"
    assert metadata["datasets"] == ["somebody/scierc"]
    assert metadata["base_model"] == "some/bert"
    ran = CliRunner().invoke(app, ["push", str(exported), NAME], catch_exceptions=False)
    assert ran.stdout.strip().endswith(NAME)


@pytest.mark.parametrize(
    ("options", "licence", "base"),
    [
        ([], "mit", "mit"),  # those of the folder
        (["--licence", "apache-2.0"], "apache-2.0", "mit"),
        (["--licence", "apache-2.0", "--base-licence", "cc-by-4.0"], "apache-2.0", "cc-by-4.0"),
    ],
)
def test_the_licence_of_a_model_is_not_that_of_its_base(hub: FakeHub, exported: Path, options, licence, base):
    CliRunner().invoke(app, ["push", str(exported), NAME, *options], catch_exceptions=False)
    (metadata,) = hub.metadata
    assert metadata["license"] == licence
    assert f"| licence of the base checkpoint | {base} |" in hub.repositories[NAME]["README.md"].decode()


@pytest.mark.parametrize(
    ("act", "status", "sentence"),
    [
        (Extractor.load, None, "there is no model folder 'somebody/tiny'; the Hub has no 'somebody/tiny', or it"),
        (Extractor.load, 503, "the Hub cannot be used for 'somebody/tiny'"),
        (lambda name: push_to_hub("science", name), 403, "you may not write there"),
        (lambda name: push_to_hub("science", "not a name"), None, "'not a name' is not a name on the Hub"),
        (lambda name: push_to_hub("nowhere", name), None, "there is no model folder 'nowhere'"),
    ],
)
def test_every_error_of_the_hub_is_one_sentence(hub: FakeHub, act: Any, status: int | None, sentence: str):
    hub.refuses = status
    with pytest.raises(UnireError, match=re.escape(sentence)) as caught:
        act(NAME)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("act", [Extractor.load, lambda name: push_to_hub("science", name)])
def test_no_network_is_one_sentence(hub: FakeHub, act: Any):
    hub.down = True
    with pytest.raises(UnireError, match="the Hub cannot be used for 'somebody/tiny'") as caught:
        act(NAME)
    assert "\n" not in str(caught.value)
    assert str(caught.value).count("no route to host") == 1


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long somebody would have slept, each time."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    return slept


def test_an_encoder_is_not_waited_for_where_the_hub_cannot_be_reached(hub: FakeHub, naps: list[float]):
    hub.down = True
    with pytest.raises(UnireError, match=r"^encoder 'somebody/tiny' cannot be loaded; .*\(We couldn't conn") as caught:
        load_encoder(NAME)
    assert "\n" not in str(caught.value)
    assert hub.asked == 3  # for a name may be unknown for a moment
    assert sum(naps) == 3


def test_a_hub_of_which_nothing_is_heard_is_asked_once(hub: FakeHub, naps: list[float]):
    hub.silent = True
    with pytest.raises(UnireError, match="cannot be loaded"):
        load_encoder(NAME)
    assert hub.asked == 1
    assert not sum(naps)


def test_an_encoder_that_was_brought_before_needs_no_hub(hub: FakeHub, encoder: Path, naps: list[float]):
    hub.repositories[NAME] = {file.name: file.read_bytes() for file in encoder.iterdir()}
    found, _, _ = load_encoder(NAME)
    assert digest_weights(found) == digest_weights(load_encoder(encoder)[0])
    assert load_tokenizer(NAME).mask_token == "[MASK]"
    hub.down, hub.asked = True, 0
    again, _, _ = load_encoder(NAME)
    assert digest_weights(again) == digest_weights(found)
    assert load_tokenizer(NAME).mask_token == "[MASK]"
    assert hub.asked == 2
    assert not sum(naps)


def test_errors_of_a_slow_hub_or_a_missing_encoder_come_from_its_client(hub: FakeHub, naps: list[float]):
    hub.slow = True
    with pytest.raises(UnireError, match="We couldn't connect"):
        load_encoder(NAME)
    assert sum(naps) > 20
    hub.slow = False
    with pytest.raises(UnireError, match="is not a local folder and is not a valid model identifier"):
        load_encoder("somebody/nothing")
    for name in ("not a name", "no/such/folder"):
        with pytest.raises(UnireError, match="Repo id must"):
            load_encoder(name)


def test_an_incomplete_model_is_not_pushed(hub: FakeHub, exported: Path, tmp_path: Path):
    for name in ("config.json", "labels.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((exported / name).read_bytes())
    with pytest.raises(UnireError, match=r"has no model.safetensors"):
        push_to_hub(tmp_path, NAME)
    assert not hub.repositories
