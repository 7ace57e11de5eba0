"""A maze before anything is learned in it: the map from above, its goals by level, and what a player sees."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection, PolyCollection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Rectangle
from scipy.stats import rankdata

from sfl.api import Array, Decision, FieldPolicy, Policy, Step
from sfl.config import require
from sfl.method.config import EdgeConfig, SFLConfig
from sfl.method.edges import EdgeStatistics, form_edges, unfiltered
from sfl.method.presets import resolve
from sfl.registry import wants_poses
from sfl.run.coverage import edge_ends
from sfl.run.evaluate import EpisodeRow, evaluate
from sfl.run.folder import LoadedRun, load_run
from sfl.run.indicators import Leg, Waypoints, crossing
from sfl.run.log import note
from sfl.seeding import spawn
from sfl.show.curves import CURVES
from sfl.show.maps import (
    BELOW,
    BLUE,
    DARK,
    GREEN,
    LEVELS,
    ORANGE,
    PALE,
    RED,
    Site,
    colour_bar,
    corners,
    count_bar,
    dot_sample,
    draw_dots,
    draw_lines,
    draw_walls,
    headline,
    line_sample,
    map_panels,
    mark_sample,
)
from sfl.show.style import COLUMN, SCREEN, TEXT, Plate, Style, legend_below, png_of
from sfl.show.views import (
    CLIP,
    FAR,
    OPEN,
    SimilarityPolicy,
    Survey,
    aliased_pairs,
    frozen,
    goal_place,
    pictures,
    route_places,
    scores,
    survey,
    values_policy,
)
from sfl.worlds import Task
from sfl.worlds.doom.env import DoomMaze
from sfl.worlds.doom.tasks import GOAL_RADIUS, Pairs, draw_fixed_pairs, load_pairs
from sfl.worlds.doom.world import MazeWorld
from sfl.worlds.mazes.free_space import FreeSpace
from sfl.worlds.mazes.layout import Maze
from sfl.worlds.mazes.load import check_free, write_whole
from sfl.worlds.tasks import Pose

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


# ---- Where training has been in a maze, of one run or of several beside each other.

UNSEEN = "#EEEEEE"
COVERAGE_COLUMNS = 3


def coverage_figure(sites: Sequence[Site]) -> Plate:
    """Squares of 50 units by how often training was in them, a map for each run in the same maze."""
    first = sites[0]
    squares = first.world.squares()
    side, visits = squares.side, [squares.visits(site.run.poses) for site in sites]
    shares = [f"{100 * (seen > 0).mean():.0f}% of {len(seen)} squares" for seen in visits]
    names = shares
    if len(sites) > 1:
        spawns = [site.world.sampler.spawn for site in sites]
        names = [
            f"{headline(site.run)}, {spawn} spawn: {share}"
            for site, spawn, share in zip(sites, spawns, shares, strict=True)
        ]
    figure, panels = map_panels(first, "Where training has been", names, min(COVERAGE_COLUMNS, len(sites)))
    norm = LogNorm(1, max(2, *(int(seen.max()) for seen in visits)))
    for axes, seen in zip(panels, visits, strict=True):
        tiles = PatchCollection([Rectangle((side * x, side * y), side, side) for x, y in squares.reachable])
        tiles.set(edgecolor="white", linewidth=first.style.size(0.4), norm=norm, array=np.ma.masked_equal(seen, 0))
        tiles.set_cmap(colormaps["viridis"].with_extremes(bad=UNSEEN))
        axes.add_collection(tiles)
    count_bar(figure, panels, tiles, f"decisions in a square of {side:g} units", first.style)
    covered = f" Visited: {shares[0]}." if len(sites) == 1 else ""
    about = (
        f"State coverage in the maze {first.world.maze}: squares of {side:g} units by the number of training decisions "
        f"made in them; pale ones were never visited.{covered}"
    )
    return Plate(figure, about, tuple(names), headline(first.run) if len(sites) == 1 else "")


# ---- The landmark graph of a run in a maze: edges with and without filters, visits, routes, and where edges hold.

WITHIN = 15  # decisions in which the next landmark is to be reached
HOLDS = 0.8  # share of tries


def graph_figure(site: Site, config: EdgeConfig) -> Plate:
    """All edges that the threshold lets through, and those that are left after the filters."""
    run, style = site.run, site.style
    statistics = EdgeStatistics()
    statistics.load_state(run.graph)
    edges = form_edges(statistics, unfiltered(config), len(run.landmark_poses))
    every = edge_ends({"edge_sources": edges.sources, "edge_targets": edges.targets}, run.landmark_poses)
    graphs = {"without filters": every, _filters(config): edge_ends(run.graph, run.landmark_poses)}
    walls = site.world.walls()
    crossed = [crossing(ends, walls) for ends in graphs.values()]
    names = [f"{name}: {len(ends):,} edges" for name, ends in graphs.items()]
    figure, panels = map_panels(site, f"Landmark graph: {len(run.landmark_poses):,} landmarks", names, 2)
    for axes, ends, through in zip(panels, graphs.values(), crossed, strict=True):
        draw_lines(axes, ends[~through], BLUE, style)
        draw_lines(axes, ends[through], ORANGE, style)
        draw_dots(axes, run.landmark_poses, DARK, style, 4.0)
    shares = "({} and {})".format(*map(_percent, crossed))
    samples = [
        dot_sample(DARK, "landmark, with heading", style),
        line_sample(BLUE, "edge", style),
        line_sample(ORANGE, f"edge that crosses a wall {shares}", style),
    ]
    legend_below(figure, style, samples, 3)
    about = (
        f"The landmark graph in the maze {site.world.maze}, {len(run.landmark_poses):,} landmarks with their headings: "
        f"edges by transitions alone, and after filtering. Orange edges cross a wall {shares}."
    )
    return Plate(figure, about, tuple(names), headline(run))


def _filters(config: EdgeConfig) -> str:
    used = [f"{config.k_nearest} nearest"] if config.k_nearest else []
    used += [f"temporal {config.temporal:g}"] if config.temporal else []
    used += ["failed edges removed"] if config.failure_limit else []
    return f"with filters ({', '.join(used)})" if used else "with filters (none set)"


def _percent(share: Array) -> str:
    return f"{100 * share.mean():.0f}%" if len(share) else "-"


def visits_figure(site: Site, early: LoadedRun | None) -> Plate:
    """Landmarks by the rank of their visits: at an early checkpoint, where there is one, and now."""
    moments = [run for run in (early, site.run) if run is not None]
    names = [_about_visits(run) for run in moments]
    figure, panels = map_panels(site, "Visits of landmarks in training", names, len(moments))
    scale = ScalarMappable(Normalize(0, 100), "viridis")
    for axes, run in zip(panels, moments, strict=True):
        visits = run.graph["visits"]
        ranks = 100 * (rankdata(visits) - 1) / max(1, len(visits) - 1)
        draw_dots(axes, run.landmark_poses, scale.to_rgba(ranks), site.style)
    colour_bar(figure, panels, scale, "landmarks visited less often (%)", site.style)
    about = (
        f"Landmarks in the maze {site.world.maze} by the rank of their visits in training; a lighter one was visited "
        f"more often than most.{_at(names)}"
    )
    return Plate(figure, about, tuple(names), headline(site.run))


def _about_visits(run: LoadedRun) -> str:
    visits = run.graph["visits"]
    return f"{run.env_steps:,} steps: {len(visits):,} landmarks, median {np.median(visits):,.0f} visits"


def _at(names: Sequence[str]) -> str:
    """What a caption says of a single panel, whose name stands nowhere else."""
    return f" At {names[0]}." if len(names) == 1 else ""


def early_run(run: LoadedRun) -> LoadedRun | None:
    """The run as it was at the first earlier checkpoint with landmarks; None where none was kept."""
    steps = sorted(map(int, run.folder.history_names()))
    for earlier in (step for step in steps if step < run.env_steps):
        kept = load_run(run.folder.path, run.folder.history(earlier).name, device="cpu")
        if len(kept.landmark_poses) > 1:
            return kept
    return None


def edge_success(legs: Sequence[Leg]) -> dict[tuple[int, int], tuple[int, int]]:
    """Edge -> how often it was tried, and how often its end was truly reached within 15 decisions.

    A leg that did not begin at the source, or that ended further along its route, was no try of its edge.
    """
    tries, holds = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for leg in legs:
        if leg.source is not None and leg.from_source and leg.reached in (None, leg.target):
            tries[leg.source, leg.target] += 1
            holds[leg.source, leg.target] += leg.true and leg.decisions <= WITHIN
    return {edge: (count, holds[edge]) for edge, count in tries.items()}


def edge_success_figure(site: Site, moments: Sequence[tuple[LoadedRun, Sequence[Leg]]]) -> Plate:
    """The edges on which the next landmark was reached in time in 80% of the tries or more, at each moment."""
    radius, style = site.world.radius, site.style
    names, shown = [], []
    for run, legs in moments:
        tried = edge_success(legs)
        shown.append({edge: (tries, holds) for edge, (tries, holds) in tried.items() if holds >= HOLDS * tries})
        names.append(f"{run.env_steps:,} steps: {len(shown[-1])} of {len(tried)} edges that were tried")
    rule = (
        f"shown are edges on which episodes set out within {radius} units of their beginning and reached their end "
        f"(believed, and within {radius} units) in at most {WITHIN} decisions in {100 * HOLDS:.0f}% of the tries or "
        "more; wider: more tries"
    )
    figure, panels = map_panels(site, "Edges that the local policy can walk", names, len(moments))
    scale = ScalarMappable(Normalize(100 * HOLDS, 100), colormaps["viridis_r"])
    for axes, (run, _), held in zip(panels, moments, shown, strict=True):
        draw_dots(axes, run.landmark_poses, PALE, style, 4.0)
        pairs = np.array(list(held), np.int64).reshape(-1, 2)
        numbers = np.array(list(held.values()), float).reshape(-1, 2)
        ends = edge_ends({"edge_sources": pairs[:, 0], "edge_targets": pairs[:, 1]}, run.landmark_poses)
        colours = scale.to_rgba(100 * numbers[:, 1] / np.maximum(1, numbers[:, 0]))
        draw_lines(axes, ends, colours, style, 1.2 + np.log2(np.maximum(1, numbers[:, 0])), 0.95)
    colour_bar(figure, panels, scale, "tries that succeeded (%)", style)
    if style.titled:
        figure.supxlabel(textwrap.fill(f"{rule[0].upper()}{rule[1:]}.", 62 * len(moments) + 18), fontsize=9)
    about = f"Edges by the success of the policy in the maze {site.world.maze}: {rule}.{_at(names)}"
    return Plate(figure, about, tuple(names), headline(site.run))


def routes_figure(site: Site, tasks: Sequence[Task], plans: Mapping[int, Decision]) -> Plate:
    """The route that the policy plans at the start of episodes, one map each."""
    numbers, style, landmarks = _examples(tasks), site.style, site.run.landmark_poses
    names = []
    for number in numbers:
        plan, task = plans[number], tasks[number]
        words = f"{len(plan.route) - 1} landmarks" if plan.route_found else "no route: straight to the goal"
        names.append(f"{task.level}, pair {task.pair + 1}: {words}")
    columns = len({tasks[number].level for number in numbers})
    figure, panels = map_panels(site, "Planned routes", names, columns)
    for axes, number in zip(panels, numbers, strict=True):
        draw_dots(axes, landmarks, PALE, style, 3.0)
        _draw_plan(axes, tasks[number], plans[number], landmarks, style)
    samples = [
        line_sample(ORANGE, "landmarks on the route", style, marker="o", markersize=style.size(5)),
        dot_sample(PALE, "other landmark", style),
        dot_sample(RED, "start", style),
        mark_sample("*", GREEN, "goal", style, 12),
    ]
    legend_below(figure, style, samples, 4)
    about = f"Routes that the agent plans over its landmark graph in the maze {site.world.maze}, from start to goal."
    return Plate(figure, about, tuple(names), headline(site.run))


def _examples(tasks: Sequence[Task]) -> list[int]:
    """Numbers of the first two tasks of each level: all first ones, then all second ones, levels being columns."""
    levels = list(dict.fromkeys(task.level for task in tasks))
    rows = [[number for number, task in enumerate(tasks) if task.level == level][:2] for level in levels]
    return [row[place] for place in range(min(map(len, rows), default=0)) for row in rows]


def _draw_plan(axes: Axes, task: Task, plan: Decision, landmarks: Array, style: Style) -> None:
    goal = goal_place(task.goal)
    stops = route_places(plan, landmarks[:, :2], goal)
    start = None if task.start is None else np.array(task.start[:2], float)
    rim: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": style.size(1.0)}
    if start is not None:
        stops = np.concatenate([start[None], stops])
        axes.plot(*start, "o", color=RED, markersize=style.size(7), zorder=6, **rim)
    look: dict[str, Any] = {"linewidth": style.size(1.8), "marker": "o", "markersize": style.size(4), "zorder": 5}
    axes.plot(*stops.T, "-" if plan.route_found else "--", color=ORANGE, **look)
    if goal is not None:
        axes.plot(*goal, "*", color=GREEN, markersize=style.size(13), zorder=7, **rim)


def mss_landmarks_figure(site: Site) -> Plate:
    """The landmarks of MSS, which are farthest points in its features."""
    poses = site.run.landmark_poses
    figure, (axes,) = map_panels(site, "Landmarks of MSS", [f"{len(poses):,} landmarks"], 1)
    draw_dots(axes, poses, BLUE, site.style)
    legend_below(figure, site.style, [dot_sample(BLUE, "landmark, with heading", site.style)], 1)
    about = (
        f"The {len(poses):,} landmarks that MSS chose in the maze {site.world.maze} by farthest point sampling in its "
        "features, with their headings."
    )
    return Plate(figure, about, source=headline(site.run))


# ---- What is seen in a maze and how near it seems: goals with their pictures, heatmaps, aliased pairs of views.

SHOWN_GOALS = 9  # pictures, over all levels
SHOWN_PAIRS = 4


def goals_figure(site: Site) -> Plate:
    """The map with the goals of every level, and pictures of the first ones; with a fixed spawn also of the start."""
    pairs, maze = site.world.pairs(site.run.experiment.eval), site.world.sampler.maze
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
    figure = maze_figure(maze, site.world.sampler.free, pairs, views, site.style)
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
    draw_walls(axes, site.world.sampler.maze, style)
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


# ---- A run in a maze of ViZDoom, drawn over its walls: where training has been, how episodes went, its graph.

WALKED, TRACKS = 12, 4  # episodes played for each level, and those of them that are drawn
MARKS = {"o": "start", "*": "goal"}


def maze_site(run: LoadedRun, style: Style) -> Site | None:
    """The run with its maze; None where it is in none."""
    config = run.experiment.env
    return Site(run, config.open(run.folder.path), style) if config.kind == "maze" else None


def doom_figures(site: Site) -> dict[str, Plate]:
    """Every figure that can be drawn of this run, by name; says which cannot."""
    run, agent, policy = site.run, site.run.experiment.agent, frozen(site.run)
    estimates, landmarks = values_policy(policy), len(run.landmark_poses) > 0
    alike = policy if isinstance(policy, SimilarityPolicy) else None
    graph = alike is not None and landmarks and isinstance(agent, SFLConfig)
    walks = _walk(run, site.world) if graph or site.style.titled else None
    plates, missing = {"goals": goals_figure(site)}, []
    if site.style.titled and walks is not None:  # the paper has no such figure
        plates["trajectories"] = _trajectories(site, walks)
    if len(run.poses):
        plates["coverage"] = coverage_figure([site])
    else:
        missing.append("coverage (a slim copy does not say where training has been)")
    if alike is not None and isinstance(agent, SFLConfig):
        plates |= _similarity_figures(site, alike, agent.landmarks.localize_threshold)
        plates |= _graph_figures(site, agent, walks) if walks is not None and landmarks else {}
    if estimates is not None:
        plates |= _value_figures(site, estimates, wants_poses(agent))
        plates |= {"mss-landmarks": mss_landmarks_figure(site)} if landmarks else {}
    if alike is None and estimates is None:
        missing.append("heatmaps and landmarks (its policy knows none)")
    elif alike is not None and landmarks and walks is not None and not walks.tasks:
        missing.append("routes (every task is solved where it starts)")
    elif not landmarks:
        missing.append("the landmark graph (it has no landmarks yet; train it for longer)")
    if missing:
        note(f"{run.folder.path}: not drawn: {'; '.join(missing)}.")
    return plates


def _similarity_figures(site: Site, policy: SimilarityPolicy, threshold: float) -> dict[str, Plate]:
    seen = survey(site.world)
    sfs = policy.sfs(seen.frames, seen.frames)
    about = (
        f"SFS of views all over the maze {site.world.maze} to a reference at the start and to one far from it: of all "
        f"views, and of those above the localize threshold {threshold:g}; views that do not pass it are grey."
    )
    return {
        "sfs-heatmap": heatmap_figure(site, seen, sfs_heat(seen, sfs, threshold), about),
        "aliased-views": aliased_figure(site, seen, sfs, threshold),
    }


def _value_figures(site: Site, policy: FieldPolicy, oracle: bool) -> dict[str, Plate]:
    seen = survey(site.world)
    values = scores(policy, seen.frames, seen.frames[list(seen.references)])
    told = "with true positions in its hindsight rewards" if oracle else "without true positions"
    about = (
        f"Distances that the value function of MSS, trained {told}, estimates from views all over the maze "
        f"{site.world.maze} to a reference at the start and to one far from it: of all views, and of those at the clip "
        "threshold of -5 or nearer; views that do not pass it are grey."
    )
    return {"uvfa-distances": heatmap_figure(site, seen, value_heat(values), about)}


def _graph_figures(site: Site, agent: SFLConfig, walks: _Walks) -> dict[str, Plate]:
    early = early_run(site.run)
    moments = [] if early is None else [(early, _walk(early, site.world).waypoints.legs)]
    moments.append((site.run, walks.waypoints.legs))
    figures = {
        "landmark-graph": graph_figure(site, resolve(agent).edges),
        "landmark-visits": visits_figure(site, early),
        "edge-success": edge_success_figure(site, moments),
    }
    if walks.tasks:
        figures["routes"] = routes_figure(site, walks.tasks, walks.plans)
    return figures


@dataclass
class _Walks:
    """Watches an evaluation and notes where each of its episodes went and what the policy planned."""

    tasks: list[Task]
    waypoints: Waypoints
    places: dict[int, list[Array]] = field(default_factory=dict)
    """Number of the task -> places [2]."""
    plans: dict[int, Decision] = field(default_factory=dict)
    """Number of the task -> what the policy meant to do at its start."""
    rows: list[EpisodeRow] = field(default_factory=list)

    def __call__(self, step: Step, policy: Policy) -> None:
        thoughts = [policy.explain(env) for env in step.transitions.env_indices.tolist()]
        self.waypoints.add(step, thoughts)
        for row, episode in enumerate(step.episodes):
            if step.lengths[row] == 1:  # also of an episode that is played again
                self.places[episode.number] = [step.poses[row, :2]]
                self.plans[episode.number] = thoughts[row]
            self.places[episode.number].append(step.next_poses[row, :2])


def _walk(run: LoadedRun, world: MazeWorld) -> _Walks:
    """The first pairs of each level that are no child's play, walked by the run's policy."""
    posed = [task for task in run.tasks() if not world.solved_at_start(task)]
    levels = run.experiment.eval.levels
    tasks = [task for level in levels for task in [task for task in posed if task.level == level][:WALKED]]
    walks = _Walks(tasks, Waypoints(run.landmark_poses, world.radius))
    parallel = run.experiment.eval.parallel
    walks.rows = evaluate(frozen(run), run.experiment.env, tasks, seed=run.seed, parallel=parallel, watch=walks)
    return walks


def _trajectories(site: Site, walks: _Walks) -> Plate:
    """The ways of the first episodes of each level."""
    style, levels = site.style, site.run.experiment.eval.levels
    figure, (axes,) = map_panels(site, "Evaluation episodes", [""], 1)
    for level in levels:
        numbers = [number for number, task in enumerate(walks.tasks) if task.level == level]
        for number in numbers[:TRACKS]:
            _draw_track(axes, np.array(walks.places[number]), walks.tasks[number], walks.rows[number])
    samples = [line_sample(LEVELS[level], level, style) for level in levels]
    samples += [line_sample(DARK, "goal not reached", style, linestyle=":")]
    samples += [mark_sample(mark, DARK, word, style, 6) for mark, word in MARKS.items()]
    legend_below(figure, style, samples, 4)
    return Plate(figure, f"Evaluation episodes in the maze {site.world.maze}.", source=headline(site.run))


def _draw_track(axes: Axes, places: Array, task: Task, row: EpisodeRow) -> None:
    colour, goal = LEVELS[task.level], goal_place(task.goal)
    axes.plot(*places.T, color=colour, linewidth=1.4, linestyle="-" if row.success else ":", alpha=0.9)
    axes.plot(*places[0], "o", color=colour, markersize=5, markeredgecolor="white", markeredgewidth=0.6)
    if goal is not None:
        axes.plot(*goal, "*", color=colour, markersize=9, markeredgecolor="white", markeredgewidth=0.6)
        axes.add_patch(Circle((goal[0], goal[1]), GOAL_RADIUS, facecolor=colour, alpha=0.12, edgecolor="none"))
