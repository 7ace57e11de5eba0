"""Where the player's centre can be, and how far apart two places are on foot.

The engine's player is a square of half-width 16 whose sides stay parallel to the axes: a place is blocked when a wall
line enters that square. Free places are kept on a lattice of points; what lies between two points is decided exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy import ndimage
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import KDTree

from sfl.api import Array
from sfl.config import require
from sfl.errors import UsageError
from sfl.worlds.mazes.layout import Maze

PLAYER_RADIUS = 16.0
TOUCH = 0.01  # units: a wall that only touches the player does not block; the engine's positions are rounded
MOST_POINTS, MOST_FREE = 4_000_000, 500_000  # of the lattice, and of those free; the paper's have up to 45,286
SIGHT = 12  # cells: up to here a free straight line counts as it is; the lattice alone is up to 12% off at 20 units

Step = tuple[int, int]
_STEPS: dict[Step, tuple[Step, ...]] = {
    (1, 0): (),
    (1, 1): ((1, 0), (0, 1)),
    (2, 1): ((1, 0), (1, 1)),
    (3, 1): ((1, 0), (2, 0), (1, 1), (2, 1)),
    (3, 2): ((1, 0), (1, 1), (2, 1), (2, 2)),
}
"""A step between 0 and 45 degrees -> the points it passes, which must be free; the other directions are mirrored.

