"""Live episodes in a maze, with real games: they see, arrive and end as they should, and none is left."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from sfl.api import Array
from sfl.baselines.random import RandomConfig
from sfl.registry import make_agent
from sfl.run.evaluate import evaluate
from sfl.run.folder import LoadedRun, load_run
from sfl.studio.live import record
from sfl.worlds import Task, make_env

from .watching import begin, children, episodes, hasten, heard, of_kind

SOUTH, NORTH = (96.0, 100.0, 90.0), (96.0, 400.0, 90.0)
TASK = Task("any", 0, SOUTH, NORTH, 6)


@pytest.fixture(scope="module")
def run(maze_run: Path) -> LoadedRun:
    return load_run(maze_run, device="cpu")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = children()
    yield
    assert episodes() == []
    assert children() <= before


def address(picture: Array, kind: str = "PNG", size: tuple[int, int] | None = None) -> str:
    body, image = io.BytesIO(), Image.fromarray(picture)
    (image if size is None else image.resize(size)).save(body, kind)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(body.getvalue()).decode()}"


def shown(picture: str) -> Array:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(picture.partition(",")[2]))))


def test_a_game_goes_as_in_an_evaluation(run: LoadedRun) -> None:
    poses: list[list[float]] = []
    watch: Any = lambda step, _: poses.append(step.poses[0].tolist())  # noqa: E731
    (row,) = evaluate(run.agent, run.experiment.env, [TASK], seed=2, watch=watch)
    told = record([run], TASK, 2)
    steps, (end,) = of_kind(told, "step"), of_kind(told, "end")
    assert (end["outcome"], end["steps"]) == (row.outcome, row.steps) == ("timeout", 6)
    np.testing.assert_allclose([step["pose"] for step in steps[:-1]], poses, atol=0.006)
    (first,) = of_kind(told, "begin")
    assert first["actions"][:3] == ["move left", "move right", "forward"]
    assert first["goal"] == list(NORTH)
    assert shown(first["goal_picture"]).shape == (120, 160, 3)
    assert {shown(step["picture"]).shape for step in steps} == {(120, 160, 3)}
    assert len({step["picture"] for step in steps}) > 1
    assert len(steps[0]["values"]) == 7


def test_a_start_within_reach_of_the_goal_is_reached_without_a_step(run: LoadedRun) -> None:
    told = record([run], Task("any", 0, SOUTH, (96.0, 140.0, 90.0), 6))
    assert [event["type"] for event in told] == ["begin", "step", "end"]
    assert (told[1]["reached"], told[1]["pose"][:2]) == (True, [96.0, 100.0])
    assert (told[2]["outcome"], told[2]["steps"]) == ("reached", 0)


def test_a_picture_is_a_goal_that_the_agent_must_recognise_itself(client: TestClient, run: LoadedRun) -> None:
    env = make_env(run.experiment.env)
    try:
        here, far = (env.reset(options={"start": pose, "goal": None})[0]["observation"] for pose in (SOUTH, NORTH))
    finally:
        env.close()
    name = begin(client, "r1", start=list(SOUTH), goal={"picture": address(here, size=(320, 240))}, budget=4)
    hasten(client, name)
    told = [event for _, event in heard(client.get(f"/api/live/{name}/events"))]
    (first,), (end,) = of_kind(told, "begin"), of_kind(told, "end")
    assert first["goal"] is None
    assert np.abs(shown(first["goal_picture"]).astype(int) - here).mean() < 8  # it was made larger and smaller again
    # A state is made of the last four frames: it stands still before the picture as soon as it has seen so many.
    assert end["outcome"] == "believed"
    assert end["steps"] < 4
    last = of_kind(told, "step")[-1]
    assert (last["step"], last["action"]) == (end["steps"], None)
    assert not last["reached"]  # the agent believes so; nobody knows
    wide = {"picture": address(far[:100], "JPEG")}
    body = {"players": [{"run": "r1"}], "start": list(SOUTH), "goal": wide}
    refused = client.post("/api/live", json=body)
    assert refused.status_code == 400
    assert "The goal picture is 160x100 pixels; a view of a maze is 160x120" in refused.json()["error"]


def test_who_recognises_nothing_walks_until_the_budget_is_out(run: LoadedRun) -> None:
    chance = replace(run, agent=make_agent(RandomConfig(), run.experiment.env.spec(), 0))
    told = record([chance], Task("any", 0, SOUTH, np.zeros((120, 160, 3), np.uint8), 3))
    assert [(end["outcome"], end["steps"]) for end in of_kind(told, "end")] == [("timeout", 3)]
    assert {(step["values"], step["values_name"], step["target"]) for step in of_kind(told, "step")} == {(None,) * 3}


def test_walls_and_missing_goals_are_refused(client: TestClient) -> None:
    for part, line in (
        ({"start": [-5000.0, 0.0, 0.0], "goal": list(NORTH)}, "start (-5000, 0, 0) is inside a wall"),
        ({"start": list(SOUTH), "goal": [0.0, 0.0, 0.0]}, "goal (0, 0, 0) is inside a wall"),
        ({"start": list(SOUTH)}, "An episode in a maze needs a goal"),
    ):
        answer = client.post("/api/live", json={"players": [{"run": "r1"}], **part})
        assert answer.status_code == 400
        assert line in answer.json()["error"]
    assert episodes() == []


def test_the_end_of_the_server_ends_the_games(client: TestClient) -> None:
    before = children()
    begin(client, "r1", "r1", start=list(SOUTH), goal=list(NORTH), budget=2000)
    assert len(children() - before) >= 2  # that none is left afterwards, every test here asserts
