"""Scores of two views: each method's are those that it goes by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sfl.api import Array, FieldPolicy
from sfl.registry import agent_name, field_score
from sfl.worlds import MiniGridConfig, make_env

from ..contract.test_contract import CONFIGS, every_agent, start

BY_METHOD = {"sfl": "SFS", "tabular": "SFS", "mss": "value"}
BY_METHOD |= dict.fromkeys(("controller", "sptm", "sgm"), "reachability")
SCORES = {name: score for name in CONFIGS if (score := BY_METHOD.get(agent_name(CONFIGS[name])))}


def views() -> Array:
    env = make_env(MiniGridConfig())
    _, observations = env.get_wrapper_attr("survey")()
    return np.asarray(observations[:60:4])


@every_agent
def test_which_methods_have_a_field_is_known_without_making_one(name: str) -> None:
    policy = start(name, 0).agent.policy(0)
    assert field_score(CONFIGS[name]) == SCORES.get(name)
    assert isinstance(policy, FieldPolicy) == (name in SCORES)


@pytest.mark.parametrize("name", [*BY_METHOD, "sfl-doom-like"])
def test_embedding_and_comparing_says_what_the_method_goes_by(name: str) -> None:
    agent: Any = start(name, 150).agent
    policy, seen = agent.policy(0), views()
    embedded = policy.embed(seen)
    found = policy.compare(embedded, embedded[:3])
    assert embedded.dtype == np.float32
    assert found.shape == (len(seen), 3)
    low, high = policy.score_range
    assert (low - 1e-5 <= found).all()
    assert (found <= high + 1e-5).all()
    np.testing.assert_allclose(found, reference(agent, policy, seen)[:, :3], atol=1e-5)
    assert np.ptp(found, axis=0).max() > 0  # it tells some views apart


@torch.no_grad()
def reference(agent: Any, policy: Any, seen: Array) -> Array:
    if hasattr(policy, "sfs"):
        rows = agent.representation.psi(seen).mean(1).numpy()
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        np.testing.assert_allclose(policy.sfs(seen, seen), rows @ rows.T, atol=1e-5)
        return np.asarray(rows @ rows.T)
    states = torch.from_numpy(seen)
    if hasattr(agent, "learner"):
        network = agent.learner.network
        features = network.embed(states)
        return np.stack([network.best(features, goal[None])[0][:, 0].numpy() for goal in features], axis=1)
    networks = agent.filling.networks if hasattr(agent, "filling") else agent.networks
    retrieval = networks.retrieval
    features = retrieval.features(states)
    return np.asarray(retrieval.reachable(features, features).numpy())


@pytest.mark.parametrize("name", ["controller", "sfl", "mss"])
def test_a_frozen_field_does_not_follow_learning(name: str) -> None:
    run = start(name, 150)
    policy: Any = run.agent.policy(0)
    before = policy.embed(views())
    run.go(120)
    assert np.array_equal(policy.embed(views()), before)
