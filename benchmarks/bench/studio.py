"""What the server costs while nobody clicks, and how long a graph and a field take at full size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bench.measuring import Row, row
from benchmarks.bench.specimen import Size, make_specimen

from sfl.errors import SflError
from sfl.run.log import note

POLL = 5.0
"""Seconds after which a page asks for the list of runs again."""

MOST_PERCENT, MOST_MILLISECONDS = 5.0, 300.0
ASKED = 10
"""Times that a document is asked for; medians are over these."""


def measure_studio(seconds: float = 10.0, size: Size | None = None, maze: str = "large") -> list[Row]:
    """A real server over a run with 5,000 landmarks and 30,000 edges."""
    size = size or Size()
    with tempfile.TemporaryDirectory() as place:
        note(f"a run with {size.landmarks:,} landmarks and {size.edges:,} edges")
        path = make_specimen(Path(place) / "specimen", size, maze).path
        with running(path) as server:
            note(f"the server at rest, then with a page that asks every {POLL:g} seconds")
            server.ask("/api/runs")
            rows = [_share(server, "at rest", seconds, poll=None), _share(server, "polled", seconds, poll=POLL)]
            note("documents and fields")
            return [*rows, *_documents(server), *_fields(server)]


class Server:
    """A server in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self._process, self.port = process, port
        self.address = f"http://127.0.0.1:{port}/"

    def ask(self, path: str, body: Any = None) -> tuple[bytes, float]:
        """An answer, and the milliseconds until it was here."""
        begin = time.perf_counter()
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            sent = None if body is None else json.dumps(body)
            headers = {} if body is None else {"content-type": "application/json"}
            connection.request("GET" if body is None else "POST", path, sent, headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise SflError(f"{path} was answered with {answer.status}: {content.decode()[:200]}")
        return content, 1e3 * (time.perf_counter() - begin)

    def busy_seconds(self) -> float:
        """Processor time of all its threads so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(*runs: Path, port: int = 0) -> Iterator[Server]:
    """`sfl studio` over runs, on any free port unless one is named; it is ended afterwards."""
    words = [sys.executable, "-m", "sfl", "studio", *map(str, runs), "--port", str(port), "--no-open"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("http://"):
            raise SflError("The server did not start; try `sfl studio --demo`.")
        yield Server(process, int(line.split("/")[2].rpartition(":")[2]))
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _share(server: Server, name: str, seconds: float, poll: float | None) -> Row:
    """Percent of one core that the server takes."""
    begin, busy = time.perf_counter(), server.busy_seconds()
    while (passed := time.perf_counter() - begin) < seconds:
        if poll is not None:  # as a page does that shows the curves of a run in training, or more often
            server.ask("/api/runs")
            server.ask("/api/curves?runs=r0")
        time.sleep(min(poll or seconds, seconds - passed))
    spent, passed = server.busy_seconds() - busy, time.perf_counter() - begin
    return row("studio", f"server {name}", 100 * spent / passed, "% of a core", at_most=MOST_PERCENT)


def _documents(server: Server) -> list[Row]:
    path = "/api/runs/r0/graph?checkpoint=last"
    first = [server.ask("/api/runs/r0/map")[1], server.ask(path)[1]]
    again = [server.ask(path)[1] for _ in range(ASKED)]
    graph, _ = server.ask(path)
    return [
        row("studio", "map, first time", first[0], "ms"),
        row("studio", "graph, first time", first[1], "ms"),
        row("studio", "graph, again", median(again), "ms"),
        row("studio", "graph", len(graph) / 1e6, "MB"),
    ]


def _fields(server: Server) -> list[Row]:
    body = {"checkpoint": "last"}
    begin = time.perf_counter()
    server.ask("/api/runs/r0/fields", body)
    while (status := json.loads(server.ask("/api/runs/r0/fields")[0]))["state"] == "making":
        time.sleep(0.2)
    made = time.perf_counter() - begin
    if status["state"] != "ready":
        raise SflError(f"The field was not made: {status['reason']}")
    places = status["places"]
    clicks = list(zip(places["x"], places["y"], strict=True))
    clicks = clicks[:: max(1, len(clicks) // ASKED)]
    asked = [body | {"x": x, "y": y, "degrees": heading} for x, y in clicks for heading in (0, None)]
    times = [server.ask("/api/runs/r0/field", click)[1] for click in asked]
    # Beside the views: what is seen at the very pose is rendered and compared. The first loads the agent.
    beside = [click | {"x": click["x"] + places["side"] / 8, "exact": True} for click in asked]
    first, *exact = (server.ask("/api/runs/r0/field", click)[1] for click in beside)
    return [
        row("studio", "field cache", made, "s"),
        row("studio", "field", median(times), "ms", at_most=MOST_MILLISECONDS),
        row("studio", "field, slowest", max(times), "ms", at_most=MOST_MILLISECONDS),
        row("studio", "field of the very pose, first time", first, "ms"),
        row("studio", "field of the very pose", median(exact), "ms", at_most=MOST_MILLISECONDS),
    ]
