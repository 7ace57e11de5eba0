"""Maps in Hexen's binary format, the one of the paper's mazes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sfl.core.errors import UsageError
from sfl.data.types import Array
from sfl.envs.mazes.geometry import Geometry, geometry

_THING = np.dtype(
    [("id", "<i2"), ("x", "<i2"), ("y", "<i2"), ("z", "<i2"), ("angle", "<i2"), ("type", "<i2"), ("rest", "V8")]
)
_LINE = np.dtype(
    [("begin", "<u2"), ("end", "<u2"), ("flags", "<u2"), ("special", "V6"), ("front", "<u2"), ("back", "<u2")]
)
_SIDE = np.dtype([("offset", "<i2", 2), ("upper", "S8"), ("lower", "S8"), ("middle", "S8"), ("sector", "<u2")])
_VERTEX = np.dtype(("<i2", 2))

_BLOCKING = 0x0001 | 0x4000 | 0x8000  # everyone, players, everything
_NO_SIDE = 0xFFFF

Lumps = dict[str, bytes]
"""The lumps of one map by name."""


def read_hexen(lumps: Lumps, source: str) -> Geometry:
    """Walls are lines with one side, and those that block; steps are not looked at, the paper's mazes are flat."""
    lines, vertices = _records(lumps, "LINEDEFS", _LINE, source), _records(lumps, "VERTEXES", _VERTEX, source)
    if len(lines) and max(lines["begin"].max(), lines["end"].max()) >= len(vertices):
        raise UsageError(f"{source} is damaged: a line ends at a vertex that does not exist.")
    blocks = lines[(lines["flags"] & _BLOCKING > 0) | (lines["back"] == _NO_SIDE)]
    walls = np.concatenate([vertices[blocks["begin"]], vertices[blocks["end"]]], axis=1).astype(np.float64)
    things = _records(lumps, "THINGS", _THING, source)
    rows = zip(*(things[name].tolist() for name in ("type", "x", "y", "angle")), strict=True)
    return geometry(walls, ((kind, float(x), float(y), float(angle)) for kind, x, y, angle in rows), source)


def retexture_hexen(lumps: Lumps, draw: Callable[[int], list[str]], source: str) -> Lumps:
    """The same map with one drawn texture on each side; a side's empty parts stay empty."""
    sides = _records(lumps, "SIDEDEFS", _SIDE, source).copy()
    drawn = np.array(draw(len(sides)), "S8")
    for part in ("upper", "lower", "middle"):
        sides[part] = np.where(sides[part] == b"-", sides[part], drawn)
    return {**lumps, "SIDEDEFS": sides.tobytes()}


def _records(lumps: Lumps, name: str, record: np.dtype[np.void], source: str) -> Array:
    body = lumps.get(name, b"")
    size = record.itemsize
    if len(body) % size:
        raise UsageError(f"{source} is not a map in Hexen format: its {name} are no records of {size} bytes.")
    return np.frombuffer(body, record)
