"""Errors of `unire extract --ray`, each in one sentence."""

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
from unire.integrations.ray import shards
from unire.integrations.ray.extract import _build_job, _fingerprint, resolve_address
from unire.integrations.ray.shards import plan_shards, stamp_files
from unire.integrations.ray.worker import RayWorker
from unire.result_filter import ResultFilter
from unire.sources import TextSources
from unire.writers.resumable import ResumableFolder


@pytest.fixture
def error(exported, tmp_path):
    """Run the command, which fails before it needs a cluster, and return the error."""
    ray_or_skip()

    def run(*arguments: object) -> str:
        ran = CliRunner().invoke(app, ["extract", "--model", str(exported), "--ray", *map(str, arguments)])
        assert isinstance(ran.exception, UnireError), ran.output
        assert "\n" not in str(ran.exception)
        return str(ran.exception)

    return run


@pytest.mark.slow
def test_each_mistake_is_one_sentence(error, tmp_path):
    text, out = tmp_path / "text.txt", tmp_path / "found"
    text.write_text("A text.")
    (tmp_path / "json.jsonl").write_text('{"title": "A text."}\n')
    (tmp_path / "empty").mkdir()
    assert "name one with --out" in error(text)
    assert "there is no file or folder 'missing'" in error("missing", "--out", out)
    assert "has no readable text files" in error(tmp_path / "empty", "--out", out)
    assert "reads files and folders; it cannot read standard input" in error("A text.", "--out", out)
    assert "reads files and folders; it cannot read standard input" in error("--out", out, "-")
    assert "line 1 has no field 'text', only 'title'" in error(tmp_path / "json.jsonl", "--out", out)
    assert "already exists and holds" in error(text, "--out", tmp_path)
    assert "text.txt is also an input" in error(text, "--out", text)
    assert "cannot be written" in error(text, "--out", "/proc/found")
    assert error(tmp_path, "--out", tmp_path / "into" / "it") == (
        f"{tmp_path / 'into' / 'it'} is inside the input folder {tmp_path}; write to another folder"
    )
    assert "leave out --skip-errors" in error(text, "--out", out, "--skip-errors")
    assert "leave out --format and --device" in error(text, "--out", out, "--format", "csv")
    assert "takes one address, not auto and 10.0.0.1:6379" in error("auto", "10.0.0.1:6379", text, "--out", out)
    assert "types=... names 'Person'" in error(text, "--out", out, "--types", "Person")
    assert not out.exists()
    ran = CliRunner().invoke(app, ["extract", str(text), "--workers", "2"])
    assert "--workers and --gpus need --ray" in str(ran.exception)


def test_a_missing_cluster_is_an_error_at_once(error, tmp_path, monkeypatch):
    ray_or_skip()
    (tmp_path / "text.txt").write_text("A text.")
    with socket.socket() as bound:  # bound, but nobody listens
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        message = error(address, tmp_path / "text.txt", "--out", tmp_path / "found")
        assert message.startswith(f"there is no Ray cluster at '{address}'")
        monkeypatch.setenv("RAY_ADDRESS", address)  # which Ray takes `auto` for, as it does what a killed cluster left
        message = error("auto", tmp_path / "text.txt", "--out", tmp_path / "found")
        assert message.startswith("there is no Ray cluster at 'auto'")


@pytest.mark.parametrize("address", ["foo", "http://10.0.0.1:8265", "10.0.0.1", "ray://10.0.0.1:10001"])
def test_a_wrong_address_is_one_sentence(error, tmp_path, monkeypatch, address):
    (tmp_path / "text.txt").write_text("A text.")
    message = error(address, tmp_path / "text.txt", "--out", tmp_path / "found")
    assert repr(address) in message
    assert "HOST:PORT" in message
    monkeypatch.setenv("RAY_ADDRESS", address)
    message = error(tmp_path / "text.txt", "--out", tmp_path / "found")
    assert message.startswith(f"RAY_ADDRESS is {address!r}, ")
    assert "HOST:PORT" in message
    assert ("use `ray job submit`" in message) == address.startswith("ray:")
    assert not (tmp_path / "found").exists()


def test_any_error_of_a_cluster_that_cannot_be_reached_is_one_sentence(error, tmp_path, monkeypatch):
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
    assert resolve_address(None) == "local"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert resolve_address(None) == "10.0.0.1:6379"
    assert resolve_address("auto") == "auto"


def test_without_ray_the_error_says_what_to_install(error, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "text.txt").write_text("A text.")
    assert error(tmp_path / "text.txt", "--out", tmp_path / "found") == 'a cluster needs Ray: pip install "unire[ray]"'


def test_another_input_model_or_setting_is_not_resumed(error, unexported, tmp_path, exported, monkeypatch):
    ray_or_skip()
    text, out = tmp_path / "text.txt", tmp_path / "found"
    text.write_text("A text.")
    job = _build_job(TextSources([str(text)]), out, str(exported), 0, ResultFilter(), None)
    ResumableFolder(out, _fingerprint(job, stamp_files(TextSources([str(text)]))), resume=False)
    RayWorker(job).extract(plan_shards(TextSources([str(text)]), stamp_files(TextSources([str(text)])))[0])
    assert "holds an earlier run; continue it with resume=True" in error(text, "--out", out)
    assert "was started with another model; resume with the same" in error(
        text, "--out", out, "--resume", "--model", str(unexported)
    )
    assert "started with another min-score" in error(text, "--out", out, "--resume", "--min-score", 0.5)
    assert "started with another type filter" in error(text, "--out", out, "--resume", "--types", "Method")
    assert "started with another device" in error(text, "--out", out, "--resume", "--gpus", 1)
    text.write_text("Another text.")
    assert "started with another input" in error(text, "--out", out, "--resume")
    monkeypatch.setattr(shards, "MIN_SHARD_BYTES", 400)
    assert "started with another input and another size of blocks" in error(text, "--out", out, "--resume")
    (out / "_manifest.json").write_text("{")
    assert "_manifest.json cannot be read" in error(text, "--out", out, "--resume")


def test_addresses_are_separated_from_files(tmp_path, monkeypatch):
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
