"""What is seen in a maze and how alike it looks: goals with their pictures, SFS heatmaps, aliased pairs of views."""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from sfl.data.types import Array
from sfl.run.folder import LoadedRun
from sfl.run.plots.marks import LEVELS, RED, corners, draw_walls
from sfl.run.plots.maze import View, maze_figure
from sfl.run.plots.panels import headline, map_panels
from sfl.run.plots.success import CURVES
from sfl.run.survey import FAR, OPEN, Survey, aliased_pairs, pictures
from sfl.run.worlds import MazeWorld

SHOWN_GOALS = 9  # pictures, over all levels
SHOWN_PAIRS = 4
BELOW = "#D5D5D5"  # a view that is not above the threshold


def goals_figure(run: LoadedRun, world: MazeWorld) -> Figure:
    """The map with the goals of every level, and pictures of the first ones; with a fixed spawn also of the start."""
    pairs, maze = world.pairs(run.experiment.eval), world.places.maze
    starts = [("at the start", RED, maze.start)] if pairs.spawn == "fixed" else []
    each = (SHOWN_GOALS - len(starts)) // len(pairs.levels)
    shown = starts + [
        (f"{level} goal", LEVELS[level], pair.goal) for level, found in pairs.levels.items() for pair in found[:each]
    ]
    frames = pictures(world, np.array([pose for _, _, pose in shown]))
    views = [
        View(pose, frame, f"{number}, {word}", colour)
        for number, ((word, colour, pose), frame) in enumerate(zip(shown, frames, strict=True), 1)
    ]
    return maze_figure(maze, world.places.free, pairs, views)


def heatmap_figure(run: LoadedRun, world: MazeWorld, survey: Survey, threshold: float) -> Figure:
    """SFS of all views to two references: all of them, and those above the localize threshold."""
    references = {"the start": survey.start, "the place farthest from it": survey.far}
    names = []
    for word, reference in references.items():
        near = survey.distances[reference, survey.sfs[:, reference] > threshold]
        about = f"above {threshold:g}: {len(near)} of {len(survey.poses):,}, median {np.median(near):.0f} units away"
        names += [f"SFS to {word}", about]
    figure, panels = map_panels(run, world.places.maze, "Similarity of views (SFS)", names, 2)
    lowest = float(np.quantile(survey.sfs[:, list(references.values())], 0.02))
    for place, reference in enumerate(references.values()):
        values = survey.sfs[:, reference]
        for axes, shown in ((panels[2 * place], values), (panels[2 * place + 1], _above(values, threshold))):
            wedges = _wedges(survey, shown)
            wedges.set_clim(min(lowest, 0.99 * threshold), 1.0)
            axes.add_collection(wedges)
            _mark(axes, survey.poses[reference], world)
    bar = figure.colorbar(wedges, ax=panels, fraction=0.03, pad=0.02)
    bar.set_label("SFS; a square is a place, its four parts the views in four directions", fontsize=10)
    bar.ax.axhline(threshold, color="white", linewidth=1.5)
    return figure


def _above(values: Array, threshold: float) -> Array:
    return np.ma.masked_less_equal(values, threshold)


def _wedges(survey: Survey, values: Array) -> PolyCollection:
    """A triangle for each view, from its place to where it looks; the four of a place make a square."""
    corner = 0.46 * survey.side * np.sqrt(2)
    turns = np.radians(survey.poses[:, 2:] + np.array([-45.0, 45.0]))  # [N, 2]
    rims = survey.poses[:, None, :2] + corner * np.stack([np.cos(turns), np.sin(turns)], axis=2)
    triangles = np.concatenate([survey.poses[:, None, :2], rims], axis=1)  # [N, 3, 2]
    wedges = PolyCollection(list(triangles), edgecolors="face", linewidths=0.1)
    wedges.set(array=values, cmap=colormaps["viridis"].with_extremes(bad=BELOW))
    return wedges


def _mark(axes: Axes, pose: Array, world: MazeWorld) -> None:
    """The reference: a dot, and an arrow where it looks."""
    (left, bottom), (right, top) = corners(world.places.maze)
    length = 0.08 * max(right - left, top - bottom)
    _arrow(axes, pose, RED, length)
    axes.plot(*pose[:2], "o", color=RED, markersize=7, markeredgecolor="white", markeredgewidth=1.2, zorder=6)


def _arrow(axes: Axes, pose: Array, colour: str, length: float) -> None:
    """Where a view looks, `length` map units long."""
    x, y, degrees = pose.tolist()
    tip = (x + length * np.cos(np.radians(degrees)), y + length * np.sin(np.radians(degrees)))
    axes.annotate("", tip, (x, y), arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2.0}, zorder=4)


def aliased_figure(run: LoadedRun, world: MazeWorld, survey: Survey, threshold: float) -> Figure:
    """The pairs of views that are most alike though far apart, with their places."""
    pairs = aliased_pairs(survey.sfs, survey.poses, survey.ahead >= OPEN, SHOWN_PAIRS)
    (left, bottom), (right, top) = corners(world.places.maze)
    inches = 5.2 / max(right - left, top - bottom)
    sizes = (right - left) * inches + 0.3, 4.6
    figure = Figure((sum(sizes), max((top - bottom) * inches, 1.75 * max(len(pairs), 1)) + 1.1), layout="constrained")
    figure.suptitle("Views that look alike though far apart", fontsize=13, fontweight="bold")
    plan, views = figure.subfigures(1, 2, width_ratios=sizes, squeeze=False).ravel()
    axes = plan.add_subplot()
    draw_walls(axes, world.places.maze)
    axes.set_title(f"{headline(run)}\n{_about_pairs(survey, threshold)}", fontsize=9, color="#444444")
    for number, pair in enumerate(pairs):
        for place, view in enumerate(pair):
            name, colour = f"{number + 1}{'ab'[place]}", CURVES[number]
            _badge(axes, survey.poses[view], name, colour, 0.07 * max(right - left, top - bottom))
            shown = views.add_subplot(len(pairs), 2, 2 * number + place + 1)
            shown.imshow(survey.frames[view])
            shown.set(xticks=[], yticks=[])
            for spine in shown.spines.values():
                spine.set(edgecolor=colour, linewidth=3)
            words = (f"SFS {survey.sfs[pair]:.3f}", f"{survey.distances[pair]:,.0f} units apart")
            shown.set_title(f"{name}: {words[place]}", fontsize=9)
    return figure


def _about_pairs(survey: Survey, threshold: float) -> str:
    far = np.triu(survey.distances > FAR)
    share = 100 * float((survey.sfs[far] > threshold).mean()) if far.any() else 0.0
    return (
        f"{share:.2g}% of all pairs over {FAR:g} units apart have SFS above {threshold:g},\nwhere the agent localizes. "
        f"Shown: the most alike of those with {OPEN:g} units free ahead"
    )


def _badge(axes: Axes, pose: Array, name: str, colour: str, length: float) -> None:
    _arrow(axes, pose, colour, length)
    look = {"boxstyle": "circle,pad=0.2", "facecolor": colour, "edgecolor": "white", "lw": 0.8}
    axes.text(pose[0], pose[1], name, bbox=look, ha="center", va="center", fontsize=8, color="white", zorder=5)
