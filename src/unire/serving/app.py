"""The FastAPI application: routes and their descriptions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from hmac import compare_digest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, Request, Response, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse

from unire import __version__
from unire.extractor import Extractor
from unire.labels import LabelSpace
from unire.serving.addresses import AllowedHosts, client_of
from unire.serving.limits import ServingLimits
from unire.serving.middleware import RequestMiddleware
from unire.serving.page import LivePage
from unire.serving.schemas import (
    Answer,
    ApiError,
    ExtractRequest,
    GraphAnswer,
    GraphRequest,
    Problem,
    State,
    ViewAnswer,
    ViewRequest,
    parse_request,
)
from unire.serving.service import Service

if TYPE_CHECKING:
    from unire.serving.graph import GraphService  # needs the extra `graph`

__all__ = ["make_app"]

CLOSE_SECONDS = 5
"""Time limit for threads to notice that their requests were cancelled, when the process ends."""


def _describe_error(description: str, *headers: str) -> dict[str, Any]:
    """OpenAPI description of an error."""
    described = {name: {"schema": {"type": "string"}} for name in headers}
    return {"model": Problem, "description": description, **({"headers": described} if headers else {})}


PROBLEMS: dict[int | str, dict[str, Any]] = {
    408: _describe_error("The body did not come in time."),
    413: _describe_error("The body is too large, or this server would need too long for it."),
    415: _describe_error("The Content-Type is not JSON."),
    422: _describe_error("The body cannot be used, or a text is too long."),
    429: _describe_error("The server has too much to do; `Retry-After` says when to try again.", "Retry-After"),
    500: _describe_error("The server is at fault."),
    503: _describe_error("Not done in time, or the server is stopping.", "Retry-After"),
}
ANYWHERE: dict[int | str, dict[str, Any]] = {
    421: _describe_error("The Host header names a host that is not allowed."),
}
UNAUTHORIZED: dict[int | str, dict[str, Any]] = {
    401: _describe_error("The key is missing or wrong.", "WWW-Authenticate")
}
KEY = HTTPBearer(auto_error=False, scheme_name="key", description="The key that the server was started with.")


def make_app(
    extractor: Extractor,
    name: str,
    *,
    limits: ServingLimits | None = None,
    key: str | None = None,
    hosts: AllowedHosts | None = None,
    graph: str | Path | None = None,
) -> FastAPI:
    """Make an application that serves a model.

    Args:
        extractor: The model.
        name: Its name, which everybody may see.
        limits: Limits of requests, clients and the queue.
        key: The API key that callers send as `Authorization: Bearer …`. [default: none is needed]
        hosts: The names by which callers may address the server. [default: those of this machine]
        graph: The folder of a knowledge graph, which `/graph` shows.
    """
    limits = limits or ServingLimits()
    service = Service(extractor, name, limits)
    graphs = None if graph is None else _open_graph(graph, service)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.get_running_loop().run_in_executor(None, service.batcher.close, CLOSE_SECONDS)
        if graphs is not None:
            graphs.close()

    app = FastAPI(
        title="unire",
        version=__version__,
        description=f"Extracts entities and relations with the model `{name}`. A request may have "
        f"{limits.body_bytes:,} bytes and {limits.texts:,} texts, a text {limits.text_characters:,} characters. "
        "Errors are one sentence.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # to an address that proxies need not have
        responses=ANYWHERE,
        lifespan=lifespan,
        exception_handlers={HTTPException: _answer_error},
        openapi_url="/openapi.json",
    )
    app.state.service = service
    _add_routes(app, service, _require_key(key))
    if graphs is not None:
        _add_graph_routes(app, graphs, _require_key(key))
    paths = frozenset(route.path for route in app.routes if hasattr(route, "path"))
    app.add_middleware(RequestMiddleware, service=service, hosts=hosts or AllowedHosts(), paths=paths)
    return app


def _add_routes(app: FastAPI, service: Service, locks: list[Any]) -> None:
    metrics = service.metrics
    page = LivePage(service.extractor, service.name, service.limits)
    locked: dict[int | str, dict[str, Any]] = UNAUTHORIZED if locks else {}

    @app.post(
        "/extract",
        dependencies=locks,
        openapi_extra=_describe_body(ExtractRequest, service.extractor.labels),
        responses={200: {"model": Answer}, **PROBLEMS, **locked},
    )
    async def extract(request: Request) -> Response:
        """Extract entities and relations from a text, several texts, or a tokenized document."""
        return await _answer(service, request, ExtractRequest)

    @app.post(
        "/view",
        dependencies=locks,
        openapi_extra=_describe_body(ViewRequest, service.extractor.labels),
        responses={200: {"model": ViewAnswer}, **PROBLEMS, **locked},
    )
    async def view(request: Request) -> Response:
        """Return what the page at `/` shows: the text, its tables, and the results for any α."""
        return await _answer(service, request, ViewRequest)

    @app.get("/health")
    async def health() -> State:
        """Whether the server is alive."""
        return State(status="alive", model=service.name)

    @app.get("/ready", responses={503: {"model": State, "description": "The server is overloaded or stopping."}})
    async def ready(response: Response) -> State:
        """Whether the server should get requests: it is neither overloaded nor stopping."""
        status = service.state
        if status != "ready":
            response.status_code = 503
        return State(status=status, model=service.name)

    @app.get(
        "/metrics",
        dependencies=locks,
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **locked},
    )
    async def metrics_() -> Response:
        """Metrics for Prometheus."""
        return Response(metrics.to_text(), media_type=metrics.content_type)

    @app.get("/", response_class=HTMLResponse)
    async def index() -> HTMLResponse:
        """A page to try the model on."""
        return HTMLResponse(page.html, headers=page.headers)


def _open_graph(folder: str | Path, service: Service) -> GraphService:
    from unire.serving.graph import GraphService

    return GraphService(folder, service)


def _add_graph_routes(app: FastAPI, graphs: GraphService, locks: list[Any]) -> None:
    @app.get("/graph", response_class=HTMLResponse)
    async def graph_page() -> HTMLResponse:
        """A page that shows the knowledge graph."""
        return HTMLResponse(graphs.html, headers=graphs.headers)

    @app.post(
        "/graph",
        dependencies=locks,
        openapi_extra=_describe_body(GraphRequest, None),
        responses={200: {"model": GraphAnswer}, **PROBLEMS, **(UNAUTHORIZED if locks else {})},
    )
    async def ask_graph(request: Request) -> Response:
        """Answer a question of the page at `/graph`: entities, their relations and evidence, paths and tables."""
        question = await _parse_body(request, GraphRequest)
        answer = await graphs.answer(question.check(), *_describe_client(request))
        return Response(answer, media_type="application/json")


async def _answer(service: Service, request: Request, kind: Any) -> Response:
    job = (await _parse_body(request, kind)).to_job(service.limits, service.extractor)
    return Response(await service.answer(job, *_describe_client(request)), media_type="application/json")


async def _parse_body(request: Request, kind: Any) -> Any:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise ApiError(415, "the body must be JSON, sent with Content-Type: application/json")
    return parse_request(kind, await request.body())


def _describe_client(request: Request) -> tuple[str, Callable[[], Awaitable[None]]]:
    """Who sent a request, and what to wait for to know that they have gone."""

    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return client_of(request.client.host) if request.client else "", disconnected


def _describe_body(kind: Any, labels: LabelSpace | None) -> dict[str, Any]:
    """OpenAPI description of a body, which `parse_request` parses, because its errors do not quote the body."""
    schema = kind.model_json_schema()
    for name, types in (("entities", labels.entity_types), ("relations", labels.relation_types)) if labels else ():
        if name in schema["properties"]:
            schema["properties"][name] |= {"items": {"type": "string", "enum": list(types)}, "minItems": 1}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _require_key(key: str | None) -> list[Any]:
    """The dependencies of routes that need the key."""
    if key is None:
        return []

    async def check(
        credentials: Annotated[HTTPAuthorizationCredentials | None, Security(KEY)],
    ) -> None:
        if credentials is None or not compare_digest(credentials.credentials.encode("latin-1"), key.encode()):
            raise HTTPException(
                401, "this server needs its key: Authorization: Bearer KEY", headers={"WWW-Authenticate": "Bearer"}
            )

    return [Security(check)]


async def _answer_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - Starlette promises it
    sentences = {404: "there is nothing at this address", 405: "this address does not accept that method"}
    return JSONResponse(
        {"error": sentences.get(error.status_code, error.detail)}, error.status_code, headers=error.headers
    )
