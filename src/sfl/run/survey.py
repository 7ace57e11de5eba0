"""What is seen all over a maze, and how alike a policy finds it. Draws nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfl.data.types import Array
from sfl.envs.mazes.free_space import FreeSpace
from sfl.envs.vizdoom import DoomMaze
from sfl.run.scene import SimilarityPolicy
from sfl.run.worlds import MazeWorld

HEADINGS = (0.0, 90.0, 180.0, 270.0)
PLACES = 300  # about
FAR = 400.0  # map units between two views that should not look alike
OPEN = 64.0  # map units: a wall that is closer ahead fills the view, and looks alike wherever its texture is used
NEAR = 200.0  # map units: pairs of views whose ends both lie this close show the same alias


@dataclass(frozen=True, eq=False)
class Survey:
    """Views in four directions from places all over a maze; two of them are references for the others."""

    side: float
    """Map units of the square around a place that its views stand for."""
    poses: Array  # [N, 3]
    frames: Array  # [N, 120, 160, 3]
    sfs: Array  # [N, N]
    ahead: Array  # [N] map units that are free in front of each
    start: int
    """The view closest to the maze's start."""
    far: int
    """The most open view at the place that is farthest from there on foot."""

    @property
    def distances(self) -> Array:
        """[N, N] map units between the places of two views, in a straight line."""
        places = self.poses[:, :2]
        return np.asarray(np.linalg.norm(places[:, None] - places, axis=2))


def survey(policy: SimilarityPolicy, world: MazeWorld) -> Survey:
    """Look around in the game and ask the policy how alike everything is."""
    free, maze = world.places.free, world.places.maze
    side, poses = viewpoints(free)
    frames = pictures(world, poses)
    on_foot = free.at(free.distances_from(np.array(maze.start[:2])), poses[:: len(HEADINGS), :2])
    place = int(np.argmax(np.where(np.isfinite(on_foot), on_foot, -1.0))) * len(HEADINGS)
    ahead = free_ahead(free, poses)
    far = place + int(np.argmax(ahead[place : place + len(HEADINGS)]))
    return Survey(side, poses, frames, policy.sfs(frames, frames), ahead, view_at(poses, maze.start), far)


def viewpoints(free: FreeSpace) -> tuple[float, Array]:
    """The side of a square, and poses [N, 3] in its middle for all squares: four headings each, one after the other."""
    side = float(np.sqrt(free.area / PLACES))
    places = central_places(free, side)
    return side, np.array([(x, y, heading) for x, y in places.tolist() for heading in HEADINGS])


def pictures(world: MazeWorld, poses: Array) -> Array:
    """[N, 120, 160, 3] what is seen at poses [N, 3]."""
    env = DoomMaze(world.places.maze)
    try:
        return env.pictures(poses)
    finally:
        env.close()


def central_places(free: FreeSpace, side: float) -> Array:
    """[P, 2] of each square of the free space the free place nearest to its middle, so that no corridor is missed."""
    points = free.origin + free.cell * np.argwhere(free.mask)
    numbers, gaps = np.floor(points / side), np.linalg.norm(points / side % 1 - 0.5, axis=1)
    order = np.argsort(gaps, kind="stable")
    _, first = np.unique(numbers[order], axis=0, return_index=True)
    return np.asarray(points[order][first])


def free_ahead(free: FreeSpace, poses: Array) -> Array:
    """[N] how far a player at poses [N, 3] can walk straight ahead, in whole steps of the lattice up to 256 units."""
    turns, ways = np.radians(poses[:, 2:]), np.arange(free.cell, 256.0 + free.cell, free.cell)
    passed = poses[:, None, :2] + ways[:, None] * np.stack([np.cos(turns), np.sin(turns)], axis=2)  # [N, W, 2]
    open_way = free.contains(passed).reshape(passed.shape[:2])
    return np.asarray(free.cell * np.logical_and.accumulate(open_way, axis=1).sum(1))


def view_at(poses: Array, pose: tuple[float, float, float]) -> int:
    """The view [N, 3] nearest to a pose, and of those the one whose heading is closest."""
    gaps = np.linalg.norm(poses[:, :2] - pose[:2], axis=1)
    turns = np.abs((poses[:, 2] - pose[2] + 180) % 360 - 180)
    return int(np.lexsort((turns, gaps))[0])


def aliased_pairs(sfs: Array, poses: Array, chosen: Array, count: int) -> list[tuple[int, int]]:
    """The pairs of `chosen` views ([N] bool) with the highest SFS [N, N] that are more than 400 units apart.

    A pair whose two ends lie near those of a pair before it shows nothing new and is left out.
    """
    views = np.flatnonzero(chosen)
    first, second = (views[ends] for ends in np.triu_indices(len(views), 1))
    apart = np.linalg.norm(poses[first, :2] - poses[second, :2], axis=1) > FAR
    first, second = first[apart], second[apart]
    found: list[tuple[int, int]] = []
    for row in np.argsort(-sfs[first, second], kind="stable").tolist():
        pair = int(first[row]), int(second[row])
        if not any(_same(poses, pair, other) or _same(poses, pair, other[::-1]) for other in found):
            found.append(pair)
        if len(found) == count:
            break
    return found


def _same(poses: Array, pair: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return bool((np.linalg.norm(poses[list(pair), :2] - poses[list(other), :2], axis=1) <= NEAR).all())
