"""A room of 512 x 320 units with a wall standing into it, and one game of it for the tests that leave it whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sfl.worlds.doom.env import DoomMaze
from sfl.worlds.mazes.layout import Maze

from .games import arena_maze


@pytest.fixture(scope="session")
def arena() -> Maze:
    return arena_maze()


@pytest.fixture(scope="module")
def env(arena: Maze) -> Iterator[DoomMaze]:
    made = DoomMaze(arena, spawn="random")
    yield made
    made.close()
