"""The frames an encoder learns from: random walks in many mazes, kept as bytes on the device that trains."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sfl.core.errors import UsageError
from sfl.core.machine import core_count
from sfl.core.seeding import spawn
from sfl.data.types import Array
from sfl.envs.mazes import Maze
from sfl.envs.vector import GamePool
from sfl.nn.frame_encoders import halve
from sfl.run.encoder.config import WalkConfig
from sfl.run.encoder.mazes import TrainingMazes
from sfl.run.encoder.walks import Moments, random_walks
from sfl.run.progress import note

_ROOM_TO_SPARE = 0.9  # of the free memory may be taken by frames: training needs some, too


class Drawn(Protocol):
    """Some moments each of one walk."""

    @property
    def walks(self) -> Array:
        """[B]."""

    @property
    def times(self) -> Array:
        """[K, B] decisions since the walk's start."""


@dataclass(frozen=True, eq=False)
class Walks:
    """Whole walks of equal length; the frames of one lie in a row, so that no pair of moments crosses two walks."""

    frames: Tensor  # [N, T, H, W, 3] uint8
    mazes: Array  # [N] number of the copy of a maze
    names: tuple[str, ...]
    """The layout of each copy."""
    actions: Array  # [N, T] taken at each moment, except at a walk's last

    @property
    def length(self) -> int:
        """Frames of a walk."""
        return self.frames.shape[1]

    def take(self, drawn: Drawn) -> Tensor:
        """Frames [K, B, H, W, 3] of moments."""
        frames = self._rows((drawn.walks * self.length + drawn.times).ravel())
        return frames.view(*drawn.times.shape, *frames.shape[1:])

    def sample(self, count: int, rng: np.random.Generator) -> Tensor:
        """Frames [count, H, W, 3] at random."""
        return self._rows(rng.integers(len(self.frames) * self.length, size=count))

    def _rows(self, rows: Array) -> Tensor:
        where = torch.from_numpy(rows).to(self.frames.device)
        return self.frames.flatten(0, 1).index_select(0, where)


def collect(config: WalkConfig, seed: int, device: str, seconds: float | None) -> Walks:
    """Walk until there are as many frames as asked for, or for so many seconds if that is less.

    What is walked depends on the seed only, not on the number of games or workers.
    """
    supply = TrainingMazes(config.mazes, config.maze_dir, spawn(seed, ["mazes"])["mazes"])
    count, per_maze = config.maze_count, config.walks_per_maze
    shape = (count * per_maze, config.walk_length, *config.frame_size, 3)
    check_memory(shape, device)
    frames = torch.empty(shape, dtype=torch.uint8, device=device)
    actions = np.zeros(shape[:2], np.uint8)
    games = config.games or 4 * core_count()
    started, names = time.monotonic(), list[str]()
    spent = latest = 0.0
    while len(names) < count and (seconds is None or spent + latest <= seconds):
        mazes = [supply.draw() for _ in range(min(games, count - len(names)))]
        rngs = spawn(seed, [f"walks/{len(names) + number}" for number in range(len(mazes))])
        first = len(names) * per_maze
        walk_round(config, mazes, frames[first:], actions[first:], list(rngs.values()))
        names += [maze.name for maze in mazes]
        before, spent = spent, time.monotonic() - started
        latest = spent - before
        done = len(names) * per_maze * config.walk_length
        note(f"Collected {done:,} frames in {len(names)} mazes, {done / spent:,.0f}/s.")
    walked = len(names) * per_maze
    return Walks(frames[:walked], np.repeat(np.arange(len(names)), per_maze), tuple(names), actions[:walked])


def walk_round(
    config: WalkConfig, mazes: list[Maze], frames: Tensor, actions: Array, rngs: list[np.random.Generator]
) -> None:
    """Walks in one copy of a maze per game into the first rows of frames [N, T, H, W, 3] and actions [N, T]."""
    halves = min(2, len(mazes))  # one half's frames are stored while the other plays
    with GamePool(mazes, len(mazes), workers=config.workers, halves=halves) as pool:
        for moments in random_walks(pool, config.walks_per_maze, config.walk_length, rngs):
            rows = moments.games * config.walks_per_maze + moments.walks
            _store(frames, rows, moments, config.half_size)
            actions[rows, moments.times] = moments.actions


def _store(frames: Tensor, rows: Array, moments: Moments, half_size: bool) -> None:
    fresh = torch.from_numpy(moments.frames).to(frames.device)
    places = torch.from_numpy(np.stack([rows, moments.times])).to(frames.device)
    frames[places[0], places[1]] = halve(fresh) if half_size else fresh


def check_memory(shape: tuple[int, ...], device: str) -> None:
    """Frames that do not fit are refused before the first is collected, not when the machine has run out."""
    if device == "cpu":
        room = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    else:
        room = torch.cuda.mem_get_info(device)[0]
    need = math.prod(shape)
    if need > _ROOM_TO_SPARE * room:
        raise UsageError(
            f"{shape[0] * shape[1]:,} frames of {shape[3]}x{shape[2]} take {need / 1e9:,.1f} GB, and the memory of "
            f"{device} is {room / 1e9:,.1f} GB; ask for fewer with --frames."
        )
