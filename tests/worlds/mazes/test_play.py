"""Mazes in the engine: walls are drawn and walls stop the player."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from sfl.api import Array
from sfl.worlds.doom.env import DoomMaze
from sfl.worlds.mazes.free_space import FreeSpace
from sfl.worlds.mazes.layout import Maze, read_layout
from sfl.worlds.mazes.load import build_maze, load_maze, own_mazes, read_maze
from sfl.worlds.mazes.textures import Textures

from .drawings import CORNER, PAPER_MAZES, UDMF_ROOM, hexen_wad, needs_paper, pwad

FORWARD = 2


def mazes() -> dict[str, Maze]:
    """One of each format."""
    udmf = pwad(("MAP07", b""), ("TEXTMAP", UDMF_ROOM.encode()), ("ENDMAP", b""))
    return {
        "ours": build_maze(read_layout(CORNER, "corner")),
        "hexen": read_maze(hexen_wad("MAP01", "MAP02"), "room", "room.wad", "MAP02"),
        "udmf": read_maze(udmf, "room", "room.wad"),
    }


@pytest.fixture(params=sorted(mazes()))
def env(request: pytest.FixtureRequest) -> Iterator[DoomMaze]:
    env = DoomMaze(mazes()[request.param])
    yield env
    env.close()


def distance_to_walls(maze: Maze, place: Array) -> float:
    """In the larger of both coordinates, as the engine's player is a square."""
    shares = np.linspace(0, 1, 1001)[:, None, None]
    points = maze.walls[:, :2] + shares * (maze.walls[:, 2:] - maze.walls[:, :2])
    return float(np.abs(points - place).max(-1).min())


def test_walls_stop_the_player(env: DoomMaze) -> None:
    x, y, _ = env.maze.start
    for degrees in (0.0, 90.0, 200.0, 305.0):
        _, info = env.reset(options={"start": (x, y, degrees), "goal": None})
        for _ in range(25):
            *_, info = env.step(FORWARD)
            assert distance_to_walls(env.maze, info["pose"][:2]) > 15
        assert distance_to_walls(env.maze, info["pose"][:2]) < 17  # it came to a wall, and no farther


def test_every_view_is_whole(env: DoomMaze) -> None:
    """Where a wall or flat is missing, the engine leaves what it drew before: the view then depends on the last one."""
    x, y, _ = env.maze.start
    poses = np.array([(x, y, degrees) for degrees in range(0, 360, 45)])
    one = env.pictures(poses)
    other = env.pictures(poses[::-1])[::-1]
    assert np.array_equal(one, other)
    assert all(len(np.unique(frame.reshape(-1, 3), axis=0)) > 8 for frame in one)  # pictures, not plain areas


def test_a_seed_decides_what_is_seen() -> None:
    layout = read_layout(CORNER, "corner")
    frames = []
    for seed in (1, 1, 2):
        env = DoomMaze(build_maze(layout, Textures(seed=seed)))
        frames.append(env.pictures(np.array([layout.start])))
        env.close()
    assert np.array_equal(frames[0], frames[1])
    assert not np.array_equal(frames[0], frames[2])


@pytest.mark.parametrize("name", own_mazes())
def test_our_mazes_can_be_played(name: str) -> None:
    check_playable(load_maze(name))


@needs_paper
@pytest.mark.parametrize("name", ["sgm", "test-1", "test-2", "test-4", "test-6"])
def test_the_papers_mazes_can_be_played(name: str) -> None:
    check_playable(load_maze(name, PAPER_MAZES))


def check_playable(maze: Maze) -> None:
    """Views are whole, and a walk straight on from anywhere free ends at a wall."""
    free = FreeSpace.of(maze)
    places = np.round(free.sample(np.random.default_rng(3), 40))
    poses = np.column_stack([places, np.linspace(0, 350, 40)])[free.contains(places)][:6]
    env = DoomMaze(maze)
    try:
        assert np.array_equal(env.pictures(poses), env.pictures(poses[::-1])[::-1])
        for pose in poses[:2]:
            env.reset(options={"start": tuple(pose), "goal": None})
            for _ in range(40):
                *_, info = env.step(FORWARD)
            assert distance_to_walls(maze, info["pose"][:2]) > 15
    finally:
        env.close()
