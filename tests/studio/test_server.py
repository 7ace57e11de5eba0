"""Who may ask, and that nothing that is asked breaks the server or reads a file that is none of its business."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from sfl.errors import UsageError
from sfl.studio import safety, server
from sfl.studio.requests import MOST_BYTES
from sfl.studio.safety import is_loopback, own_names, token_for
from sfl.studio.server import application
from sfl.studio.shared import Studio

from .asking import Reply, ask

TOKEN = "correcthorse"
SECRET = "nobody may read this"
HERE = frozenset({"testserver"})


# ---- who may ask


def test_the_loopback_address_needs_no_token_and_every_other_does() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "127.8.0.1")] == [True] * 4
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "192.168.0.3", "example.org", "")] == [False] * 5
    assert token_for("127.0.0.1", None) is None
    assert token_for("127.0.0.1", TOKEN) == TOKEN
    made = {token_for("0.0.0.0", None) for _ in range(5)}
    assert len(made) == 5
    assert all(token is not None and len(token) == 32 for token in made)
    with pytest.raises(UsageError, match="--token must be 8 or more letters and digits, got 3 characters"):
        token_for("127.0.0.1", "abc")
    with pytest.raises(UsageError, match="--token must be"):
        token_for("127.0.0.1", "spaces and; semicolons")


def test_the_names_that_the_server_answers_to() -> None:
    names = own_names("127.0.0.1", 8765)
    assert names is not None
    assert {"127.0.0.1:8765", "localhost:8765", "[::1]:8765"} <= names
    assert "127.0.0.1" not in names
    assert "evil.example:8765" not in names
    assert own_names("192.168.0.3", 1) == {"192.168.0.3:1", "[192.168.0.3]:1"}
    assert own_names("0.0.0.0", 1) is None


@pytest.mark.parametrize("host", ["evil.example", "testserver:80", "testserver.evil.example", ""])
def test_other_names_for_this_address_are_refused(studio: Studio, host: str) -> None:
    app = application(studio, HERE, None)
    assert ask(app, "/api/runs").status == 200
    refused = ask(app, "/api/runs", headers={"host": host})
    assert refused.status == 403
    assert "not under this name" in json.loads(refused.body)["error"]


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://testserver", 200),
        (None, 200),
        ("http://evil.example", 403),
        ("null", 403),
        ("http://testserver:1", 403),
    ],
)
def test_other_sites_can_ask_for_nothing(studio: Studio, origin: str | None, status: int) -> None:
    headers = {"content-type": "application/json"} | ({} if origin is None else {"origin": origin})
    app, path = application(studio, HERE, None), "/api/runs/r0/fields"
    assert ask(app, path, "POST", headers=headers, body=b'{"checkpoint": "last"}').status == status
    assert ask(app, path, headers=headers).status == status


def test_with_a_token_nothing_is_answered_without_it(studio: Studio) -> None:
    app = application(studio, HERE, TOKEN)
    for path in ("/", "/api/runs", "/page/main.js", "/nowhere", "/api/live/x/events"):
        for query in ("", "token=", "token=wrong", "token=correcthors", "Token=correcthorse"):
            refused = ask(app, path, query=query)
            assert refused.status == 401, (path, query)
            assert "set-cookie" not in refused.headers
    assert ask(app, "/api/runs", headers={"cookie": f"{safety.COOKIE}=wrong"}).status == 401
    posted = ask(app, "/api/runs/r0/fields", "POST", headers={"content-type": "application/json"}, body=b"{}")
    assert posted.status == 401


def test_the_token_becomes_a_cookie_and_leaves_the_address(studio: Studio) -> None:
    app = application(studio, HERE, TOKEN)
    first = ask(app, "/", query=f"run=r0&token={TOKEN}")
    assert (first.status, first.headers["location"]) == (303, "/?run=r0")
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    reply = ask(app, "/api/runs", headers={"cookie": cookie.partition(";")[0]})
    assert json.loads(reply.body)["token_needed"] is True
    assert ask(app, "//evil.example/", query=f"token={TOKEN}").headers["location"] == "/evil.example/"


def test_every_answer_says_what_the_page_may_do(studio: Studio) -> None:
    app = application(studio, HERE, None)
    for path in ("/api/runs", "/nowhere", "/"):
        headers = ask(app, path).headers
        assert headers["content-security-policy"].startswith("default-src 'self'; img-src 'self' data: blob:;")
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
    assert ask(app, "/api/runs").headers["cache-control"] == "no-store"


# ---- what is asked


def error(reply: Reply) -> str:
    text: str = json.loads(reply.body)["error"]
    assert "\n" not in text
    assert "Traceback" not in text
    return text


def test_bodies_are_checked(studio: Studio) -> None:
    app, kind = application(studio, HERE, None), {"content-type": "application/json"}

    def post(body: bytes, headers: dict[str, str] = kind) -> Reply:
        return ask(app, "/api/runs/r0/fields", "POST", headers=headers, body=body)

    assert "application/json" in error(post(b"{}", {"content-type": "text/plain"}))
    assert "must be JSON" in error(post(b"{"))
    assert "must be JSON" in error(post(b'{"checkpoint": NaN}'))
    assert "must be JSON" in error(post(b"[" * 200_000))
    assert "must be a JSON object" in error(post(b"[]"))
    assert "must not have more than 8 MB" in error(post(b" " * (MOST_BYTES + 1)))
    assert "checkpoint must be a text, got None" in error(post(b"{}"))
    assert ask(app, "/api/runs", "DELETE").status == 405


def test_only_files_of_the_page_are_served(tmp_path: Path, studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page"
    (page / "parts").mkdir(parents=True)
    (page / "index.html").write_text("<!doctype html>")
    (page / "parts" / "map.js").write_text("export {};")
    (page / "notes.txt").write_text(SECRET)
    (tmp_path / "outside.js").write_text(SECRET)
    monkeypatch.setattr(server, "PAGE", page)
    app = application(studio, HERE, None)
    assert ask(app, "/").headers["content-type"].startswith("text/html")
    assert ask(app, "/page/parts/map.js").headers["content-type"].startswith("text/javascript")
    outside = ["/page/notes.txt", "/page/../outside.js", "/page/parts/../../outside.js", f"/page/{tmp_path}/outside.js"]
    for path in [*outside, "/page/", "/page/parts", "/page//parts/map.js", "/page/%2e%2e/outside.js"]:
        assert ask(app, path).status == 404, path


def test_two_clients_at_once_get_the_same(studio: Studio) -> None:
    app = application(studio, HERE, None)
    with TestClient(app) as first:
        second = TestClient(app)
        addresses = ["/api/runs/r0/graph", "/api/runs/r1/map", "/api/curves?runs=r0,r1"]
        assert [first.get(one).content for one in addresses] == [second.get(one).content for one in addresses]
        both = [one.post("/api/runs/r0/fields", json={"checkpoint": "last"}) for one in (first, second)]
        assert [answer.status_code for answer in both] == [200, 200]


def test_a_run_that_vanishes_is_gone_and_nothing_else_is(client: TestClient, grid_run: Path) -> None:
    assert client.get("/api/runs/r0/graph").status_code == 200
    shutil.rmtree(grid_run)
    states = [run["state"] for run in client.get("/api/runs").json()["runs"]]
    assert states == ["gone", "finished"]
    for address in ("graph", "landmarks/0/picture", "fields"):
        answer = client.get(f"/api/runs/r0/{address}")
        assert answer.status_code == 404, address
        assert "has no checkpoint 'last'; there are none yet." in answer.json()["error"]
    assert client.post("/api/runs/r0/fields", json={"checkpoint": "last"}).status_code == 404
    assert client.get("/api/curves?runs=r0,r1").json()["metrics"][0]["runs"].keys() == {"r1"}
    assert client.get("/api/config?runs=r0").status_code == 200
    assert client.get("/api/runs/r1/graph").status_code == 200


@pytest.mark.parametrize("file", ["graph.npz", "landmark_poses.npy", "format.json", "poses.npy"])
@pytest.mark.parametrize("content", [b"", b"half", b"PK\x03\x04", b'{"format": 3, "files": 5}', b"{}"])
def test_a_checkpoint_that_is_damaged_is_an_error_of_its_own(
    client: TestClient, grid_run: Path, file: str, content: bytes
) -> None:
    (grid_run / "checkpoints" / "last" / file).write_bytes(content)
    assert client.get("/api/runs").status_code == 200
    answer = client.get("/api/runs/r0/graph")
    if file == "poses.npy":  # the graph itself is whole
        assert answer.json()["coverage"] is None
    else:
        assert answer.status_code in (404, 422)
        assert answer.json()["error"]
    assert client.get("/api/runs/r0/graph?checkpoint=000000600").status_code == 200


# ---- anything at all

WORDS = st.sampled_from(
    [
        "r0",
        "r1",
        "r2",
        "last",
        "000000600",
        "..",
        ".",
        "",
        "%2e%2e",
        "secret.txt",
        "config.json",
        "format.json",
        "0",
        "-1",
    ]
)
PIECES = WORDS | st.text(max_size=8)
PLACES = st.sampled_from(
    ["map", "graph", "fields", "field", "landmarks", "picture", "api", "runs", "curves", "page", "live"]
)
PATHS = st.lists(PIECES | PLACES, max_size=6).map(lambda parts: "/" + "/".join(parts))
REAL = st.builds(
    "/api/runs/{}/{}".format, WORDS, st.sampled_from(["map", "graph", "fields", "field", "landmarks/0/picture"])
) | st.builds("/api/runs/{}/landmarks/{}/picture".format, WORDS, PIECES)
NAMES = st.sampled_from(["checkpoint", "runs", "token", "x"])
QUERIES = st.lists(st.tuples(NAMES, PIECES).map("=".join), max_size=3).map("&".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_subnormal=False) | WORDS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PIECES, inner, max_size=3),
    max_leaves=5,
)
BODIES = (
    st.fixed_dictionaries({}, optional={name: VALUES for name in ("checkpoint", "x", "y", "degrees")}) | VALUES
).map(lambda value: json.dumps(value).encode()) | st.binary(max_size=20)


@pytest.fixture(scope="module")
def exposed(small_run: Path, maze_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ASGIApp]:
    """A server over two runs with a secret in the folder of one, in its checkpoints, and above it."""
    place = tmp_path_factory.mktemp("exposed")
    run = shutil.copytree(small_run, place / "runs" / "grid")
    for folder in (place, place / "runs", run, run / "checkpoints"):
        (folder / "secret.txt").write_text(SECRET)
    studio = Studio([run, maze_run])
    yield application(studio, HERE, None)
    studio.close()


@settings(max_examples=250)
@given(path=PATHS | REAL, query=QUERIES, method=st.sampled_from(["GET", "POST", "HEAD", "PUT"]), body=BODIES)
@example(path="/api/runs/r0/graph", query="checkpoint=../../secret.txt", method="GET", body=b"")
@example(path="/api/runs/../../secret.txt", query="", method="GET", body=b"")
@example(path="/page/../../../secret.txt", query="", method="GET", body=b"")
@example(path="/api/runs/r0/field", query="", method="POST", body=b'{"checkpoint": "last", "x": 1e400, "y": 0}')
@example(path="/api/runs/r0/landmarks/99999999999999999999/picture", query="", method="GET", body=b"")
def test_nothing_that_is_asked_breaks_the_server(
    exposed: ASGIApp, path: str, query: str, method: str, body: bytes
) -> None:
    reply = ask(exposed, path, method, query, {"content-type": "application/json"}, body)
    assert reply.status < 500 or path.startswith("/api/live"), reply
    assert SECRET.encode() not in reply.body
    if reply.status >= 400 and method != "HEAD":
        answer: dict[str, Any] = json.loads(reply.body)
        assert list(answer) == ["error"]
        assert str(answer["error"])
        assert "Traceback" not in answer["error"]
