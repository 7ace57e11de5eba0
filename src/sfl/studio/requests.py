"""From a request to a plain function and back: its body, the errors that it can cause, and how they are shown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from h11 import LocalProtocolError
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from sfl.errors import SflError, UsageError
from sfl.studio.answers import NotHereError, NotReadyError, encode

MOST_BYTES = 8 << 20
"""Of the body of a request."""

CUT = (asyncio.CancelledError, LocalProtocolError)
"""What ends an answer that nobody waits for any more: the server ends, or what came meanwhile was no HTTP."""

STATUS = {NotHereError: 404, NotReadyError: 409, UsageError: 400}
"""Of errors that a request can cause; any other of ours is 422."""

Answer = Callable[[Request, dict[str, Any]], Response]


class BadRequestError(UsageError):
    """A request that is not what it should be."""


def answering(answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    """A route from a plain function of the request and its JSON body; errors of ours become one line."""

    async def respond(request: Request) -> Response:
        try:
            body = await read_body(request) if request.method == "POST" else {}
            return await run_in_threadpool(answer, request, body)
        except SflError as error:
            status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 422)
            return problem(status, str(error))
        except (OSError, MemoryError) as error:  # a folder that vanished between two looks at it
            return problem(422, f"Cannot be read: {error}")

    return respond


async def read_body(request: Request) -> dict[str, Any]:
    """The JSON object in the body of a request."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise BadRequestError("The body of a request must be application/json.")
    content = bytearray()
    try:
        async for part in request.stream():
            content += part
            if len(content) > MOST_BYTES:
                raise BadRequestError(f"The body of a request must not have more than {MOST_BYTES >> 20} MB.")
        body = json.loads(content, parse_constant=_no_constant)
    except (ValueError, RecursionError, ClientDisconnect) as error:
        raise BadRequestError("The body of a request must be JSON.") from error
    if not isinstance(body, dict):
        raise BadRequestError("The body of a request must be a JSON object.")
    return body


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def problem(status: int, text: str) -> Response:
    """An error as the page shows it, in one line."""
    return Response(encode({"error": " ".join(text.split())}), status, media_type="application/json")
