"""The memory that games share with their reader: commands one way, frames and poses the other."""

from __future__ import annotations

import mmap
import os
import tempfile
from dataclasses import dataclass
from typing import Self

import numpy as np

from sfl.data.types import Array

FRAME_SHAPE = (120, 160, 3)

REST, STEP, BEGIN = range(3)
"""What a game is told to do: nothing, one action, or the start of an episode."""

_ALIGNMENT = 64  # bytes; two games then never write to the same cache line of different arrays
_FIELDS: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    ("commands", "uint8", ()),
    ("actions", "uint8", ()),
    ("starts", "float64", (3,)),
    ("goal_poses", "float64", (3,)),
    ("frames", "uint8", FRAME_SHAPE),
    ("goals", "uint8", FRAME_SHAPE),
    ("poses", "float64", (3,)),
    ("cut", "bool", ()),
    ("restarts", "int64", ()),
)


@dataclass(frozen=True, eq=False)
class Board:
    """One row per game in every array."""

    commands: Array  # [N] REST, STEP or BEGIN
    actions: Array  # [N]
    starts: Array  # [N, 3] where an episode begins
    goal_poses: Array  # [N, 3] where to take the picture of the goal; NaN: no picture
    frames: Array  # [N, 120, 160, 3] the newest real frame
    goals: Array  # [N, 120, 160, 3] the picture of the goal
    poses: Array  # [N, 3] where the newest frame was seen
    cut: Array  # [N] bool: the engine ended the episode, or stopped; the frame is the last one before that
    restarts: Array  # [N] how often the game had to be started again

    @classmethod
    def create(cls, count: int) -> tuple[int, Self]:
        """A file descriptor to hand to other processes, and the board; the memory goes when all have closed it."""
        if hasattr(os, "memfd_create"):
            handle = os.memfd_create("sfl-games")
        else:
            with tempfile.TemporaryFile() as file:
                handle = os.dup(file.fileno())
        try:
            os.ftruncate(handle, _size(count))
            return handle, cls.over(handle, count)
        except OSError:  # no file may be so large
            os.close(handle)
            raise

    @classmethod
    def over(cls, handle: int, count: int) -> Self:
        """The board in memory that was made by `create`."""
        memory = mmap.mmap(handle, _size(count))
        arrays, offset = {}, 0
        for name, dtype, shape in _FIELDS:
            arrays[name] = np.ndarray((count, *shape), dtype, memory, offset)
            offset += _room(dtype, shape, count)
        return cls(**arrays)


def _room(dtype: str, shape: tuple[int, ...], count: int) -> int:
    size = count * np.dtype(dtype).itemsize * int(np.prod(shape, initial=1))
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _size(count: int) -> int:
    return sum(_room(dtype, shape, count) for _, dtype, shape in _FIELDS)
