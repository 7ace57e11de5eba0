"""Mazes as text: a drawing becomes cells, a start and the goal regions of each level.

A layout is a text file: header lines, then one line per row of cells.

    name: corner
    cell: 64
    heading: 90

    ########
    #...##2#
    #.#.##.#
    #S#1...#
    ########

Header (each line may be left out): `name`, by default the file's name; `cell`, the side of a cell in map units (64; the
player is 32 wide); `heading`, where the player looks at the start, in degrees (0 east, the default; 90 north).
Cells: `#` wall, `.` free, `S` the start (free; exactly one), `1` `2` `3` `4` free, and a goal region of the level easy,
medium, hard or hardest for episodes that begin at the start. The first row is the north edge; the map's origin is its
south-west corner. The border must be closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sfl.api import Array
from sfl.config import require
from sfl.errors import UsageError
from sfl.worlds.tasks import Pose

LEVELS = {"1": "easy", "2": "medium", "3": "hard", "4": "hardest"}
_MARKS = set("#.S") | set(LEVELS)
_KEYS = ("name", "cell", "heading")
_WIDEST = 32_000  # Doom's coordinates end at 32,767
_NARROWEST = 40
_MOST_CELLS = _WIDEST // _NARROWEST
_LONGEST_NAME = 200


@dataclass(frozen=True, eq=False)
class Layout:
    """A drawing that was checked."""

    name: str
    cell: float
    """Side of a cell in map units."""
    cells: Array
    """[rows, columns] bool, True where free, row 0 on top."""
    start: Pose
    regions: Mapping[str, tuple[Disc, ...]]
    """Level -> one disc for each marked cell, as wide as the cell."""
    text: str
    """What it was read from."""

    def lines(self, longest: float) -> Array:
        """[N, 4] x1, y1, x2, y2: the walls, cut into pieces of at most `longest`, free space on their right hand."""
        most = max(1, int(longest // self.cell))
        free = np.pad(self.cells, 1)
        height = len(self.cells)
        pieces: list[tuple[int, int, int, int]] = []
        for row in range(height):
            y = height - row
            here, above, below = free[row + 1], free[row], free[row + 2]
            pieces += [(x1, y, x2, y) for x1, x2 in _runs(here & ~above, most)]
            pieces += [(x2, y - 1, x1, y - 1) for x1, x2 in _runs(here & ~below, most)]
        for column in range(self.cells.shape[1]):
            here, left, right = free[:, column + 1], free[:, column], free[:, column + 2]
            pieces += [(column + 1, height - y1, column + 1, height - y2) for y1, y2 in _runs(here & ~right, most)]
            pieces += [(column, height - y2, column, height - y1) for y1, y2 in _runs(here & ~left, most)]
        return np.array(pieces, np.float64).reshape(-1, 4) * self.cell


def _runs(marked: Array, most: int) -> list[tuple[int, int]]:
    """Stretches of marked cells (without the padding in front), none longer than `most`."""
    edges = np.flatnonzero(np.diff(marked.astype(np.int8)))  # one before each first cell, and each last cell
    return [
        (begin, min(begin + most, int(end)))
        for first, end in zip(edges[::2], edges[1::2], strict=True)
        for begin in range(int(first), int(end), most)
    ]


def read_layout(text: str, source: str) -> Layout:
    """Check a drawing; `source` is its file's name without the ending, for complaints and as the default name."""
    header, rows = _split(text, source)
    largest = max(len(rows), *map(len, rows))
    require(largest <= _MOST_CELLS, f"Layout {source} is {largest:,} cells wide; at most {_MOST_CELLS} fit into a map.")
    _check_marks(rows, source)
    marks = np.array([list(row) for row in rows])
    cells = marks != "#"
    require(bool(cells.any()), f"Layout {source} has no free cell; draw some with '.'.")
    _check_border(cells, source)
    cell, heading = _number(header, "cell", 64.0, source), _number(header, "heading", 0.0, source)
    require(_NARROWEST <= cell <= 1024, f"Layout {source}: cell must be {_NARROWEST} to 1024 units, got {cell:g}.")
    size = max(cells.shape) * cell
    require(size <= _WIDEST, f"Layout {source} is {size:g} units wide; Doom's maps end at {_WIDEST}.")

    def middles(mark: str) -> list[tuple[float, float]]:
        return [((x + 0.5) * cell, (len(cells) - y - 0.5) * cell) for y, x in np.argwhere(marks == mark).tolist()]

    starts = middles("S")
    require(len(starts) == 1, f"Layout {source} needs exactly one start 'S', it has {len(starts)}.")
    regions = {level: tuple((x, y, cell / 2) for x, y in middles(mark)) for mark, level in LEVELS.items()}
    drawn = {level: discs for level, discs in regions.items() if discs}
    name = header.get("name", source)
    good = name.isprintable() and 0 < len(name) <= _LONGEST_NAME
    require(good, f"Layout {source}: name must be 1 to {_LONGEST_NAME} letters and signs, got {name!r:.80}.")
    return Layout(name, cell, cells, (*starts[0], heading % 360), drawn, text)


def _split(text: str, source: str) -> tuple[dict[str, str], list[str]]:
    """Header and rows."""
    header: dict[str, str] = {}
    rows: list[str] = []
    for line in filter(None, map(str.rstrip, text.splitlines())):
        key, colon, value = line.partition(":")
        if not colon or rows:
            rows.append(line)
            continue
        require(key.strip() in _KEYS, f"Layout {source}: unknown header {key.strip()!r}; there are {', '.join(_KEYS)}.")
        header[key.strip()] = value.strip()
    require(bool(rows), f"Layout {source} has no free cell; draw rows of '#' and '.' below the header.")
    return header, rows


def _number(header: Mapping[str, str], key: str, default: float, source: str) -> float:
    try:
        value = float(header.get(key, default))
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise UsageError(f"Layout {source}: {key} must be a number, got {header[key]!r}.")
    return value


def _check_marks(rows: list[str], source: str) -> None:
    for number, row in enumerate(rows, 1):
        column, mark = next(((x, m) for x, m in enumerate(row, 1) if m not in _MARKS), (0, ""))
        require(
            not mark,
            f"Layout {source}: unknown character {mark!r} in row {number}, column {column}; "
            "use '#' wall, '.' free, 'S' start, '1' to '4' goals.",
        )
        require(
            len(row) == len(rows[0]),
            f"Layout {source}: row {number} has {len(row)} cells, row 1 has {len(rows[0])}; make them equal.",
        )


def _check_border(cells: Array, source: str) -> None:
    edge = cells.copy()
    edge[1:-1, 1:-1] = False
    for row, column in np.argwhere(edge).tolist():
        raise UsageError(
            f"Layout {source}: the border is open in row {row + 1}, column {column + 1}; close it with '#'."
        )


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
