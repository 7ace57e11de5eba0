"""`sfl studio` as a user starts it, the demo, and the benchmark."""

from __future__ import annotations

import json
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.bench import studio as bench
from benchmarks.bench.specimen import Size, make_specimen
from benchmarks.bench.studio import running

from sfl.cli import main
from sfl.errors import UsageError
from sfl.run.folder import load_run
from sfl.show.views import frozen
from sfl.studio.serve import listen, page_address
from sfl.studio.shared import DEMO, Studio

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that a test starts run this code."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))


def start(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "sfl", "studio", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_it_prints_one_line_listens_on_the_loopback_address_and_ends_with_ctrl_c(grid_run: Path) -> None:
    process = start(str(grid_run), "--port", "0")
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/  \(Ctrl-C ends it\)\n", line)
    assert found is not None, line
    port = int(found[1])
    answer = bench.Server(process, port).ask("/api/runs")[0]
    assert json.loads(answer)["runs"][0]["title"] == "fourroom-sfl seed 0"
    with socket.socket() as probe:  # nobody listens on the other addresses of this machine
        probe.settimeout(2)
        assert probe.connect_ex(("127.0.0.2", port)) != 0
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=20)
    assert (process.returncode, rest, errors) == (0, "", "")


@pytest.mark.slow
def test_who_goes_away_or_stays_to_the_end_leaves_no_word_on_the_console() -> None:
    process = start("--demo", "--port", "0")
    assert process.stdout is not None
    port = int(process.stdout.readline().split("/")[2].rpartition(":")[2])
    ask = bench.Server(process, port).ask
    task = {"players": [{"run": "r0"}], "start": [1, 1, 0], "goal": [7, 7, 0]}
    name = json.loads(ask("/api/live", task)[0])["id"]
    ask(f"/api/live/{name}", {"do": "pause"})  # nothing more is told: its streams are open for as long as one likes
    readers = [socket.create_connection(("127.0.0.1", port)) for _ in range(90)]
    for reader in readers:
        reader.sendall(f"GET /api/live/{name}/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    for reader in readers:
        assert reader.recv(16).startswith(b"HTTP/1.1 200")
    for _ in range(20):  # what comes after the request is none: it may be read before the answer is given, or after
        with socket.create_connection(("127.0.0.1", port)) as odd:
            odd.sendall(f"PUT /api/runs HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n\x00\r\n\r\n".encode())
            odd.recv(16)
    for place, reader in enumerate(readers[:60]):
        if place % 2:  # a reset, not a farewell
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        reader.close()
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=20)
    assert (process.returncode, rest, errors) == (0, "", "")
    for reader in readers[60:]:
        reader.close()


@pytest.mark.slow
def test_another_address_always_has_a_token(grid_run: Path) -> None:
    process = start(str(grid_run), "--port", "0", "--host", "0.0.0.0", "--no-open")
    assert process.stdout is not None
    try:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[0-9a-f]{32}  .*\n", process.stdout.readline())
    finally:
        process.terminate()
        process.communicate(timeout=20)
    assert page_address("::1", 80, None) == "http://[::1]:80/"


def test_wrong_words_are_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path, grid_run: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        cases = {
            (): "sfl: Name a run: sfl studio RUN..., or `sfl studio --demo` to see one that comes with sfl.",
            (str(tmp_path / "no"),): "does not exist; give a run folder such as runs/fourroom-sfl/seed-0000.",
            (str(grid_run), "--port", port): "choose another --port, 0 for any.",
            (str(grid_run), "--port", "70000"): "--port must lie between 0 and 65535, got 70000.",
            (str(grid_run), "--host", "no.such.host.invalid"): "is no address of this machine",
            (str(grid_run), "--host", "."): "is no address of this machine",
            (str(grid_run), "--token", "short"): "--token must be 8 or more letters and digits, got 5 characters.",
            (str(grid_run), "--device", "tpu"): "--device must be auto, cpu or cuda, got 'tpu'.",
        }
        for words, complaint in cases.items():
            assert main(["studio", *words]) == 2, words
            printed = capsys.readouterr()
            assert complaint in printed.err
            assert (printed.out, printed.err.count("\n")) == ("", 1)


def test_a_port_that_was_just_left_can_be_taken_again() -> None:
    first = listen("127.0.0.1", 0)
    port = first.getsockname()[1]
    with pytest.raises(UsageError, match=f"Cannot listen on 127.0.0.1:{port}"):
        listen("127.0.0.1", port)
    first.close()
    listen("127.0.0.1", port).close()


def test_the_demo_is_small_and_can_be_played() -> None:
    assert sum(path.stat().st_size for path in DEMO.rglob("*") if path.is_file()) < 3_000_000
    studio = Studio([], demo=True)
    try:
        listed = studio.runs("1", False)
        lines = {run["experiment"]: run for run in listed["runs"]}
        assert listed["demo"] is True
        assert set(lines) == {"demo-fourroom", "fourroom-random"}
        line = lines["demo-fourroom"]
        assert (line["state"], line["has_graph"], line["has_field"]) == ("finished", True, True)
        names = [checkpoint["name"] for checkpoint in line["checkpoints"]]
        graphs = [studio.graphs.document(studio.shelf.run(line["id"]), name) for name in names]
        counts = [len(graph["landmarks"]["x"]) for graph in graphs]
        assert len(counts) >= 2
        assert counts == sorted(counts)
        assert counts[-1] == 10
        seen = [sum(visits > 0 for visits in graph["coverage"]["visits"]) for graph in graphs]
        assert seen == sorted(seen)  # and the coverage spreads
        policy = frozen(studio.load(line["id"], "last"))
        assert hasattr(policy, "embed")
        assert studio.fields.start(studio.shelf.run(line["id"]), "last")["state"] in ("making", "ready")
    finally:
        studio.close()
    assert not list(DEMO.rglob("studio"))  # nothing is written into the package


def test_a_run_of_full_size_can_be_loaded_and_has_what_was_asked_for(tmp_path: Path) -> None:
    made = make_specimen(tmp_path / "specimen", Size(60, 240), "small")
    run = load_run(made.path, device="cpu", learning=False)
    assert len(run.landmark_poses) == len(run.graph["visits"]) == 60
    studio = Studio([made.path])
    try:
        graph = studio.graphs.document(studio.shelf.run("r0"), "last")
        assert len(graph["edges"]["source"]) == 240
        assert 0 < sum(graph["edges"]["in_force"]) < 240  # the filters take some away
        assert any(share is not None for share in graph["edges"]["success"])
        assert max(graph["landmarks"]["component"]) < 60
    finally:
        studio.close()


@pytest.mark.slow
def test_the_benchmark_asks_a_real_server(grid_run: Path) -> None:
    with running(grid_run) as server:
        rows = [*bench._documents(server), *bench._fields(server), bench._share(server, "polled", 0.3, poll=0.1)]
    values = {row["name"]: row["value"] for row in rows}
    assert values["graph, again"] > 0
    assert values["field"] <= values["field, slowest"]
    assert values["server polled"] >= 0
    assert {row["name"]: row["must"] for row in rows if row["must"]} == {
        "field": "<= 300",
        "field, slowest": "<= 300",
        "field of the very pose": "<= 300",
        "server polled": "<= 5",
    }


@pytest.mark.slow
def test_a_lost_terminal_ends_the_server_without_a_traceback(grid_run: Path) -> None:
    """A shell and the kernel both send a signal of it."""
    process = start(str(grid_run), "--port", "0", "--no-open")
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.5)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGHUP)
    _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (0, "")
