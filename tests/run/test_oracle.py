"""True poses reach an agent in training only where its configuration asks for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sfl import experiments
from sfl.baselines.mss.agent import MSSAgent
from sfl.run.folder import read_episodes
from sfl.run.settings import Experiment
from sfl.run.train import TrainingRun, train


def experiment(oracle: bool) -> Experiment:
    tiny = experiments.tiny(experiments.get("fourroom-mss"))
    agent = replace(tiny.agent, oracle=oracle)  # type: ignore[call-arg]
    sizes = replace(tiny.train, steps=240, env_count=2, eval_every=0, checkpoint_every=240, log_every=120)
    return replace(tiny, agent=agent, train=sizes, eval=replace(tiny.eval, episodes=1))


@pytest.mark.parametrize("oracle", [True, False])
def test_poses_are_told_to_an_oracle_alone(oracle: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told: list[np.ndarray] = []
    monkeypatch.setattr(MSSAgent, "observe_poses", _noting(told))
    folder = train(experiment(oracle), runs_dir=tmp_path, device="cpu")
    assert len(told) == (120 if oracle else 0)
    assert {row.agent for row in read_episodes(folder.episodes)} == {"mss-oracle" if oracle else "mss"}


def _noting(told: list[np.ndarray]) -> object:
    plain = MSSAgent.observe_poses

    def observe_poses(agent: MSSAgent, poses: np.ndarray, next_poses: np.ndarray) -> None:
        told.append(poses)
        plain(agent, poses, next_poses)

    return observe_poses


def test_the_poses_are_those_of_the_step() -> None:
    run = TrainingRun(experiment(oracle=True), seed=0, device="cpu")
    agent = run.agent
    assert isinstance(agent, MSSAgent)
    for step, _ in zip(run.steps(), range(5), strict=False):
        places = agent.experience.replay.upcoming(step.transitions.env_indices, -1)
        np.testing.assert_array_equal(agent.experience._positions[places], step.poses[:, :2])
    run.session.close()
