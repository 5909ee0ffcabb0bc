"""`unire serve`: serve a model over HTTP."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Annotated

from unire import pretrained
from unire.cli import console
from unire.cli.options import MODEL, Constraints, Device, option
from unire.errors import UnireError

__all__ = ["serve"]

SERVER, LIMITS = "Server", "Limits"
"""Panels of `--help`."""
KEY_VARIABLE = "UNIRE_API_KEY"
"""Environment variable with the API key."""


def serve(
    model: Annotated[
        str,
        option(
            "--model", "-m", metavar="NAME", help="Bundled model (see `unire models`), folder or Hub name.", panel=MODEL
        ),
    ] = pretrained.DEFAULT,
    constraints: Constraints = None,
    device: Device = None,
    graph: Annotated[
        Path | None,
        option(
            "--graph",
            metavar="FOLDER",
            help="Knowledge graph (see `unire graph`) to show at /graph.",
            panel=SERVER,
            default="none",
        ),
    ] = None,
    host: Annotated[
        str, option("--host", metavar="ADDRESS", help="Address to listen on; 0.0.0.0 is all.", panel=SERVER)
    ] = "127.0.0.1",
    port: Annotated[
        int,
        option("--port", metavar="N", min=0, max=65535, help="Port to listen on; 0 chooses a free one.", panel=SERVER),
    ] = 8000,
    api_key: Annotated[
        str | None,
        option(
            "--api-key",
            metavar="KEY",
            envvar=KEY_VARIABLE,
            help="Key that clients must send. The variable is safer.",
            panel=SERVER,
            default="no key",
            show_envvar=True,
        ),
    ] = None,
    allowed_hosts: Annotated[
        str | None,
        option(
            "--allowed-hosts",
            metavar="NAMES",
            help="Host names that clients use, with commas; * is all.",
            panel=SERVER,
            default="localhost",
        ),
    ] = None,
    grace: Annotated[
        float,
        option(
            "--grace", metavar="S", help="Seconds to answer accepted requests after SIGTERM or Ctrl-C.", panel=SERVER
        ),
    ] = 20.0,
    max_body: Annotated[int, option("--max-body", metavar="N", help="Bytes of a request.", panel=LIMITS)] = 2**18,
    max_text: Annotated[int, option("--max-text", metavar="N", help="Characters of a text.", panel=LIMITS)] = 20_000,
    max_texts: Annotated[int, option("--max-texts", metavar="N", help="Texts of a request.", panel=LIMITS)] = 64,
    queue: Annotated[
        int, option("--queue", metavar="N", help="Requests that wait. More get status 429.", panel=LIMITS)
    ] = 256,
    timeout: Annotated[
        float, option("--timeout", metavar="S", help="Seconds after which a request is cancelled.", panel=LIMITS)
    ] = 30.0,
    connections: Annotated[int, option("--connections", metavar="N", help="Open connections.", panel=LIMITS)] = 512,
    max_client: Annotated[
        float,
        option(
            "--max-client", metavar="P", help="Percent of connections and queue for one client address.", panel=LIMITS
        ),
    ] = 75.0,
    batch: Annotated[int, option("--batch", metavar="N", help="Tokens of a batch.", panel=LIMITS)] = 2**11,
    wait: Annotated[
        float,
        option("--wait", metavar="MS", min=0, help="Milliseconds that a request waits for a batch.", panel=LIMITS),
    ] = 5.0,
) -> None:
    """Serve a model over HTTP, with a web page to try it.

    Examples:

        unire serve
        unire serve --model models/mine --port 9000
        unire serve --graph my-graph
        UNIRE_API_KEY=secret unire serve --host 0.0.0.0 --allowed-hosts a.org
        curl http://127.0.0.1:8000/extract --json '{"text": "We train a parser."}'

    Requests are batched dynamically. On SIGTERM or Ctrl-C, the server first
    answers accepted requests, for at most --grace seconds. A second signal stops
    it at once. Other users of the machine can see a key on the command line.
    """
    if api_key is None and os.environ.get(KEY_VARIABLE) == "":  # probably a missing secret, not the wish to have no key
        raise UnireError(f"the API key is empty; set a secret key, or unset {KEY_VARIABLE}")
    from unire.serving import server
    from unire.serving.limits import ServingLimits

    limits = ServingLimits(
        body_bytes=max_body,
        text_characters=max_text,
        texts=max_texts,
        timeout_seconds=timeout,
        queue_requests=queue,
        client_percent=max_client,
        connections=connections,
        grace_seconds=grace,
        batch_tokens=batch,
        wait_seconds=wait / 1000,
    )
    outcomes = server.serve(
        model,
        host=host,
        port=port,
        limits=limits,
        api_key=api_key,
        allowed_hosts=() if allowed_hosts is None else allowed_hosts,
        device=device,
        constraints=constraints,
        graph=graph,
        on_start=lambda address: _announce(model, address, graph),
    )
    console.say(f"stopped; requests: {_describe_outcomes(outcomes)}")


def _announce(model: str, address: str, graph: Path | None) -> None:
    console.say(f"{model} at {address} (Ctrl-C stops it)")
    if graph is not None:
        console.say(f"{graph} at {address}/graph")


def _describe_outcomes(outcomes: Counter[str]) -> str:
    """Count the accepted requests by how they ended."""
    descriptions = {
        "answered": "answered",
        "failed": "failed",
        "late": "timed out",
        "left": "cancelled by the client",
        "stopped": "aborted at shutdown",
    }
    return ", ".join(
        f"{outcomes[outcome]:,} {description}"
        for outcome, description in descriptions.items()
        if outcomes[outcome] or outcome == "answered"
    )
