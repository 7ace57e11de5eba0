"""Live episodes: agents go where the page sends them. Requests in, events out as Server-Sent Events."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from sfl.config import require
from sfl.errors import SflError
from sfl.run.folder import LoadedRun
from sfl.studio.answers import encode
from sfl.studio.players import Event, gather, rounds
from sfl.studio.posing import Request, require_one_world, task_of
from sfl.studio.requests import answering, problem
from sfl.studio.sessions import Session, Stage
from sfl.worlds import Task

HEARTBEAT = 15.0
"""Seconds between two signs of life where nothing happens: a line that is gone is noticed by them."""


class Loader(Protocol):
    """What live episodes ask of the studio."""

    closers: list[Callable[[], None]]

    def load(self, run_id: str, checkpoint: str) -> LoadedRun:
        """The agent of a checkpoint."""


def record(runs: Sequence[LoadedRun], task: Task, seed: int = 0) -> list[Event]:
    """A whole episode at once: the events that a page would get of these runs on this task."""
    require_one_world(runs)
    players = gather(runs, task, seed)
    try:
        return [event for events in rounds(players) for event in events]
    finally:
        for player in players:
            player.close()


def routes(studio: Loader) -> list[Route]:
    """The addresses under /api/live. Episodes end with the studio."""
    stage = Stage()
    studio.closers.append(stage.close)

    def begin(_: HttpRequest, body: dict[str, Any]) -> Response:
        asked = Request.read(body)
        runs = [studio.load(run, checkpoint) for run, checkpoint in asked.players]
        require_one_world(runs)
        task = task_of(runs[0], asked)
        return _json({"id": stage.begin(lambda: gather(runs, task, asked.seed)).id})

    def order(request: HttpRequest, body: dict[str, Any]) -> Response:
        session = stage.find(request.path_params["id"])
        word, speed = body.get("do"), body.get("speed")
        require(isinstance(word, str), f"do must be a text, got {word!r:.60}.")
        number = isinstance(speed, int | float) and not isinstance(speed, bool) and math.isfinite(speed)
        require(speed is None or number, f"speed must be a finite number, got {speed!r:.60}.")
        session.order(str(word), speed)
        return _json({})

    async def events(request: HttpRequest) -> Response:
        try:
            session = stage.find(request.path_params["id"])
        except SflError as error:
            return problem(404, str(error))
        first = _next_number(request.headers.get("last-event-id", ""))
        if session.over and not session.events_from(first):
            return Response(status_code=204)  # tells a browser not to ask again
        return StreamingResponse(
            _follow(session, first), media_type="text/event-stream", headers={"cache-control": "no-store"}
        )

    return [
        Route("/api/live", answering(begin), methods=["POST"]),
        Route("/api/live/{id}", answering(order), methods=["POST"]),
        Route("/api/live/{id}/events", events, methods=["GET"]),
    ]


async def _follow(session: Session, first: int) -> AsyncIterator[bytes]:
    """The events from a number on, as they come, until the episode is over."""
    loop, rung = asyncio.get_running_loop(), asyncio.Event()

    def bell() -> None:
        with suppress(RuntimeError):  # the loop has ended, and its readers with it
            loop.call_soon_threadsafe(rung.set)

    with session.reading(bell):
        yield b"retry: 1000\n\n"
        while True:
            rung.clear()
            over = session.over  # asked first: what happened before is then among the events
            for number, text in session.events_from(first):
                yield b"id: %d\ndata: %b\n\n" % (number, text)
                first = number + 1
            if over:
                return
            try:
                await asyncio.wait_for(rung.wait(), HEARTBEAT)
            except TimeoutError:
                yield b":\n\n"


def _next_number(last: str) -> int:
    """The event after the one that a reader has got; 0 where it has none."""
    return int(last) + 1 if last.isascii() and last.isdigit() and len(last) < 10 else 0


def _json(document: Any) -> Response:
    return Response(encode(document), media_type="application/json")
