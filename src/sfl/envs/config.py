"""Which environment to make, as a value; and `make_env`, which makes it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym
from minigrid.minigrid_env import MiniGridEnv

from sfl.core.config import require
from sfl.core.errors import UsageError, unknown_name
from sfl.envs.layouts import LAYOUTS
from sfl.envs.minigrid import Spawn
from sfl.envs.wrappers import GoalWrapper, WholeGrid

_OURS = [layout.env_id for layout in LAYOUTS.values()]
_PYTHON_WORDS = {"True": True, "False": False, "None": None}


@dataclass(frozen=True)
class MiniGridConfig:
    """One of the paper's grid worlds."""

    id: str = "sfl/FourRoom-v0"
    """`sfl/FourRoom-v0` or `sfl/MultiRoom-N2-v0` (N3, N4, N6, N8)."""
    spawn: Spawn = "fixed"
    """Where an episode starts that is given no start: at the paper's start, or anywhere (random)."""
    max_steps: int | None = None
    """Time limit of an episode; None: the paper's."""

    def __post_init__(self) -> None:
        if self.id not in _OURS:
            raise unknown_name("grid world", self.id, _OURS, f"There are {', '.join(_OURS)}.")
        require(self.spawn in ("fixed", "random"), f"spawn must be 'fixed' or 'random', got {self.spawn!r}.")
        _check_limit(self.max_steps)


@dataclass(frozen=True)
class GymConfig:
    """Any Gymnasium environment with discrete actions and array observations."""

    id: str = "MiniGrid-FourRooms-v0"
    """The id it is registered under; `module:Name-v0` imports `module` first."""
    goal_test: Literal["equal", "distance"] = "equal"
    """A goal is reached when the observation equals it, or lies within `radius` of it."""
    radius: float = 0.0
    """The greatest Euclidean distance between an observation and a goal it reaches (goal test `distance`)."""
    observation_key: str | None = None
    """Which entry of Dict observations to learn from; None: the only array, `image` or `observation`."""
    reset_seed: int | None = 0
    """Every episode resets with this seed, so that the world stays the same; None: worlds vary."""
    max_steps: int | None = None
    """Time limit of an episode; None: the environment's own, else 200."""
    full_observation: bool = True
    """MiniGrid ids: observe the whole grid instead of the view ahead of the agent."""
    kwargs: tuple[str, ...] = ()
    """Arguments of the environment as `name=value`, for example `is_slippery=false`."""

    def __post_init__(self) -> None:
        require(
            self.id not in _OURS, f"{self.id} has goals of its own: use an experiment made for it, or MiniGridConfig."
        )
        if ":" not in self.id and self.id not in gym.registry:
            raise unknown_name("environment", self.id, gym.registry, "An id `module:Name-v0` imports `module` first.")
        require(
            self.goal_test in ("equal", "distance"), f"goal_test must be 'equal' or 'distance', got {self.goal_test!r}."
        )
        require(
            self.radius > 0 if self.goal_test == "distance" else self.radius == 0,
            f"radius must be above 0 with goal_test 'distance', else 0; got {self.radius} with {self.goal_test!r}.",
        )
        _check_limit(self.max_steps)
        for argument in self.kwargs:
            _argument(argument)


EnvConfig = MiniGridConfig | GymConfig


def make_env(config: EnvConfig, goal_terminates: bool = True) -> gym.Env[Any, Any]:
    """The environment of a configuration; with `goal_terminates=False` reaching the goal does not end an episode."""
    if isinstance(config, MiniGridConfig):
        chosen: dict[str, Any] = {
            "spawn": config.spawn,
            "max_steps": config.max_steps,
            "goal_terminates": goal_terminates,
        }
        return gym.make(config.id, disable_env_checker=True, **chosen)
    return GoalWrapper(
        _inner_env(config),
        goal_test=config.goal_test,
        radius=config.radius,
        observation_key=config.observation_key,
        reset_seed=config.reset_seed,
        max_steps=config.max_steps,
        goal_terminates=goal_terminates,
    )


def _inner_env(config: GymConfig) -> gym.Env[Any, Any]:
    """The environment itself, with the configured time limit in place of its own."""
    arguments = dict(map(_argument, config.kwargs))
    try:
        env = gym.make(config.id, config.max_steps, disable_env_checker=True, **arguments)
    except (
        gym.error.Error,
        ImportError,
        TypeError,
    ) as error:  # what unknown ids, missing packages and wrong kwargs raise
        raise UsageError(f"Cannot make {config.id} with {arguments}: {str(error).splitlines()[0]}") from error
    if isinstance(env.unwrapped, MiniGridEnv):
        if config.max_steps is not None:
            env.unwrapped.max_steps = config.max_steps  # MiniGrid counts for itself beside Gymnasium's time limit
        if config.full_observation:
            return WholeGrid(env)
    return env


def _argument(text: str) -> tuple[str, Any]:
    """`name=value` with the value as JSON (or True, False, None); anything else is a word."""
    name, equals, value = text.partition("=")
    require(bool(equals) and name.isidentifier(), f"kwargs must look like name=value, got {text!r}.")
    if value in _PYTHON_WORDS:
        return name, _PYTHON_WORDS[value]
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def _check_limit(max_steps: int | None) -> None:
    require(max_steps is None or max_steps >= 1, f"max_steps must be at least 1, got {max_steps}.")
