"""Every document of a run that was really trained in a maze."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from sfl import experiments
from sfl.method.config import FrameSFLConfig
from sfl.run.folder import load_run
from sfl.run.settings import EvalConfig, TrainConfig
from sfl.run.train import train
from sfl.show import views as survey
from sfl.studio.server import application
from sfl.studio.shared import Studio

from .test_fields import make

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`sfl train laptop-maze-sfl --tiny`, and a fifth of that."""
    experiment = experiments.tiny(experiments.get("laptop-maze-sfl"))
    agent = experiment.agent
    assert isinstance(agent, FrameSFLConfig)
    landmarks = replace(agent.landmarks, start_step=60, add_every=20, update_every=20, localize_threshold=0.5)
    agent = replace(agent, landmarks=landmarks, edges=replace(agent.edges, form_every=20))
    sizes = TrainConfig(steps=240, env_count=2, eval_every=0, checkpoint_every=120, log_every=60)
    tasks = EvalConfig(episodes=1, levels=("easy",), parallel=1)
    return train(
        replace(experiment, agent=agent, train=sizes, eval=tasks), 0, tmp_path_factory.mktemp("doom"), "cpu"
    ).path


@pytest.fixture
def asking(run: Path) -> Iterator[TestClient]:
    with TestClient(application(Studio([run]), frozenset({"testserver"}), None)) as client:
        yield client


def test_every_document(asking: TestClient, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "PLACES", 4)
    (line,) = asking.get("/api/runs").json()["runs"]
    assert (line["world"], line["state"], line["agent"]) == ("maze", "finished", "sfl")
    assert [found["name"] for found in line["checkpoints"]] == ["000000120", "last"]
    assert asking.get("/api/runs/r0/map").json()["tasks"].keys() == {"easy"}
    loaded = load_run(run, device="cpu")
    graph = asking.get("/api/runs/r0/graph").json()
    np.testing.assert_allclose(graph["landmarks"]["x"], loaded.landmark_poses[:, 0], atol=0.06)
    assert graph["landmarks"]["x"]
    assert sum(graph["coverage"]["visits"]) == 240
    assert asking.get("/api/runs/r0/landmarks/0/picture").headers["content-type"] == "image/png"
    status = make(asking, "r0")
    assert status["state"] == "ready", status["reason"]
    x, y = status["places"]["x"][0], status["places"]["y"][0]
    field = asking.post("/api/runs/r0/field", json={"checkpoint": "last", "x": x, "y": y, "degrees": 0}).json()
    assert field["reference"] == [x, y, 0.0]
    assert field["values"][0][0] == 1.0
    names = {metric["name"] for metric in asking.get("/api/curves?runs=r0").json()["metrics"]}
    assert {"eval/success_easy", "explore/coverage", "graph/landmark_count"} <= names
    assert asking.get("/api/config?runs=r0").json()["settings"]["r0"]["env.maze"] == "small"
