"""What observing the whole grid costs, ours beside MiniGrid's `FullyObsWrapper`."""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np
from minigrid.wrappers import FullyObsWrapper

from sfl.worlds.grids import GridWorld
from sfl.worlds.tasks import GoalObservation

_ROUNDS = 5


class _BlindWorld(GridWorld):
    """The same world without its observation: what a step costs anyway."""

    def gen_obs(self) -> GoalObservation:
        return {}


def observation_cost(env_id: str, steps: int = 2000) -> dict[str, float]:
    """Microseconds per step of an `sfl/...` world, and of its observation: a step with it minus a step without.

    Each figure is the best of a few interleaved rounds, so that other work on the machine falls out.
    """
    seeing = gym.make(env_id, disable_env_checker=True).unwrapped
    blind = _BlindWorld(seeing.layout.name)  # type: ignore[attr-defined]
    wrapped = FullyObsWrapper(_BlindWorld(blind.layout.name))  # type: ignore[no-untyped-call]
    worlds: dict[str, gym.Env[Any, Any]] = {"blind": blind, "ours": seeing, "wrapped": wrapped}
    actions = np.random.Generator(np.random.PCG64(0)).integers(4, size=steps).tolist()
    rounds = [{name: _seconds(world, actions) for name, world in worlds.items()} for _ in range(_ROUNDS)]
    micro = {name: 1e6 / steps * min(seconds[name] for seconds in rounds) for name in worlds}
    ours, wrapper = micro["ours"] - micro["blind"], micro["wrapped"] - micro["blind"]
    return {"step_us": micro["ours"], "ours_us": ours, "fully_obs_wrapper_us": wrapper, "ratio": wrapper / ours}


def _seconds(env: gym.Env[Any, Any], actions: list[int]) -> float:
    """Time of a walk within one episode: time limits are only announced, never enforced, by `step`."""
    env.reset(seed=0, options={"goal": None})
    begin = time.perf_counter()
    for action in actions:
        env.step(action)
    return time.perf_counter() - begin
