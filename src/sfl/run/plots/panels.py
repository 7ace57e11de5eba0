"""Maps beside each other, and what is drawn on those of a maze at its scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from sfl.data.types import Array
from sfl.run.folder import LoadedRun
from sfl.run.plots.marks import corners, draw_walls
from sfl.run.plots.style import Style
from sfl.run.worlds import MazeWorld


@dataclass(frozen=True, eq=False)
class Site:
    """A run in a maze, and how it is drawn."""

    run: LoadedRun
    world: MazeWorld
    style: Style

    @property
    def extent(self) -> tuple[float, float]:
        """Width and height of the maze, in map units."""
        (left, bottom), (right, top) = corners(self.world.places.maze)
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
        draw_walls(axes, site.world.places.maze, site.style)
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
