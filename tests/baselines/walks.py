"""Walks along a line of places, each with a look of its own."""

from __future__ import annotations

import numpy as np
import torch

from sfl.api import Array, EnvSpec, Transitions
from sfl.replay.store import WalkReplay

PLACES = 20
LINE = EnvSpec((PLACES,), "float32", 2, 2)


def line_views(places: Array) -> Array:
    """What is seen at places: one-hot."""
    return np.asarray(np.eye(PLACES, dtype=np.float32)[places])


def line_replay(steps: int, episode: int = 40, capacity: int = 10_000, seed: int = 0) -> WalkReplay:
    """Two walkers who mostly go on in one direction; action 1 leads up, 0 down."""
    rng, replay = np.random.default_rng(seed), WalkReplay(LINE, capacity, torch.device("cpu"))
    places, ways = np.array([5, 15]), np.array([1, 0])
    for step in range(1, steps + 1):
        ways = np.where(rng.random(2) < 0.1, 1 - ways, ways)
        after = np.clip(places + 2 * ways - 1, 0, PLACES - 1)
        over = np.full(2, step % episode == 0)
        replay.observe(
            Transitions(np.arange(2), line_views(places), ways, np.zeros(2), np.zeros(2, bool), over, line_views(after))
        )
        places = rng.integers(PLACES, size=2) if over[0] else after
    return replay
