"""The maps of the paper's MiniGrid experiments, as data: rooms, doors, start, target.

Coordinates are (x, y), x to the right, y down. `docs/environments.md` draws every map.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from sfl.data.types import Array

Cell = tuple[int, int]
Room = tuple[int, int, int, int]
"""(left, top, width, height), walls included."""

STEPS: tuple[Cell, ...] = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""One cell ahead for the headings right, down, left, up."""


@dataclass(frozen=True)
class Layout:
    """One fixed grid world. The agent starts facing right; every door is closed at the start."""

    name: str
    width: int
    height: int
    walls: frozenset[Cell]
    doors: tuple[tuple[Cell, str], ...]
    """Door cells with their colours."""
    tile: Cell
    """The green tile: it shows in the observation, and walking on it does nothing."""
    start: Cell
    target: Cell
    max_steps: int

    @property
    def env_id(self) -> str:
        return f"sfl/{self.name}-v0"

    @cached_property
    def door_cells(self) -> tuple[Cell, ...]:
        return tuple(cell for cell, _ in self.doors)

    @cached_property
    def open_cells(self) -> tuple[Cell, ...]:
        """Every cell the agent can stand on once all doors are open, row by row."""
        seen = {self.start}
        queue = deque([self.start])
        while queue:
            x, y = queue.popleft()
            for dx, dy in STEPS:
                cell = (x + dx, y + dy)
                if cell not in seen and cell not in self.walls:
                    seen.add(cell)
                    queue.append(cell)
        return tuple(sorted(seen, key=lambda cell: (cell[1], cell[0])))

    @cached_property
    def free_cells(self) -> tuple[Cell, ...]:
        """The reachable floor: `open_cells` without the doors."""
        return tuple(cell for cell in self.open_cells if cell not in self.door_cells)

    def walking_distances(self, places: Array) -> Array:
        """[N, N] steps on foot between cells [N, 2] that one can stand on, all doors open."""
        number = {cell: place for place, cell in enumerate(self.open_cells)}
        joined = [
            (number[x, y], number[x + dx, y + dy])
            for x, y in self.open_cells
            for dx, dy in STEPS
            if (x + dx, y + dy) in number
        ]
        rows, columns = np.array(joined).T
        graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(number), len(number)))
        wanted = [number[int(x), int(y)] for x, y in places]
        return np.asarray(dijkstra(graph.tocsr(), indices=wanted)[:, wanted])


def _from_text(name: str, max_steps: int, text: str) -> Layout:
    """Read a drawing: # wall, A start, T target, G green tile, anything else floor."""
    rows = text.split()
    marks = {mark: (x, y) for y, row in enumerate(rows) for x, mark in enumerate(row) if mark in "ATG"}
    walls = frozenset((x, y) for y, row in enumerate(rows) for x, mark in enumerate(row) if mark == "#")
    return Layout(name, len(rows[0]), len(rows), walls, (), marks["G"], marks["A"], marks["T"], max_steps)


def _edge(room: Room) -> set[Cell]:
    left, top, width, height = room
    cells = {(x, y) for x in range(left, left + width) for y in range(top, top + height)}
    return cells - {(x, y) for x in range(left + 1, left + width - 1) for y in range(top + 1, top + height - 1)}


def _from_rooms(
    rooms: tuple[Room, ...], door_cells: tuple[Cell, ...], colors: str, *, start: Cell, target: Cell, tile: Cell
) -> Layout:
    """A chain of rooms on a 25x25 grid; neighbours share a wall, and what lies outside the rooms is empty."""
    walls = frozenset[Cell]().union(*map(_edge, rooms)) - set(door_cells)
    doors = tuple(zip(door_cells, colors.split(), strict=True))
    return Layout(f"MultiRoom-N{len(rooms)}", 25, 25, walls, doors, tile, start, target, 40 * len(rooms))


_FOUR_ROOM = """
#########
#A..#...#
#...#...#
#.......#
##.##...#
#...##.##
#...#...#
#.....TG#
#########
"""

# The authors drew these maps with MiniGrid's room generator and seed 1, seeded as gym 0.17 did. These are the rooms,
# door colours and green tiles which that gives; docs/environments.md says what they were checked against.
_N4_ROOMS: tuple[Room, ...] = ((9, 7, 5, 5), (10, 11, 4, 5), (13, 13, 5, 5), (13, 17, 4, 4))
_N8_ROOMS: tuple[Room, ...] = (
    *((4, 17, 4, 5), (7, 17, 4, 4), (10, 17, 5, 4), (12, 13, 4, 5), (10, 10, 5, 4), (7, 10, 4, 4)),
    *((4, 10, 4, 5), (0, 12, 5, 4)),
)
_N4_DOORS: tuple[Cell, ...] = ((11, 11), (13, 14), (15, 17))
_N8_DOORS: tuple[Cell, ...] = ((7, 18), (10, 18), (13, 17), (13, 13), (10, 11), (7, 12), (4, 13))

LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        _from_text("FourRoom", 100, _FOUR_ROOM),
        _from_rooms(((16, 4, 5, 4), (20, 3, 4, 4)), ((20, 5),), "yellow", start=(18, 6), target=(22, 4), tile=(22, 5)),
        _from_rooms(_N4_ROOMS[:3], _N4_DOORS[:2], "green purple", start=(11, 9), target=(15, 15), tile=(15, 16)),
        _from_rooms(_N4_ROOMS, _N4_DOORS, "yellow red blue", start=(11, 9), target=(14, 18), tile=(14, 19)),
        _from_rooms(
            _N8_ROOMS[:6], _N8_DOORS[:5], "green grey blue red green", start=(5, 20), target=(8, 11), tile=(9, 12)
        ),
        _from_rooms(
            _N8_ROOMS,
            _N8_DOORS,
            "yellow red purple red blue yellow purple",
            start=(5, 20),
            target=(1, 13),
            tile=(2, 14),
        ),
    )
}
