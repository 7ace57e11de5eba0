"""What the local policy does with a route: landmarks are axes of a space, and so are the actions that lead to them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfl.api import GOAL, Array, Observation
from sfl.method.config import FrameSFLConfig, LandmarkConfig, NavigatorConfig
from sfl.method.edges import Edges
from sfl.method.landmarks import Landmarks
from sfl.method.planner import Planner
from sfl.method.policy import LocalPolicy
from sfl.method.states import PsiSource

ENV = np.array([0])
GOAL_PSI = (0.0, 0.0, 0.6, 0.8)  # most similar to landmark 2


class Axes(PsiSource):
    """A state is its own psi, whatever the action."""

    dim, device = 4, torch.device("cpu")

    def begin_episode(self, env_index: int) -> None:
        """Nothing is carried over."""

    def perceive(self, observations: Array, env_indices: Array) -> Array:
        return observations

    def goal_state(self, goal: Observation) -> Array:
        return np.asarray(goal[None])

    def psi(self, states: Array | torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.asarray(states, np.float32)).unsqueeze(1).repeat(1, 4, 1)


def make_policy(goal_links: int = 1) -> LocalPolicy:
    """Landmarks 0 - 1 - 2 in a line."""
    settings = NavigatorConfig(reached="similar", look_ahead=3, reach_threshold=0.9, aim_threshold=0.5, replan_after=9)
    config = FrameSFLConfig(navigator=settings, goal_links=goal_links)
    landmarks = Landmarks(LandmarkConfig(localize_threshold=0.9, trust=0.5), 4, Axes.device)
    for index, row in enumerate(np.eye(4)[:3]):
        landmarks.add(row, index, 0)
    landmarks.set_keys(torch.eye(4)[:3], same_landmarks=False)
    sources, targets = np.array([0, 1, 1, 2]), np.array([1, 0, 2, 1])
    planner = Planner(Edges(3, sources, targets, np.ones(4, np.int64), np.ones(4)))
    policy = LocalPolicy(config, landmarks, planner, np.random.default_rng(0), epsilon=0.0)
    policy.begin_episode(0, Axes(), np.array(GOAL_PSI))
    return policy


def go(policy: LocalPolicy, *state: float) -> int:
    """One decision; actions 0 to 2 lead to the landmarks and 3 to the goal."""
    here = policy.localize(Axes(), np.array([state]), ENV)
    here.psi = torch.eye(4).unsqueeze(0)
    return int(policy.act(here, here.decisions(), ENV, 4)[0])


def test_it_goes_straight_to_what_is_similar_ahead_and_explains_itself_by_the_next_landmark() -> None:
    policy = make_policy()
    assert go(policy, 1, 0, 0, 0) == 1
    assert go(policy, 0.75, 0.2, 0.6, 0.0) == 2  # SFS 0.61; to the goal 0.37
    decision = policy.explain(0)
    assert (decision.target, decision.heading, decision.route) == (1, 2, (0, 1, 2, GOAL))
    assert go(policy, 0.3, 0.3, 0.3, 0.8) == 3  # to the goal itself
    assert (policy.explain(0).target, policy.explain(0).heading) == (1, GOAL)


def test_the_sfs_ahead_is_that_to_landmarks_and_to_the_goal() -> None:
    policy = make_policy()
    go(policy, 1, 0, 0, 0)
    (decision,) = policy.localize(Axes(), np.array([[0.1, 0.5, 0.5, 0.7]]), ENV).decisions()
    assert decision.ahead == pytest.approx([0.5, 0.5, 0.6 * 0.5 + 0.8 * 0.7], abs=1e-6)  # of length 1


def test_a_goal_is_not_joined_to_an_aliased_landmark() -> None:
    policy = make_policy(goal_links=2)
    navigator = policy.navigators[0]
    assert navigator.goal_links is not None
    assert navigator.goal_links.tolist() == [2, 0]  # the others are equally unlike it
    policy.landmarks.aliasing.flag(np.array([False, False, True]))
    policy.begin_episode(0, Axes(), np.array(GOAL_PSI))
    assert navigator.goal_links.tolist() == [0, 1]
