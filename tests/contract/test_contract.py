"""Every method through one contract: what a run may rely on."""

from __future__ import annotations

import typing
import weakref

import numpy as np
import pytest
import torch

from sfl.api import Agent
from sfl.method.config import FrameSFLConfig
from sfl.registry import AgentConfig, agent_name, make_agent
from sfl.worlds import Task

from .worlds import DOOM_LIKE, FOURROOM, TINY, Run, assert_same_state, evaluate, fourrooms

GOAL_TASKS = [Task("any", pair, (1, 1, 0), goal, 25) for pair, goal in enumerate([(7, 1, 0), (6, 7, 0), (1, 3, 0)])]
CONFIGS = TINY | {"sfl-doom-like": DOOM_LIKE}
WITHOUT_GRAPH = {"random", "controller", "ec"}
WITHOUT_TRIPS = {"sptm"}
every_agent = pytest.mark.parametrize("name", CONFIGS)


def make(name: str, seed: int = 0) -> Agent:
    return make_agent(CONFIGS[name], FOURROOM, seed)


def start(name: str, decisions: int, seed: int = 0) -> Run:
    """A run in which everything is under way: features, psi, landmarks, edges and trips."""
    run = Run(make(name, seed), fourrooms(2))
    run.go(decisions)
    return run


def test_every_registered_method_is_tested() -> None:
    # Over frames they cannot look at a grid; test_frames.py and test_mss_frames.py have a world for them.
    over_frames = {FrameSFLConfig}
    assert {type(config) for config in CONFIGS.values()} | over_frames == set(typing.get_args(AgentConfig))
    names = {"random", "tabular", "sfl", "controller", "sptm", "sgm", "mss", "ec"}
    assert {agent_name(config) for config in CONFIGS.values()} == names


@every_agent
def test_actions_are_actions_and_metrics_are_numbers(name: str) -> None:
    run = start(name, 0)
    agent = run.agent
    drawn = {action for row in run.go(250) for action in row}
    assert drawn == {0, 1, 2, 3}
    metrics = agent.update()
    assert all(isinstance(value, float) and np.isfinite(value) for value in metrics.values())
    if name not in WITHOUT_GRAPH:
        assert metrics["graph/landmark_count"] > 2
        assert metrics["graph/edge_count"] > 0
    if name not in WITHOUT_GRAPH | WITHOUT_TRIPS:
        assert metrics["explore/frontier_trips"] > 0
    some = agent.act(np.zeros((1, 9, 9, 3), dtype=np.uint8), np.array([1]))  # one environment alone
    assert some.shape == (1,)
    assert 0 <= some[0] < 4


@every_agent
def test_the_same_seed_gives_the_same_run_and_another_seed_another(name: str) -> None:
    first, second = start(name, 150), start(name, 150)
    assert first.go(100) == second.go(100)
    assert_same_state(first.agent.state_dict(), second.agent.state_dict())
    assert first.go(50) != start(name, 250, seed=1).go(50)


@every_agent
def test_evaluating_does_not_disturb_training(name: str) -> None:
    alone, watched = start(name, 150), start(name, 150)
    envs = fourrooms(2, goal_terminates=True)
    for _ in range(3):
        evaluate(watched.agent.policy(seed=5), envs, GOAL_TASKS)
        assert alone.go(25) == watched.go(25)
    assert_same_state(alone.agent.state_dict(), watched.agent.state_dict())


@every_agent
@pytest.mark.usefixtures("uncollected")
def test_a_policy_goes_when_it_is_let_go(name: str) -> None:
    """An object that refers to itself stays until Python looks for such: memory grew by that of old evaluations."""
    policy = start(name, 150).agent.policy(seed=5)
    evaluate(policy, fourrooms(2, goal_terminates=True), GOAL_TASKS)
    reference = weakref.ref(policy)
    del policy
    assert reference() is None


@every_agent
def test_a_policy_does_not_change_with_further_training(name: str) -> None:
    run = start(name, 150)
    envs = fourrooms(2, goal_terminates=True)
    now, later = run.agent.policy(seed=5), run.agent.policy(seed=5)
    before = evaluate(now, envs, GOAL_TASKS)
    run.go(100)
    assert evaluate(later, envs, GOAL_TASKS) == before


@every_agent
@pytest.mark.parametrize("decisions", [20, 203])
def test_a_loaded_agent_goes_on_alike(name: str, decisions: int) -> None:
    run = start(name, decisions)
    other = run.fork(make(name, seed=9), fourrooms(2))
    assert_same_state(run.agent.state_dict(), other.agent.state_dict())
    assert run.go(120) == other.go(120)
    assert_same_state(run.agent.state_dict(), other.agent.state_dict())


@every_agent
def test_a_policy_of_an_untrained_agent_acts(name: str) -> None:
    policy = make(name).policy(seed=0)
    _, actions = evaluate(policy, fourrooms(1, goal_terminates=True), GOAL_TASKS[:1])
    assert len(actions) <= 25
    policy.begin_episode(0, None)
    assert policy.act(np.zeros((1, 9, 9, 3), dtype=np.uint8), np.array([0])).shape == (1,)


@every_agent
def test_learning_touches_no_global_generator(name: str) -> None:
    before = torch.get_rng_state(), np.random.get_state(legacy=False)  # noqa: NPY002
    start(name, 60)
    assert torch.equal(torch.get_rng_state(), before[0])
    after = np.random.get_state(legacy=False)  # noqa: NPY002
    np.testing.assert_equal(after, before[1])
