"""What one run has learned, drawn over its world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Rectangle
from matplotlib.ticker import MaxNLocator

from sfl.data.types import Array
from sfl.envs import make_env
from sfl.run.folder import LoadedRun
from sfl.run.plots.marks import (
    BLUE,
    GREEN,
    ORANGE,
    PALE,
    RED,
    EdgeCounts,
    cell_sample,
    dot_sample,
    draw_cell,
    draw_edges,
    draw_landmarks,
    draw_route,
    edge_samples,
)
from sfl.run.plots.panels import headline
from sfl.run.progress import note
from sfl.run.scene import (
    Box,
    Chart,
    Journey,
    SimilarityPolicy,
    cell_sfs,
    chart,
    first_task,
    journey,
    landmark_sfs,
    poses_agree,
    route_places,
    spread,
)

SIDE = 5.2  # inches of a map's longer side


@dataclass(frozen=True)
class _Scene:
    """One run, ready to be drawn."""

    run: LoadedRun
    policy: SimilarityPolicy
    chart: Chart | None
    places: Array  # [L, 2]
    journey: Journey

    @property
    def box(self) -> Box:
        """The part of the world to show, in cells."""
        if self.chart is not None:
            return self.chart.window
        known = np.concatenate([self.run.poses[:, :2], self.run.landmark_poses[:, :2]])
        (left, top), (right, bottom) = known.min(0).astype(int), known.max(0).astype(int)
        return left - 1, top - 1, right + 2, bottom + 2

    @property
    def counts(self) -> EdgeCounts:
        """Transitions of every edge."""
        columns = [self.run.graph[f"edge_{name}"].tolist() for name in ("sources", "targets", "counts")]
        return {(source, target): count for source, target, count in zip(*columns, strict=True)}


def map_figures(run: LoadedRun, policy: SimilarityPolicy) -> dict[str, Figure]:
    """Every figure that can be drawn of this run, by name; says which cannot."""
    env = make_env(run.experiment.env)
    scene = _Scene(run, policy, chart(env), spread(run.landmark_poses), journey(policy, env, first_task(run)))
    env.close()
    makers: dict[str, Callable[[_Scene], Figure]] = {}
    missing = []
    if scene.chart is not None:
        makers["sfs-heatmap"] = _heatmap
    else:
        makers["sfs-matrix"] = _matrix
        missing.append("sfs-heatmap (the environment cannot list its states; see sfs-matrix)")
    if poses_agree(run):
        makers |= {"landmark-graph": _landmark_graph, "landmark-visits": _landmark_visits, "route": _route}
    else:
        missing.append("landmark-graph, landmark-visits and route (no poses on one map)")
    if missing:
        note(f"{run.folder.path}: not drawn: {'; '.join(missing)}.")
    return {name: make(scene) for name, make in makers.items()}


def _heatmap(scene: _Scene) -> Figure:
    """SFS of every cell to the start, as in the paper's figure for MiniGrid."""
    chart, start = scene.chart, scene.journey.start
    assert chart is not None
    assert start is not None
    figure, axes, _ = _map_axes(scene, "Similarity to the start (SFS)")
    # The survey has all doors open, and so has the reference: a door would otherwise count as distance.
    reference = chart.observations[int(np.flatnonzero((chart.poses == start).all(1))[0])]
    cells, values = cell_sfs(scene.policy, chart.poses, chart.observations, reference)
    heat = _squares(cells, cmap="viridis", edgecolor="white")
    heat.set_array(values)
    heat.set_clim(min(float(values.min()), 0.99), 1.0)
    axes.add_collection(heat)
    axes.add_patch(Circle((start[0], start[1]), 0.24, facecolor=RED, edgecolor="white", linewidth=1.5, zorder=3))
    _colour_bar(figure, axes, heat, "SFS, mean over headings")
    return figure


