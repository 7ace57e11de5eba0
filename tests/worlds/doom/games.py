"""What several tests of the games need."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sfl.worlds.doom.env import DoomMaze
from sfl.worlds.doom.protocol import Limits
from sfl.worlds.doom.workers import DEV_SHM, Engine, Workers, read_engine
from sfl.worlds.mazes.layout import Maze, read_layout
from sfl.worlds.mazes.load import build_maze

ARENA = """name: arena
cell: 64
heading: 0

##########
#........#
#........#
#S...#...#
#....#...#
#....#...#
##########
"""
"""Free from (64, 64) to (576, 384); the wall from (320, 64) to (384, 256). The start is (96, 224), looking east."""

QUICK = Limits(start=120.0, call=4.0, reply=12.0)
"""Limits for games that are made to hang."""


def arena_maze() -> Maze:
    return build_maze(read_layout(ARENA, "arena"))


def engine_of(workers: Workers, game: int = 0) -> Engine:
    engine = read_engine(workers.folder / f"game-{game}")
    assert engine is not None
    return engine


def lives(process: int) -> bool:
    """Whether a process runs; one that has ended and is not yet collected does not."""
    try:
        os.kill(process, 0)
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


def eventually(claim: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not claim() and time.monotonic() < deadline:
        time.sleep(0.02)
    return claim()


def shared_files(engine: Engine) -> list[Path]:
    return list(DEV_SHM.glob(f"*{engine.instance}"))


def walk(env: DoomMaze, actions: list[int]) -> tuple[list[bytes], list[list[float]]]:
    """Newest frames and poses after each action."""
    frames, poses = [], []
    for action in actions:
        observation, _, _, _, info = env.step(action)
        frames.append(observation["observation"][-1].tobytes())
        poses.append(info["pose"].tolist())
    return frames, poses


def random_actions(count: int, seed: int = 0) -> list[int]:
    return [int(action) for action in np.random.Generator(np.random.PCG64(seed)).integers(7, size=count)]
