"""What one run has learned in a grid world, drawn over its map."""

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

from sfl.api import Array, Policy
from sfl.run.folder import LoadedRun
from sfl.run.log import note
from sfl.show.maps import (
    BELOW,
    BLUE,
    GREEN,
    ORANGE,
    PALE,
    RED,
    EdgeCounts,
    cell_sample,
    colour_bar,
    count_bar,
    dot_sample,
    draw_agent,
    draw_cell,
    draw_edges,
    draw_floor,
    draw_landmarks,
    draw_route,
    edge_samples,
    headline,
    mark_sample,
    sheet,
)
from sfl.show.style import Plate, Style, legend_below
from sfl.show.views import (
    CLIP,
    Box,
    Chart,
    Journey,
    SimilarityPolicy,
    cell_means,
    cell_sfs,
    chart,
    first_task,
    frozen,
    journey,
    landmark_sfs,
    poses_agree,
    route_places,
    scores,
    spread,
    values_policy,
)
from sfl.worlds import make_env


@dataclass(frozen=True)
class _Scene:
    """One run, ready to be drawn."""

    run: LoadedRun
    policy: Policy
    chart: Chart | None
    journey: Journey
    style: Style

    @property
    def places(self) -> Array:
        """Where landmarks are drawn, [L, 2]."""
        return spread(self.run.landmark_poses)

    @property
    def box(self) -> Box:
        """The part of the world to show, in cells."""
        if self.chart is not None:
            return self.chart.window
        known = np.concatenate([self.run.poses[:, :2], self.run.landmark_poses[:, :2]])
        (left, top), (right, bottom) = known.min(0).astype(int), known.max(0).astype(int)
        return left - 1, top - 1, right + 2, bottom + 2

    @property
    def world(self) -> str:
        """Its name, for captions."""
        return self.run.experiment.env.world_name()

    @property
    def counts(self) -> EdgeCounts:
        """Transitions of every edge."""
        columns = [self.run.graph[f"edge_{name}"].tolist() for name in ("sources", "targets", "counts")]
        return {(source, target): count for source, target, count in zip(*columns, strict=True)}


def map_figures(run: LoadedRun, style: Style) -> dict[str, Plate]:
    """Every figure that can be drawn of this run, by name; says which cannot."""
    policy, env = frozen(run), make_env(run.experiment.env)
    scene = _Scene(run, policy, chart(env), journey(policy, env, first_task(run)), style)
    env.close()
    makers: dict[str, Callable[[_Scene], Plate]] = {} if scene.chart is None else {"goals": _goals}
    missing = _add_landmarks(makers, scene)
    if missing:
        note(f"{run.folder.path}: not drawn: {'; '.join(missing)}.")
    return {name: make(scene) for name, make in makers.items()}


def _add_landmarks(makers: dict[str, Callable[[_Scene], Plate]], scene: _Scene) -> list[str]:
    """Note which figures a policy with landmarks can have; returns those that are missing, with the reason."""
    policy, mapped, located = scene.policy, scene.chart is not None, poses_agree(scene.run)
    estimates = values_policy(policy) is not None
    if not estimates and not isinstance(policy, SimilarityPolicy):
        return ["maps of landmarks (its policy knows no landmarks)"]
    if not len(scene.run.graph["visits"]):
        return ["maps of landmarks (it has no landmarks yet; train it for longer)"]
    if estimates:
        makers |= {"uvfa-distances": _values} if mapped else {}
        makers |= {"mss-landmarks": _mss_landmarks} if located else {}
        return [] if mapped and located else ["uvfa-distances and mss-landmarks (no map, or no poses on it)"]
    makers |= {"sfs-heatmap": _heatmap} if mapped else {"sfs-matrix": _matrix}
    makers |= {"landmark-graph": _graph, "landmark-visits": _visits, "route": _route} if located else {}
    missing = [] if mapped else ["sfs-heatmap (the environment cannot list its states; see sfs-matrix)"]
    return missing if located else [*missing, "landmark-graph, landmark-visits and route (no poses on one map)"]


def _goals(scene: _Scene) -> Plate:
    """The world with the paper's start and goal."""
    figure, (axes,), _ = _map_axes(scene, "Start and goal")
    handles = []
    if scene.journey.start is not None:
        draw_agent(axes, scene.journey.start)
        handles.append(mark_sample(">", RED, "start", scene.style))
    draw_cell(axes, scene.journey.goal, GREEN, scene.style)
    _legend(figure, scene, handles)
    about = f"The world {scene.world}: the agent starts at the red arrow; the cell with the green frame is the goal."
    return _plate(scene, figure, about)


