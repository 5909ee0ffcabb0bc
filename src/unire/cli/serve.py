"""`unire serve`: a model behind an address."""

from __future__ import annotations

import os
from collections import Counter
from typing import Annotated

import typer

from unire import pretrained
from unire.cli import printing
from unire.cli.options import Constraints, Device
from unire.errors import UnireError
from unire.extractor import Extractor

__all__ = ["serve"]

KEY = "UNIRE_API_KEY"


def serve(
    model: Annotated[
        str, typer.Option("--model", help="In the box (unire models), a folder, or a Hub name.")
    ] = pretrained.DEFAULT,
    host: Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 for any that is free.")] = 8000,
    api_key: Annotated[
        str | None,
        typer.Option(
            "--api-key",
            envvar=KEY,
            help="What callers must send as `Authorization: Bearer KEY`. Others can read a command line: prefer the "
            "environment.",
            show_default=False,
            show_envvar=True,
        ),
    ] = None,
    max_body: Annotated[int, typer.Option("--max-body", help="Bytes of a request.")] = 2**18,
    max_text: Annotated[int, typer.Option("--max-text", help="Characters of a text.")] = 20_000,
    max_texts: Annotated[int, typer.Option("--max-texts", help="Texts of a request.")] = 64,
    queue: Annotated[int, typer.Option("--queue", help="Requests that may wait; more are answered with 429.")] = 256,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds until a request is given up.")] = 30.0,
    grace: Annotated[
        float, typer.Option("--grace", help="Seconds for what was accepted, once the server is told to stop.")
    ] = 20.0,
    connections: Annotated[int, typer.Option("--connections", help="Connections that are open at a time.")] = 512,
    batch: Annotated[int, typer.Option("--batch", help="Characters that are computed together.")] = 2**13,
    wait: Annotated[
        float, typer.Option("--wait", min=0, help="Milliseconds, at most, that a request waits for others.")
    ] = 5.0,
    constraints: Constraints = None,
    device: Device = None,
) -> None:
    """Serve a model over HTTP, with a page to try it on.

    \b
        unire serve
        unire serve --model models/mine --port 9000
        UNIRE_API_KEY=secret unire serve --host 0.0.0.0
        curl http://127.0.0.1:8000/extract --json '{"text": "We train a parser on the Penn Treebank."}'

    Requests of all callers are computed together. SIGTERM or Ctrl-C stops it, after all that it accepted is answered or
    the grace is over; a second one ends the grace.
    """
    # a variable that is there and empty is a secret that went missing, and no wish to serve everybody
    if api_key == "" or (api_key is None and os.environ.get(KEY) == ""):
        raise UnireError(f"the API key is empty; give one that nobody guesses, or none at all (unset {KEY})")
    if api_key is not None and api_key != api_key.strip():
        raise UnireError("the API key begins or ends with white space, which no request can have; leave it out")
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
    server.serve(app, listening, lambda: printing.say(f"{model} at {address} (Ctrl-C stops it)"))
    printing.say(f"stopped; requests: {_ends(app.state.service.ended)}")


def _ends(ended: Counter[str]) -> str:
    """How the requests that were accepted have ended."""
    ways = {
        "answered": "answered",
        "failed": "failed",
        "late": "not done in time",
        "left": "left by their callers",
        "stopped": "given up",
    }
    return ", ".join(f"{ended[how]:,} {way}" for how, way in ways.items() if ended[how] or how == "answered")
