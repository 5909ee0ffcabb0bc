"""`unire extract --ray`: what is wrong, told in one sentence."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from helpers.ray import ray_or_skip
from unire.cli.extract import split_address
from unire.cli.main import app
from unire.errors import UnireError
from unire.integrations.ray import shards as blocks_room
from unire.integrations.ray.connection import address_of
from unire.integrations.ray.extract import _about, _job
from unire.integrations.ray.output import OutputFolder
from unire.integrations.ray.shards import plan_shards, stamps
from unire.integrations.ray.worker import RayWorker
from unire.sources.sources import TextSources


@pytest.fixture
def error(exported, tmp_path):
    """The sentence with which the command fails, before any cluster is asked for."""
    ray_or_skip()

    def told(*arguments: object) -> str:
        ran = CliRunner().invoke(app, ["extract", "--model", str(exported), "--ray", *map(str, arguments)])
        assert isinstance(ran.exception, UnireError), ran.output
        assert "\n" not in str(ran.exception)
        return str(ran.exception)

    return told


@pytest.mark.slow
def test_mistakes_are_told_in_one_sentence(error, tmp_path):
    text, out = tmp_path / "text.txt", tmp_path / "found"
    text.write_text("A text.")
    (tmp_path / "json.jsonl").write_text('{"title": "A text."}\n')
    (tmp_path / "empty").mkdir()
    assert "name one with --out" in error(text)
    assert "there is no file or folder 'missing'" in error("missing", "--out", out)
    assert "holds no text" in error(tmp_path / "empty", "--out", out)
    assert "reads files and folders, no standard input" in error("A text.", "--out", out)
    assert "reads files and folders, no standard input" in error("--out", out, "-")
    assert "line 1 has no 'text' but title" in error(tmp_path / "json.jsonl", "--out", out)
    assert "already exists and holds" in error(text, "--out", tmp_path)
    assert "text.txt is also an input" in error(text, "--out", text)
    assert "cannot be written" in error(text, "--out", "/proc/found")
    assert error(tmp_path, "--out", tmp_path / "into" / "it") == (
        f"{tmp_path / 'into' / 'it'} is inside the input folder {tmp_path}; write to another folder"
    )
    assert "leave out --skip-errors" in error(text, "--out", out, "--skip-errors")
    assert "leave --format and --device" in error(text, "--out", out, "--format", "csv")
    assert "takes one address, and not auto and 10.0.0.1:6379" in error("auto", "10.0.0.1:6379", text, "--out", out)
    assert not out.exists()
    ran = CliRunner().invoke(app, ["extract", str(text), "--workers", "2"])
    assert "--workers and --gpus go with --ray" in str(ran.exception)


def test_a_cluster_that_is_not_there_is_told_at_once(error, tmp_path, monkeypatch):
    ray_or_skip()
    (tmp_path / "text.txt").write_text("A text.")
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        told = error(address, tmp_path / "text.txt", "--out", tmp_path / "found")
        assert told.startswith(f"there is no Ray cluster at '{address}'")
        monkeypatch.setenv("RAY_ADDRESS", address)  # which Ray takes `auto` for, as it does what a killed cluster left
        told = error("auto", tmp_path / "text.txt", "--out", tmp_path / "found")
        assert told.startswith("there is no Ray cluster at 'auto'")


@pytest.mark.parametrize("address", ["foo", "http://10.0.0.1:8265", "10.0.0.1", "ray://10.0.0.1:10001"])
def test_what_is_no_address_of_a_cluster_is_told_in_one_sentence(error, tmp_path, monkeypatch, address):
    (tmp_path / "text.txt").write_text("A text.")
    told = error(address, tmp_path / "text.txt", "--out", tmp_path / "found")
    assert repr(address) in told
    assert "HOST:PORT" in told
    monkeypatch.setenv("RAY_ADDRESS", address)
    told = error(tmp_path / "text.txt", "--out", tmp_path / "found")
    assert told.startswith(f"RAY_ADDRESS is {address!r}, ")
    assert "HOST:PORT" in told
    assert ("use `ray job submit`" in told) == address.startswith("ray:")
    assert not (tmp_path / "found").exists()


def test_whatever_ray_raises_where_it_cannot_be_reached_is_one_sentence(error, tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text("A text.")

    def init(**_):
        raise RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 1.0\n    Python: 3.6")

    monkeypatch.setattr(ray_or_skip(), "init", init)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        assert error(address, tmp_path / "text.txt", "--out", tmp_path / "found") == (
            f"there is no Ray cluster at '{address}': Version mismatch: The cluster was started with: Ray: 1.0 "
            "Python: 3.6; if it asks for a token, set RAY_AUTH_MODE=token"
        )


def test_an_empty_variable_names_no_cluster(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "")
    assert address_of(None) == "local"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert address_of(None) == "10.0.0.1:6379"
    assert address_of("auto") == "auto"


def test_without_ray_it_is_said_what_to_install(error, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "text.txt").write_text("A text.")
    assert error(tmp_path / "text.txt", "--out", tmp_path / "found") == 'a cluster needs Ray: pip install "unire[ray]"'


def test_another_input_model_or_setting_is_not_resumed(error, unexported, tmp_path, exported, monkeypatch):
    ray_or_skip()
    text, out = tmp_path / "text.txt", tmp_path / "found"
    text.write_text("A text.")
    job = _job(TextSources([str(text)]), out, str(exported), 0, 0.0, None)
    OutputFolder(out, _about(job, stamps(TextSources([str(text)]))), resume=False)
    RayWorker(job).do(plan_shards(TextSources([str(text)]), stamps(TextSources([str(text)])))[0])
    assert "holds an earlier run; go on with --resume" in error(text, "--out", out)
    assert "was begun with another model; give the same" in error(
        text, "--out", out, "--resume", "--model", str(unexported)
    )
    assert "begun with another min-score" in error(text, "--out", out, "--resume", "--min-score", 0.5)
    assert "begun with another device" in error(text, "--out", out, "--resume", "--gpus", 1)
    text.write_text("Another text.")
    assert "begun with another input" in error(text, "--out", out, "--resume")
    monkeypatch.setattr(blocks_room, "SMALLEST", 400)
    assert "begun with another input and another size of blocks" in error(text, "--out", out, "--resume")
    (out / "_manifest.json").write_text("{")
    assert "_manifest.json cannot be read" in error(text, "--out", out, "--resume")


def test_an_address_is_told_from_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("papers").mkdir()
    assert split_address(["auto", "papers/"]) == ("auto", ["papers/"])
    assert split_address(["papers/", "head.example.org:6379", "a text"]) == (
        *("head.example.org:6379", ["papers/", "a text"]),
    )
    Path("local").touch()
    Path("papers.jsonl").touch()
    assert split_address(["./local", "papers.jsonl"]) == (None, ["./local", "papers.jsonl"])
    with pytest.raises(UnireError, match="there is no file or folder 'head'; an address is HOST:PORT, auto or local"):
        split_address(["head", "papers.jsonl"])