def _heatmap(scene: _Scene) -> Plate:
    """SFS of every cell to the start, as in the paper's figure for MiniGrid."""
    policy, chart, start = scene.policy, scene.chart, scene.journey.start
    assert isinstance(policy, SimilarityPolicy)
    assert chart is not None
    assert start is not None
    figure, (axes,), _ = _map_axes(scene, "Similarity to the start (SFS)")
    # The survey has all doors open, and so has the reference: a door would otherwise count as distance.
    cells, values = cell_sfs(policy, chart.poses, chart.observations, chart.seen_from(start))
    heat = _heat(axes, cells, values, start, scene.style)
    heat.set_clim(min(float(values.min()), 0.99), 1.0)
    colour_bar(figure, axes, heat, "SFS, mean over headings", scene.style)
    about = f"SFS of every cell of {scene.world} to the agent's start (red dot), the mean over the four headings."
    return _plate(scene, figure, about)


def _values(scene: _Scene) -> Plate:
    """MSS's distances of every cell to the start: all, and those that are not cut off."""
    policy, chart, start = values_policy(scene.policy), scene.chart, scene.journey.start
    assert policy is not None
    assert chart is not None
    assert start is not None
    reference = chart.seen_from(start)[None]
    cells, values = cell_means(chart.poses, scores(policy, chart.observations, reference)[:, 0])
    names = ("all cells", f"those of {CLIP:g} or more: {(values >= CLIP).sum()} of {len(values)}")
    figure, panels, _ = _map_axes(scene, "Estimated distance to the start (UVFA)", names)
    for axes, shown in zip(panels, (values, np.ma.masked_less(values, CLIP)), strict=True):
        heat = _heat(axes, cells, shown, start, scene.style)
        heat.set_clim(float(values.min()), 0.0)
    colour_bar(figure, panels, heat, "minus steps, mean over headings", scene.style)
    about = (
        f"Distances in {scene.world} that the value function of MSS estimates from every cell to the agent's start "
        "(red dot), the mean over the four headings; grey cells are cut off."
    )
    return _plate(scene, figure, about, names)


def _heat(axes: Axes, cells: Array, values: Array, reference: Array, style: Style) -> PatchCollection:
    heat = _squares(cells, edgecolor="white", linewidth=style.size(0.6))
    heat.set(array=values, cmap=colormaps["viridis"].with_extremes(bad=BELOW))
    axes.add_collection(heat)
    look: dict[str, Any] = {"facecolor": RED, "edgecolor": "white", "linewidth": style.size(1.5), "zorder": 3}
    axes.add_patch(Circle((reference[0], reference[1]), 0.24, **look))
    return heat


def _matrix(scene: _Scene) -> Plate:
    """SFS between landmarks, for worlds without a map."""
    values = landmark_sfs(scene.run.graph["psi"])
    size = (float(len(values)), float(len(values)))
    figure, (axes,) = sheet(scene.style, size, "Similarity of landmarks (SFS)", headline(scene.run), [""], 1)
    shown = axes.pcolormesh(values, cmap="viridis", vmax=1.0, rasterized=False, edgecolors="face", linewidth=0.1)
    axes.set(aspect="equal", ylim=(size[1], 0.0))
    axes.tick_params(labelsize=scene.style.font(9))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
        axis.set_label_text("landmark", fontsize=scene.style.font(11))
    colour_bar(figure, axes, shown, "SFS", scene.style)
    return _plate(scene, figure, f"SFS between all landmarks of a run in {scene.world}, in the order of their adding.")


def _graph(scene: _Scene) -> Plate:
    """Landmarks with their headings, and edges as wide as they are frequent."""
    style = scene.style
    figure, (axes,), points = _map_axes(scene, "Landmark graph")
    draw_cell(axes, scene.journey.goal, GREEN, style)
    draw_edges(axes, scene.places, scene.counts, points, style)
    _dots(axes, scene, [BLUE] * len(scene.places), points)
    _legend(figure, scene, [dot_sample(BLUE, "landmark, with heading", style), *edge_samples(scene.counts, style)])
    about = (
        f"The landmark graph in {scene.world}: {len(scene.places)} landmarks and {len(scene.counts)} edges, as wide as "
        "they were walked often; landmarks that share a cell are drawn around its centre, and an arrow marks an edge "
        "that goes one way only."
    )
    return _plate(scene, figure, about)


