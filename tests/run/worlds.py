"""Small worlds and policies whose every step can be worked out on paper."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from sfl.api import Array, Decision, Observation
from sfl.baselines.random import RandomConfig
from sfl.run.settings import EvalConfig, Experiment, TrainConfig
from sfl.worlds import MiniGridConfig


class Corridor(gymnasium.Env[Any, Any]):
    """Cells 0, 1, 2, ...; action 1 goes right, 0 stays. A goal is a cell; time runs out after `limit` steps."""

    def __init__(self, limit: int = 4, noise: bool = False) -> None:
        cell = spaces.Box(0, 1000, (1,), np.int64)
        self.observation_space = spaces.Dict({"observation": cell, "achieved_goal": cell, "desired_goal": cell})
        self.action_space = spaces.Discrete(2)
        self._limit, self._noise = limit, noise
        self.resets: list[tuple[int | None, Any]] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start in cell 0, or with `noise` in one that no seed determines."""
        super().reset(seed=seed)
        self.resets.append((seed, options))
        self._goal = (options or {}).get("goal")
        self._cell = 100 * len(self.resets) if self._noise else 0
        self._time = 0
        return self._seen(), {"pose": np.array([self._cell, 0.0, 0.0])}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Go right or stay."""
        self._cell, self._time = self._cell + int(action), self._time + 1
        reached = self._goal is not None and self._cell == self._goal
        info = {"pose": np.array([self._cell, 0.0, 0.0]), "is_success": reached}
        return self._seen(), float(reached), reached, self._time >= self._limit and not reached, info

    def _seen(self) -> dict[str, Array]:
        cell = np.array([self._cell])
        return {"observation": cell, "achieved_goal": cell.copy(), "desired_goal": np.array([self._goal or 0])}


class Walk:
    """A policy that always does the same and writes down what it is told."""

    def __init__(self, action: int = 1, explanation: Decision | None = None) -> None:
        self._action, self._explanation = action, explanation or Decision()
        self.calls: list[tuple[Any, ...]] = []

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """Write it down."""
        self.calls.append(("begin", env_index, None if goal is None else int(goal.flat[0])))

    def act(self, observations: Array, env_indices: Array) -> Array:
        """The same action everywhere."""
        self.calls.append(("act", env_indices.tolist(), observations.reshape(len(observations), -1)[:, 0].tolist()))
        return np.full(len(env_indices), self._action)

    def explain(self, env_index: int) -> Decision:
        """What it was made with."""
        return self._explanation


def random_experiment(**train: int) -> Experiment:
    """The random policy in FourRoom for a few hundred steps."""
    sizes = {"steps": 350, "eval_every": 100, "checkpoint_every": 150, "log_every": 50, **train}
    return Experiment(
        "fourroom-random", MiniGridConfig(), RandomConfig(), TrainConfig(**sizes), EvalConfig(episodes=3, parallel=2)
    )
