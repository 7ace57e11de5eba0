"""Walks that show given views, and an R that is taught which of them are near each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from sfl.api import Agent, Array, Transitions
from sfl.baselines.networks import Retrieval

from ..contract.worlds import one_hot


def teach(retrieval: Retrieval, near: Array) -> None:
    """R learns which pairs of views are near, by the table [V, V] bool; every view has some near and some far."""
    views, rng = torch.eye(len(near)), np.random.default_rng(0)
    some = np.arange(len(near)).repeat(4)
    for _ in range(100):
        others = [(rng.random(table[some].shape) * table[some]).argmax(1) for table in (near, ~near)]
        retrieval.update(views[np.stack([some, *others])])
    features = retrieval.features(views)
    np.testing.assert_allclose(retrieval.reachable(features, features), near, atol=0.05)


def walk(agent: Agent, walks: Sequence[Sequence[int]], size: int) -> None:
    """One walk of each environment, side by side: whatever the agent does, it sees these views of so many."""
    envs, never = np.arange(len(walks)), np.zeros(len(walks), bool)
    for env in envs.tolist():
        agent.begin_episode(env, None)
    for time in range(len(walks[0])):
        now = np.stack([one_hot(views[time], size) for views in walks])
        actions = agent.act(now, envs)
        agent.observe(Transitions(envs, now, actions, np.zeros(len(envs)), never, never, now))
        agent.update()
