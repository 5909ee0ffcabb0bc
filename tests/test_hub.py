"""The Hugging Face Hub, by its own client: only the wire is made up."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import yaml
from huggingface_hub import ModelCard, constants
from huggingface_hub.utils import close_session, get_session, set_client_factory
from typer.testing import CliRunner

import unire
from unire import Extractor, LabelSpace, UniRE, UnireError, pretrained, push_to_hub
from unire.card import model_card
from unire.cli.main import app
from unire.folders import FILES, resolve
from unire.settings import Settings

PAGE = (Path(__file__).parents[1] / "docs" / "integrations.md").read_text(encoding="utf-8")
NAME = "somebody/tiny"
STORAGE = "storage.example"
http: Any = sys.modules[type(get_session()).__module__.split(".")[0]]
"""The HTTP library of the client's generation."""


class FakeHub:
    """Answers as the Hub does, out of a dictionary; every answer is to a request that the real client made."""

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool | None] = {}
        self.brought: list[str] = []
        """Files that were downloaded."""
        self.commits: list[list[dict[str, Any]]] = []
        self.metadata: list[dict[str, Any]] = []
        """What the Hub was asked to validate."""
        self.refuses: int | None = None
        self.down = False
        self.large: int | None = None
        """Files of so many bytes do not go into the commit, but into the storage beforehand (Git LFS)."""
        self.part: int | None = None
        """Into the storage, files go in parts of so many bytes."""
        self.storage: dict[str, bytes] = {}
        self.parts: dict[str, bytes] = {}
        self.stored: list[str] = []
        """What the storage was sent."""
        self.storage_refuses: int | None = None

    def __call__(self, request: Any) -> Any:
        if self.down:
            raise http.ConnectError("no route to host", request=request)
        if self.refuses is not None:
            return http.Response(self.refuses, json={"error": "no"}, request=request)
        path = request.url.path
        if request.url.host == STORAGE:
            return self.kept(request)
        if request.method == "POST":
            return self.changed(path, json.loads(request.content) if "commit" not in path else request.content)
        if found := re.fullmatch(r"/([\w-]+/[\w-]+)/resolve/(\w+)/(.+)", path):
            return self.file(request.method, found[1], found[3])
        found = re.match(r"/api/models/([\w-]+/[\w-]+)(?:/(revision|tree)/(\w+))?", path)
        assert found, f"{request.method} {path}"
        if found[1] not in self.repositories:
            return http.Response(404, headers={"X-Error-Code": "RepoNotFound"}, json={"error": "not found"})
        if found[3] not in (None, "main", self.commit(found[1])):
            return http.Response(404, headers={"X-Error-Code": "RevisionNotFound"}, json={"error": "not found"})
        files = self.repositories[found[1]]
        if found[2] == "tree":
            return http.Response(
                200, json=[{"type": "file", "path": f, "size": len(c), "oid": oid(c)} for f, c in files.items()]
            )
        siblings = [{"rfilename": file} for file in files]
        return http.Response(200, json={"id": found[1], "sha": self.commit(found[1]), "siblings": siblings})

    def commit(self, name: str) -> str:
        return oid(b"".join(self.repositories[name].values()))

    def file(self, method: str, name: str, file: str) -> Any:
        content = self.repositories[name][file]
        if self.large is not None and len(content) >= self.large:
            headers = {
                "Location": f"https://{STORAGE}/{sha256(content)}",
                "X-Linked-Etag": f'"{sha256(content)}"',
                "X-Linked-Size": str(len(content)),
                "X-Repo-Commit": self.commit(name),
            }
            return http.Response(302, headers=headers)
        headers = {"ETag": f'"{oid(content)}"', "X-Repo-Commit": self.commit(name), "Content-Length": str(len(content))}
        if method == "GET":
            self.brought.append(file)
        return http.Response(200, headers=headers, content=content if method == "GET" else b"")

    def kept(self, request: Any) -> Any:
        """What the storage answers, which is another host, and none that a token is meant for."""
        assert "authorization" not in request.headers
        name = request.url.path.removeprefix("/")
        if self.storage_refuses is not None:
            return http.Response(self.storage_refuses, request=request)
        if request.method == "GET":
            self.brought.append(name)
            return http.Response(200, content=self.storage[name])
        assert request.method == "PUT"
        content = request.read()
        self.stored.append(name)
        (self.storage if "/" not in name else self.parts)[name] = content
        return http.Response(200, headers={"ETag": f'"{oid(content)}"'})

    def large_files(self, objects: list[dict[str, Any]]) -> Any:
        """Where each of them is to be sent, unless the storage has it."""
        answers = []
        for each in objects:
            upload: dict[str, Any] = {"href": f"https://{STORAGE}/{each['oid']}"}
            if self.part is not None:
                count = -(-each["size"] // self.part)
                upload = {
                    "href": f"{constants.ENDPOINT}/complete",
                    "header": {"chunk_size": str(self.part)}
                    | {f"{i:05}": f"https://{STORAGE}/{each['oid']}/{i}" for i in range(1, count + 1)},
                }
            actions = {"upload": upload, "verify": {"href": f"{constants.ENDPOINT}/verify"}}
            answers.append(dict(each) if each["oid"] in self.storage else {**each, "actions": actions})
        return http.Response(200, json={"transfer": "basic", "objects": answers})

    def changed(self, path: str, body: Any) -> Any:
        if path.endswith("/info/lfs/objects/batch"):
            return self.large_files(body["objects"])
        if path == "/complete":
            numbers = [part["partNumber"] for part in body["parts"]]
            self.storage[body["oid"]] = b"".join(self.parts[f"{body['oid']}/{i}"] for i in numbers)
            return http.Response(200, json={})
        if path == "/verify":
            found = self.storage[body["oid"]]
            return http.Response(200 if (sha256(found), len(found)) == (body["oid"], body["size"]) else 422, json={})
        if path == "/api/repos/create":
            name = f"{body['organization']}/{body['name']}" if body.get("organization") else body["name"]
            self.repositories.setdefault(name, {})
            self.private[name] = body.get("private") or body.get("visibility") == "private"
            return http.Response(200, json={"url": f"{constants.ENDPOINT}/{name}"})
        if path == "/api/validate-yaml":
            self.metadata.append(yaml.safe_load(body["content"].split("---")[1]))
            return http.Response(200, json={"errors": [], "warnings": []})
        found = re.fullmatch(r"/api/models/([\w-]+/[\w-]+)/(preupload|commit)/main", path)
        assert found, f"POST {path}"
        if found[2] == "preupload":
            modes = ["regular" if self.large is None or f["size"] < self.large else "lfs" for f in body["files"]]
            answers = [
                {"path": f["path"], "uploadMode": mode, "shouldIgnore": False}
                for f, mode in zip(body["files"], modes, strict=True)
            ]
            return http.Response(200, json={"files": answers})
        lines = [json.loads(line) for line in body.splitlines()]
        self.commits.append(lines)
        files = self.repositories[found[1]]
        for line in lines:
            if line["key"] == "file":
                files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            elif line["key"] == "lfsFile":
                files[line["value"]["path"]] = self.storage[line["value"]["oid"]]
            elif line["key"] == "deletedFile":
                del files[line["value"]["path"]]
        answer = {"commitUrl": f"{constants.ENDPOINT}/{found[1]}/commit/abc", "commitOid": "abc", "hookOutput": ""}
        return http.Response(200, json=answer)


def oid(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
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
    assert (resolve(NAME) / "model.safetensors").read_bytes() == (exported / "model.safetensors").read_bytes()
    # what was said of it went along, and the folder that was pushed is as it was
    assert Settings.load(resolve(NAME)).provenance["language"] == "en"
    assert "language" not in Settings.load(exported).provenance
    assert f'Extractor.load("{NAME}")' in (resolve(NAME) / "README.md").read_text(encoding="utf-8")


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
    assert (resolve(NAME) / "model.safetensors").read_bytes() == large["model.safetensors"]
    # the storage has them: a second push sends nothing anew
    sent = len(hub.stored)
    assert sent == (len(large) if part is None else sum(-(-len(content) // part) for content in large.values()))
    push_to_hub(exported, NAME, about={"language": "en"})
    assert len(hub.stored) == sent
    assert Settings.load(resolve(NAME)).provenance["language"] == "en"


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
        resolve(NAME)
    assert "\n" not in str(caught.value)


def test_nothing_is_downloaded_but_a_models_files_and_each_once(hub: FakeHub, exported: Path):
    push_to_hub(exported, NAME)
    hub.repositories[NAME] |= {"modeling.py": b"print('run me')", "data/README.md": b"more", "pytorch_model.bin": b"x"}
    folder = resolve(NAME)
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    resolve(NAME)
    assert sorted(hub.brought) == sorted(FILES)
    hub.down = True  # what is here is used where there is no network
    assert resolve(NAME) == folder


def test_a_model_of_somebody_elses_is_refused_before_its_weights_are_brought(hub: FakeHub):
    hub.repositories[NAME] = {"config.json": b'{"model_type": "bert"}', "model.safetensors": b"x" * 100}
    with pytest.raises(UnireError, match="it is not a unire model"):
        Extractor.load(NAME)
    assert hub.brought == ["config.json"]


def test_a_revision_can_be_named(hub: FakeHub, exported: Path):
    push_to_hub(exported, NAME)
    assert resolve(f"{NAME}@{hub.commit(NAME)}") == resolve(NAME)
    with pytest.raises(UnireError, match="there is no such revision"):
        resolve(f"{NAME}@nothing")
    with pytest.raises(UnireError, match="the Hub has no"):
        resolve(f"{NAME}@refs/pr/1")


def test_a_second_push_leaves_nothing_of_the_first(hub: FakeHub, exported: Path, unexported: Path):
    push_to_hub(exported, NAME)
    hub.repositories[NAME]["figure.png"] = b"mine"
    push_to_hub(unexported, NAME)
    assert "model.onnx" not in hub.repositories[NAME]
    assert hub.repositories[NAME]["figure.png"] == b"mine"
    assert Extractor.load(NAME, device="cpu").extract("We present a parser.").entities is not None


def test_the_page_publishes_a_model(hub: FakeHub, exported: Path, unexported: Path):
    def named(line: str, model: Path) -> str:
        return line.replace("models/mine", str(model)).replace("USER/MODEL", NAME).replace("USER/DATA", "somebody/data")

    command = re.search(r"^unire (push .*)$", PAGE, re.MULTILINE)[1]
    ran = CliRunner().invoke(app, shlex.split(named(command, exported)), catch_exceptions=False)
    assert ran.stdout.strip().endswith(NAME)
    assert hub.private[NAME]
    calls = re.findall(r"^(.*push_to_hub\(.*\))$", PAGE, re.MULTILINE)
    assert len(calls) == 2
    for call in calls:
        hub.repositories.clear()
        exec(named(call, unexported), {"unire": unire, "UniRE": UniRE})
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
    ("act", "status", "sentence"),
    [
        (Extractor.load, None, "there is no model folder 'somebody/tiny', and the Hub has no 'somebody/tiny' that you"),
        (Extractor.load, 503, "the Hub cannot be used for 'somebody/tiny'"),
        (lambda name: push_to_hub("science", name), 403, "it does not let you write there"),
        (lambda name: push_to_hub("science", "not a name"), None, "'not a name' is no name that the Hub can have"),
        (lambda name: push_to_hub("nowhere", name), None, "there is no model folder 'nowhere'"),
    ],
)
def test_what_goes_wrong_is_one_sentence(hub: FakeHub, act: Any, status: int | None, sentence: str):
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


def test_half_a_model_is_not_pushed(hub: FakeHub, exported: Path, tmp_path: Path):
    for name in ("config.json", "labels.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((exported / name).read_bytes())
    with pytest.raises(UnireError, match=r"has no model.safetensors"):
        push_to_hub(tmp_path, NAME)
    assert not hub.repositories


# The card


def test_the_hub_reads_the_card(exported: Path):
    settings, labels = Settings.load(exported), LabelSpace.load(exported)
    card = ModelCard(model_card(settings, labels, NAME))
    assert card.data.library_name == "unire"
    assert card.data.license == "mit"
    assert card.data.base_model == "someone/tiny-bert"
    assert "relation-extraction" in card.data.tags
    assert card.data.model_name == NAME
    scores = settings.provenance["scores"]["test, exported"]
    found = {(result.dataset_split, result.metric_name): result.metric_value for result in card.data.eval_results or ()}
    for kind, part in (("Ent", "entities"), ("Rel", "relations")):
        for rate in ("precision", "recall", "f1"):
            key = "test, exported", f"{kind} {rate} ({scores['protocol']['name']})"
            assert found[key] == pytest.approx(scores[part][rate], abs=1e-4)


def test_a_card_without_scores_and_with_odd_names_is_still_yaml(exported: Path):
    settings = Settings.load(exported)
    odd = {"base": "no: such: model #1", "licence": "null", "language": ["no", "en"], "data": ["a\nb"], "scores": {}}
    card = ModelCard(model_card(settings.with_(provenance=odd), LabelSpace.load(exported)))
    assert card.data.base_model == "no: such: model #1"
    assert card.data.license == "null"
    assert card.data.language == ["no", "en"]
    assert card.data.eval_results is None


@pytest.mark.parametrize("name", pretrained.names())
def test_the_card_of_a_model_in_the_box_is_up_to_date(name: str):
    folder = pretrained.find(name)
    written = (folder / "README.md").read_text(encoding="utf-8")
    assert written == model_card(Settings.load(folder), LabelSpace.load(folder))
    assert ModelCard(written).data.eval_results
