"""Learned SFL solves a small world in seconds, and so do its ablations: a corridor asks for nothing that they lack."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sfl.api import EnvSpec
from sfl.baselines.random import RandomConfig
from sfl.method.config import EdgeConfig, LandmarkConfig, NavigatorConfig, SFLConfig
from sfl.registry import make_agent
from sfl.worlds import Task

from ..contract.worlds import CORRIDOR_FEATURES, CORRIDOR_PSI, Run, evaluate, make_corridor, one_hot

LENGTH = 16


PAPERS = SFLConfig(
    CORRIDOR_FEATURES,
    CORRIDOR_PSI,
    LandmarkConfig(limit=6, add_threshold=0.9, start_step=2_000, add_every=200, update_every=200),
    EdgeConfig(form_every=200),
    NavigatorConfig(),
)
UNIFORM = replace(PAPERS, navigator=NavigatorConfig(frontier="uniform"))
CLUSTERED = replace(
    PAPERS,
    landmarks=replace(PAPERS.landmarks, formation="clustered", limit=8, add_every=700),
    edges=EdgeConfig(threshold=0.0, form_every=200),  # 500 steps are left for them since the last clusters
)


@pytest.mark.parametrize("config", [PAPERS, UNIFORM, CLUSTERED], ids=["paper", "uniform-frontiers", "clustered"])
def test_it_learns_to_walk_a_corridor_from_end_to_end(config: SFLConfig) -> None:
    spec = EnvSpec((LENGTH,), "float32", 3, 4)
    agent = make_agent(config, spec, seed=0)
    Run(agent, [make_corridor(LENGTH, 60) for _ in range(4)]).go(1_000)  # 4,000 environment steps
    tasks = [Task("any", pair, None, one_hot(goal, LENGTH), 45) for pair, goal in enumerate([15, 12, 9, 6] * 10)]
    envs = [make_corridor(LENGTH, 45) for _ in range(8)]
    assert evaluate(agent.policy(seed=0), envs, tasks)[0] >= 0.95
    chance = make_agent(RandomConfig(), spec, seed=0)
    assert evaluate(chance.policy(seed=0), envs, tasks)[0] < 0.5
