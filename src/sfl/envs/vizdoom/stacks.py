"""The newest frames of several games, oldest first."""

from __future__ import annotations

import numpy as np

from sfl.data.types import Array
from sfl.envs.vizdoom.board import FRAME_SHAPE


class Stacks:
    """Keeps the last `depth` frames of `count` games; zeros stand for frames before an episode's first."""

    def __init__(self, count: int, depth: int) -> None:
        self.rows: Array = np.zeros((count, depth, *FRAME_SHAPE), np.uint8)

    def push(self, frames: Array, started: Array) -> None:
        """Add the newest frames [N, ...]; where an episode `started` [N], forget the frames before."""
        self.rows[:, :-1] = self.rows[:, 1:]
        self.rows[started] = 0
        self.rows[:, -1] = frames
