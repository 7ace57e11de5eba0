"""Exact psi against a model of FourRoom worked out here, and what the graph does with it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfl.api import AgentState, Array, EnvSpec, Transitions
from sfl.errors import SflError, UsageError
from sfl.method.config import EdgeConfig, ExactConfig, LandmarkConfig
from sfl.method.presets import tabular
from sfl.method.tabular import TabularRepresentation
from sfl.registry import make_agent
from sfl.worlds import GridWorld, draw_tasks

from ..contract.worlds import Run, assert_same_state, evaluate, fourrooms, one_hot

FOUR_ROOM = (
    "#########",
    "#...#...#",
    "#...#...#",
    "#.......#",
    "##.##...#",
    "#...##.##",
    "#...#...#",
    "#.......#",
    "#########",
)
AHEAD = ((1, 0), (0, 1), (-1, 0), (0, -1))
Pose = tuple[int, int, int]


def after(pose: Pose, action: int) -> Pose:
    """0 turns left, 1 right, 2 steps ahead where there is no wall, 3 does nothing without a door."""
    x, y, heading = pose
    dx, dy = AHEAD[heading]
    if action == 2 and FOUR_ROOM[y + dy][x + dx] != "#":
        return x + dx, y + dy, heading
    return x, y, (heading + {0: -1, 1: 1}.get(action, 0)) % 4


def reachable() -> list[Pose]:
    """All states that the start leads to, nearest first."""
    found = [(1, 1, 0)]
    for pose in found:
        found += [other for other in dict.fromkeys(after(pose, action) for action in range(4)) if other not in found]
    return found


def pictures(poses: list[Pose]) -> Array:
    env = fourrooms(1)[0].unwrapped
    assert isinstance(env, GridWorld)
    shown = []
    for x, y, heading in poses:
        observation, _ = env.reset(options={"start": (x, y, 90 * heading), "goal": None})
        shown.append(observation["observation"])
    return np.stack(shown)


def all_transitions(poses: list[Pose], observations: Array) -> list[Transitions]:
    """Every state with each of its four actions, one batch an action."""
    place = {pose: index for index, pose in enumerate(poses)}
    no = np.zeros(len(poses), dtype=bool)
    return [
        Transitions(
            np.zeros(len(poses), dtype=np.int64),
            observations,
            np.full(len(poses), action),
            np.zeros(len(poses)),
            no,
            no,
            observations[[place[after(pose, action)] for pose in poses]],
        )
        for action in range(4)
    ]


def test_psi_is_the_inverse_of_the_random_walk_on_fourroom() -> None:
    poses = reachable()
    assert len(poses) == 160
    observations, gamma = pictures(poses), 0.95
    config = ExactConfig(gamma=gamma, capacity=160, solve_every=10)
    representation = TabularRepresentation(config, EnvSpec((9, 9, 3), "uint8", 4))
    for transitions in all_transitions(poses, observations):
        representation.observe(transitions, np.ones(160, dtype=bool))
    representation.update(env_steps=9, new_steps=1)
    assert representation.psi(observations).equal(torch.eye(160)[:, None].expand(160, 4, 160))  # not solved yet
    representation.update(env_steps=10, new_steps=1)
    place = {pose: index for index, pose in enumerate(poses)}
    step = np.zeros((4, 160, 160))
    for pose in poses:
        for action in range(4):
            step[action, place[pose], place[after(pose, action)]] = 1.0
    M = np.linalg.inv(np.eye(160) - gamma * step.mean(0))
    expected = np.eye(160) + gamma * step @ M  # [A, S, S]
    np.testing.assert_allclose(representation.psi(observations).numpy(), expected.transpose(1, 0, 2), atol=1e-4)
    np.testing.assert_allclose(representation.psi(observations).mean(1).numpy(), M, atol=1e-4)


def test_chances_are_estimated_and_untried_actions_change_nothing() -> None:
    representation = TabularRepresentation(
        ExactConfig(gamma=0.5, capacity=3, solve_every=1), EnvSpec((3,), "float32", 2)
    )
    here, there, there_too = (one_hot(place, 3)[None] for place in range(3))
    no, yes = np.array([False]), np.array([True])
    for follower in (there, there_too, there, there):
        representation.observe(Transitions(np.array([0]), here, np.array([0]), np.zeros(1), no, no, follower), yes)
    representation.update(1, 1)
    # States 1 and 2 never leave: M = 2 e_s. State 0: action 0 leads to 1 in 3 of 4 cases, action 1 stays.
    # M(0) = e0 + 0.5 * (M(0) / 2 + (0.75 M(1) + 0.25 M(2)) / 2), so 0.75 M(0) = e0 + 0.375 e1 + 0.125 e2.
    psi = representation.psi(np.concatenate([here, there, there_too])).numpy()
    np.testing.assert_allclose(psi[0].mean(0), [4 / 3, 0.5, 1 / 6], atol=1e-6)
    np.testing.assert_allclose(psi[0, 0], [1, 0.75, 0.25], atol=1e-6)
    np.testing.assert_allclose(psi[1], [[0, 2, 0], [0, 2, 0]], atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_networks_alone_bring_every_observation_and_its_psi_back(dtype: str) -> None:
    spec, config = EnvSpec((3,), dtype, 2), ExactConfig(gamma=0.5, capacity=5, solve_every=1)
    representation = TabularRepresentation(config, spec)
    seen = (np.arange(12).reshape(4, 3) / (1 if dtype == "uint8" else 7)).astype(dtype)  # sevenths: no short binary
    no = np.zeros(2, dtype=bool)
    moves = Transitions(np.array([0, 1]), seen[:2], np.array([0, 1]), np.zeros(2), no, no, seen[2:])
    representation.observe(moves, ~no)
    representation.update(1, 1)
    state, fresh = AgentState(), AgentState()
    representation.write_state(state)
    other = TabularRepresentation(config, spec)
    other.write_state(fresh)
    assert fresh.networks["tabular.observations"].shape == (0, seen[0].nbytes)
    other.load_state(AgentState(networks=state.networks, replay=fresh.replay))  # a slim copy has no counts
    assert other.psi(seen).equal(representation.psi(seen))
    assert not other.psi(seen).equal(TabularRepresentation(config, spec).psi(seen))
    other.load_state(state)
    again = AgentState()
    other.write_state(again)
    assert_same_state(state, again)


def test_too_many_observations_say_which_option_to_raise() -> None:
    representation = TabularRepresentation(ExactConfig(capacity=2), EnvSpec((6,), "float32", 2))
    representation.psi(np.stack([one_hot(0), one_hot(1), one_hot(0)]))
    with pytest.raises(SflError, match=r"more than 2 distinct observations; raise --agent\.exact\.capacity"):
        representation.psi(one_hot(2)[None])
    with pytest.raises(UsageError, match=r"exact\.capacity must be at least 2, got 1"):
        ExactConfig(capacity=1)


def test_it_reaches_the_goal_and_any_goal_in_fourroom() -> None:
    landmarks = LandmarkConfig(limit=10, add_threshold=0.99, start_step=2_000, add_every=500, update_every=1_000)
    config = tabular(landmarks=landmarks, edges=EdgeConfig(form_every=500), exact=ExactConfig(gamma=0.95, capacity=160))
    agent = make_agent(config, EnvSpec((9, 9, 3), "uint8", 4, 4), seed=0)
    Run(agent, fourrooms(4)).go(4_000)  # 16,000 environment steps
    envs = fourrooms(25, goal_terminates=True)
    tasks = draw_tasks(envs[0], "paper", 50, np.random.default_rng(0))
    assert evaluate(agent.policy(seed=1), envs, tasks)[0] >= 0.9
    tasks = draw_tasks(envs[0], "any", 50, np.random.default_rng(0))
    assert evaluate(agent.policy(seed=1), envs, tasks)[0] >= 0.9
    random = make_agent(tabular(), EnvSpec((9, 9, 3), "uint8", 4, 4), seed=0)
    assert evaluate(random.policy(seed=1), envs, tasks)[0] < 0.6  # knows nothing: each state is like itself only
