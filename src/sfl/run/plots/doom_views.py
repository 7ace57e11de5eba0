"""What is seen in a maze and how near it seems: goals with their pictures, heatmaps, aliased pairs of views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from sfl.data.types import Array
from sfl.run.plots.marks import BELOW, LEVELS, RED, draw_walls
from sfl.run.plots.maze import View, draw_badge, draw_look, maze_figure
from sfl.run.plots.panels import Site, colour_bar, headline, map_panels
from sfl.run.plots.style import TEXT, Plate
from sfl.run.plots.success import CURVES
from sfl.run.scene import CLIP
from sfl.run.survey import FAR, OPEN, Survey, aliased_pairs, pictures

SHOWN_GOALS = 9  # pictures, over all levels
SHOWN_PAIRS = 4


def goals_figure(site: Site) -> Plate:
    """The map with the goals of every level, and pictures of the first ones; with a fixed spawn also of the start."""
    pairs, maze = site.world.pairs(site.run.experiment.eval), site.world.places.maze
    starts = [("at the start", RED, maze.start)] if pairs.spawn == "fixed" else []
    each = (SHOWN_GOALS - len(starts)) // len(pairs.levels)
    shown = starts + [
        (f"{level} goal", LEVELS[level], pair.goal) for level, found in pairs.levels.items() for pair in found[:each]
    ]
    frames = pictures(site.world, np.array([pose for _, _, pose in shown]))
    views = [
        View(pose, frame, f"{number}, {word}", colour)
        for number, ((word, colour, pose), frame) in enumerate(zip(shown, frames, strict=True), 1)
    ]
    about = (
        f"The maze {maze.name} from above with the goals that the agent is evaluated on, and, below, pictures of the "
        f"numbered ones as the agent is given them; it never sees the map. Spawn: {pairs.spawn}."
    )
    figure = maze_figure(maze, site.world.places.free, pairs, views, site.style)
    return Plate(figure, about, source=headline(site.run))


@dataclass(frozen=True, eq=False)
class Heat:
    """How near all views seem to two references, and from where on that counts."""

    title: str
    word: str
    values: Array  # [N, 2]
    passes: Array  # [N, 2] bool
    threshold: float
    limit: str
    """The condition in words."""
    lowest: float
    highest: float


def sfs_heat(survey: Survey, sfs: Array, threshold: float) -> Heat:
    """SFS [N, N] to the references; above the localize threshold a view counts as the same place."""
    values = sfs[:, list(survey.references)]
    lowest = min(float(np.quantile(values, 0.02)), 0.99 * threshold)
    return Heat(
        "Similarity of views (SFS)", "SFS", values, values > threshold, threshold, f"above {threshold:g}", lowest, 1.0
    )


def value_heat(values: Array) -> Heat:
    """MSS's values [N, 2] to the references, clipped as in the paper's figure."""
    lowest = min(float(np.quantile(values, 0.02)), 2 * CLIP)
    title, word = "Estimated distances (UVFA)", "estimated distance (minus steps)"
    return Heat(title, word, values, values >= CLIP, CLIP, f"at least {CLIP:g}", lowest, 0.0)


def heatmap_figure(site: Site, survey: Survey, heat: Heat, about: str) -> Plate:
    """All views beside those that count as near, a row for each reference."""
    names = []
    for place, where in enumerate(("the start", "the place farthest from it")):
        gaps = survey.distances[survey.references[place], heat.passes[:, place]]
        middle = f", median {np.median(gaps):.0f} units away" if len(gaps) else ""
        names += [f"{heat.word} to {where}", f"{heat.limit}: {len(gaps)} of {len(survey.poses):,}{middle}"]
    figure, panels = map_panels(site, heat.title, names, 2 if site.style.titled else 4)
    for place, reference in enumerate(survey.references):
        values = heat.values[:, place]
        kept = np.ma.array(values, mask=~heat.passes[:, place])
        for axes, shown in zip(panels[2 * place : 2 * place + 2], (values, kept), strict=True):
            wedges = _wedges(survey, shown)
            wedges.set_clim(heat.lowest, heat.highest)
            axes.add_collection(wedges)
            _mark(axes, survey.poses[reference], site)
    bar = colour_bar(figure, panels, wedges, heat.word, site.style)
    bar.axhline(heat.threshold, color="white", linewidth=site.style.size(1.5))
    squares = "A square is a place, its four parts are the views in four directions; the red dot is the reference."
    return Plate(figure, f"{about} {squares}", tuple(names), headline(site.run))


def _wedges(survey: Survey, values: Array) -> PolyCollection:
    """A triangle for each view, from its place to where it looks; the four of a place make a square."""
    corner = 0.46 * survey.side * np.sqrt(2)
    turns = np.radians(survey.poses[:, 2:] + np.array([-45.0, 45.0]))  # [N, 2]
    rims = survey.poses[:, None, :2] + corner * np.stack([np.cos(turns), np.sin(turns)], axis=2)
    triangles = np.concatenate([survey.poses[:, None, :2], rims], axis=1)  # [N, 3, 2]
    wedges = PolyCollection(list(triangles), edgecolors="face", linewidths=0.1)
    wedges.set(array=values, cmap=colormaps["viridis"].with_extremes(bad=BELOW))
    return wedges


def _mark(axes: Axes, pose: Array, site: Site) -> None:
    """The reference: a dot, and an arrow where it looks."""
    draw_look(axes, pose.tolist(), RED, 0.08 * max(site.extent), site.style.size(2.0))
    rim: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": site.style.size(1.2)}
    axes.plot(*pose[:2], "o", color=RED, markersize=site.style.size(7), zorder=6, **rim)


def aliased_figure(site: Site, survey: Survey, sfs: Array, threshold: float) -> Plate:
    """The pairs of views that are most alike though far apart, with their places."""
    style, pairs = site.style, aliased_pairs(sfs, survey.poses, survey.ahead >= OPEN, SHOWN_PAIRS)
    across, up = site.extent
    inches = (5.2 if style.titled else 2.9) / max(across, up)
    sizes = (across * inches + 0.3, 4.6) if style.titled else (0.56 * TEXT, 0.44 * TEXT)
    tall = max(up * inches, (1.75 if style.titled else 0.95) * max(len(pairs), 1)) + (1.1 if style.titled else 0.1)
    figure = Figure((sum(sizes), tall), layout="constrained")
    plan, views = figure.subfigures(1, 2, width_ratios=sizes, squeeze=False).ravel()
    axes = plan.add_subplot()
    draw_walls(axes, site.world.places.maze, style)
    if style.titled:
        figure.suptitle("Views that look alike though far apart", fontsize=13, fontweight="bold")
        axes.set_title(f"{headline(site.run)}\n{_about_pairs(survey, sfs, threshold)}", fontsize=9, color="#444444")
    for number, pair in enumerate(pairs):
        for place, view in enumerate(pair):
            name, colour = f"{number + 1}{'ab'[place]}", CURVES[number]
            draw_look(axes, survey.poses[view].tolist(), colour, 0.07 * max(across, up), style.size(2.0))
            draw_badge(axes, survey.poses[view].tolist(), name, colour, style.font(8))
            shown = views.add_subplot(len(pairs), 2, 2 * number + place + 1)
            shown.imshow(survey.frames[view], interpolation="antialiased" if style.titled else "none")
            shown.set(xticks=[], yticks=[])
            for spine in shown.spines.values():
                spine.set(edgecolor=colour, linewidth=style.size(3))
            words = (f"SFS {sfs[pair]:.3f}", f"{survey.distances[pair]:,.0f} units apart")
            shown.set_title(f"{name}: {words[place]}", fontsize=style.font(9))
    about = f"Perceptual aliasing in the maze {site.world.maze}: {_about_pairs(survey, sfs, threshold)}."
    return Plate(figure, about, source=headline(site.run))


def _about_pairs(survey: Survey, sfs: Array, threshold: float) -> str:
    far = np.triu(survey.distances > FAR)
    share = 100 * float((sfs[far] > threshold).mean()) if far.any() else 0.0
    return (
        f"{share:.2g}% of all pairs over {FAR:g} units apart have SFS above {threshold:g},\nwhere the agent localizes. "
        f"Shown: the most alike of those with {OPEN:g} units free ahead"
    )
