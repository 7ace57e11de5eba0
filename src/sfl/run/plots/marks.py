"""What is drawn on a map: landmarks, edges, routes, start and goal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyArrowPatch, Polygon, Rectangle

from sfl.data.types import Array
from sfl.envs.mazes import Maze
from sfl.run.plots.style import Style

RADIUS = 0.2  # of a landmark's dot, in cells
BLUE, ORANGE, GREEN, RED = "#0072B2", "#D55E00", "#009E73", "#D81B1B"  # Okabe and Ito's, but for the agent's red
PALE, DARK = "#C4CCD4", "#333333"
BELOW = "#D5D5D5"  # what does not pass a threshold
LEVELS = {"easy": "#56B4E9", "medium": "#009E73", "hard": "#E69F00", "hardest": "#AA4499"}
MARGIN = 24  # map units around a maze

EdgeCounts = Mapping[tuple[int, int], int]
"""Transitions by (source, target)."""


def draw_walls(axes: Axes, maze: Maze, style: Style) -> None:
    """A maze from above, filling the axes."""
    look: dict[str, Any] = {"colors": DARK, "linewidths": style.size(1.6), "capstyle": "round"}
    axes.add_collection(LineCollection(list(maze.walls.reshape(-1, 2, 2)), **look))
    (left, bottom), (right, top) = corners(maze)
    axes.set(aspect="equal", xlim=(left - MARGIN, right + MARGIN), ylim=(bottom - MARGIN, top + MARGIN))
    axes.set_axis_off()


def corners(maze: Maze) -> Array:
    """[2, 2] lower left and upper right of a maze."""
    ends = maze.walls.reshape(-1, 2)
    return np.stack([ends.min(0), ends.max(0)])


def draw_landmarks(axes: Axes, places: Array, headings: Array, fill: Sequence[Any], points: float) -> None:
    """Numbered dots with a tip towards their heading; `points` is the size of a cell."""
    rows = list(zip(places, headings, strict=True))
    tips = [Polygon(_triangle(place + 1.25 * RADIUS * _ahead(heading), heading, 0.11)) for place, heading in rows]
    dots = [Circle((x, y), RADIUS) for x, y in places]
    axes.add_collection(PatchCollection(tips, facecolor=fill, edgecolor="none", zorder=3))
    axes.add_collection(PatchCollection(dots, facecolor=fill, edgecolor="white", linewidth=0.8, zorder=4))
    for number, ((x, y), face) in enumerate(zip(places, fill, strict=True)):
        size = min(0.24 * points, 11.0)
        axes.text(x, y, str(number), ha="center", va="center_baseline", fontsize=size, color=_ink(face), zorder=4.5)


def draw_edges(
    axes: Axes, places: Array, counts: EdgeCounts, points: float, style: Style, colour: str | None = None
) -> None:
    """One line per pair, as wide as it is frequent; an arrow where the edge goes one way. A colour draws all alike."""
    top = max(counts.values(), default=1)
    for (source, target), count in counts.items():
        both_ways = (target, source) in counts
        if both_ways and source > target:
            continue
        strength = _strength(max(count, counts.get((target, source), 0)), top)
        look: dict[str, Any] = {"color": colour, "linewidth": style.size(1.0), "alpha": 0.7}
        if colour is None:
            look = {"color": DARK, "linewidth": style.size(_width(strength)), "alpha": 0.3 + 0.6 * strength}
        ends = places[source], places[target]
        axes.add_patch(_arrow(*ends, points, style="-" if both_ways else "-|>", mutation_scale=0.25 * points, **look))


def draw_route(axes: Axes, stops: Array, points: float, style: Style, line: str) -> None:
    """Arrows from stop to stop [R, 2]; a stop that lies in the cell of the one before needs none."""
    look: dict[str, Any] = {"linewidth": style.size(2.6), "linestyle": line, "color": ORANGE, "zorder": 5}
    for here, there in pairwise(stops):
        if np.abs(there - here).max() > 0.5:
            axes.add_patch(_arrow(here, there, points, style="-|>", mutation_scale=0.4 * points, **look))


def draw_cell(axes: Axes, place: Array | None, colour: str, style: Style) -> None:
    """A frame around a cell, where its place is known."""
    if place is not None:
        look: dict[str, Any] = {"facecolor": "none", "edgecolor": colour, "linewidth": style.size(2.8)}
        axes.add_patch(Rectangle((place[0] - 0.43, place[1] - 0.43), 0.86, 0.86, **look))


def draw_agent(axes: Axes, pose: Array) -> None:
    """MiniGrid's red arrow at a pose [3]."""
    axes.add_patch(Polygon(_triangle(pose[:2], pose[2], 0.42), facecolor=RED, edgecolor="none", zorder=5))


def edge_samples(counts: EdgeCounts, style: Style) -> list[Line2D]:
    """The rarest and the most frequent edge, for the legend."""
    if not counts:
        return []
    low, top = min(counts.values()), max(counts.values())
    widths = {n: style.size(_width(_strength(n, top))) for n in (low, top)}
    return [
        Line2D([], [], color=DARK, linewidth=width, label=f"edge, {n:,} transitions") for n, width in widths.items()
    ]


def dot_sample(colour: str, label: str, style: Style) -> Line2D:
    """A landmark, for the legend."""
    return mark_sample("o", colour, label, style)


def cell_sample(colour: str, label: str, style: Style) -> Line2D:
    """A framed cell, for the legend."""
    sample = mark_sample("s", colour, label, style)
    sample.set(markerfacecolor="none", markeredgewidth=style.size(2.4))
    return sample


def mark_sample(marker: str, colour: str, label: str, style: Style, points: float = 9) -> Line2D:
    """Any mark, for the legend."""
    return Line2D([], [], marker=marker, color=colour, linestyle="", markersize=style.size(points), label=label)


def line_sample(colour: str, label: str, style: Style, **look: Any) -> Line2D:
    """A line, for the legend."""
    return Line2D([], [], color=colour, linewidth=style.size(1.5), label=label, **look)


def _arrow(here: Array, there: Array, points: float, style: str, **look: Any) -> FancyArrowPatch:
    near = RADIUS * points  # keeps the dots free
    bend = "arc3,rad=0.12"
    ends = (float(here[0]), float(here[1])), (float(there[0]), float(there[1]))
    return FancyArrowPatch(*ends, arrowstyle=style, connectionstyle=bend, shrinkA=near, shrinkB=near, **look)


def _strength(count: int, top: int) -> float:
    """0 for a single transition, 1 for the most frequent edge."""
    return float(np.log(max(1, count)) / np.log(max(2, top)))


def _width(strength: float) -> float:
    return 0.6 + 2.8 * strength


def _ink(face: Any) -> str:
    """Black or white, whichever can be read on a colour."""
    red, green, blue = to_rgb(face)
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.55 else "white"


def _ahead(degrees: float) -> Array:
    return np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])


def _triangle(place: Array, degrees: float, size: float) -> Array:
    """Corners [3, 2] of an arrow head that points to `degrees`, clockwise from the right because y points down."""
    return np.array([place + size * _ahead(degrees + turn) for turn in (0.0, 130.0, 230.0)])
