"""Where the agent truly was: known to the run only, for pictures and for the metrics that judge the graph."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sfl.data.types import Array
from sfl.run.rollout import Env


class PoseLog:
    """The pose of every environment step, in the order in which the agent saw them.

    A landmark's `origin` counts those steps, so that `poses[origin]` is the place where it was seen.
    """

    def __init__(self, env: Env, poses: Array | None = None) -> None:
        self._poses = np.zeros((1024, 3), np.float32)
        self._count = 0
        self._free = {(int(x), int(y)) for x, y in _free_cells(env)}
        self._visited: set[tuple[int, int]] = set()
        if poses is not None:
            self.add(poses)

    def add(self, poses: Array) -> None:
        """Note the poses [B, 3] of one decision."""
        needed = self._count + len(poses)
        if needed > len(self._poses):
            grown = np.zeros((max(needed, 2 * len(self._poses)), 3), np.float32)
            grown[: self._count] = self._poses[: self._count]
            self._poses = grown
        self._poses[self._count : needed] = poses
        self._count = needed
        if self._free:
            self._visited.update((int(x), int(y)) for x, y, _ in poses if np.isfinite(x))

    @property
    def poses(self) -> Array:
        """All poses so far, [N, 3] float32."""
        return self._poses[: self._count].copy()

    def metrics(self) -> dict[str, float]:
        """`explore/coverage`, where the environment lists its cells."""
        if not self._free:
            return {}
        return {"explore/coverage": len(self._visited & self._free) / len(self._free)}


def _free_cells(env: Env) -> list[tuple[int, int]]:
    return list(env.get_wrapper_attr("free_cells")()) if env.has_wrapper_attr("free_cells") else []


def landmark_poses(graph: Mapping[str, Array], poses: Array) -> Array:
    """Where each landmark was seen, float32 [L, 3]; NaN where that is not known."""
    origin = np.asarray(graph.get("origin", ()), np.int64)
    known = (origin >= 0) & (origin < len(poses))
    found = np.full((len(origin), 3), np.nan, np.float32)
    found[known] = poses[origin[known]]
    return found


def edge_length_median(graph: Mapping[str, Array], poses: Array) -> dict[str, float]:
    """`graph/edge_length_median`: over the edges between landmarks at known `poses` [L, 3]."""
    sources, targets = (np.asarray(graph.get(f"edge_{end}", ()), np.int64) for end in ("sources", "targets"))
    lengths = np.linalg.norm(poses[sources, :2] - poses[targets, :2], axis=1)
    lengths = lengths[np.isfinite(lengths)]
    return {"graph/edge_length_median": float(np.median(lengths))} if lengths.size else {}
