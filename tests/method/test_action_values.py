"""What agents say their actions seemed worth: the very numbers they chose by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from sfl.api import ActionValuePolicy, Agent, Array, Decision, Episode, Policy
from sfl.baselines.config import GuideConfig
from sfl.fast.cuda import Fetched
from sfl.registry import make_agent
from sfl.run.rollout import rollout
from sfl.seeding import spawn
from sfl.worlds.session import EnvSession

from ..contract.worlds import DOOM_LIKE, FOURROOM, TINY, Run, fourrooms

SEED, ACTIONS = 5, FOURROOM.action_count
OPTIONS = {"start": (1, 1, 0), "goal": (6, 7, 0)}
WITHOUT_SLIPS = {
    name: replace(TINY[name], eval_epsilon=0.0)  # type: ignore[call-arg]
    for name in ("sfl", "sfl-clustered", "sfl-whitened", "tabular", "mss")
} | {"sfl-doom-like": replace(DOOM_LIKE, eval_epsilon=0.0)}


@cache  # frozen copies are all that the tests ask of it
def trained(config: Any) -> Agent:
    run = Run(make_agent(config, FOURROOM, 0), fourrooms(2))
    run.go(250)
    return run.agent


def decisions(policy: Policy, count: int = 40) -> Iterator[tuple[Decision, int]]:
    """What a policy says of each decision on the way to the goal, and the action it took."""
    assert isinstance(policy, ActionValuePolicy)
    waiting = [Episode(0, 0, OPTIONS, count)]
    for step in rollout(policy, EnvSession(fourrooms(1), lambda: waiting.pop() if waiting else None)):
        yield policy.action_values(0), int(step.transitions.actions[0])


@pytest.mark.parametrize("name", WITHOUT_SLIPS)
def test_without_slips_the_best_value_is_chosen(name: str) -> None:
    weighed = [(said, action) for said, action in decisions(trained(WITHOUT_SLIPS[name]).policy(SEED)) if said.values]
    assert len(weighed) > 20
    for said, action in weighed:
        assert len(said.values) == ACTIONS
        assert said.values[action] == max(said.values)
    assert {said.values_name for said, _ in weighed} == {
        "minus the steps left" if name == "mss" else "SFS of the target"
    }
    assert len({said.values for said, _ in weighed}) > 1  # they change with what it sees


def test_a_slip_leaves_the_values_as_they_are() -> None:
    said = list(decisions(trained(replace(TINY["sfl"], eval_epsilon=1.0)).policy(SEED)))
    assert all(len(explained.values) == ACTIONS for explained, _ in said)
    assert 0 < sum(explained.values[action] == max(explained.values) for explained, action in said) < len(said)


def test_draws_of_sfl_are_made_by_its_values() -> None:
    sharpness, rng = 3.0, spawn(SEED, ["policy"])["policy"]
    config = replace(TINY["sfl"], sharpness=sharpness, eval_epsilon=0.0)
    for said, action in decisions(trained(config).policy(SEED)):
        rng.integers(ACTIONS, size=1)
        rng.random()
        values = np.array(said.values, np.float32)
        odds = sharpness / values.std(ddof=1) * values + rng.gumbel(size=ACTIONS).astype(np.float32)
        assert action == int(odds.argmax())


def by_gumbel(rng: np.random.Generator, said: Decision) -> int:
    """A draw from the softmax of L's scores, after the one that is made in case there is nowhere to go."""
    chance = int(rng.integers(ACTIONS, size=1)[0])
    return chance if not said.values else int((np.log(said.values) + rng.gumbel(size=ACTIONS)).argmax())


def by_sum(rng: np.random.Generator, said: Decision) -> int:
    """A uniform draw against the sums of the odds."""
    return int((np.cumsum(said.values) <= rng.random(1)).sum())


