"""A maze as every other room sees it: a game file, its walls, and where an episode may start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sfl.data.types import Array
from sfl.envs.tasks import Pose

Spot = tuple[float, float]
"""A place (x, y) in map units."""

Disc = tuple[float, float, float]
"""A round region (x, y, radius) in map units."""


@dataclass(frozen=True, eq=False)
class Maze:
    """One map of a WAD, ready to be played. A unit is Doom's: the player is 32 wide."""

    name: str
    """`sgm`, `test-1`, `rooms`, or the stem of a file."""
    wad: bytes
    """A complete PWAD that ViZDoom can load."""
    map_name: str
    """`MAP01`, `MAP05`."""
    walls: Array
    """[N, 4] x1, y1, x2, y2: the lines that block the player."""
    start: Pose
    """The player start (x, y, degrees); 0 degrees is east, 90 north."""
    spots: tuple[Spot, ...]
    """The places where the WAD's own script starts a player; () when it has none: then anywhere free."""
    regions: Mapping[str, tuple[Disc, ...]]
    """Level -> discs in which the goals of a fixed spawn lie; {} when the maze has none."""
    cells: Array | None
    """Our own layouts: [rows, columns] bool, True where free, row 0 on top; None for other WADs."""
