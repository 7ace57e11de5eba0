"""The landmark graph of a run in a maze: edges with and without filters, visits, routes, and where edges hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.stats import rankdata

from sfl.data.types import Array, Explanation
from sfl.envs import Task, world_name
from sfl.graph.edges import EdgeConfig, EdgeStatistics, form_edges, unfiltered
from sfl.run import checkpoint
from sfl.run.folder import LoadedRun, config_spec
from sfl.run.indicators import Leg, crossing
from sfl.run.plots.marks import BLUE, DARK, GREEN, ORANGE, PALE, RED, dot_sample
from sfl.run.plots.panels import draw_dots, draw_lines, map_panels
from sfl.run.poses import edge_ends
from sfl.run.scene import goal_place, route_places
from sfl.run.worlds import MazeWorld

WITHIN = 15  # decisions in which the next landmark is to be reached
HOLDS = 0.8  # share of tries


def graph_figure(run: LoadedRun, world: MazeWorld, config: EdgeConfig) -> Figure:
    """All edges that the threshold lets through, and those that are left after the filters."""
    statistics = EdgeStatistics()
    statistics.load_state(run.graph)
    edges = form_edges(statistics, unfiltered(config), len(run.landmark_poses))
    every = edge_ends({"edge_sources": edges.sources, "edge_targets": edges.targets}, run.landmark_poses)
    graphs = {"without filters": every, _filters(config): edge_ends(run.graph, run.landmark_poses)}
    walls = world.walls()
    crossed = [crossing(ends, walls) for ends in graphs.values()]
    names = [f"{name}: {len(ends):,} edges" for name, ends in graphs.items()]
    title = f"Landmark graph: {len(run.landmark_poses):,} landmarks"
    figure, panels = map_panels(run, world.places.maze, title, names, 2)
    for axes, ends, through in zip(panels, graphs.values(), crossed, strict=True):
        draw_lines(axes, ends[~through], BLUE)
        draw_lines(axes, ends[through], ORANGE)
        draw_dots(axes, run.landmark_poses, DARK, 4.0)
    samples = [
        dot_sample(DARK, "landmark, with heading"),
        Line2D([], [], color=BLUE, label="edge"),
        Line2D([], [], color=ORANGE, label="edge that crosses a wall ({} and {})".format(*map(_percent, crossed))),
    ]
    figure.legend(handles=samples, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def _filters(config: EdgeConfig) -> str:
    used = [f"{config.k_nearest} nearest"] if config.k_nearest else []
    used += [f"temporal {config.temporal:g}"] if config.temporal else []
    used += ["failed edges removed"] if config.failure_limit else []
    return f"with filters ({', '.join(used)})" if used else "with filters (none set)"


def _percent(share: Array) -> str:
    return f"{100 * share.mean():.0f}%" if len(share) else "-"


def visits_figure(run: LoadedRun, world: MazeWorld) -> Figure:
    """Landmarks by the rank of their visits: at the first checkpoint that has some, and now."""
    moments = {run.env_steps: (run.graph["visits"], run.landmark_poses)}
    moments = _early(run) | moments
    names = [
        f"{steps:,} steps: {len(visits):,} landmarks, median {np.median(visits):,.0f} visits"
        for steps, (visits, _) in moments.items()
    ]
    figure, panels = map_panels(run, world.places.maze, "Visits of landmarks in training", names, len(moments))
    scale = ScalarMappable(Normalize(0, 100), "viridis")
    for axes, (visits, poses) in zip(panels, moments.values(), strict=True):
        ranks = 100 * (rankdata(visits) - 1) / max(1, len(visits) - 1)
        draw_dots(axes, poses, scale.to_rgba(ranks))
    bar = figure.colorbar(scale, ax=panels, fraction=0.03, pad=0.02)
    bar.set_label("landmarks visited less often (%)", fontsize=10)
    return figure


def _early(run: LoadedRun) -> dict[int, tuple[Array, Array]]:
    """Visits and poses in the first earlier checkpoint with landmarks; nothing where none was kept."""
    env = run.experiment.env
    spec = config_spec(env, run.experiment.train.env_count)
    steps = sorted(int(path.name) for path in run.folder.checkpoints.glob("*") if path.name.isdigit())
    for earlier in (step for step in steps if step < run.env_steps):
        kept = checkpoint.load(run.folder.history(earlier), world_name(env), spec)
        if len(kept.landmark_poses) > 1:
            return {earlier: (kept.agent.graph["visits"], kept.landmark_poses)}
    return {}


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


def edge_success_figure(run: LoadedRun, world: MazeWorld, legs: Sequence[Leg]) -> Figure:
    """The edges on which the next landmark was reached in time in 80% of the tries or more."""
    tried = edge_success(legs)
    shown = {edge: (tries, holds) for edge, (tries, holds) in tried.items() if holds >= HOLDS * tries}
    name = (
        f"Shown: {len(shown)} of {len(tried)} edges on which episodes set out within {world.radius} units of\n"
        f"their beginning: their end was reached (believed, and within {world.radius} units)\n"
        f"in at most {WITHIN} decisions in {100 * HOLDS:.0f}% of the tries or more; wider: more tries"
    )
    figure, (axes,) = map_panels(run, world.places.maze, "Edges that the local policy can walk", [name], 1)
    draw_dots(axes, run.landmark_poses, PALE, 4.0)
    pairs = np.array(list(shown), np.int64).reshape(-1, 2)
    numbers = np.array(list(shown.values()), float).reshape(-1, 2)
    ends = edge_ends({"edge_sources": pairs[:, 0], "edge_targets": pairs[:, 1]}, run.landmark_poses)
    scale = ScalarMappable(Normalize(100 * HOLDS, 100), colormaps["viridis_r"])
    colours = scale.to_rgba(100 * numbers[:, 1] / np.maximum(1, numbers[:, 0]))
    draw_lines(axes, ends, colours, 1.2 + np.log2(np.maximum(1, numbers[:, 0])), 0.95)
    bar = figure.colorbar(scale, ax=axes, fraction=0.04, pad=0.02)
    bar.set_label("tries that succeeded (%)", fontsize=10)
    return figure


def routes_figure(run: LoadedRun, world: MazeWorld, tasks: Sequence[Task], plans: Mapping[int, Explanation]) -> Figure:
    """The route that the policy plans at the start of episodes, one map each."""
    numbers = _examples(tasks)
    names = []
    for number in numbers:
        plan, task = plans[number], tasks[number]
        words = f"{len(plan.route) - 1} landmarks" if plan.route_found else "no route: straight to the goal"
        names.append(f"{task.level}, pair {task.pair + 1}: {words}")
    columns = len({tasks[number].level for number in numbers})
    figure, panels = map_panels(run, world.places.maze, "Planned routes", names, columns)
    for axes, number in zip(panels, numbers, strict=True):
        draw_dots(axes, run.landmark_poses, PALE, 3.0)
        _draw_plan(axes, tasks[number], plans[number], run.landmark_poses)
    samples = [
        Line2D([], [], color=ORANGE, marker="o", markersize=5, label="landmarks on the route"),
        dot_sample(PALE, "other landmark"),
        dot_sample(RED, "start"),
        Line2D([], [], color=GREEN, marker="*", linestyle="", markersize=12, label="goal"),
    ]
    figure.legend(handles=samples, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure


def _examples(tasks: Sequence[Task]) -> list[int]:
    """Numbers of the first two tasks of each level: all first ones, then all second ones, levels being columns."""
    levels = list(dict.fromkeys(task.level for task in tasks))
    rows = [[number for number, task in enumerate(tasks) if task.level == level][:2] for level in levels]
    return [row[place] for place in range(min(map(len, rows), default=0)) for row in rows]


def _draw_plan(axes: Axes, task: Task, plan: Explanation, landmarks: Array) -> None:
    goal = goal_place(task.goal)
    stops = route_places(plan, landmarks[:, :2], goal)
    start = None if task.start is None else np.array(task.start[:2], float)
    if start is not None:
        stops = np.concatenate([start[None], stops])
        axes.plot(*start, "o", color=RED, markersize=7, markeredgecolor="white", zorder=6)
    line = "-" if plan.route_found else "--"
    axes.plot(*stops.T, line, color=ORANGE, linewidth=1.8, marker="o", markersize=4, zorder=5)
    if goal is not None:
        axes.plot(*goal, "*", color=GREEN, markersize=13, markeredgecolor="white", zorder=7)
