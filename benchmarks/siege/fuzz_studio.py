"""Requests to the studio's server that no page would send."""

from __future__ import annotations

import errno
import json
import random
import re
import socket
import time
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from urllib.parse import quote

from benchmarks.siege import hostile
from benchmarks.siege.case import Broken, Family, Room, chance
from benchmarks.siege.forked import Begun, Limits, begin, copy_run, traceback
from benchmarks.siege.fuzz_inputs import is_real

REQUESTS = 40
"""Of one case."""
PAGES = (
    "/",
    "/api/runs",
    "/api/runs/{run}/map",
    "/api/runs/{run}/graph",
    "/api/runs/{run}/graph?checkpoint={word}",
    "/api/runs/{run}/landmarks/{number}/picture",
    "/api/runs/{run}/landmarks/0/picture?checkpoint={word}",
    "/api/runs/{run}/fields",
    "/api/runs/{run}/field",
    "/api/curves?runs={run}",
    "/api/config?runs={run}",
    "/api/live",
    "/api/live/{word}",
    "/api/live/{word}/events",
    "/page/{word}",
    "/page/..%2f..%2fserver.py",
    "/{word}",
)
BODIES: tuple[dict[str, object], ...] = (
    {"checkpoint": "last", "x": 3, "y": 3, "degrees": 0},
    {"checkpoint": "last"},
    {"players": [{"run": "r0", "checkpoint": "last"}], "start": [3, 3, 0], "goal": [5, 5, 0], "seed": 0},
    {"runs": [["r0", "last"]], "start": {"x": 3, "y": 3}, "goal": {"x": 5, "y": 5}},
    {"do": "pause"},
    {"do": "speed", "speed": 4},
)
READY = re.compile(r"http://127\.0\.0\.1:(\d+)/")
MOST = 64 << 20


def _requests(seed: int, room: Room) -> str:
    dice = chance("studio", seed)
    copy_run(room, dice.choice(("grid-slim", "random", "gym-slim")), "run")
    limits = Limits(seconds=60)
    server = begin(["studio", "run", "--port", "0", "--no-open"], room, limits, real=is_real(seed))
    answers: dict[int, int] = {}
    broken = ""
    try:
        port = _port(server)
        for _ in range(REQUESTS):
            sent = _request(dice)
            status, problem = _asked(port, sent, dice)
            answers[status] = answers.get(status, 0) + 1
            broken = broken or (f"{problem}: {ascii(sent[:300])[2:-1]}" if problem else "")
        broken = broken or _alive(port)
    finally:
        server.interrupt()
        ended = server.end()
    if broken or ended.over or ended.code not in (0, 130):
        raise Broken(broken or f"the server ended with {ended.code} {ended.over}: {ended.err[-300:]!a}")
    if trace := traceback(ended.err):
        raise Broken(f"on the server's console: {trace}")
    if noise := [line for line in ended.err.splitlines() if "Error" in line or "Exception" in line]:
        raise Broken(f"on the server's console: {noise[0][:300]}")
    return f"{REQUESTS} requests: " + ", ".join(
        f"{status or 'closed'} {count}x" for status, count in sorted(answers.items())
    )


def _port(server: Begun) -> int:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if match := READY.search(server.said()):
            return int(match[1])
        time.sleep(0.02)
    raise Broken("the server did not start within 60 s")


