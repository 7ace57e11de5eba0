"""What a map says beside its pictures: walls, the player start, and the spots of its spawn script."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sfl.core.errors import FileError, UsageError
from sfl.data.types import Array
from sfl.envs.mazes.maze import Spot
from sfl.envs.tasks import Pose

PLAYER = 1
MAP_SPOT = 9001
"""The editor numbers of the things that matter here."""

FARTHEST = 32_768
MOST_WALLS = 20_000
"""Twenty times as many as the largest of the paper's mazes has."""


@dataclass(frozen=True, eq=False)
class Geometry:
    """The parts of a map that decide where a player can be."""

    walls: Array  # [N, 4] x1, y1, x2, y2
    start: Pose
    spots: tuple[Spot, ...]


def geometry(walls: Array, things: Iterable[tuple[int, float, float, float]], source: str) -> Geometry:
    """Pick the start and the spots out of the things (type, x, y, degrees) of a map."""
    things = list(things)
    numbers = np.append(walls.ravel(), np.array([thing[1:] for thing in things], np.float64).ravel())
    if not (np.abs(numbers) <= FARTHEST).all():
        raise FileError(f"{source} is damaged: it has a place beyond the {FARTHEST:,} units at which Doom's maps end.")
    if len(walls) > MOST_WALLS:
        raise FileError(f"{source} has {len(walls):,} walls; mazes have at most {MOST_WALLS:,}.")
    start = next(((x, y, degrees % 360) for kind, x, y, degrees in things if kind == PLAYER), None)
    if start is None:
        raise UsageError(f"{source} has no player start (a thing of type {PLAYER}).")
    return Geometry(walls, start, tuple((x, y) for kind, x, y, _ in things if kind == MAP_SPOT))
