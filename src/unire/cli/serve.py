"""`unire serve`: serve a model over HTTP."""

from __future__ import annotations

import os
from collections import Counter
from typing import Annotated

import typer

from unire import pretrained
from unire.cli import console
from unire.cli.options import Constraints, Device
from unire.errors import UnireError
from unire.extractor import Extractor

__all__ = ["serve"]

KEY_VARIABLE = "UNIRE_API_KEY"
"""Environment variable with the API key."""


def serve(
    model: Annotated[
        str, typer.Option("--model", help="A bundled model (see `unire models`), a folder or a Hub name.")
    ] = pretrained.DEFAULT,
    host: Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 listens on all.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 chooses a free one.")
    ] = 8000,
    api_key: Annotated[
        str | None,
        typer.Option(
            "--api-key",
            envvar=KEY_VARIABLE,
            help="Key that clients must send as `Authorization: Bearer KEY`. Prefer the environment variable: other "
            "users can see command lines.",
            show_default="no key",
            show_envvar=True,
        ),
    ] = None,
    max_body: Annotated[int, typer.Option("--max-body", help="Maximum bytes of a request.")] = 2**18,
    max_text: Annotated[int, typer.Option("--max-text", help="Maximum characters of a text.")] = 20_000,
    max_texts: Annotated[int, typer.Option("--max-texts", help="Maximum texts of a request.")] = 64,
    queue: Annotated[
        int, typer.Option("--queue", help="Maximum requests in the queue; further ones get status 429.")
    ] = 256,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds after which a request is cancelled.")] = 30.0,
    grace: Annotated[
        float, typer.Option("--grace", help="Seconds to answer accepted requests after SIGTERM or Ctrl-C.")
    ] = 20.0,
    connections: Annotated[int, typer.Option("--connections", help="Maximum open connections.")] = 512,
    batch: Annotated[int, typer.Option("--batch", help="Maximum characters of a batch.")] = 2**13,
    wait: Annotated[
        float,
        typer.Option("--wait", min=0, help="Maximum milliseconds that a request waits for others to share a batch."),
    ] = 5.0,
    constraints: Constraints = None,
    device: Device = None,
) -> None:
    """Serve a model over HTTP, with a web page to try it.

    \b
        unire serve
        unire serve --model models/mine --port 9000
        UNIRE_API_KEY=secret unire serve --host 0.0.0.0
        curl http://127.0.0.1:8000/extract --json '{"text": "We train a parser on the Penn Treebank."}'

    Requests are batched dynamically. On SIGTERM or Ctrl-C, the server first answers accepted requests.
    That takes at most --grace seconds; a second signal stops it at once.
    """
    # an empty variable is probably a missing secret, not the wish to serve without a key
    if api_key == "" or (api_key is None and os.environ.get(KEY_VARIABLE) == ""):
        raise UnireError(f"the API key is empty; set a secret key, or none at all (unset {KEY_VARIABLE})")
    if api_key is not None and api_key != api_key.strip():
        raise UnireError("the API key begins or ends with white space, which no request can send; remove it")
    from unire.serving import server
    from unire.serving.app import make_app
    from unire.serving.schemas import ServingLimits

    limits = ServingLimits(
        body=max_body,
        text=max_text,
        texts=max_texts,
        queue=queue,
        timeout=timeout,
        grace=grace,
        connections=connections,
        batch=batch,
        wait=wait / 1000,
    )
    listening = server.bind(host, port)
    server.limit_malloc_arenas()
    app = make_app(Extractor.load(model, device=device, constraints=constraints), model, limits=limits, key=api_key)
    name, port = listening.getsockname()[:2]
    address = f"http://{f'[{name}]' if ':' in name else name}:{port}"
    server.serve(app, listening, lambda: console.say(f"{model} at {address} (Ctrl-C stops it)"))
    console.say(f"stopped; requests: {_describe_outcomes(app.state.service.ended)}")


def _describe_outcomes(outcomes: Counter[str]) -> str:
    """Count the accepted requests by how they ended."""
    descriptions = {
        "answered": "answered",
        "failed": "failed",
        "late": "not done in time",
        "left": "left by their callers",
        "stopped": "given up",
    }
    return ", ".join(
        f"{outcomes[outcome]:,} {description}"
        for outcome, description in descriptions.items()
        if outcomes[outcome] or outcome == "answered"
    )
