"""The landmark graph of a run in a maze: edges with and without filters, visits, routes, and where edges hold."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from scipy.stats import rankdata

from sfl.data.types import Array, Explanation
from sfl.envs import Task
from sfl.graph.edges import EdgeConfig, EdgeStatistics, form_edges, unfiltered
from sfl.run.folder import LoadedRun, load_run
from sfl.run.indicators import Leg, crossing
from sfl.run.plots.marks import BLUE, DARK, GREEN, ORANGE, PALE, RED, dot_sample, line_sample, mark_sample
from sfl.run.plots.panels import Site, colour_bar, draw_dots, draw_lines, headline, map_panels
from sfl.run.plots.style import Plate, Style, legend_below
from sfl.run.poses import edge_ends
from sfl.run.scene import goal_place, route_places

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


def routes_figure(site: Site, tasks: Sequence[Task], plans: Mapping[int, Explanation]) -> Plate:
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


def _draw_plan(axes: Axes, task: Task, plan: Explanation, landmarks: Array, style: Style) -> None:
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