def _matrix(scene: _Scene) -> Figure:
    """SFS between landmarks, for worlds without a map."""
    figure = Figure((SIDE + 0.9, SIDE), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(landmark_sfs(scene.run.graph["psi"]), cmap="viridis", interpolation="nearest", vmax=1.0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
        axis.set_label_text("landmark", fontsize=11)
    set_title(axes, "Similarity of landmarks (SFS)", scene.run)
    _colour_bar(figure, axes, image, "SFS")
    return figure


def _landmark_graph(scene: _Scene) -> Figure:
    """Landmarks with their headings, and edges as wide as they are frequent."""
    figure, axes, points = _map_axes(scene, "Landmark graph")
    draw_cell(axes, scene.journey.goal, GREEN)
    draw_edges(axes, scene.places, scene.counts, points)
    _dots(axes, scene, [BLUE] * len(scene.places), points)
    handles = [dot_sample(BLUE, "landmark, with heading"), *edge_samples(scene.counts)]
    _legend(figure, scene, handles)
    return figure


def _landmark_visits(scene: _Scene) -> Figure:
    """Landmarks coloured by how often the agent was at them in training."""
    figure, axes, points = _map_axes(scene, "Visits of landmarks in training")
    visits = np.maximum(1, scene.run.graph["visits"])
    norm = LogNorm(visits.min(), max(visits.max(), visits.min() + 1))
    draw_edges(axes, scene.places, scene.counts, points, PALE)
    _dots(axes, scene, [colormaps["viridis"](norm(count)) for count in visits], points)
    count_bar(figure, axes, ScalarMappable(norm, "viridis"), "visits")
    return figure


def _route(scene: _Scene) -> Figure:
    """The route that the policy plans from the start to the goal."""
    explanation, start = scene.journey.explanation, scene.journey.start
    figure, axes, points = _map_axes(
        scene, "Planned route" if explanation.route_found else "No route found: straight to the goal"
    )
    fill = [ORANGE if number in explanation.route else PALE for number in range(len(scene.places))]
    draw_edges(axes, scene.places, scene.counts, points, PALE)
    _dots(axes, scene, fill, points)
    draw_cell(axes, start, RED)
    draw_cell(axes, scene.journey.goal, GREEN)
    stops = route_places(explanation, scene.places, scene.journey.goal)
    stops = stops if start is None else np.concatenate([start[None, :2], stops])
    draw_route(axes, stops, points, line="-" if explanation.route_found else "--")
    handles = [] if start is None else [cell_sample(RED, "start")]
    _legend(figure, scene, [*handles, dot_sample(ORANGE, "landmark on the route"), dot_sample(PALE, "other landmark")])
    return figure


def _map_axes(scene: _Scene, title: str) -> tuple[Figure, Axes, float]:
    """An empty map, and the points that a cell measures on it."""
    left, top, right, bottom = scene.box
    inches = SIDE / max(right - left, bottom - top)
    figure = Figure(((right - left) * inches + 0.4, (bottom - top) * inches + 0.8), layout="constrained")
    axes = figure.add_subplot()
    if scene.chart is not None:
        width, height = scene.chart.size
        axes.imshow(scene.chart.plan, extent=(-0.5, width - 0.5, height - 0.5, -0.5))
    else:  # where the agent has been is all that is known of the world
        axes.add_collection(_squares(np.unique(scene.run.poses[:, :2], axis=0), facecolor="none", edgecolor="#DDDDDD"))
    axes.set(aspect="equal", xlim=(left - 0.5, right - 0.5), ylim=(bottom - 0.5, top - 0.5))  # y points down
    axes.set_axis_off()
    set_title(axes, title, scene.run)
    return figure, axes, 72 * inches


def _squares(cells: Array, **look: Any) -> PatchCollection:
    return PatchCollection([Rectangle((x - 0.5, y - 0.5), 1, 1) for x, y in cells], linewidth=0.6, **look)


def set_title(axes: Axes, title: str, run: LoadedRun) -> None:
    """What is drawn, and of which run."""
    axes.set_title(f"{title}\n", fontsize=13, fontweight="bold")
    axes.text(
        0.5, 1.015, headline(run), transform=axes.transAxes, ha="center", va="bottom", fontsize=10, color="#444444"
    )


def count_bar(figure: Figure, axes: Axes, shown: ScalarMappable, label: str) -> None:
    """For counts on a logarithmic scale."""
    bar = _colour_bar(figure, axes, shown, label)
    for set_formatter in (bar.yaxis.set_major_formatter, bar.yaxis.set_minor_formatter):
        set_formatter(lambda value, _: f"{value:,.0f}" if f"{value:e}"[0] in "125" else "")


def _colour_bar(figure: Figure, axes: Axes, shown: ScalarMappable, label: str) -> Axes:
    bar = figure.colorbar(shown, ax=axes, fraction=0.05, pad=0.02)
    bar.set_label(label, fontsize=11)
    return bar.ax


def _dots(axes: Axes, scene: _Scene, fill: Sequence[object], points: float) -> None:
    draw_landmarks(axes, scene.places, scene.run.landmark_poses[:, 2], fill, points)


def _legend(figure: Figure, scene: _Scene, handles: list[Line2D]) -> None:
    if scene.journey.goal is not None:
        handles = [*handles, cell_sample(GREEN, "goal")]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=10)