With these 32 directions a path in open space is at most 1.4% longer than the straight line (2.8% with 16), and 2.5%
with the ends between the points.
"""


@dataclass(frozen=True, eq=False)
class Field:
    """Distances on foot from one place to every point of the lattice."""

    source: Array
    """[2] x, y."""
    values: Array
    """[X, Y] map units; inf where the source cannot be reached from, or beyond the limit."""


@dataclass(frozen=True, eq=False)
class FreeSpace:
    """The places that a player can reach from the maze's start. All places are [N, 2] x, y in map units."""

    walls: Array
    """[W, 4] x1, y1, x2, y2."""
    radius: float
    cell: float
    """Distance between two neighbours of the lattice. Passages whose free width is below this may be missed."""
    origin: Array
    """[2] the place of point (0, 0); a multiple of `cell`, so that walls on round numbers lie on the lattice."""
    mask: Array
    """[X, Y] bool: the player can stand on this point."""

    @classmethod
    def of(cls, maze: Maze, radius: float = PLAYER_RADIUS, cell: float = 8.0) -> Self:
        """Rasterise the walls and keep what is connected to the start."""
        require(radius > 0 and 0 < cell <= radius, f"cell must lie in (0, radius], got {cell} with radius {radius}.")
        walls = np.asarray(maze.walls, np.float64).reshape(-1, 4)
        require(len(walls) > 0, f"Maze {maze.name!r} has no walls; give a map that is closed by blocking lines.")
        ends = walls.reshape(-1, 2)
        origin = np.floor(ends.min(0) / cell) * cell
        shape = tuple(np.ceil((ends.max(0) - origin) / cell).astype(int) + 1)
        _require_room(maze, shape, int(np.prod(shape)), MOST_POINTS)
        everywhere = cls(walls, radius, cell, origin, _raster(walls, radius, cell, origin, shape))
        here = np.array([maze.start[:2]])
        if not everywhere.contains(here)[0]:
            raise UsageError(f"Maze {maze.name!r}: its start {maze.start[:2]} lies in a wall; move it.")
        labels, _ = ndimage.label(everywhere.mask)
        around = everywhere._look_up(labels, here, _square(0, 1), 0)
        mask = np.isin(labels, around[around > 0])
        _require_room(maze, shape, int(mask.sum()), MOST_FREE)
        return cls(walls, radius, cell, origin, mask)

    @cached_property
    def area(self) -> float:
        """Square units of free space."""
        points = self.origin + self.cell * (np.argwhere(np.ones(self.mask.shape, bool)) + 0.5)
        return float(self.contains(points).sum() * self.cell**2)

    def contains(self, xy: Array) -> Array:
        """[N] bool: the player can stand there and can walk there from the start."""
        xy = np.asarray(xy, np.float64).reshape(-1, 2)
        corners = self._look_up(self.mask, xy, _square(0, 1), False).sum(1)
        # A wall with the player around it is thicker than a cell and has no sharp corners: it cannot reach into a
        # square of the lattice without covering one of its corners.
        inside = corners == 4
        unsure = np.flatnonzero((corners > 0) & ~inside)
        inside[unsure] = ~self._blocked(xy[unsure])
        return np.asarray(inside)

    def covers(self, xy: Array) -> Array:
        """[N] bool: a player standing in free space covers this place, if only with its side.

        A goal may lie there: a picture can be taken closer to a wall than a player can walk.
        """
        gaps, _ = self._tree.query(np.asarray(xy, np.float64).reshape(-1, 2), p=np.inf)
        return np.asarray(gaps <= self.radius + self.cell / 2)  # walls need not lie on the lattice

    def sample(self, rng: np.random.Generator, count: int) -> Array:
        """[count, 2] places, uniform over free space."""
        found = np.empty((0, 2))
        while len(found) < count:
            points = self._points[rng.integers(len(self._points), size=2 * count)]
            places = points + self.cell * (rng.random(points.shape) - 0.5)
            found = np.concatenate([found, places[self.contains(places)]])
        return found[:count]

    def distances_from(self, xy: Array, limit: float = np.inf) -> Field:
        """How far it is on foot from one place (x, y) to everywhere; nothing beyond `limit` is worked out."""
        source = np.asarray(xy, np.float64).reshape(2)
        values = np.full(self.mask.shape, np.inf)
        if self.contains(source)[0]:
            values[self.mask] = dijkstra(self._graph_from(source), indices=len(self._points), limit=limit)[:-1]
        return Field(source, values)

    def at(self, field: Field, xy: Array) -> Array:
        """[N] distances from the field's source; inf where the player cannot get to."""
        xy = np.asarray(xy, np.float64).reshape(-1, 2)
        block = _square(-1, 2)
        distances = (self._look_up(field.values, xy, block, np.inf) + self._lengths(xy, block)).min(1)
        distances[~self.contains(xy)] = np.inf
        straight = np.linalg.norm(xy - field.source, axis=1)
        seen = np.flatnonzero(straight <= SIGHT * self.cell)
        seen = seen[self._sees(field.source, xy[seen])]
        distances[seen] = straight[seen]
        return np.asarray(distances)

    def _sees(self, source: Array, xy: Array) -> Array:
        """[N] bool: the straight line from a place is free, looked at twice a cell."""
        shares = np.linspace(0, 1, 2 * SIGHT + 1)[:, None]
        passed = source + shares * (xy - source)[:, None]  # [N, 25, 2]
        return np.asarray(self.contains(passed).reshape(passed.shape[:2]).all(1))

    @cached_property
    def _points(self) -> Array:
        """[M, 2] the places of the free points."""
        return np.asarray(self.origin + self.cell * np.argwhere(self.mask))

    @cached_property
    def _tree(self) -> KDTree:
        return KDTree(self._points)

    @cached_property
    def _numbers(self) -> Array:
        """[X, Y] the number of each free point, -1 elsewhere."""
        numbers = np.full(self.mask.shape, -1, np.int32)
        numbers[self.mask] = np.arange(len(self._points))
        return numbers

    @cached_property
    def _graph(self) -> csr_array:
        """Steps between free points, with their lengths; row M is left for a source between the points."""
        tails, heads, lengths = zip(*(self._links(step, passed) for step, passed in _all_steps()), strict=True)
        ends = (np.concatenate(tails), np.concatenate(heads))
        size = len(self._points) + 1
        return coo_array((np.concatenate(lengths), ends), (size, size)).tocsr()

    def _links(self, step: Step, passed: tuple[Step, ...]) -> tuple[Array, Array, Array]:
        """Tails, heads and lengths of one kind of step, where all it passes is free."""
        tails = np.argwhere(self.mask)
        for dx, dy in (*passed, step):
            tails = tails[_take(self.mask, tails + np.array((dx, dy)), False)]
        heads = tails + np.array(step)
        lengths = np.full(len(tails), self.cell * np.hypot(*step))
        return self._numbers[tuple(tails.T)], self._numbers[tuple(heads.T)], lengths

    def _graph_from(self, source: Array) -> csr_array:
        block = _square(-1, 2)
        numbers = self._look_up(self._numbers, source[None], block, -1)[0]
        lengths = self._lengths(source[None], block)[0]
        graph, near = self._graph, numbers >= 0
        ends = graph.indptr.copy()
        ends[-1] += near.sum()
        parts = (np.append(graph.data, lengths[near]), np.append(graph.indices, numbers[near]), ends)
        return csr_array(parts, graph.shape)

    def _look_up(self, raster: Array, xy: Array, block: Array, outside: float) -> Array:
        """[N, B] values of a raster at the points of a block around each place."""
        return _take(raster, self._corner(xy)[:, None] + block, outside)

    def _lengths(self, xy: Array, block: Array) -> Array:
        """[N, B] straight lines to the points of a block around each place."""
        points = self.origin + self.cell * (self._corner(xy)[:, None] + block)
        return np.asarray(np.linalg.norm(points - xy[:, None], axis=2))

    def _corner(self, xy: Array) -> Array:
        """[N, 2] the lattice point below and to the left of each place."""
        return np.floor((xy - self.origin) / self.cell).astype(int)

    def _blocked(self, xy: Array) -> Array:
        """[N] bool: some wall enters the player's square."""
        chunks = np.array_split(xy, len(xy) * len(self.walls) // 1_000_000 + 1)
        return np.concatenate([_enters(self.walls, part[:, None], self.radius).any(1) for part in chunks])


def _require_room(maze: Maze, shape: tuple[int, ...], points: int, most: int) -> None:
    """Refuse what would take gigabytes: as often as not it is a maze with a hole, and what is free is all around."""
    if points > most:
        x, y = shape
        raise UsageError(
            f"Maze {maze.name!r} has {points:,} places on a lattice of {x:,} x {y:,}, at most {most:,} fit; make it "
            "smaller, and look whether its walls are closed."
        )


def _enters(walls: Array, centres: Array, radius: float) -> Array:
    """Whether lines [..., 4] enter the open squares around centres [..., 2] (broadcast against each other)."""
    half = (walls[..., 2:] - walls[..., :2]) / 2
    offset = centres - (walls[..., :2] + walls[..., 2:]) / 2
    reach = radius - TOUCH
    across = np.abs(half[..., 0] * offset[..., 1] - half[..., 1] * offset[..., 0])
    beside = (np.abs(offset) >= np.abs(half) + reach).any(-1)
    return np.asarray(~beside & (across < reach * np.abs(half).sum(-1)))


def _raster(walls: Array, radius: float, cell: float, origin: Array, shape: tuple[int, ...]) -> Array:
    """[X, Y] bool: no wall enters the square of a player on this point."""
    mask = np.ones(shape, bool)
    for wall in walls:
        ends = wall.reshape(2, 2)
        low = np.maximum(np.floor((ends.min(0) - radius - origin) / cell).astype(int), 0)
        high = np.ceil((ends.max(0) + radius - origin) / cell).astype(int) + 1
        part = mask[low[0] : high[0], low[1] : high[1]]
        places = origin + cell * (low + np.moveaxis(np.indices(part.shape), 0, -1))
        part &= ~_enters(wall, places, radius)
    return mask


def _square(first: int, last: int) -> Array:
    """[B, 2] the offsets of a square block of lattice points."""
    return np.argwhere(np.ones((last - first + 1,) * 2, bool)) + first


def _take(raster: Array, index: Array, outside: float) -> Array:
    """Values of a raster at [..., 2] indices, `outside` beyond its border."""
    within = np.asarray(((index >= 0) & (index < raster.shape)).all(-1))
    safe = np.where(within[..., None], index, 0)
    return np.where(within, raster[safe[..., 0], safe[..., 1]], outside)


def _all_steps() -> Iterator[tuple[Step, tuple[Step, ...]]]:
    """The steps of all directions, each once, with the points they pass."""
    seen = set()
    for step, passed in _STEPS.items():
        for swap in (False, True):
            for sign_x in (1, -1):
                for sign_y in (1, -1):
                    turned = [_mirror(one, swap, sign_x, sign_y) for one in (step, *passed)]
                    if turned[0] not in seen:
                        seen.add(turned[0])
                        yield turned[0], tuple(turned[1:])


def _mirror(step: Step, swap: bool, sign_x: int, sign_y: int) -> Step:
    x, y = reversed(step) if swap else step
    return sign_x * x, sign_y * y
