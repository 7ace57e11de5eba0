"""Small worlds, small settings, and loops that several tests of the agents need."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from sfl.api import Agent, AgentState, Array, EnvSpec, Episode, Observation, Policy, Step
from sfl.baselines.config import (
    ATTEMPTS,
    ControllerConfig,
    ECConfig,
    LocomotionConfig,
    NetworkConfig,
    PPOConfig,
    SGMConfig,
    ShortcutConfig,
    SparseConfig,
    SPTMConfig,
    WalksConfig,
)
from sfl.baselines.mss.config import MapConfig, MSSConfig, UVFAConfig
from sfl.baselines.random import RandomAgent, RandomConfig
from sfl.method.config import (
    EdgeConfig,
    ExactConfig,
    FeatureConfig,
    LandmarkConfig,
    MetricConfig,
    NavigatorConfig,
    RetrievalConfig,
    SFLConfig,
    SuccessorConfig,
)
from sfl.method.presets import tabular
from sfl.registry import AgentConfig
from sfl.run.rollout import FreeEpisodes, rollout
from sfl.worlds import GoalWrapper, MiniGridConfig, Task, make_env
from sfl.worlds.session import EnvSession

CORRIDOR_FEATURES = FeatureConfig(dim=16, batch_size=64, start_step=200, stop_step=2_000, updates_per_step=0.2)
CORRIDOR_PSI = SuccessorConfig(
    hidden=(64,),
    batch_norm=False,
    gamma=0.9,
    learning_rate=2e-3,
    batch_size=256,
    target_rate=0.05,
    start_step=500,
    updates_per_step=0.5,
    whiten=True,
    unit_scale=True,
)
"""With these SFL learns the way along a corridor within a few thousand steps."""

FOURROOM = EnvSpec((9, 9, 3), "uint8", 4, 2)

_features = FeatureConfig(dim=16, batch_size=16, start_step=50, updates_per_step=0.05)
_successor = SuccessorConfig(hidden=(32,), batch_norm=False, batch_size=16, start_step=100, updates_per_step=0.1)
_landmarks = LandmarkConfig(start_step=200, add_every=20, update_every=30)
_edges = EdgeConfig(threshold=0.0, form_every=20)
_navigator = NavigatorConfig(explore_steps=10)
_tiny = SFLConfig(
    features=_features, successor=_successor, landmarks=_landmarks, edges=_edges, navigator=_navigator, replay_size=400
)

_networks = NetworkConfig(
    retrieval=RetrievalConfig(near=2, far=6, hidden=16, layers=1, dim=16, batch_size=16, learning_rate=1e-3),
    locomotion=LocomotionConfig(ahead=2, batch_size=16, dim=16, learning_rate=1e-3),
    updates_per_step=0.05,
    replay_size=300,
)

TINY: dict[str, AgentConfig] = {
    "random": RandomConfig(),
    "controller": ControllerConfig(**vars(_networks)),
    "ec": ECConfig(**vars(_networks), ppo=PPOConfig(horizon=16, dim=16, minibatches=2, epochs=2), train_every=100),
    "sptm": SPTMConfig(
        **vars(_networks), memory=WalksConfig(steps=350, every=3), shortcuts=ShortcutConfig(20, window=2, distance=4)
    ),
    "sgm": SGMConfig(
        **vars(_networks),
        memory=WalksConfig(steps=350, every=4),
        sparse=SparseConfig(merge_cutoff=0.4, consistency_cutoff=0.2, edge_cutoff=0.45),
        navigator=replace(ATTEMPTS, reach_threshold=0.55, replan_after=4, frontier_steps=20),
        localize_threshold=0.55,
    ),
    "tabular": tabular(
        landmarks=_landmarks, edges=_edges, navigator=_navigator, exact=ExactConfig(capacity=200, solve_every=50)
    ),
    "sfl": _tiny,
    "sfl-as-released": replace(_tiny, as_released=True),
    "sfl-uniform": replace(_tiny, navigator=replace(_navigator, frontier="uniform")),
    "sfl-clustered": replace(_tiny, landmarks=replace(_landmarks, formation="clustered", add_every=130)),
    "sfl-reachability": replace(
        _tiny,
        landmarks=replace(_landmarks, add_threshold=0.52, localize_threshold=0.5, window=3),
        metric=MetricConfig("reachability", retrieval=_networks.retrieval),
    ),
    "sfl-whitened": replace(
        _tiny,
        successor=replace(_successor, gamma=0.95, target_rate=0.1, whiten=True, unit_scale=True),
        edges=replace(_edges, weight="steps", failure_limit=2),
        goal_links=3,
    ),
    "mss": MSSConfig(
        uvfa=UVFAConfig(hidden=(32,), batch_size=16, target_every=7, start_step=100, updates_per_step=0.1),
        map=MapConfig(landmarks=6, candidates=50, redraw_every=60),
        dim=16,
        replay_size=400,
    ),
}
"""One small setting for every method, in which every part runs within a few hundred steps."""

DOOM_LIKE = SFLConfig(
    features=_features,
    successor=replace(_successor, batch_norm=True, gamma=0.95, n_step=5),
    landmarks=LandmarkConfig(
        limit=12,
        add_threshold=0.9995,
        localize_threshold=0.9995,
        window=8,
        candidates_per_add=5,
        add_every=40,
        update_every=30,
        candidate_order="arrival",
        replace="least-visited",
        start_step=200,
    ),
    edges=EdgeConfig(
        dynamic_threshold=True, inclusive=True, directed=False, k_nearest=5, failure_limit=2, form_every=20
    ),
    navigator=_navigator,
    replay_size=400,
)
"""What ViZDoom uses and MiniGrid does not: medians, replacement, n steps, batch norm, k-nearest, failures."""


class Corridor(gym.Env[Any, Any]):
    """Cells in a row; action 0 goes back, 1 ahead, 2 stays. Episodes start in the first cell."""

    action_space = spaces.Discrete(3)

    def __init__(self, length: int) -> None:
        self.length = length
        self.observation_space = spaces.Discrete(length)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.cell = 0
        return self.cell, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.cell = int(np.clip(self.cell + (-1, 1, 0)[action], 0, self.length - 1))
        return self.cell, 0.0, False, False, {}


class Zigzag(Corridor):
    """In every other cell the actions 0 and 1 change their meaning: no direction holds for the whole way."""

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return super().step(zigzag(action, self.cell))


def zigzag(way: int, cell: int) -> int:
    """The action for a way (0 back, 1 ahead, 2 stay), and the way of an action."""
    return 1 - way if cell % 2 and way < 2 else way


class Wanderer(RandomAgent):
    """Walks up and down a zigzag: mostly on as before. A walk of chance would hardly leave its start."""

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        self.ways = getattr(self, "ways", {}) | {env_index: 1}

    def act(self, observations: Array, env_indices: Array) -> Array:
        for env in env_indices.tolist():
            if self._rng.random() < 0.15:
                self.ways[env] = int(self._rng.integers(self.spec.action_count))
        cells = observations.argmax(1).tolist()
        return np.array([zigzag(self.ways[env], cell) for env, cell in zip(env_indices.tolist(), cells, strict=True)])


def make_corridor(length: int, max_steps: int, kind: type[Corridor] = Corridor) -> GoalWrapper:
    return GoalWrapper(kind(length), max_steps=max_steps)


def fourrooms(count: int, spawn: str = "fixed", goal_terminates: bool = False) -> list[gym.Env[Any, Any]]:
    config = MiniGridConfig(spawn=spawn)  # type: ignore[arg-type]
    return [make_env(config, goal_terminates) for _ in range(count)]


class Run:
    """An agent in training; `fork` goes on from the same moment with another agent."""

    def __init__(self, agent: Agent, envs: Sequence[gym.Env[Any, Any]], seed: int = 0) -> None:
        self.agent, self.rng = agent, np.random.default_rng(seed)
        self.session = EnvSession(envs, FreeEpisodes(self.rng))
        self._steps: Iterator[Step] | None = None

    def go(self, decisions: int, after: Callable[[Step], None] = lambda step: None) -> list[list[int]]:
        """So many decisions of all environments; returns the actions."""
        self._steps = self._steps or rollout(self.agent, self.session)
        actions = []
        for _ in range(decisions):
            step = next(self._steps)
            self.agent.observe(step.transitions)
            after(step)
            self.agent.update()
            actions.append(step.transitions.actions.tolist())
        return actions

    def fork(self, agent: Agent, envs: Sequence[gym.Env[Any, Any]]) -> Run:
        """Another agent takes up this one's state, and its environments."""
        agent.load_state_dict(copy.deepcopy(self.agent.state_dict()))
        other = Run(agent, envs)
        other.rng.bit_generator.state = self.rng.bit_generator.state
        assert other.session.restore(self.session.state()) == []
        return other


def evaluate(policy: Policy, envs: Sequence[gym.Env[Any, Any]], tasks: Sequence[Task]) -> tuple[float, list[list[int]]]:
    """Share of tasks that a policy solves, and its actions."""
    waiting = [Episode(number, number, task.options(), task.budget) for number, task in enumerate(tasks)]
    solved, actions = 0, []
    for step in rollout(policy, EnvSession(envs, lambda: waiting.pop(0) if waiting else None)):
        solved += sum(bool(step.succeeded[row]) for row in step.ended)
        actions.append(step.transitions.actions.tolist())
    return solved / len(tasks), actions


def assert_same_state(first: AgentState, second: AgentState) -> None:
    """Equal to the last bit, arrays and numbers."""
    for name, part in asdict(first).items():
        other = asdict(second)[name]
        assert part.keys() == other.keys(), name
        for key, value in part.items():
            if isinstance(value, np.ndarray):
                np.testing.assert_array_equal(value, other[key], err_msg=f"{name}.{key}")
            else:
                assert value == other[key], f"{name}.{key}"


def one_hot(place: int, size: int = 6) -> Array:
    return np.asarray(np.eye(size, dtype=np.float32)[place])
