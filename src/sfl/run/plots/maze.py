"""A maze before anything is learned in it: the map from above, its goals by level, and what a player sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle

from sfl.core.config import require
from sfl.core.seeding import spawn
from sfl.data.types import Array
from sfl.envs.doom_tasks import Pairs, draw_fixed_pairs, load_pairs
from sfl.envs.mazes import Maze
from sfl.envs.mazes.files import check_free, write_whole
from sfl.envs.mazes.free_space import FreeSpace
from sfl.envs.tasks import Pose
from sfl.envs.vizdoom import DoomMaze
from sfl.run.plots.marks import DARK, LEVELS, RED, corners, dot_sample, draw_walls, mark_sample
from sfl.run.plots.saving import png_of
from sfl.run.plots.style import COLUMN, SCREEN, Style, legend_below

GOALS = 12  # drawn for each level
COLUMNS = 3  # of views
SIDE, VIEW_WIDTH, ARROW = 6.4, 2.2, 0.3  # inches on the screen; the side is the longer one of the map
VIEW_SHAPE = 0.85  # height of a view and its title, in widths


def draw_maze(maze: Maze, out: Path, pairs: Path | None, view_count: int, seed: int, force: bool = False) -> Path:
    """Draw a maze into a PNG file: goals of a pairs file or drawn from `seed`, and views at the start and elsewhere."""
    require(view_count >= 1, f"views must be at least 1, got {view_count}.")
    check_free(out, force)
    free = FreeSpace.of(maze)
    goals = draw_fixed_pairs(maze, free, seed, GOALS) if pairs is None else load_pairs(pairs, maze, free)
    poses = _poses(maze, free, view_count, spawn(seed, ["views"])["views"])
    looks = [("1, at the start", RED), *((str(number), DARK) for number in range(2, view_count + 1))]
    shown = zip(poses, _frames(maze, poses), looks, strict=True)
    views = [View(pose, frame, caption, colour) for pose, frame, (caption, colour) in shown]
    figure = maze_figure(maze, free, goals, views, SCREEN)
    return write_whole(out, png_of(figure), force)


def _poses(maze: Maze, free: FreeSpace, count: int, rng: np.random.Generator) -> list[Pose]:
    """The start, and random poses."""
    places, headings = free.sample(rng, count - 1), rng.uniform(0, 360, count - 1)
    return [maze.start, *((x, y, h) for (x, y), h in zip(places.tolist(), headings.tolist(), strict=True))]


def _frames(maze: Maze, poses: Sequence[Pose]) -> Array:
    """[N, 120, 160, 3] what a player sees."""
    env = DoomMaze(maze)
    try:
        return env.pictures(np.array(poses))
    finally:
        env.close()


@dataclass(frozen=True, eq=False)
class View:
    """What a player sees at a pose, with the words above it and the colour of its number on the map."""

    pose: Pose
    frame: Array  # [120, 160, 3]
    caption: str
    colour: str


def maze_figure(maze: Maze, free: FreeSpace, goals: Pairs, views: Sequence[View], style: Style) -> Figure:
    """The map with the numbered places of the views, and the views below it."""
    (left, bottom), (right, top) = corners(maze)
    side, view = (SIDE, VIEW_WIDTH) if style.titled else (COLUMN - 0.1, COLUMN / COLUMNS)
    scale = side / max(right - left, top - bottom)
    rows = -(-len(views) // COLUMNS)
    width, height = max((right - left) * scale, COLUMNS * view) + 0.4, (top - bottom) * scale + (1.2 * style.text**2)
    height_below = rows * view * VIEW_SHAPE
    figure = Figure((width if style.titled else COLUMN, height + height_below), layout="constrained")
    upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=(height, height_below)).ravel()
    axes = upper.add_subplot()
    _draw_map(axes, maze, goals, style)
    _draw_poses(axes, views, style.mark * ARROW / scale, style)
    if style.titled:
        axes.set_title(f"{maze.name}\n", fontsize=13, fontweight="bold")
        about = f"{right - left:,.0f} x {top - bottom:,.0f} units, walkable area {free.area / 1e6:.2f} million"
        axes.text(0.5, 1.015, about, transform=axes.transAxes, ha="center", va="bottom", fontsize=10, color="#444444")
    legend_below(upper, style, _samples(maze, goals, views, style), 6 if style.titled else 3)
    for number, seen in enumerate(views, 1):
        shown = lower.add_subplot(rows, COLUMNS, number)
        shown.imshow(seen.frame, interpolation="antialiased" if style.titled else "none")
        shown.set_title(seen.caption, fontsize=style.font(10))
        shown.set_axis_off()
    return figure


def _draw_map(axes: Axes, maze: Maze, goals: Pairs, style: Style) -> None:
    draw_walls(axes, maze, style)
    for level, discs in maze.regions.items():
        for x, y, radius in discs:
            axes.add_patch(Circle((x, y), radius, facecolor=LEVELS[level], alpha=0.3, edgecolor="none"))
    for level, found in goals.levels.items():
        places = np.array([pair.goal[:2] for pair in found])
        axes.plot(*places.T, "o", color=LEVELS[level], markersize=style.size(3.5), zorder=3)
    if maze.spots:
        axes.plot(*np.array(maze.spots).T, "x", color=DARK, markersize=style.size(6), zorder=3)


def _draw_poses(axes: Axes, views: Sequence[View], length: float, style: Style) -> None:
    """Numbered places with arrows of a length in map units."""
    for number, view in enumerate(views, 1):
        draw_look(axes, view.pose, DARK, length, style.size(1.4))
        draw_badge(axes, view.pose, str(number), view.colour, style.font(7))


def draw_look(axes: Axes, pose: Sequence[float], colour: str, length: float, width: float) -> None:
    """An arrow to where a view looks, `length` map units long and `width` points wide."""
    x, y, degrees = pose
    tip = (x + length * np.cos(np.radians(degrees)), y + length * np.sin(np.radians(degrees)))
    look = {"arrowstyle": "-|>", "lw": width, "color": colour, "mutation_scale": 7 * width}
    axes.annotate("", tip, (x, y), arrowprops=look, annotation_clip=False, zorder=4)


def draw_badge(axes: Axes, pose: Sequence[float], name: str, colour: str, points: float) -> None:
    """The name of a view, at its place."""
    look = {"boxstyle": "circle,pad=0.25", "facecolor": colour, "edgecolor": "white", "lw": 0.1 * points}
    words: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": points, "color": "white", "zorder": 5}
    axes.text(pose[0], pose[1], name, bbox=look, **words)


def _samples(maze: Maze, goals: Pairs, views: Sequence[View], style: Style) -> list[Line2D]:
    shown = {view.colour for view in views}
    seen = [dot_sample(colour, word, style) for colour, word in ((RED, "start"), (DARK, "view")) if colour in shown]
    spots = [mark_sample("x", DARK, "spawn spot", style, 6)] if maze.spots else []
    return [*seen, *spots, *(dot_sample(LEVELS[level], f"{level} goal", style) for level in goals.levels)]
