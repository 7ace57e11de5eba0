"""Every method that has a graph or a field, in FourRoom: what the page gets of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from sfl import experiments
from sfl.baselines.config import SGMConfig, SPTMConfig
from sfl.run.evaluate import evaluate
from sfl.run.folder import load_run
from sfl.run.settings import EvalConfig, TrainConfig
from sfl.run.train import train
from sfl.studio.server import application
from sfl.studio.shared import Studio
from sfl.worlds import MiniGridConfig

from .test_fields import make

SOURCES = {
    "mss": "fourroom-mss",
    "sptm": "sgm-random-spawn-sptm",
    "sgm": "sgm-random-spawn-sgm",
    "controller": "sgm-random-spawn-controller",
    "tabular": "fourroom-tabular",
    "ec": "fourroom-ec",
}
SCORES = {"mss": "value", "sptm": "reachability", "sgm": "reachability", "controller": "reachability", "tabular": "SFS"}
WITHOUT_GRAPH = {"controller", "ec"}


@pytest.fixture(scope="module", params=SOURCES)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A short run of one method."""
    experiment = experiments.tiny(experiments.get(SOURCES[request.param]))
    agent = experiment.agent
    if isinstance(agent, SPTMConfig | SGMConfig):
        agent = replace(agent, memory=replace(agent.memory, steps=200))
    sizes = TrainConfig(steps=500, env_count=1, eval_every=0, checkpoint_every=250, log_every=100)
    short = replace(experiment, env=MiniGridConfig(), agent=agent, train=sizes, eval=EvalConfig(episodes=2, parallel=2))
    return request.param, train(short, 0, tmp_path_factory.mktemp(request.param), "cpu").path


@pytest.fixture
def asking(run: tuple[str, Path]) -> Iterator[TestClient]:
    with TestClient(application(Studio([run[1]]), frozenset({"testserver"}), None)) as client:
        yield client


def test_graph_and_field_of_a_method(asking: TestClient, run: tuple[str, Path]) -> None:
    name, path = run
    (line,) = asking.get("/api/runs").json()["runs"]
    assert (line["agent"], line["has_graph"], line["has_field"]) == (name, name not in WITHOUT_GRAPH, name in SCORES)
    graph = asking.get("/api/runs/r0/graph").json()
    stored = load_run(path, device="cpu")
    count = len(stored.landmark_poses)
    assert {len(column) for column in graph["landmarks"].values()} == {count}
    assert (count > 0) == (name not in WITHOUT_GRAPH)
    assert graph["score"] == SCORES.get(name)
    used = sum(graph["edges"]["in_force"])
    assert used == len(stored.graph.get("edge_sources", ()))
    if name not in SCORES:
        assert asking.get("/api/runs/r0/fields").json()["state"] == "impossible"
        return
    assert asking.get("/api/runs/r0/landmarks/0/picture").status_code == (404 if name in WITHOUT_GRAPH else 200)
    status = make(asking, "r0")
    assert status["state"] == "ready", status["reason"]
    field = asking.post("/api/runs/r0/field", json={"checkpoint": "last", "x": 1, "y": 1, "degrees": None}).json()
    low, high = status["range"]
    values = np.array(field["values"])
    assert values.shape == (len(status["places"]["x"]), 4)
    assert low - 0.01 <= values.min() <= values.max() <= high + 0.01


def test_what_is_loaded_for_the_page_acts_as_the_run_does(run: tuple[str, Path]) -> None:
    _, path = run
    whole, light = (load_run(path, device="cpu", learning=learning) for learning in (True, False))
    tasks, env = whole.tasks(), whole.experiment.env
    rows = [evaluate(loaded.agent, env, tasks, seed=3, parallel=2) for loaded in (whole, light)]
    assert rows[0] == rows[1]
