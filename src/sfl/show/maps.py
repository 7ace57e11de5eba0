"""The floor plan of a grid world as rectangles instead of pixels, so that it stays sharp at any size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyArrowPatch, Polygon, Rectangle

from sfl.api import Array
from sfl.run.folder import LoadedRun
from sfl.show.style import Style
from sfl.show.views import TILE, Chart
from sfl.worlds.doom.world import MazeWorld
from sfl.worlds.mazes.layout import Maze

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


# ---- What is drawn on a map: landmarks, edges, routes, start and goal.

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


# ---- Maps beside each other, and what is drawn on those of a maze at its scale.


@dataclass(frozen=True, eq=False)
class Site:
    """A run in a maze, and how it is drawn."""

    run: LoadedRun
    world: MazeWorld
    style: Style

    @property
    def extent(self) -> tuple[float, float]:
        """Width and height of the maze, in map units."""
        (left, bottom), (right, top) = corners(self.world.sampler.maze)
        return float(right - left), float(top - bottom)


def sheet(
    style: Style, extent: tuple[float, float], title: str, below: str, names: Sequence[str], columns: int
) -> tuple[Figure, list[Axes]]:
    """A figure with an empty panel for each name, `columns` beside each other; every panel shows this extent."""
    width, height = style.map_size(extent, columns)
    rows = -(-len(names) // columns)
    around = 1.2 if style.titled else 0.5
    across = style.width(columns, columns * (width + 0.15) + 0.9)
    figure = Figure((across, rows * (height + 0.4 * style.text) + around), layout="constrained")
    if style.titled:
        figure.suptitle(f"{title}\n", fontsize=13, fontweight="bold", linespacing=1.7)
        line = 1 - 0.31 / figure.get_figheight()
        figure.text(0.5, line, below, ha="center", va="top", fontsize=10, color="#444444")
    panels = []
    for number, name in enumerate(style.headings(names), 1):
        axes = figure.add_subplot(rows, columns, number)
        axes.set_title(name, fontsize=style.font(10))
        panels.append(axes)
    return figure, panels


def map_panels(site: Site, title: str, names: Sequence[str], columns: int) -> tuple[Figure, list[Axes]]:
    """As many maps of the maze as there are names, the run named above them."""
    figure, panels = sheet(site.style, site.extent, title, headline(site.run), names, columns)
    for axes in panels:
        draw_walls(axes, site.world.sampler.maze, site.style)
    return figure, panels


def headline(run: LoadedRun) -> str:
    """Which run is drawn, and when."""
    return f"{run.experiment.name}, seed {run.seed}, {run.env_steps:,} steps"


def colour_bar(figure: Figure, axes: Axes | list[Axes], shown: ScalarMappable, label: str, style: Style) -> Axes:
    """A scale beside the axes, drawn as paths: a bitmap would not be sharp in print."""
    fraction = 0.03 if isinstance(axes, list) and len(axes) > 1 else 0.05
    bar = figure.colorbar(shown, ax=axes, fraction=fraction, pad=0.02)
    bar.set_label(label, fontsize=style.font(10))
    bar.ax.tick_params(labelsize=style.font(9), width=style.size(0.8), length=style.size(3.5))
    bar.outline.set_linewidth(style.size(0.8))
    if bar.solids is not None:
        bar.solids.set(rasterized=False, edgecolor="face")
    return bar.ax


def count_bar(figure: Figure, axes: Axes | list[Axes], shown: ScalarMappable, label: str, style: Style) -> None:
    """For counts on a logarithmic scale."""
    bar = colour_bar(figure, axes, shown, label, style)
    low, high = shown.get_clim()
    named = "125" if low is None or high is None or high > 10 * low else "123456789"  # too few would be left
    for set_formatter in (bar.yaxis.set_major_formatter, bar.yaxis.set_minor_formatter):
        set_formatter(lambda value, _: f"{value:,.0f}" if f"{value:e}"[0] in named else "")
    bar.tick_params(which="minor", labelsize=style.font(9))


def draw_dots(axes: Axes, poses: Array, fill: Any, style: Style, side: float = 7.0) -> None:
    """Landmarks [L, 3] as dots of a size in points, with a tick of 18 units towards their heading."""
    turns = np.radians(poses[:, 2])
    tips = poses[:, :2] + 18 * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    ticks = np.stack([poses[:, :2], tips], axis=1)
    axes.add_collection(LineCollection(list(ticks), colors=fill, linewidths=style.size(0.8), zorder=3))
    look: dict[str, Any] = {"edgecolors": "white", "linewidths": style.size(0.4), "zorder": 4}
    axes.scatter(poses[:, 0], poses[:, 1], s=style.size(side) ** 2 / 2, c=fill, **look)


def draw_lines(
    axes: Axes, ends: Array, colour: Any, style: Style, width: Any = 0.7, alpha: float = 0.6
) -> LineCollection:
    """Edges [E, 4] as straight lines, of one width or of one each."""
    widths = style.mark * np.asarray(width)
    lines = LineCollection(list(ends.reshape(-1, 2, 2)), colors=colour, linewidths=widths, alpha=alpha, zorder=2)
    axes.add_collection(lines)
    return lines
