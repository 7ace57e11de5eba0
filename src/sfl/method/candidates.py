"""Landmarks by clustering, as in Successor Options: what the paper compares its progressive landmarks with."""

from __future__ import annotations

import numpy as np

from sfl.api import Array

ROUNDS = 50
"""Most rounds of k-means; a few hundred states settle in fewer."""


def cluster_centres(directions: Array, count: int) -> Array:
    """Spherical k-means: the rows of unit vectors [N, F] nearest to the centres of `count` clusters, ascending.

    The first centres are the row nearest to the mean and then, one by one, the row least like all before it: no
    chance is needed. Rows that are nearest to several centres come once, so there may be fewer than `count`.
    """
    centres = directions[_spread_out(directions, min(count, len(directions)))]
    labels = np.full(len(directions), -1)
    for _ in range(ROUNDS):
        before, labels = labels, (directions @ centres.T).argmax(1)
        if np.array_equal(before, labels):
            break
        centres = np.stack([_mean_direction(directions[labels == k], centres[k]) for k in range(len(centres))])
    return np.unique((directions @ centres.T).argmax(0))


def _spread_out(directions: Array, count: int) -> Array:
    chosen = [int((directions @ directions.mean(0)).argmax())]
    nearest = directions @ directions[chosen[0]]
    while len(chosen) < count:
        chosen.append(int(nearest.argmin()))
        nearest = np.maximum(nearest, directions @ directions[chosen[-1]])
    return np.array(chosen)


def _mean_direction(members: Array, otherwise: Array) -> Array:
    """The unit vector of their mean; a cluster without members stays where it was."""
    mean = members.sum(0)
    length = np.linalg.norm(mean)
    return np.asarray(mean / length if length > 0 else otherwise)
