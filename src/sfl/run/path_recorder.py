"""Where an episode has been, for pictures of it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from sfl.data.types import Array
from sfl.run.rollout import Env


class PathRecorder(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Notes the poses of an episode."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.path: list[Array] = []
        """[3] each, the newest last; NaN where the environment does not say."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """A new path."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.path = [_pose(info)]
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One pose more."""
        result = self.env.step(action)
        self.path.append(_pose(result[4]))
        return result

    @property
    def here(self) -> Array | None:
        """Where the agent truly is [3]; None where that is not known."""
        return self.path[-1] if self.path and np.isfinite(self.path[-1]).all() else None


def _pose(info: dict[str, Any]) -> Array:
    return np.asarray(info.get("pose", np.full(3, np.nan)))
