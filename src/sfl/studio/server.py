"""The server of `sfl studio`: addresses to answers. Every answer is made in a thread, never on the event loop."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from sfl.run.log import note
from sfl.run.machine import sfl_version
from sfl.studio import live
from sfl.studio.answers import NotHereError, encode
from sfl.studio.curves import curves, require_runs, settings
from sfl.studio.requests import CUT, Answer, BadRequestError, answering, problem
from sfl.studio.safety import Guard
from sfl.studio.shared import Studio

PAGE = Path(__file__).parent / "page"
KINDS = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
}
"""What the page is made of; no other file is served."""


def application(studio: Studio, names: frozenset[str] | None, token: str | None) -> ASGIApp:
    """The whole server; `names` are what it may be called, None: anything."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(studio.close)

    routes = [*_routes(studio, token is not None), *live.routes(studio), *page_routes()]
    failures = {HTTPException: _http_error, Exception: _unexpected, 404: _http_error, 405: _http_error}
    return Guard(Starlette(routes=routes, lifespan=lifespan, exception_handlers=failures), names, token)


def _routes(studio: Studio, token_needed: bool) -> list[Route]:
    shelf = studio.shelf

    def graph(request: Request, _: dict[str, Any]) -> Response:
        mark, body = studio.graphs.encoded(shelf.run(request.path_params["run"]), _checkpoint(request))
        tag = f'"{mark}"'
        headers = {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(body, media_type="application/json", headers=headers)

    def picture(request: Request, _: dict[str, Any]) -> Response:
        run, name = shelf.run(request.path_params["run"]), _checkpoint(request)
        pose = studio.graphs.landmark(run, name, _whole(request.path_params["landmark"], "a landmark"))
        body = studio.atlas.picture(run, pose)
        return Response(body, media_type="image/png", headers={"cache-control": "private, max-age=60"})

    def field(request: Request, body: dict[str, Any]) -> Response:
        run, x, y = shelf.run(request.path_params["run"]), _number(body, "x"), _number(body, "y")
        degrees = None if body.get("degrees") is None else _number(body, "degrees")
        exact = _flag(body, "exact")
        return _json(studio.fields.field(run, _word(body, "checkpoint"), x, y, degrees, exact))

    def of_run(make: Callable[..., Any]) -> Answer:
        return lambda request, _: _json(make(shelf.run(request.path_params["run"])))

    def start(request: Request, body: dict[str, Any]) -> Response:
        return _json(studio.fields.start(shelf.run(request.path_params["run"]), _word(body, "checkpoint")))

    def status(request: Request, _: dict[str, Any]) -> Response:
        return _json(studio.fields.status(shelf.run(request.path_params["run"]), _checkpoint(request)))

    def of_runs(make: Callable[..., Any]) -> Answer:
        return lambda request, _: _json(make(require_runs(shelf.chosen(request.query_params.get("runs", "")))))

    version = sfl_version()
    return [
        _get("/api/runs", lambda request, _: _json(studio.runs(version, token_needed))),
        _get("/api/runs/{run}/map", of_run(studio.atlas.map)),
        _get("/api/runs/{run}/graph", graph),
        _get("/api/runs/{run}/landmarks/{landmark}/picture", picture),
        Route("/api/runs/{run}/fields", _Methods(status, start).answer, methods=["GET", "POST"]),
        Route("/api/runs/{run}/field", answering(field), methods=["POST"]),
        _get("/api/curves", of_runs(curves)),
        _get("/api/config", of_runs(settings)),
    ]


class _Methods:
    """One address with an answer to GET and another to POST."""

    def __init__(self, get: Answer, post: Answer) -> None:
        self._get, self._post = answering(get), answering(post)

    async def answer(self, request: Request) -> Response:
        """Of the one that was asked with."""
        return await (self._post if request.method == "POST" else self._get)(request)


def _get(path: str, answer: Answer) -> Route:
    return Route(path, answering(answer), methods=["GET"])


def _json(document: Any) -> Response:
    return Response(encode(document), media_type="application/json")


def _checkpoint(request: Request) -> str:
    return request.query_params.get("checkpoint", "last")


def _word(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise BadRequestError(f"{name} must be a text, got {value!r:.60}.")
    return value


def _flag(body: dict[str, Any], name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise BadRequestError(f"{name} must be a yes or no, true or false, got {value!r:.60}.")
    return value


def _number(body: dict[str, Any], name: str) -> float:
    value = body.get(name)
    fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9 and math.isfinite(value)
    if not fits:
        raise BadRequestError(f"{name} must be a finite number, got {value!r:.60}.")
    return float(value)  # type: ignore[arg-type]  # mypy does not look into `fits`


def _whole(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise NotHereError(f"There is no {text[:20]!r}; {what} is a whole number.")
    return int(text)


async def _http_error(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    texts = {404: "There is nothing at this address.", 405: "This address is not asked in this way."}
    return problem(status, texts.get(status, "This request cannot be answered."))


async def _unexpected(request: Request, error: Exception) -> Response:
    if not isinstance(error, CUT):
        note(f"{request.method} {request.url.path}: {type(error).__name__}: {error}")
    return problem(500, "The server met an error of its own; its console says more.")


def page_routes() -> list[Route]:
    """The files of the page, and no others: which there are is looked up once."""
    files = sorted(path for path in PAGE.rglob("*") if path.suffix in KINDS and path.is_file())
    routes = [_file_route("/page/" + path.relative_to(PAGE).as_posix(), path) for path in files]
    return [*routes, _file_route("/", PAGE / "index.html")]


def _file_route(address: str, path: Path) -> Route:
    async def serve(_: Request) -> Response:
        try:
            content = path.read_bytes()
        except OSError:
            return problem(404, "This part of the page is missing; install sfl again.")
        return Response(content, media_type=KINDS[path.suffix], headers={"cache-control": "no-cache"})

    return Route(address, serve, methods=["GET"])
