"""Agents sent to places: what is told of an episode is what an evaluation would have come to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import uvicorn
from starlette.testclient import TestClient

from sfl.errors import SflError, UsageError
from sfl.run.evaluate import evaluate
from sfl.run.folder import LoadedRun, load_run
from sfl.run.sfl import SFL
from sfl.studio import players as playing
from sfl.studio.live import record
from sfl.studio.players import Event, Player, gather
from sfl.studio.safety import own_names
from sfl.studio.serve import listen
from sfl.studio.server import application
from sfl.studio.sessions import Session
from sfl.studio.shared import DEMO, Studio
from sfl.studio.views import Window
from sfl.worlds import Task, make_env

from .watching import SHORT, begin, children, episodes, hasten, heard, of_kind

NEAR = Task("any", 0, (1, 1, 0), (3, 1, 0), 60)
FAR = Task("any", 0, (1, 1, 0), (7, 7, 0), 25)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = children()
    yield
    assert episodes() == []
    assert children() <= before


# ---- what is told


def test_an_episode_ends_as_an_evaluation_with_its_seed_does(loaded: LoadedRun, small_run: Path) -> None:
    alone = SFL.load(small_run, device="cpu")
    outcomes = set()
    for task in (NEAR, FAR, *loaded.tasks("any", 2)):
        (row,) = alone.evaluate([task])
        told = record([loaded], task, loaded.seed)
        (end,) = of_kind(told, "end")
        assert (end["outcome"], end["steps"]) == (row.outcome, row.steps)
        assert [event["step"] for event in of_kind(told, "step")] == list(range(row.steps + 1))
        last = of_kind(told, "step")[-1]
        assert last["action"] is None
        assert last["reached"] == bool(row.success) == (last["pose"][:2] == list(task.goal[:2]))  # type: ignore[index]
        outcomes.add(row.outcome)
    assert "reached" in outcomes
    assert len(outcomes) > 1


def test_steps_tell_where_it_is_what_it_does_and_what_it_believes(loaded: LoadedRun) -> None:
    told = record([loaded], FAR, 0)
    (first,), steps = of_kind(told, "begin"), of_kind(told, "step")
    assert (first["start"], first["goal"], first["budget"]) == ([1, 1, 0], [7, 7, 0], 25)
    assert first["actions"] == ["left", "right", "forward", "toggle"]
    assert told[0] == first
    assert told[-1]["type"] == "end"
    turns = {0: -90, 1: 90}
    for step, following in pairwise(steps):
        change = (following["pose"][2] - step["pose"][2] + 180) % 360 - 180
        assert change == turns.get(step["action"], 0)
    placed = [step for step in steps if step["localized"] is not None]
    assert placed
    for step in placed:
        assert step["believed"] == pytest.approx(loaded.landmark_poses[step["localized"]].tolist())
        assert step["off"] == pytest.approx(np.hypot(*np.subtract(step["believed"], step["pose"])[:2]), abs=0.01)
    weighed = [step for step in steps if step["values"]]
    assert weighed
    assert {step["values_name"] for step in weighed} == {"SFS of the target"}
    chosen = [step["values"][step["action"]] == max(step["values"]) for step in weighed]
    assert np.mean(chosen) > 0.7  # the others are slips
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_a_waypoint_that_counts_as_reached_is_not_the_goal() -> None:
    passed, demo = 0, load_run(DEMO / "demo-fourroom", device="cpu", learning=False)
    for seed in range(2):
        steps = of_kind(record([demo], FAR, seed), "step")
        for step, following in pairwise(steps):
            assert not step["reached"]  # the episode would be over
            if step["passed"] is not None:
                passed += 1
                assert step["passed"] == step["localized"]  # this is what the agent goes by, wherever it truly is
                assert step["passed"] != step["target"]
            assert following["step"] == step["step"] + 1
        assert (steps[-1]["passed"], steps[-1]["reached"]) == (None, True)
    assert passed


def test_pictures_show_the_player_at_each_step_and_the_goal(loaded: LoadedRun) -> None:
    told = record([loaded], FAR, 0)
    env = make_env(loaded.experiment.env)
    for step in of_kind(told, "step")[:4]:
        env.reset(options={"start": tuple(step["pose"])})
        assert step["picture"] == Window(env).now()
    seen = env.reset(options={"start": (7, 7, 0)})[0]["observation"]
    assert of_kind(told, "begin")[0]["goal_picture"] == Window(env).of(seen)


def test_players_do_what_each_would_do_alone(loaded: LoadedRun) -> None:
    both = record([loaded, loaded], NEAR, 4)
    for number in (0, 1):
        alone = [{**event, "player": number} for event in record([loaded], NEAR, 4)]
        assert [event for event in both if event["player"] == number] == alone


# ---- a session


def told_by(session: Session) -> list[Event]:
    return [json.loads(text) for _, text in session.events_from(0)]


class Reader:
    """Waits for the next events of a session."""

    def __init__(self, session: Session) -> None:
        self._session, self._rung = session, threading.Event()

    def __call__(self) -> None:
        self._rung.set()

    def until(self, enough: Callable[[], bool]) -> None:
        while not enough():
            assert self._rung.wait(20)
            self._rung.clear()


def test_pause_step_play_and_stop(loaded: LoadedRun) -> None:
    session = Session(gather([loaded, loaded], FAR, 0), playing=False)
    reader = Reader(session)
    with session.reading(reader):
        assert told_by(session) == []
        session.order("step")
        reader.until(lambda: len(told_by(session)) == 4)  # two begin, two have made a step
        session.order("step")
        reader.until(lambda: len(told_by(session)) == 6)
        assert [event["step"] for event in of_kind(told_by(session), "step", 1)] == [0, 1]
        session.order("play", 4)  # of 25 decisions most are left when it is stopped
        reader.until(lambda: len(told_by(session)) >= 10)
        session.order("stop")
        reader.until(lambda: session.over)
    ends = [event for event in told_by(session) if event["type"] == "end"]
    assert [(end["player"], end["outcome"]) for end in ends] == [(0, "stopped"), (1, "stopped")]
    steps = of_kind(told_by(session), "step")
    assert ends[0]["steps"] == len(steps)
    assert session.events_from(8) == session.events_from(0)[8:]
    session.close()


def test_an_episode_that_nobody_reads_is_given_up(loaded: LoadedRun) -> None:
    session = Session(gather([loaded], FAR, 0), idle=0.0, playing=False)
    session._thread.join(20)
    assert session.over
    assert session.forgotten
    assert [event["outcome"] for event in told_by(session)] == ["stopped"]


@pytest.mark.parametrize(
    ("fault", "text"),
    [(SflError("The world\nended."), "The world ended."), (ZeroDivisionError("no"), "broke off by an error")],
)
def test_an_error_is_one_line_and_the_worlds_are_closed(
    loaded: LoadedRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fault: Exception, text: str
) -> None:
    closed = count_closed(monkeypatch)
    made = gather([loaded, loaded], FAR, 0)
    monkeypatch.setattr(Window, "now", raising(fault))
    session = Session(made)
    session._thread.join(20)
    (error,) = told_by(session)
    assert error["type"] == "error"
    assert text in error["text"]
    assert "\n" not in error["text"]
    assert len(closed) == 2
    # A bug is told in full where one can mend it; what a user may cause is not.
    assert ("ZeroDivisionError: no" in capsys.readouterr().err) == (not isinstance(fault, SflError))


def raising(fault: Exception) -> Callable[..., Any]:
    def broken(*_: Any) -> Any:
        raise fault

    return broken


def count_closed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    closed: list[int] = []
    whole = Player.close

    def close(self: Player) -> None:
        closed.append(self.number)
        whole(self)

    monkeypatch.setattr(Player, "close", close)
    return closed


def test_players_are_closed_if_another_cannot_be_made(loaded: LoadedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    closed, made = count_closed(monkeypatch), []

    def make(config: Any) -> Any:
        made.append(config)
        if len(made) == 3:
            raise SflError("No more worlds.")
        return make_env(config)

    monkeypatch.setattr(playing, "make_env", make)
    with pytest.raises(SflError, match="No more worlds"):
        gather([loaded] * 4, FAR, 0)
    assert closed == [1, 0]


# ---- over the network


def test_two_players_over_the_network(client: TestClient, loaded: LoadedRun) -> None:
    name = begin(client, "r0", "r0")
    hasten(client, name)
    stream = client.get(f"/api/live/{name}/events")
    assert stream.headers["content-type"].startswith("text/event-stream")
    told = heard(stream)
    assert [number for number, _ in told] == list(range(len(told)))
    events = [event for _, event in told]
    task = Task("any", 0, (1, 1, 0), (7, 7, 0), SHORT["budget"])  # type: ignore[arg-type]
    (row,) = evaluate(loaded.agent, loaded.experiment.env, [task], seed=3)
    assert [(end["outcome"], end["steps"]) for end in of_kind(events, "end", 1)] == [(row.outcome, row.steps)]
    again = client.get(f"/api/live/{name}/events", headers={"last-event-id": "4"})
    assert heard(again) == told[5:]
    over = client.get(f"/api/live/{name}/events", headers={"last-event-id": str(told[-1][0])})
    assert over.status_code == 204


@pytest.fixture
def address(studio: Studio) -> Iterator[str]:
    """A real server, because a test client reads a stream only when it is over."""
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    app = application(studio, own_names("127.0.0.1", port), None)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()
    listener.close()


def read_some(address: str, count: int, last: int | None = None) -> list[tuple[int, Event]]:
    """The next events of a stream, which is then cut off."""
    headers = {} if last is None else {"last-event-id": str(last)}
    told: list[tuple[int, Event]] = []
    with httpx.stream("GET", address, headers=headers, timeout=20) as stream:
        lines = stream.iter_lines()
        while len(told) < count:
            line = next(lines)
            if line.startswith("id: "):
                told.append((int(line[4:]), json.loads(next(lines)[6:])))
    return told


def test_a_line_that_breaks_is_taken_up_where_it_broke(address: str) -> None:
    body = {"players": [{"run": "r0", "checkpoint": "last"}], **SHORT, "budget": 5000}
    name = httpx.post(f"{address}/api/live", json=body, timeout=20).json()["id"]
    first = read_some(f"{address}/api/live/{name}/events", 3)
    second = read_some(f"{address}/api/live/{name}/events", 3, first[-1][0])
    assert [number for number, _ in first + second] == list(range(6))
    assert [event["step"] for _, event in (first + second)[1:]] == list(range(5))
    # It goes on when the server ends: that nothing of it is left, every test here asserts.


def test_tasks_of_the_run_by_level_and_pair(client: TestClient, loaded: LoadedRun) -> None:
    name = begin(client, "r0", start=None, goal=None, level="any", pair=1, budget=2)
    hasten(client, name)
    (first,) = of_kind([event for _, event in heard(client.get(f"/api/live/{name}/events"))], "begin")
    task = loaded.tasks("any")[1]
    assert (first["start"], first["goal"], first["budget"]) == (list(task.start), list(task.goal), 2)  # type: ignore[arg-type]


def test_a_goal_may_be_a_picture_of_the_map(client: TestClient, loaded: LoadedRun) -> None:
    env = make_env(loaded.experiment.env)
    env.reset(options={"start": (6, 2, 90)})
    name = begin(client, "r0", goal={"picture": Window(env).now()}, budget=1)
    hasten(client, name)
    told = [event for _, event in heard(client.get(f"/api/live/{name}/events"))]
    assert of_kind(told, "begin")[0]["goal"] == [6, 2, 90]


def test_a_level_beside_a_goal_is_only_what_the_page_shows(client: TestClient) -> None:
    name = begin(client, "r0", level="any", budget=1)
    hasten(client, name)
    told = [event for _, event in heard(client.get(f"/api/live/{name}/events"))]
    assert of_kind(told, "begin")[0]["goal"] == SHORT["goal"]


def test_no_more_than_four_at_once(client: TestClient) -> None:
    names = []
    for _ in range(4):
        names.append(begin(client, "r0", budget=5000))
        client.post(f"/api/live/{names[-1]}", json={"do": "pause"})  # it must not arrive meanwhile
    fifth = client.post("/api/live", json={"players": [{"run": "r0"}], **SHORT})
    assert (fifth.status_code, fifth.json()["error"]) == (
        409,
        "4 episodes are under way already; stop one of them first.",
    )
    client.post(f"/api/live/{names[0]}", json={"do": "stop"})
    stopped = heard(client.get(f"/api/live/{names[0]}/events"))  # until it is over
    assert stopped[-1][1]["outcome"] == "stopped"
    begin(client, "r0")


def test_what_cannot_be_played_is_refused_in_one_line(client: TestClient, studio: Studio) -> None:
    refusals = {
        "start (0, 0) is inside a wall": {"start": [0, 0, 0]},
        "goal (20, 1) is outside the 9x9 grid": {"goal": [20, 1, 0]},
        "degrees of a start must be a multiple of 90": {"start": [1, 1, 45]},
        "start must be a pose [x, y, degrees]": {"start": [1, "1", 0]},
        "goal must be a pose": {"goal": "there"},
        "goal.picture must be a text": {"goal": {"picture": 7}},
        "must be data:image/png;base64": {"goal": {"picture": "data:text/html;base64,AAAA"}},
        "cannot be read as a picture; give a PNG or JPEG": {"goal": {"picture": "data:image/png;base64,AAAA"}},
        "All players must live in one world; fourroom-sfl lives in sfl/FourRoom-v0": {
            "players": [{"run": "r0"}, {"run": "r1"}]
        },
        "1 to 4 players can play at once, got 5": {"players": [{"run": "r0"}] * 5},
        "1 to 4 players can play at once, got 0": {"players": []},
        "players must be a list": {"players": "r0"},
        "both texts": {"players": [{"run": 0}]},
        "budget must be a whole number from 1 to 10000, got 0": {"budget": 0},
        "seed must be a whole number": {"seed": -1},
        "No level 'hard'": {"level": "hard", "pair": 0},
        "No pair 4000 of level any": {"level": "any", "pair": 4000},
    }
    for line, part in refusals.items():
        answer = client.post("/api/live", json={"players": [{"run": "r0"}], **SHORT, **part})
        assert answer.status_code == 400, (line, answer.text)
        assert line in answer.json()["error"]
        assert "\n" not in answer.json()["error"]
    unknown = client.post("/api/live", json={"players": [{"run": "r9"}], **SHORT})
    assert unknown.status_code == 404
    assert episodes() == []


def test_a_picture_of_another_world_is_refused(client: TestClient, loaded: LoadedRun) -> None:
    env = make_env(loaded.experiment.env)
    noise = np.random.default_rng(0).integers(0, 256, (90, 90, 3), np.uint8)
    for picture, line in ((noise, "must show one agent on the map"), (noise[:80], "has as many whole tiles")):
        goal = {"picture": Window(env).of(picture)}
        answer = client.post("/api/live", json={"players": [{"run": "r0"}], **SHORT, "goal": goal})
        assert answer.status_code == 400
        assert f"The goal picture {'is' if 'tiles' in line else 'must'}" in answer.json()["error"]
        assert line in answer.json()["error"]


def test_orders_are_checked(client: TestClient) -> None:
    name = begin(client, "r0")
    for body, line in (
        ({"do": "dance"}, "do must be one of play, pause, step, stop, got 'dance'"),
        ({"do": "play", "speed": 61}, "speed must lie between 1 and 60 steps a second, got 61"),
        ({"do": "play", "speed": "fast"}, "speed must be a finite number"),
        ({}, "do must be a text, got None"),
    ):
        answer = client.post(f"/api/live/{name}", json=body)
        assert answer.status_code == 400
        assert line in answer.json()["error"]
    for answer in (client.post("/api/live/none", json={"do": "play"}), client.get("/api/live/none/events")):
        assert (answer.status_code, answer.json()["error"]) == (404, "There is no such episode any more.")


def test_record_refuses_other_worlds(loaded: LoadedRun, studio: Studio) -> None:
    with pytest.raises(UsageError, match="must live in one world"):
        record([loaded, studio.load("r1", "last")], NEAR)