def _request(dice: random.Random) -> bytes:
    """A request as bytes, most of them almost right."""
    page = dice.choice(PAGES)
    text = hostile.word(dice)[:2000] if dice.random() < 0.5 else dice.choice(("last", "000000600", "r0", "1"))
    run = "r0" if dice.random() < 0.7 else hostile.word(dice)[:300]
    coded = {"run": run, "word": text, "number": hostile.number(dice)}
    path = page.format(
        **{name: quote(value.encode("utf-8", "surrogateescape"), safe="") for name, value in coded.items()}
    )
    method = dice.choice(
        ("GET", "GET", "POST", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "FOO", "get")
    )
    body = _body(dice) if method in ("POST", "PUT", "PATCH") else b""
    headers = {
        "Host": "127.0.0.1:{port}",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    for _ in range(dice.choice((0, 0, 0, 1, 2))):
        headers |= _header(dice, body)
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    request = "\r\n".join(lines).encode("utf-8", "surrogateescape") + body
    return hostile.damaged(request, dice) if dice.random() < 0.08 else request


def _header(dice: random.Random, body: bytes) -> dict[str, str]:
    others: list[Callable[[], dict[str, str]]] = [
        lambda: {"Host": dice.choice(("evil.example", "", "127.0.0.1", "localhost:1", "é"))},
        lambda: {
            "Content-Type": dice.choice(("text/plain", "", "application/json; charset=utf-16", "multipart/form-data"))
        },
        lambda: {"Content-Length": dice.choice(("-1", "0", "9" * 30, "x", str(len(body) + 100), str(10**9)))},
        lambda: {"Transfer-Encoding": dice.choice(("chunked", "gzip", "identity"))},
        lambda: {"Origin": dice.choice(("http://evil.example", "null", "x"))},
        lambda: {"Cookie": "a=" + "x" * dice.choice((10, 10_000, 100_000))},
        lambda: {"Range": "bytes=0-" + "9" * 40, "If-None-Match": "*", "Last-Event-ID": hostile.number(dice)},
        lambda: {f"X-{number}": "y" for number in range(dice.choice((5, 500)))},
        lambda: {"Expect": "100-continue"},
        lambda: {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "x"},
    ]
    return dice.choice(others)()


def _body(dice: random.Random) -> bytes:
    changed = hostile.changed_json(dice.choice(BODIES), dice, dice.choice((0, 1, 1, 2)))
    return hostile.json_text(changed, dice) if dice.random() < 0.97 else b" " * (9 << 20) + b"{}"


def _asked(port: int, request: bytes, dice: random.Random) -> tuple[int, str]:
    """The status (0: no answer), and what is wrong with the answer (empty: nothing)."""
    head = request.replace(b"{port}", str(port).encode())
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
            line.settimeout(20)
            try:
                line.sendall(head)
                if dice.random() < 0.05:
                    return 0, ""  # whoever asked has gone
                line.shutdown(socket.SHUT_WR)
            except OSError as error:
                if error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN):
                    raise  # one of these: refused before all of it was read
            return _answer(line)
    except ConnectionResetError:
        return 0, ""
    except TimeoutError:
        return 0, "no answer within 20 s"
    except OSError as error:
        return 0, f"the server is gone ({error})"


def _answer(line: socket.socket) -> tuple[int, str]:
    response = HTTPResponse(line)
    try:
        response.begin()
        if (response.getheader("content-type") or "").startswith("text/event-stream"):
            return response.status, ""
        content = response.read(MOST)
    except (HTTPException, ValueError):
        return 0, ""  # not an answer in HTTP: what came was not a request in HTTP
    if response.status >= 500:
        return response.status, f"status {response.status}: {content[:200]!a}"
    if response.status >= 400 and response.getheader("content-type", "").startswith("application/json") and content:
        try:
            told = json.loads(content)["error"]
        except (ValueError, KeyError, TypeError):
            return response.status, f"status {response.status} without a line of error: {content[:200]!a}"
        if "\n" in told.strip():
            return response.status, f"an error of several lines: {told[:200]!a}"
    return response.status, ""


def _alive(port: int) -> str:
    good = f"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        line.sendall(good)
        status, problem = _answer(line)
    return problem or ("" if status == 200 else f"a good request gets {status} afterwards")


FAMILIES = (
    Family(
        "studio",
        f"The studio's server answers {REQUESTS} mad requests a case, each with one line or an answer, and lives on.",
        _requests,
        weight=30,
        needs=("grid-slim", "gym-slim", "random"),
        limit=300,
        short=2,
    ),
)
