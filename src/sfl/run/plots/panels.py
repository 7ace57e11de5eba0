"""Maps of one maze beside each other, and what is drawn on them at its scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from sfl.data.types import Array
from sfl.envs.mazes import Maze
from sfl.run.folder import LoadedRun
from sfl.run.plots.marks import corners, draw_walls

SIDES = {1: 6.2, 2: 4.4, 3: 3.4, 4: 2.9}  # inches of a map's longer side, by the number of columns


def map_panels(run: LoadedRun, maze: Maze, title: str, names: Sequence[str], columns: int) -> tuple[Figure, list[Axes]]:
    """A figure with as many maps of the maze as there are names, the run named above them."""
    (left, bottom), (right, top) = corners(maze)
    inches = SIDES[columns] / max(right - left, top - bottom)
    width, height = (right - left) * inches, (top - bottom) * inches
    rows = -(-len(names) // columns)
    figure = Figure((columns * (width + 0.15) + 0.9, rows * (height + 0.4) + 1.2), layout="constrained")
    figure.suptitle(f"{title}\n", fontsize=13, fontweight="bold", linespacing=1.7)
    below = 1 - 0.31 / figure.get_figheight()
    figure.text(0.5, below, headline(run), ha="center", va="top", fontsize=10, color="#444444")
    panels = []
    for number, name in enumerate(names, 1):
        axes = figure.add_subplot(rows, columns, number)
        draw_walls(axes, maze)
        axes.set_title(name, fontsize=10)
        panels.append(axes)
    return figure, panels


def headline(run: LoadedRun) -> str:
    """Which run is drawn, and when."""
    return f"{run.experiment.name}, seed {run.seed}, {run.env_steps:,} steps"


def draw_dots(axes: Axes, poses: Array, fill: Any, side: float = 7.0) -> None:
    """Landmarks [L, 3] as dots of a size in points, with a tick of 18 units towards their heading."""
    turns = np.radians(poses[:, 2])
    tips = poses[:, :2] + 18 * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    ticks = np.stack([poses[:, :2], tips], axis=1)
    axes.add_collection(LineCollection(list(ticks), colors=fill, linewidths=0.8, zorder=3))
    axes.scatter(poses[:, 0], poses[:, 1], s=side**2 / 2, c=fill, edgecolors="white", linewidths=0.4, zorder=4)


def draw_lines(axes: Axes, ends: Array, colour: Any, width: Any = 0.7, alpha: float = 0.6) -> LineCollection:
    """Edges [E, 4] as straight lines."""
    lines = LineCollection(list(ends.reshape(-1, 2, 2)), colors=colour, linewidths=width, alpha=alpha, zorder=2)
    axes.add_collection(lines)
    return lines
