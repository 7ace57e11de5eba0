"""Random walks in many games at once, moment by moment."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sfl.api import Array
from sfl.errors import UsageError
from sfl.nn.frame_encoders import halve
from sfl.pretrain.config import TrainingMazes, WalkConfig
from sfl.run.log import note
from sfl.seeding import core_count, spawn
from sfl.worlds.doom.pool import GameEpisode, GamePool
from sfl.worlds.doom.protocol import ACTIONS
from sfl.worlds.mazes.layout import Maze

GAMES_PER_MAZE = 2
"""Games that walk in a maze when something is evaluated; fixed, so that the walks are the same on any machine."""


@dataclass(frozen=True)
class Moments:
    """The newest moments of some games; frames are a view that is valid until the next moments are asked for."""

    games: Array  # [n]
    walks: Array  # [n] number of the walk in its game
    times: Array  # [n] decisions since the walk's start
    frames: Array  # [n, 120, 160, 3]
    actions: Array  # [n] taken next, except after a walk's last moment


def judging_generators(mazes: Sequence[str], seed: int) -> list[np.random.Generator]:
    """One for each game of each maze, in the order of games; they depend on the seed and the maze alone."""
    return list(spawn(seed, [f"walks/{maze}/{game}" for maze in mazes for game in range(GAMES_PER_MAZE)]).values())


def walks_per_game(walks: int) -> int:
    """So that a maze has as many walks as asked for, or one more."""
    return -(-walks // GAMES_PER_MAZE)


def random_walks(pool: GamePool, count: int, length: int, rngs: Sequence[np.random.Generator]) -> Iterator[Moments]:
    """`count` walks of `length` frames in every game: random free places, then uniformly random actions.

    Every game has a generator of its own. A walk that a game cut short is walked again, under the same number.
    """
    done, times = np.zeros((2, pool.count), np.int64)
    actions = np.zeros((pool.count, length), np.int64)

    def next_walk(game: int) -> GameEpisode | None:
        if done[game] == count:
            return None
        actions[game] = rngs[game].integers(len(ACTIONS), size=length)
        start = pool.samplers[game].draw_goal(rngs[game])  # anywhere free, also where the maze has spots
        return GameEpisode(start, budget=length - 1)

    pool.restart(next_walk)
    for half in range(len(pool.halves)):
        pool.send(half)
    while (done < count).any():
        for half, games in enumerate(pool.halves):
            step = pool.receive(half)
            now = np.where(step.started, 0, times[games] + 1)
            live = np.flatnonzero(step.running)
            frames = step.frames if len(live) == len(now) else step.frames[live]  # a copy only where it must be
            places = games.start + live
            yield Moments(places, done[games][live], now[live], frames, actions[places, now[live]])
            done[games] += step.ended & (now == length - 1)
            times[games] = now % length
            pool.send(half, actions[range(games.start, games.stop), times[games]])
    for half in range(len(pool.halves)):
        pool.receive(half)


# ---- The same mazes in other colours and mirrored: textures are few, and an encoder must know places in any.

GAIN = 0.3  # a colour gets up to this much stronger or weaker
_EXCHANGES = np.array([np.eye(3)[list(order)] for order in permutations(range(3))])  # [6, 3, 3]


def recolour(frames: Tensor, mazes: Array, rng: np.random.Generator) -> Tensor:
    """Frames [2, B, H, W, 3] of bytes, all frames of a maze [B] changed alike: that is another maze, not another view.

    Colours are exchanged at random and strengthened or weakened, and half of the mazes are mirrored.
    """
    _, maze_of = np.unique(mazes, return_inverse=True)
    count = int(maze_of.max()) + 1
    gains = rng.uniform(1 - GAIN, 1 + GAIN, size=(count, 1, 3))
    colours = (_EXCHANGES[rng.integers(len(_EXCHANGES), size=count)] * gains)[maze_of].astype(np.float32)
    mirrored = (rng.random(count) < 0.5)[maze_of]
    device = frames.device
    two, pairs, height, width, channels = frames.shape
    flat = frames.view(two, pairs, height * width, channels).to(torch.float32)
    painted = (flat @ torch.from_numpy(colours).to(device)).clamp_(0, 255).byte().view_as(frames)
    turned = torch.from_numpy(mirrored).to(device).view(1, pairs, 1, 1, 1)
    return torch.where(turned, painted.flip(3), painted)


# ---- The frames an encoder learns from: random walks in many mazes, kept as bytes on the device that trains.

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
