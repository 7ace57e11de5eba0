"""Where the agent truly was: known to the run only, for pictures and for the metrics that judge the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sfl.data.types import Array

OFTEN = 0.1
"""Of the visits that a square would have if all had the same: with so many it counts as visited often."""


@dataclass(frozen=True, eq=False)
class Squares:
    """A world cut into squares, to count which of them were visited."""

    side: float
    """In cells of a grid, or in map units."""
    reachable: Array
    """[S, 2] the numbers, across and up, of the squares that can be reached, each once."""

    @classmethod
    def around(cls, places: Array, side: float) -> Squares:
        """The squares that hold at least one of the places [N, 2]."""
        return cls(side, np.unique(_numbers(places, side), axis=0))

    def visits(self, poses: Array) -> Array:
        """[S] how many of the poses [N, 3] lie in each square."""
        inside = _numbers(poses[np.isfinite(poses[:, 0]), :2], self.side)
        origin, size = self.reachable.min(0), np.ptp(self.reachable, axis=0) + 1
        inside = inside[((inside >= origin) & (inside < origin + size)).all(1)] - origin
        counts = np.zeros(size, np.int64)
        np.add.at(counts, tuple(inside.T), 1)
        return np.asarray(counts[tuple((self.reachable - origin).T)])


def _numbers(places: Array, side: float) -> Array:
    return np.floor(np.asarray(places) / side).astype(np.int64)


class PoseLog:
    """The pose of every environment step, in the order in which the agent saw them.

    A landmark's `origin` counts those steps, so that `poses[origin]` is the place where it was seen.
    """

    def __init__(self, squares: Squares | None) -> None:
        self._poses = np.zeros((1024, 3), np.float32)
        self._count = self._counted = 0
        self._squares = squares
        self._visits = np.zeros(0 if squares is None else len(squares.reachable), np.int64)

    def add(self, poses: Array) -> None:
        """Note the poses [B, 3] of one decision."""
        needed = self._count + len(poses)
        if needed > len(self._poses):
            grown = np.zeros((max(needed, 2 * len(self._poses)), 3), np.float32)
            grown[: self._count] = self._poses[: self._count]
            self._poses = grown
        self._poses[self._count : needed] = poses
        self._count = needed

    @property
    def poses(self) -> Array:
        """All poses so far, [N, 3] float32."""
        return self._poses[: self._count].copy()

    def metrics(self) -> dict[str, float]:
        """Shares of the squares that were visited, at all and often, where it is known which can be reached."""
        if self._squares is None:
            return {}
        self._visits += self._squares.visits(self._poses[self._counted : self._count])
        self._counted = self._count
        often = self._visits >= max(1.0, OFTEN * float(self._visits.mean()))
        return {"explore/coverage": float((self._visits > 0).mean()), "explore/coverage_often": float(often.mean())}


def landmark_poses(graph: Mapping[str, Array], poses: Array) -> Array:
    """Where each landmark was seen, float32 [L, 3]; NaN where that is not known."""
    origin = np.asarray(graph.get("origin", ()), np.int64)
    known = (origin >= 0) & (origin < len(poses))
    found = np.full((len(origin), 3), np.nan, np.float32)
    found[known] = poses[origin[known]]
    return found


def edge_ends(graph: Mapping[str, Array], poses: Array) -> Array:
    """Where the edges between landmarks at `poses` [L, 3] begin and end, [E, 4] x1, y1, x2, y2."""
    sources, targets = (np.asarray(graph.get(f"edge_{end}", ()), np.int64) for end in ("sources", "targets"))
    return np.concatenate([poses[sources, :2], poses[targets, :2]], axis=1)
