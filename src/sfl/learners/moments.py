"""Pairs of moments of random walks: what encoders of frames learn from. Time is all they know; no poses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfl.data.types import Array


@dataclass(frozen=True)
class MomentPairs:
    """Two moments each of one walk. A walk is made in one maze; a maze is a layout in certain textures."""

    mazes: Array  # [B]
    walks: Array  # [B]
    times: Array  # [2, B] decisions since the walk's start
    near: Array  # [B] bool: the two are few decisions apart


def draw_offsets(times: Array, distances: Array, length: int, rng: np.random.Generator) -> Array:
    """Moments so many decisions before or after others [B] of walks of `length`, with equal chance where both exist."""
    sides = np.where(rng.random(len(times)) < 0.5, -1, 1)
    moments = times + sides * distances
    outside = (moments < 0) | (moments >= length)
    return np.asarray(np.where(outside, times - sides * distances, moments))
