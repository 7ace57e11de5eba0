"""Controller, SPTM, SGM and EC over frames, and what is left of them in a slim copy."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch

from sfl.api import Agent, Array
from sfl.baselines.config import (
    ATTEMPTS,
    BonusConfig,
    ControllerConfig,
    ECConfig,
    GuideConfig,
    LocomotionConfig,
    NetworkConfig,
    PPOConfig,
    SGMConfig,
    ShortcutConfig,
    SparseConfig,
    SPTMConfig,
    WalksConfig,
)
from sfl.method.config import RetrievalConfig
from sfl.registry import AgentConfig, make_agent

from ..contract.worlds import assert_same_state
from ..method.ring import SPEC, Ring

_networks = NetworkConfig(
    retrieval=RetrievalConfig(near=1, far=2, hidden=8, layers=1, batch_size=8, encoder="compact"),
    locomotion=LocomotionConfig(ahead=2, batch_size=8, encoder="compact"),
    updates_per_step=0.1,
    replay_size=60,
)
_memory = WalksConfig(steps=40, every=2)
CONFIGS: dict[str, AgentConfig] = {
    "controller": ControllerConfig(**vars(_networks)),
    "sptm": SPTMConfig(
        **vars(_networks),
        memory=_memory,
        shortcuts=ShortcutConfig(5, window=1, distance=2),
        guide=GuideConfig(local_threshold=0.4, global_threshold=0.4, waypoint_threshold=0.4),
    ),
    "sgm": SGMConfig(
        **vars(_networks),
        memory=_memory,
        sparse=SparseConfig(0.3, 0.5, 0.6),
        navigator=replace(ATTEMPTS, replan_after=3, reach_threshold=0.4),
        localize_threshold=0.4,
    ),
}


CURIOUS = ECConfig(
    **vars(_networks),
    train_every=12,
    bonus=BonusConfig(capacity=6),
    ppo=PPOConfig(horizon=5, dim=16, epochs=1, minibatches=2),
)
on_both_devices = pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))],
)


def make(name: str, seed: int = 0) -> Agent:
    return make_agent(CONFIGS[name], SPEC, seed)


def ring_of(agent: Agent, views: Array, steps: int) -> Ring:
    ring = Ring(views, agent)  # type: ignore[arg-type]
    ring.go(steps)
    return ring


def walk(agent: Agent, views: Array) -> list[list[int]]:
    """What the frozen agent does on its way to a goal."""
    policy = agent.policy(seed=3)
    for env in (0, 1):
        policy.begin_episode(env, views[5])
    return [policy.act(views[[place % 8, 2]], np.arange(2)).tolist() for place in range(12)]


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("steps", [11, 26])
def test_over_frames_a_loaded_agent_goes_on_alike(name: str, steps: int, views: Array) -> None:
    """After 22 decisions the memory is not full, after 52 it is."""
    ring = ring_of(make(name), views, steps)
    other = make(name, seed=9)
    other.load_state_dict(deepcopy(ring.agent.state_dict()))
    twin = Ring(views, other)  # type: ignore[arg-type]
    twin.time, twin.at = ring.time, ring.at.copy()
    assert twin.go(10) == ring.go(10)
    assert_same_state(twin.agent.state_dict(), ring.agent.state_dict())


@on_both_devices
@pytest.mark.parametrize("name", [*CONFIGS, "ec"])
def test_it_learns_saves_goes_on_and_walks_where_the_run_is_made(name: str, device: str, views: Array) -> None:
    """Everything that a run asks of these agents, once on each device; on a GPU nothing is equal to the last bit."""
    agent, other = (make_agent((CONFIGS | {"ec": CURIOUS})[name], SPEC, seed, device) for seed in (0, 9))
    before = agent.state_dict().networks
    ring = ring_of(agent, views, 40)
    state = agent.state_dict()
    assert any(not np.array_equal(before[key], state.networks[key]) for key in before if key.startswith("retrieval."))
    other.load_state_dict(deepcopy(state))
    assert_same_state(other.state_dict(), state)
    actions = [*ring.go(5), *ring_of(other, views, 5).go(5), *walk(other, views)]
    assert {0} < {action for row in actions for action in row} <= set(range(SPEC.action_count))


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("steps", [11, 26])
def test_a_slim_copy_walks_as_the_whole_one_does(name: str, steps: int, views: Array) -> None:
    agent, other = ring_of(make(name), views, steps).agent, make(name, seed=9)
    fresh, state = other.state_dict(), agent.state_dict()
    slim = replace(state, optimisers=fresh.optimisers, replay=fresh.replay, generators=fresh.generators)
    other.load_state_dict(slim)
    assert walk(other, views) == walk(agent, views)  # type: ignore[arg-type]
