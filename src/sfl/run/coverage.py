"""Where the agent truly was: known to the run only, for pictures and for the metrics that judge the graph.

Squares of a world and how often they were visited, the poses of training, those of landmarks and edges, and of one
episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from sfl.api import Array
from sfl.worlds.session import Env
from sfl.worlds.world import Squares

OFTEN = 0.1
"""A square with this share of the mean number of visits counts as visited often."""

BLOCK = 1 << 16
"""Poses that are kept in one piece."""


class PoseLog:
    """The pose of every environment step, in the order in which the agent saw them.

    A landmark's `origin` counts those steps, so that the pose of that number is the place where it was seen. Poses are
    kept in blocks: one array would be copied whenever it grows, and again for every checkpoint.
    """

    def __init__(self, squares: Squares | None) -> None:
        self._blocks: list[Array] = []
        self._count = self._counted = 0
        self._squares = squares
        self._visits = np.zeros(0 if squares is None else len(squares.reachable), np.int64)

    def __len__(self) -> int:
        return self._count

    def add(self, poses: Array) -> None:
        """Note the poses [B, 3] of one decision."""
        while len(poses):
            used = self._count % BLOCK
            if used == 0:
                self._blocks.append(np.empty((BLOCK, 3), np.float32))
            fitting, poses = poses[: BLOCK - used], poses[BLOCK - used :]
            self._blocks[-1][used : used + len(fitting)] = fitting
            self._count += len(fitting)

    def since(self, first: int) -> Array:
        """The poses [N, 3] from this number on."""
        pieces = self.pieces()[first // BLOCK :]
        return np.concatenate([pieces[0][first % BLOCK :], *pieces[1:]]) if pieces else np.zeros((0, 3), np.float32)

    def at(self, numbers: Array) -> Array:
        """The poses [N, 3] of these numbers [N]."""
        return np.array([self._blocks[number // BLOCK][number % BLOCK] for number in numbers.tolist()]).reshape(-1, 3)

    def pieces(self) -> tuple[Array, ...]:
        """All of them, [n, 3] float32 each, as they are kept: what is there already does not change any more."""
        full, rest = divmod(self._count, BLOCK)
        return (*self._blocks[:full], *([self._blocks[full][:rest]] if rest else []))

    def metrics(self) -> dict[str, float]:
        """Shares of the squares that were visited, at all and often, where it is known which can be reached."""
        if self._squares is None:
            return {}
        self._visits += self._squares.visits(self.since(self._counted))
        self._counted = self._count
        often = self._visits >= max(1.0, OFTEN * float(self._visits.mean()))
        return {"explore/coverage": float((self._visits > 0).mean()), "explore/coverage_often": float(often.mean())}


def landmark_poses(graph: Mapping[str, Array], poses: PoseLog) -> Array:
    """Where each landmark was seen, float32 [L, 3]; NaN where that is not known."""
    origin = np.asarray(graph.get("origin", ()), np.int64)
    known = (origin >= 0) & (origin < len(poses))
    found = np.full((len(origin), 3), np.nan, np.float32)
    found[known] = poses.at(origin[known])
    return found


def edge_ends(graph: Mapping[str, Array], poses: Array) -> Array:
    """Where the edges between landmarks at `poses` [L, 3] begin and end, [E, 4] x1, y1, x2, y2."""
    sources, targets = (np.asarray(graph.get(f"edge_{end}", ()), np.int64) for end in ("sources", "targets"))
    return np.concatenate([poses[sources, :2], poses[targets, :2]], axis=1)


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