def _mss_landmarks(scene: _Scene) -> Plate:
    """The landmarks of MSS, which are farthest points, and where it would walk straight."""
    figure, (axes,), points = _map_axes(scene, "Landmarks of MSS")
    draw_edges(axes, scene.places, scene.counts, points, scene.style, PALE)
    _dots(axes, scene, [BLUE] * len(scene.places), points)
    _legend(figure, scene, [dot_sample(BLUE, "landmark, with heading", scene.style)])
    about = (
        f"The {len(scene.places)} landmarks that MSS chose in {scene.world} by farthest point sampling in its "
        f"features, and the {len(scene.counts)} edges of its map."
    )
    return _plate(scene, figure, about)


def _visits(scene: _Scene) -> Plate:
    """Landmarks coloured by how often the agent was at them in training."""
    figure, (axes,), points = _map_axes(scene, "Visits of landmarks in training")
    visits = np.maximum(1, scene.run.graph["visits"])
    norm = LogNorm(visits.min(), max(visits.max(), visits.min() + 1))
    draw_edges(axes, scene.places, scene.counts, points, scene.style, PALE)
    _dots(axes, scene, [colormaps["viridis"](norm(count)) for count in visits], points)
    count_bar(figure, axes, ScalarMappable(norm, "viridis"), "visits", scene.style)
    return _plate(scene, figure, f"How often the agent was at each landmark of {scene.world} in training.")


def _route(scene: _Scene) -> Plate:
    """The route that the policy plans from the start to the goal."""
    explanation, start, style = scene.journey.explanation, scene.journey.start, scene.style
    found = explanation.route_found
    figure, (axes,), points = _map_axes(scene, "Planned route" if found else "No route found: straight to the goal")
    fill = [ORANGE if number in explanation.route else PALE for number in range(len(scene.places))]
    draw_edges(axes, scene.places, scene.counts, points, style, PALE)
    _dots(axes, scene, fill, points)
    draw_cell(axes, start, RED, style)
    draw_cell(axes, scene.journey.goal, GREEN, style)
    stops = route_places(explanation, scene.places, scene.journey.goal)
    stops = stops if start is None else np.concatenate([start[None, :2], stops])
    draw_route(axes, stops, points, style, line="-" if found else "--")
    handles = [] if start is None else [cell_sample(RED, "start", style)]
    handles += [dot_sample(ORANGE, "landmark on the route", style), dot_sample(PALE, "other landmark", style)]
    _legend(figure, scene, handles)
    words = f"over {len(explanation.route) - 1} landmarks" if found else "straight to the goal, because it found none"
    return _plate(
        scene, figure, f"The route that the agent plans in {scene.world} from its start to its goal: {words}."
    )


def _map_axes(scene: _Scene, title: str, names: Sequence[str] = ("",)) -> tuple[Figure, list[Axes], float]:
    """Empty maps, and the points that a cell measures on them."""
    left, top, right, bottom = scene.box
    extent = float(right - left), float(bottom - top)
    figure, panels = sheet(scene.style, extent, title, headline(scene.run), names, len(names))
    for axes in panels:
        if scene.chart is not None:
            draw_floor(axes, scene.chart)
        else:  # where the agent has been is all that is known of the world
            seen = np.unique(scene.run.poses[:, :2], axis=0)
            axes.add_collection(_squares(seen, facecolor="none", edgecolor="#DDDDDD", linewidth=scene.style.size(0.6)))
        axes.set(aspect="equal", xlim=(left - 0.5, right - 0.5), ylim=(bottom - 0.5, top - 0.5))  # y points down
        axes.set_axis_off()
    return figure, panels, 72 * scene.style.map_size(extent, len(names))[0] / extent[0]


def _squares(cells: Array, **look: Any) -> PatchCollection:
    return PatchCollection([Rectangle((x - 0.5, y - 0.5), 1, 1) for x, y in cells], **look)


def _plate(scene: _Scene, figure: Figure, about: str, names: Sequence[str] = ()) -> Plate:
    return Plate(figure, about, tuple(names), headline(scene.run))


def _dots(axes: Axes, scene: _Scene, fill: Sequence[object], points: float) -> None:
    draw_landmarks(axes, scene.places, scene.run.landmark_poses[:, 2], fill, points)


def _legend(figure: Figure, scene: _Scene, handles: list[Line2D]) -> None:
    if scene.journey.goal is not None:
        handles = [*handles, cell_sample(GREEN, "goal", scene.style)]
    legend_below(figure, scene.style, handles, 2)