@pytest.mark.parametrize(
    ("name", "draw"), [("controller", by_gumbel), ("sptm", by_gumbel), ("sgm", by_gumbel), ("ec", by_sum)]
)
def test_draws_are_made_by_the_odds(name: str, draw: Callable[[np.random.Generator, Decision], int]) -> None:
    rng, walked = spawn(SEED, ["policy"])["policy"], 0
    config = TINY[name]
    if name == "sptm":  # so short a training leaves R in doubt of everything
        config = replace(config, guide=GuideConfig(global_threshold=0.0))
    for said, action in decisions(trained(config).policy(SEED)):
        assert action == draw(rng, said)
        walked += bool(said.values)
        assert not said.values or sum(said.values) == pytest.approx(1.0)
        assert said.values_name == "probability"
    assert walked > 10


def test_a_random_policy_weighs_nothing() -> None:
    policy = make_agent(TINY["random"], FOURROOM, 0).policy(SEED)
    assert not isinstance(policy, ActionValuePolicy)
    assert policy.explain(0).values == ()


@pytest.mark.parametrize("name", ["sfl", "mss", "controller", "sptm", "sgm", "ec"])
def test_whoever_is_not_asked_or_walks_at_random_says_nothing(name: str) -> None:
    policy: Any = trained(TINY[name]).policy(SEED)
    assert policy.action_values(0).values == ()
    seen, env = np.zeros((1, 9, 9, 3), np.uint8), np.zeros(1, np.int64)
    if name == "ec":  # it walks by its odds whatever the goal
        return
    policy.begin_episode(0, None)
    policy.act(seen, env)
    assert (
        policy.action_values(0).values == () or policy.action_values(0).target is not None
    )  # a trip of exploration has a target
    assert policy.action_values(1).values == ()


@pytest.mark.parametrize("name", ["sfl", "controller", "mss", "ec"])
def test_explaining_fetches_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluation explains every step: numbers that come from the device for it would make it wait."""
    policy: Any = trained(TINY[name]).policy(SEED)
    policy.begin_episode(0, np.asarray(fourrooms(1)[0].reset(options=OPTIONS)[0]["desired_goal"]))
    policy.act(np.asarray(fourrooms(1)[0].reset(options=OPTIONS)[0]["observation"])[None], np.zeros(1, np.int64))

    def refuse(*_: Any) -> Any:
        raise AssertionError("the device was asked")

    for asks in ("tolist", "item", "cpu", "numpy", "__float__", "__bool__"):
        monkeypatch.setattr(torch.Tensor, asks, refuse)
    monkeypatch.setattr(Fetched, "wait", refuse)
    assert policy.explain(0).values == ()
    with pytest.raises(AssertionError, match="the device was asked"):
        policy.action_values(0)


def picture(pose: tuple[int, int, int]) -> Array:
    return np.asarray(fourrooms(1)[0].reset(options={"start": pose})[0]["observation"])


def arrives(config: Any, goal: Array, seen: Array) -> bool:
    """Whether a policy that was sent to a goal takes what it sees for it."""
    policy: Any = trained(config).policy(SEED)
    policy.begin_episode(0, goal)
    policy.act(seen[None], np.zeros(1, np.int64))
    said: Decision = policy.action_values(0)
    assert isinstance(said.arrived, bool)
    return said.arrived


@pytest.mark.parametrize("name", ["sfl-doom-like", "mss"])
def test_a_policy_that_sees_the_goal_says_that_it_has_arrived(name: str) -> None:
    here, far = picture((3, 3, 0)), picture((7, 7, 180))
    assert arrives(WITHOUT_SLIPS[name], here, here)
    assert not arrives(WITHOUT_SLIPS[name], here, far)


@pytest.mark.parametrize(("threshold", "there"), [(0.0, True), (1.0, False)])
def test_by_reachability_it_has_arrived_from_a_threshold_on(threshold: float, there: bool) -> None:
    here = picture((3, 3, 0))
    assert arrives(replace(TINY["sgm"], localize_threshold=threshold), here, here) is there
    assert arrives(replace(TINY["sptm"], guide=GuideConfig(local_threshold=threshold)), here, here) is there
