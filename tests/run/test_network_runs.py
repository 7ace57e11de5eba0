"""SPTM, SGM and SFL with R as its metric in a real maze."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from sfl.baselines.config import ControllerConfig, NetworkConfig, SGMConfig, SPTMConfig
from sfl.experiments import get, tiny
from sfl.method.config import FrameSFLConfig
from sfl.run.folder import load_run, read_episodes
from sfl.run.train import train

from .dooms import doom_experiment


@pytest.mark.parametrize("name", ["sptm", "sgm"])
def test_a_graph_of_walks_is_made_and_judged(name: str, tmp_path: Path) -> None:
    agent = tiny(get(f"test-2-random-spawn-{name}")).agent
    assert isinstance(agent, NetworkConfig)
    assert isinstance(agent, SPTMConfig | SGMConfig)
    pairs = replace(agent.retrieval, near=2, far=5)
    agent = replace(agent, retrieval=pairs, memory=replace(agent.memory, steps=60, every=3))
    experiment = doom_experiment(tmp_path, steps=80, env_count=2, eval_every=0, checkpoint_every=80)
    tasks = replace(experiment.eval, episodes=2, levels=("easy",), parallel=1)
    made = train(replace(experiment, agent=agent, eval=tasks), 3, tmp_path / "runs", "cpu")
    run = load_run(made.path, device="cpu")
    assert run.graph["origin"].max() < 60
    nodes = run.graph["origin"]
    np.testing.assert_array_equal(run.landmark_poses, run.poses[nodes])  # a node is where it was seen
    assert len(nodes) == len(run.graph["observations"]) > 2
    with (made.path / "eval.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert 0 <= float(row["graph/localized_in_evaluation"]) <= 1
    assert {row.agent for row in read_episodes(made.episodes)} == {name}


def test_the_controllers_r_serves_as_the_metric_of_sfl(tmp_path: Path) -> None:
    source, agent = (tiny(get(f"sgm-random-spawn-{name}")).agent for name in ("controller", "paper-reachability"))
    assert isinstance(source, ControllerConfig)
    assert isinstance(agent, FrameSFLConfig)
    experiment = doom_experiment(tmp_path, steps=80, env_count=2, eval_every=0, checkpoint_every=80)
    experiment = replace(experiment, eval=replace(experiment.eval, episodes=1, levels=("easy",), parallel=1))
    walked = train(replace(experiment, name="controller", agent=source), 3, tmp_path / "runs", "cpu")
    agent = replace(
        agent,
        frames=replace(agent.frames, encoder="compact"),
        successor=replace(agent.successor, hidden=(32,), start_step=20, batch_size=8),
        landmarks=replace(agent.landmarks, start_step=40, add_every=10, add_threshold=1.0, localize_threshold=0.1),
        edges=replace(agent.edges, form_every=10),
        metric=replace(agent.metric, networks=str(walked.last / "networks.safetensors")),
    )
    made = train(replace(experiment, name="reachability", agent=agent), 3, tmp_path / "runs", "cpu")
    run = load_run(made.path, device="cpu")
    assert len(run.graph["origin"]) > 2
    theirs, ours = (load_file(folder.last / "networks.safetensors") for folder in (walked, made))
    r = {name: value for name, value in theirs.items() if name.startswith("retrieval.")}
    assert r
    for name, value in r.items():
        np.testing.assert_array_equal(ours[name], value)  # it is the controller's, and stays so
    assert {row.agent for row in read_episodes(made.episodes)} == {"sfl"}
