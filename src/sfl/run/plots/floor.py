"""The floor plan of a grid world as rectangles instead of pixels, so that it stays sharp at any size."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.patches import Rectangle

from sfl.data.types import Array
from sfl.run.scene import TILE, Chart

Block = tuple[int, int, int, int, tuple[int, ...]]
"""left, top, right, bottom in pixels, the last two not included, and the colour."""


def draw_floor(axes: Axes, chart: Chart) -> None:
    """Walls, doors and tiles; what is white is left to the paper."""
    width, height = chart.size
    patches, colours = [], []
    for x, y in np.ndindex(width, height):
        tile = chart.plan[y * TILE : (y + 1) * TILE, x * TILE : (x + 1) * TILE]
        for left, top, right, bottom, colour in blocks(tile):
            if min(colour) < 255:
                corner = (x - 0.5 + left / TILE, y - 0.5 + top / TILE)
                patches.append(Rectangle(corner, (right - left) / TILE, (bottom - top) / TILE))
                colours.append(tuple(part / 255 for part in colour))
    # An edge in the same colour closes the hairlines that viewers leave between neighbours.
    axes.add_collection(PatchCollection(patches, facecolor=colours, edgecolor=colours, linewidth=0.15, zorder=0.5))


def blocks(tile: Array) -> Iterator[Block]:
    """Rectangles of one colour that fill a tile [H, W, 3]: rows that are alike are taken together."""
    top = 0
    for row, alike in groupby(tile, key=lambda row: row.tobytes()):
        bottom = top + len(list(alike))
        pixels = np.frombuffer(row, tile.dtype).reshape(-1, 3)
        left = 0
        for colour, run in groupby(map(tuple, pixels.tolist())):
            right = left + len(list(run))
            yield left, top, right, bottom, colour
            left = right
        top = bottom
