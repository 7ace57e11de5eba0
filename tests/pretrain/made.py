"""Walks that need no game: the colour of a frame says where in its walk it was seen."""

from __future__ import annotations

import numpy as np
import torch

from sfl.pretrain.walks import Walks


def made_walks(mazes: int = 3, per_maze: int = 2, length: int = 60) -> Walks:
    """[mazes * per_maze, length, 60, 80, 3]: a band that moves with time over a ground that is the walk's own."""
    rng = np.random.Generator(np.random.PCG64(0))
    count = mazes * per_maze
    ground = rng.integers(0, 256, size=(count, 1, 6, 8, 3))
    frames = np.repeat(ground, length, axis=1).repeat(10, axis=2).repeat(10, axis=3).astype(np.uint8)
    for time in range(length):
        frames[:, time, :, time : time + 12] = (4 * time) % 256
    actions = rng.integers(7, size=(count, length)).astype(np.uint8)
    return Walks(torch.from_numpy(frames), np.repeat(np.arange(mazes), per_maze), ("small",) * mazes, actions)
