"""MSS's map: landmarks far from each other, values between them, and soft value iteration over it.

A value is minus the number of steps that a policy is thought to need; 0 is the best. (Huang, Liu and Su, "Mapping State
Space using Landmarks for Universal Goal Reaching", 2019.)
"""

from __future__ import annotations

import math

import numpy as np

from sfl.api import Array
from sfl.baselines.mss.config import MapConfig
from sfl.method.edges import Edges

UNREACHABLE = -1e6
"""The value between two states that no edges join."""

ARRIVAL = 1.0
"""What the value function does not count, the step that arrives, counts once for each edge of a way."""

TINY = 1e-290
"""Sums of weights below this have lost digits."""

ALIKE = 1e-4
"""Two candidates count as one if they are less apart than this share of the farthest pair, both squared."""


def farthest_points(apart: Array, count: int) -> Array:
    """Up to `count` of N points, given the squares of how far apart they are [N, N]: the first, then whichever is
    farthest from all that were taken. It ends early where only copies are left."""
    nearest, taken, alike = apart[0].copy(), [0], ALIKE * float(apart.max())
    while len(taken) < count:
        farthest = int(nearest.argmax())
        if nearest[farthest] <= alike:
            break
        taken.append(farthest)
        nearest = np.minimum(nearest, apart[farthest])
    return np.array(taken)


def cut(values: Array, clip: float, keep_best: int | None = None) -> Array:
    """Values with those below the clip threshold made unreachable; along the axis `keep_best` the best one stays."""
    kept = values >= clip
    if keep_best is not None and values.size:
        best = np.expand_dims(values.argmax(keep_best), keep_best)
        np.put_along_axis(kept, best, True, keep_best)
    return np.where(kept, values, UNREACHABLE)


def soft_step(first: Array, second: Array, sharpness: float) -> Array:
    """[N, M]: the mean over k of first[n, k] + second[k, m], weighted by exp(sharpness * that sum).

    The weights are products of a part of each sum, so the means are products of matrices.
    """
    means, sound = _weighted_means(first, second, sharpness, 0.0, 0.0)
    linked = (first > UNREACHABLE / 2).astype(np.float32) @ (second > UNREACHABLE / 2).astype(np.float32) > 0
    lost = linked & ~sound
    if lost.any():  # weights are too small for a number: taken relative to the best of each row and column most are not
        best = first.max(1, keepdims=True), second.max(0, keepdims=True)
        again, sound = _weighted_means(first, second, sharpness, *best)
        means, lost = np.where(lost & sound, again, means), lost & ~sound
    for row in np.flatnonzero(lost.any(1)):  # and the others relative to the best way of all
        columns = np.flatnonzero(lost[row])
        ways = first[row][:, None] + second[:, columns]  # [K, M]
        shares = np.exp(sharpness * (ways - ways.max(0)))
        means[row, columns] = (shares * ways).sum(0) / shares.sum(0)
    return np.where(linked, np.maximum(means, UNREACHABLE), UNREACHABLE)


def _weighted_means(
    first: Array, second: Array, sharpness: float, of_first: Array | float, of_second: Array | float
) -> tuple[Array, Array]:
    """The means of `soft_step` by weights relative to these values, and [N, M] bool: where the weights are sound."""
    by_first, by_second = np.exp(sharpness * (first - of_first)), np.exp(sharpness * (second - of_second))
    weights = by_first @ by_second
    sums = (by_first * first) @ by_second + by_first @ (by_second * second)
    sound = weights > TINY
    return sums / np.where(sound, weights, 1.0), sound


class LandmarkMap:
    """Values of the ways between all landmarks."""

    def __init__(self, values: Array, config: MapConfig) -> None:
        """`values` [L, L]: from each landmark straight to each other, whatever stands on the diagonal."""
        self.config = config
        others = np.asarray(values, np.float64).copy()
        np.fill_diagonal(others, -np.inf)  # a landmark's best incoming edge comes from another one
        self.edges = cut(others, config.clip, keep_best=0) - ARRIVAL
        np.fill_diagonal(self.edges, 0.0)
        self.edge_count = int(self._linked().sum())
        self.values = self.edges
        # Each round doubles the number of edges that a way may have. Staying is free: a soft mean over ways there and
        # back would say otherwise, and the next round would double that.
        for _ in range(math.ceil(math.log2(max(1, len(values))))):
            self.values = soft_step(self.values, self.values, config.sharpness)
            np.fill_diagonal(self.values, 0.0)

    def _linked(self) -> Array:
        return np.asarray((self.edges > UNREACHABLE / 2) & ~np.eye(len(self.edges), dtype=bool))

    def to_goals(self, values: Array) -> Array:
        """Values of the ways from landmarks to goals [L, G], given those straight from each landmark to each goal.

        A goal keeps its best incoming edge, as landmarks do.
        """
        straight = cut(np.asarray(values, np.float64), self.config.clip, keep_best=0) - ARRIVAL
        return soft_step(self.values, straight, self.config.sharpness)

    def choose(
        self, here: Array, at: Array, goal: Array, onward: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Where to walk, [B]: landmarks, or their number L for the goal itself; and the values of the ways chosen.

        `here` [B, L] and `goal` [B]: values straight to landmarks and to the goal; `at` [B, L] bool: landmarks that are
        reached; `onward` [B, L]: values of the ways from landmarks to the goal.
        """
        config, rows = self.config, np.arange(len(here))
        near, straight = cut(here, config.clip), cut(goal, config.clip)
        if config.keep_nearest and here.size:
            nearest = np.where(at, 1.0, here).argmax(1)
            leads = self._linked()[nearest]  # [B, L]: where the nearest landmark has edges to
            leads[rows, nearest] = True
            near = np.where(leads, here, near)
            straight = np.where(nearest == onward.argmax(1), goal, straight)
        near = np.where(at, UNREACHABLE, near)  # it leads nowhere: the value function would stay at it
        ways = np.concatenate([near + onward, straight[:, None]], axis=1) - ARRIVAL
        drawn = (config.sharpness * ways + rng.gumbel(size=ways.shape)).argmax(1)
        chosen = np.where(straight >= config.direct, here.shape[1], drawn)
        return chosen, ways[rows, chosen]

    def arrays(self) -> dict[str, Array]:
        """Edges between landmarks as figures and metrics read them; the diagonal is none."""
        sources, targets = np.nonzero(self._linked())
        weights = -self.edges[sources, targets]  # steps
        counts = np.ones(len(sources), np.int64)
        return Edges(len(self.edges), sources, targets, counts, weights).state()
