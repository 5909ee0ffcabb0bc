"""The server: it answers like the library, also to parallel callers, and every error is one sentence."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from helpers.server import SECRET, TEXT, Running, command
from unire import pretrained
from unire.cli.main import app
from unire.documents import restrict_clusters
from unire.errors import UnireError
from unire.formats import native
from unire.hub.model_dir import copy_model
from unire.rendering.views import decode_again, views
from unire.result_filter import ResultFilter
from unire.segmentation import segment
from unire.serving.addresses import AllowedHosts, bind, client_of
from unire.serving.jobs import ExtractJob, ViewJob, Worker
from unire.serving.schemas import Answer as AnswerModel
from unire.serving.server import model_name

TEXTS = [
    TEXT,
    "",
    "A single word",
    "ᚠᛇᚻ 漢字 🙂 \x00 \u202e done.",
    "We present a statistical method for word sense disambiguation. " * 5,
]
WORDS = [["We", "train", "a", "chart", "parser", "."], [], ["It", "is", "fast", "."]]


# Answers


def test_a_text_is_answered_as_the_library_does(server, science):
    answer = server.extract({"text": TEXT})
    assert answer.status == 200
    assert answer.json == {"documents": [science.extract(TEXT).to_dict()]}
    assert answer.json["documents"][0]["relations"]


def test_texts_are_answered_in_their_order(server, science):
    assert server.extract({"texts": TEXTS}).json["documents"] == [d.to_dict() for d in science.extract(TEXTS)]
    assert server.extract({"texts": []}).json == {"documents": []}


def test_words_keep_their_places(server, science):
    expected = science.extract_words(WORDS)
    (found,) = server.extract({"words": WORDS}).json["documents"]
    assert found == json.loads(json.dumps(next(native.to_json(expected))))
    assert found["sentences"] == WORDS
    assert [(e["start"], e["end"]) for e in found["entities"]] == [e.span for e in expected.entities]


def test_min_score_drops_results(server, science):
    for least in (0.5, 0.6, 1):
        kept = science.extract(TEXT).confident(least)
        assert server.extract({"text": TEXT, "min_score": least}).json["documents"] == [kept.to_dict()]
    assert server.extract({"text": TEXT, "min_score": 1}).json["documents"][0]["entities"] == []
    recommended = science.extract(TEXT, min_score="auto")
    assert server.extract({"text": TEXT, "min_score": "auto"}).json["documents"] == [recommended.to_dict()]


def test_other_types_are_left_out(server, science):
    for names in (
        {"relations": ["USED-FOR"]},
        {"entities": ["Method"]},
        {"entities": ["Method", "Task"], "min_score": 0.6},
    ):
        assert server.extract({"text": TEXT, **names}).json["documents"] == [science.extract(TEXT, **names).to_dict()]
    answer = server.extract({"text": TEXT, "relations": ["Person"]})
    assert answer.status == 422
    assert answer.error.startswith(
        "relations names 'Person', which the model does not have; the entity types are Task,"
    )


def test_callers_at_the_same_time_get_what_each_would_get_alone(server, science):
    texts = [f"{word} parsing is a task, and a {word} parser is used for it." for word in "abcdefghijklmnopqrstuvwxyz"]
    expected = [science.extract(text).to_dict() for text in texts]
    with ThreadPoolExecutor(len(texts)) as pool:
        found = list(pool.map(lambda text: server.extract({"text": text}).json["documents"][0], texts))
    assert found == expected
    batches = server.service.metrics.to_text().decode()
    assert float(re.search(r'unire_batch_texts_bucket\{le="2.0"\} (\S+)', batches)[1]) < float(
        re.search(r"unire_batch_texts_count (\S+)", batches)[1]
    )


def test_answers_are_what_the_openapi_document_says(server):
    for body in ({"text": TEXT}, {"texts": TEXTS}, {"words": WORDS}, {"words": [[" ", ""], ["\n"]]}):
        AnswerModel.model_validate(server.extract(body).json)
    paths = server.get("/openapi.json").json["paths"]
    assert set(paths) == {"/", "/extract", "/view", "/health", "/ready", "/metrics"}
    documented = paths["/extract"]["post"]["responses"]
    assert " ".join(sorted(documented)) == "200 408 413 415 421 422 429 500 503"
    assert {path: "421" in next(iter(paths[path].values()))["responses"] for path in paths} == dict.fromkeys(
        paths, True
    )
    assert documented["429"]["headers"] == {"Retry-After": {"schema": {"type": "string"}}}
    assert server.get("/docs").status == 404  # it would load scripts from elsewhere


@pytest.mark.slow
@pytest.mark.parametrize("key", [None, "sesame"], ids=["open", "locked"])
def test_schemathesis_finds_nothing_that_the_openapi_document_does_not_say(science, key, tmp_path):
    pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    headers = [] if key is None else ["--header", f"Authorization: Bearer {key}"]
    tool = [str(Path(sys.executable).with_name("schemathesis")), "run", "--max-examples", "10", "--seed", "1"]
    with Running(science, key=key) as server:
        words = [*tool, *headers, f"{server}/openapi.json"]
        ran = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout
    assert "Tested: 6" in ran.stdout


# What a page is sent


def test_a_view_has_the_results_and_the_requested_tables(server, science):
    view = server.ask("POST", "/view", {"text": TEXT, "cells": [1]}).json
    assert view["document"] == science.extract(TEXT).to_dict()
    assert [table["sentence"] for table in view["tables"]] == [0, 1]
    assert ["P" in table["model"] for table in view["tables"]] == [False, True]
    assert view["tsv"].count("\n") == 1 + len(view["document"]["relations"])


@pytest.mark.parametrize("alpha", [b"NaN", b"Infinity", b"0", b"-1", b"null", b'"1"', b"true"])
def test_an_alpha_that_is_no_distance_is_refused(server, alpha):
    answer = server.ask("POST", "/view", b'{"text": "a", "alpha": ' + alpha + b"}")
    assert answer.status == 422
    assert answer.error.startswith('"alpha" cannot be used: input should be ')


@pytest.mark.parametrize("alpha", [0.05, 0.7, 1.4, 2.2, 9.0])
def test_tables_decoded_again_are_what_another_alpha_would_have_found(server, science, alpha):
    other = science.with_alpha(alpha).extract(TEXT)
    spans = {entity.span for entity in other.entities}
    expected = replace(other, clusters=restrict_clusters(science.extract(TEXT).clusters, spans))  # not found again
    view = server.ask("POST", "/view", {"text": TEXT, "alpha": alpha}).json
    assert view["document"] == expected.to_dict()
    cuts = [[cut - s.start for cut in s.cuts] for s in expected.sentences]
    assert [table["model"]["cuts"] for table in view["tables"]] == cuts
    assert {table["model"]["alpha"] for table in view["tables"]} == {None}  # this model weighs squares
    (seen,) = views(science, [segment(TEXT)])
    assert decode_again(science, seen, alpha).document == expected


def test_the_tables_of_a_text_are_cached_up_to_a_limit(science, monkeypatch):
    computed: list[int] = []
    real = science.engine.start

    def start(batch, **more):
        computed.append(len(batch.table_spans))
        return real(batch, **more)

    monkeypatch.setattr(science.engine, "start", start)
    reader = Worker(science)
    first = reader([ViewJob(TEXT), ViewJob(TEXT, 0.5), ViewJob(TEXT, 2.0)])
    assert computed == [2]  # sentences
    assert reader([ViewJob(TEXT)]) == first[:1]
    assert len(computed) == 1
    small = Worker(science, cache_bytes=1)
    assert small([ViewJob(TEXT)]) == small([ViewJob(TEXT)]) == first[:1]
    assert len(computed) == 3


def test_orders_of_both_kinds_are_answered_in_their_order(science):
    reader = Worker(science)
    orders = [ViewJob(TEXT), ExtractJob([TEXT]), ExtractJob(TEXTS), ViewJob(TEXTS[2]), ExtractJob([WORDS])]
    assert reader(orders) == [reader([order])[0] for order in orders]


def test_a_large_order_is_answered_from_its_parts(science):
    order, reader = ExtractJob([*TEXTS, WORDS], ResultFilter(0.3)), Worker(science)
    parts = order.split(40, lambda source: 1 if source is TEXTS[1] else 30)
    assert [len(part.sources) for part in parts] == [2, 1, 1, 1, 1]
    assert [source for part in parts for source in part.sources] == [*TEXTS, WORDS]
    assert [part.tokens for part in parts] == [31, 30, 30, 30, 30]
    assert order.join(reader(parts)) == order.join(reader([order]))
    assert ExtractJob([]).split(40, len) == []
    assert json.loads(ExtractJob([]).join([])) == {"documents": []}


def test_an_order_does_not_show_its_text():
    assert SECRET not in repr([ViewJob(SECRET), ExtractJob([SECRET])])


# What is refused


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        (b"", 422, 'the body is not JSON that can be read: it should be an object such as {"text": "…"}'),
        (b"{", 422, "the body is not JSON"),
        (b'{"text": "\\ud800"}', 422, "the body is not JSON"),
        (b'{"text": "\xff"}', 422, "the body is not JSON"),
        (b"[" * 3000, 422, "the body is not JSON"),
        (b"[]", 422, "the body cannot be used: "),
        ({}, 422, 'give one of "text", "texts" and "words"'),
        ({"text": "a", "texts": ["b"]}, 422, 'give one of "text", "texts" and "words"'),
        ({"text": 1}, 422, '"text" cannot be used: input should be a valid string'),
        ({"texts": ["a", None]}, 422, '"texts.1" cannot be used: input should be a valid string'),
        ({"words": ["a"]}, 422, '"words.0" cannot be used: '),
        ({"text": "a", "min_score": 2}, 422, '"min_score" cannot be used: input should be less than or equal to 1'),
        (b'{"text": "a", "min_score": NaN}', 422, '"min_score" cannot be used: input should be a finite number'),
        (
            {"text": "a", SECRET: SECRET},
            422,
            'the body has a field that is not known; known are "text", "texts", "words", "min_score"',
        ),
        ({"text": "a" * 1001}, 422, "the text has 1,001 characters, and a text may have 1,000; send it in parts"),
        ({"texts": ["a", "b" * 1001]}, 422, "text 1 has 1,001 characters"),
        ({"words": [["a" * 1001]]}, 422, "the words together have 1,001 characters"),
        ({"texts": ["a"] * 9}, 422, "there are 9 texts, and a request may have 8; send fewer at once"),
        ({"text": "a" * 5000}, 413, "the body is too large: a request may have 4,096 bytes"),
    ],
    ids=str,
)
def test_an_invalid_body_is_one_sentence(server, body, status, sentence):
    answer = server.extract(body)
    assert answer.status == status
    assert answer.error.startswith(sentence)
    assert SECRET not in answer.error


def test_a_body_needs_the_content_type_json(server):
    answer = server.extract({"text": "a"}, Content_Type="text/plain")
    assert answer.status == 415
    assert answer.error == "the body must be JSON, sent with Content-Type: application/json"
    assert server.extract({"text": "a"}, Content_Type="Application/JSON; charset=utf-8").status == 200


def test_other_addresses_and_other_ways_are_refused(server):
    for path in ("/nowhere", "/extract/"):
        assert server.get(path).error == "there is nothing at this address"
    answer = server.get("/extract")
    assert (answer.status, answer.error) == (405, "this address does not accept that method")


@pytest.mark.parametrize("path", ["/", "/health", "/ready", "/openapi.json"])
def test_head_is_answered_as_get_without_the_body(server, path):
    head, get = server.ask("HEAD", path), server.get(path)
    assert (head.status, head.body) == (200, b"")
    assert {**head.headers, "date": ""} == {**get.headers, "date": ""}
    assert head.headers["content-length"] == str(len(get.body))


def test_head_is_refused_where_get_is(server):
    assert server.ask("HEAD", "/extract").status == 405


def test_a_key_is_asked_for_where_texts_and_counts_are(science):
    with Running(science, key="open sesame ☃") as server:
        for path in ("/extract", "/view"):
            refused = server.ask("POST", path, {"text": "a"})
            assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
            assert refused.error == "this server needs its key: Authorization: Bearer KEY"
            assert server.ask("POST", path, {"text": "a"}, Authorization="Bearer wrong").status == 401
        assert server.get("/metrics").status == 401
        key = "Bearer open sesame ☃".encode().decode("latin-1")
        assert server.get("/metrics", Authorization=key).status == 200
        assert server.extract({"text": "a"}, Authorization=key).status == 200
        assert [server.get(path).status for path in ("/", "/health", "/ready", "/openapi.json")] == [200] * 4
        described = server.get("/openapi.json").json
        scheme = {"type": "http", "scheme": "bearer", "description": "The key that the server was started with."}
        assert described["components"]["securitySchemes"] == {"key": scheme}
        for method, path in (("post", "/extract"), ("post", "/view"), ("get", "/metrics")):
            assert described["paths"][path][method]["security"] == [{"key": []}]
            assert "401" in described["paths"][path][method]["responses"]
        assert not any("security" in described["paths"][path]["get"] for path in ("/", "/health", "/ready"))


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "127.0.0.1:8000", "127.0.0.2", "[::1]:9", "Good.example:1"]
)
def test_a_server_answers_to_its_own_names(server, host):
    assert server.get("/health", Host=host).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",  # a page there could make its name point to this machine
        "localhost.evil.example",
        "evil.example:8000",
        "good.example.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1@evil.example",
        "192.168.1.5",
        "[::2]",
        "localhost:x",
        "",
    ],
)
def test_a_server_does_not_answer_to_the_name_of_another(server, host):
    for path in ("/health", "/ready", "/", "/openapi.json", "/metrics", "/nowhere"):
        answer = server.get(path, Host=host)
        assert answer.status == 421
        assert answer.error == "the host name of the request is not one of the server's allowed hosts"
    assert server.extract({"text": "a"}, Host=host).status == 421


def test_a_request_without_a_host_is_refused(server):
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 421 ")


def test_names_may_be_given_in_several_ways_and_must_be_names():
    assert AllowedHosts("*").allow("")
    assert AllowedHosts(" Example.ORG,2001:db8::1").names == {"example.org", "[2001:db8::1]"}
    for wrong in ("http://example.org", "example.org:80", "a b", "a/b", ""):
        with pytest.raises(
            UnireError, match=r"is not a host name; give allowed_hosts=\.\.\. names such as example.org"
        ):
            AllowedHosts([wrong])


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1%eth0", "2001:db8::/64"),
        ("a socket", "a socket"),
    ],
)
def test_a_caller_is_an_address_or_a_network_of_addresses_that_one_machine_has(address, client):
    assert client_of(address) == client


# Metrics and states


def test_requests_texts_and_batches_are_counted(science):
    with Running(science) as server:
        server.extract({"texts": TEXTS})
        server.extract({"words": [["a", "b"], [], []]})
        server.extract({})
        server.get(f"/{SECRET}")
        assert server.get("/health").json == {"status": "alive", "model": "tested"}
        assert server.get("/ready").json == {"status": "ready", "model": "tested"}
        answer = server.get("/metrics")
        text = answer.body.decode()
    assert answer.headers["content-type"].startswith("text/plain; version=")
    for line in (
        'unire_requests_total{path="/extract",status="200"} 2.0',
        'unire_requests_total{path="/extract",status="422"} 1.0',
        'unire_requests_total{path="other",status="404"} 1.0',
        'unire_request_seconds_count{path="/extract"} 3.0',
        "unire_queue_requests 0.0",
        "unire_batch_texts_sum 6.0",
        "unire_texts_total 6.0",
        f"unire_characters_total {sum(map(len, TEXTS)) + 5}.0",
        "process_resident_memory_bytes ",
    ):
        assert f"\n{line}" in text
    assert SECRET not in text


def test_the_page_loads_nothing_from_elsewhere_and_may_not(server):
    page = server.get("/")
    assert page.status == 200
    assert not re.search(r"""(src|href)=|url\(|@import""", page.body.decode().split("<body")[0])
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"


# The command


@pytest.mark.slow
def test_the_command_takes_its_key_from_the_environment_and_logs_no_text():
    with command("--max-text", 20, UNIRE_API_KEY="sesame") as (process, address):
        assert address.extract({"text": SECRET}).status == 401
        assert address.extract({"text": SECRET}, Authorization="Bearer sesame").status == 200
        assert address.extract({"text": SECRET * 2}, Authorization="Bearer sesame").status == 422
        assert address.get(f"/?text={SECRET}").status == 200
        with socket.create_connection(("127.0.0.1", address.port)) as connection:
            connection.sendall(f"{SECRET} {SECRET}\r\n\r\n".encode())
            connection.recv(4096)
        process.terminate()
        process.wait(60)
        assert SECRET not in process.stderr.read()


@pytest.mark.slow
def test_where_others_can_reach_the_server_their_names_for_it_must_be_given(tmp_path):
    message = str(run("--host", "0.0.0.0").exception)
    assert message == (
        "other machines can reach the server at 0.0.0.0; say by which host names they do with allowed_hosts=..., for "
        'example allowed_hosts="example.org", or allow all with allowed_hosts="*"'
    )
    with command("--host", "0.0.0.0", "--allowed-hosts", "one.example,two.example") as (_, address):
        for host, status in (("one.example", 200), ("two.example:8000", 200), ("localhost", 200), ("evil", 421)):
            assert address.get("/ready", Host=host).status == status


@pytest.mark.slow
def test_answers_do_not_show_where_the_model_is(tmp_path):
    folder = tmp_path / SECRET / "mine"
    copy_model(pretrained.find("science"), folder)
    with command("--model", folder) as (_, address):
        answers = [address.get(path) for path in ("/health", "/ready", "/openapi.json", "/metrics", "/", "/nowhere")]
        answers.append(address.extract({}))
    assert answers[0].json["model"] == "mine"
    assert "unire: mine" in answers[4].body.decode()
    for answer in answers:
        assert SECRET not in answer.body.decode() + str(answer.headers)


def test_a_model_is_shown_by_its_name(tmp_path, monkeypatch):
    copy_model(pretrained.find("science"), tmp_path / "mine")
    monkeypatch.chdir(tmp_path / "mine")
    names = {"science": "science", "USER/MODEL@main": "USER/MODEL@main", ".": "mine", tmp_path / "mine": "mine"}
    assert {source: model_name(source) for source in names} == names


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in ("serve", *words)])


def test_a_server_that_cannot_start_ends_with_one_sentence(tmp_path, monkeypatch):
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        error = run("--port", port).exception
        assert isinstance(error, UnireError)
        assert str(error) == f"cannot listen on 127.0.0.1, port {port}: Address already in use; try another port=..."
    for host in ("nowhere.invalid", ".."):
        message = str(run("--host", host).exception)
        assert message.startswith(f"cannot listen on {host}, port 8000: ")
        assert message.endswith("; try another host=...")
    assert str(run("--api-key", "").exception).startswith("the API key is empty")
    monkeypatch.setenv("UNIRE_API_KEY", "")
    assert str(run().exception).startswith("the API key is empty")
    monkeypatch.setenv("UNIRE_API_KEY", "secret\n")
    assert "ends with white space" in str(run().exception)
    monkeypatch.delenv("UNIRE_API_KEY")
    assert "must be 1 or more" in str(run("--queue", 0).exception)
    assert "must be 1 or more" in str(run("--timeout", "inf").exception)
    assert isinstance(run("--port", 0, "--model", tmp_path).exception, UnireError)


@pytest.mark.slow
def test_without_the_extra_the_command_says_what_to_install():
    code = (
        "import sys; sys.modules['fastapi'] = None\n"
        "import importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'fastapi' else real(name, *a)\n"
        "sys.argv = ['unire', 'serve']\n"
        "from unire.cli.main import main; main()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert 'pip install "unire[serve]"' in ran.stderr
