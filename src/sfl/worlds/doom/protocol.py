"""What a worker process and its parent share: actions and limits, requests on pipes, and the memory with the frames.

No ViZDoom here: only workers load it.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from dataclasses import dataclass
from typing import Self

import numpy as np

from sfl.api import Array
from sfl.config import require

ACTIONS = ("move left", "move right", "forward", "backward", "turn left", "turn right", "nothing")
"""By number; each is repeated for four tics."""


@dataclass(frozen=True)
class Limits:
    """Seconds after which a wait is given up."""

    start: float = 60.0
    """For the engine of a game to start."""
    call: float = 10.0
    """For one action, or one start of an episode."""
    reply: float = 60.0
    """For a worker process to do what its games are told."""

    def __post_init__(self) -> None:
        for name, seconds in vars(self).items():
            require(seconds > 0, f"The limit {name} must be above 0 seconds, got {seconds}.")


DEFAULT_LIMITS = Limits()


LEAVE = 253
"""Request beside the number of a half to play: end the games, all is in order."""
READY, FAILED = 254, 255
"""Replies beside the number of a half that is done; an error's text follows FAILED."""

CHECK_MAP = "Check the WAD and the name of its map."
"""What to do when games end at the start of their episodes."""


@dataclass(frozen=True)
class GameSpec:
    """A game that a worker runs."""

    index: int
    half: int
    wad: str
    map_name: str
    visible: bool


@dataclass(frozen=True)
class WorkerSpec:
    """Everything a worker is told at its start."""

    parent: int
    memory: int
    requests: int
    replies: int
    lock: int
    """Held as long as this process lives, so that nobody takes its folder for one without an owner."""
    count: int
    folder: str
    games: tuple[GameSpec, ...]
    limits: Limits


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
class SharedMemory:
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
        """A file descriptor to hand to other processes, and the shared; the memory goes when all have closed it."""
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
        """The shared in memory that was made by `create`."""
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
