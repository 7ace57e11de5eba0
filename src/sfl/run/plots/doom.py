"""A run in a maze of ViZDoom, drawn over its walls: where training has been, how episodes went, its graph."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Rectangle

from sfl.agents.sfl.config import AnySFLConfig, in_force
from sfl.data.types import Array, Explanation, Policy
from sfl.envs import DoomConfig, Task
from sfl.envs.vizdoom import GOAL_RADIUS
from sfl.run.evaluate import EpisodeRow, evaluate
from sfl.run.folder import LoadedRun
from sfl.run.indicators import Waypoints
from sfl.run.plots.doom_graph import edge_success_figure, graph_figure, routes_figure, visits_figure
from sfl.run.plots.doom_views import aliased_figure, goals_figure, heatmap_figure
from sfl.run.plots.maps import count_bar
from sfl.run.plots.marks import DARK, LEVELS
from sfl.run.plots.panels import map_panels
from sfl.run.progress import note
from sfl.run.rollout import Step
from sfl.run.scene import SimilarityPolicy, frozen, goal_place
from sfl.run.survey import survey
from sfl.run.worlds import MazeWorld

WALKED, TRACKS = 12, 4  # episodes played for each level, and those of them that are drawn
MARKS = {"o": "start", "*": "goal"}
UNSEEN = "#EEEEEE"


def doom_figures(run: LoadedRun, config: DoomConfig) -> dict[str, Figure]:
    """Every figure that can be drawn of this run, by name; says which cannot."""
    world = MazeWorld(config, run.folder.tasks)
    walks = _walk(run, config, world)
    figures = {"goals": goals_figure(run, world), "trajectories": _trajectories(run, world, walks)}
    missing = []
    if len(run.poses):
        figures["coverage"] = _coverage(run, world)
    else:
        missing.append("coverage (a slim copy does not say where training has been)")
    policy, agent = frozen(run), run.experiment.agent
    if isinstance(policy, SimilarityPolicy) and isinstance(agent, AnySFLConfig):
        seen, threshold = survey(policy, world), agent.landmarks.localize_threshold
        figures["sfs-heatmap"] = heatmap_figure(run, world, seen, threshold)
        figures["aliased-views"] = aliased_figure(run, world, seen, threshold)
        if len(run.landmark_poses):
            figures["landmark-graph"] = graph_figure(run, world, in_force(agent).edges)
            figures["landmark-visits"] = visits_figure(run, world)
            figures["edge-success"] = edge_success_figure(run, world, walks.waypoints.legs)
            figures["routes"] = routes_figure(run, world, walks.tasks, walks.plans)
        else:
            missing.append("the landmark graph (it has no landmarks yet; train it for longer)")
    if missing:
        note(f"{run.folder.path}: not drawn: {'; '.join(missing)}.")
    return figures


def _coverage(run: LoadedRun, world: MazeWorld) -> Figure:
    """Squares of 50 units by how often training was in them."""
    squares = world.squares()
    visits, side = squares.visits(run.poses), squares.side
    share = f"{100 * (visits > 0).mean():.0f}% of {len(visits)} squares"
    figure, (axes,) = map_panels(run, world.places.maze, "Where training has been", [share], 1)
    tiles = PatchCollection([Rectangle((side * x, side * y), side, side) for x, y in squares.reachable], linewidth=0.4)
    norm = LogNorm(1, max(2, int(visits.max())))
    colours = colormaps["viridis"].with_extremes(bad=UNSEEN)
    tiles.set(edgecolor="white", cmap=colours, norm=norm, array=np.ma.masked_equal(visits, 0))
    axes.add_collection(tiles)
    count_bar(figure, axes, tiles, f"decisions in a square of {side:g} units")
    return figure


@dataclass
class _Walks:
    """Watches an evaluation and notes where each of its episodes went and what the policy planned."""

    tasks: list[Task]
    waypoints: Waypoints
    places: dict[int, list[Array]] = field(default_factory=dict)
    """Number of the task -> places [2]."""
    plans: dict[int, Explanation] = field(default_factory=dict)
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


def _walk(run: LoadedRun, config: DoomConfig, world: MazeWorld) -> _Walks:
    """The first pairs of each level that are no child's play, walked by the run's policy."""
    posed = [task for task in run.tasks() if not world.solved_at_start(task)]
    levels = run.experiment.eval.levels
    tasks = [task for level in levels for task in [task for task in posed if task.level == level][:WALKED]]
    walks = _Walks(tasks, Waypoints(run.landmark_poses, world.radius))
    parallel = run.experiment.eval.parallel
    walks.rows = evaluate(frozen(run), config, tasks, seed=run.seed, parallel=parallel, watch=walks)
    return walks


def _trajectories(run: LoadedRun, world: MazeWorld, walks: _Walks) -> Figure:
    """The ways of the first episodes of each level."""
    figure, (axes,) = map_panels(run, world.places.maze, "Evaluation episodes", [""], 1)
    levels = run.experiment.eval.levels
    for level in levels:
        numbers = [number for number, task in enumerate(walks.tasks) if task.level == level]
        for number in numbers[:TRACKS]:
            _draw_track(axes, np.array(walks.places[number]), walks.tasks[number], walks.rows[number])
    samples = [Line2D([], [], color=LEVELS[level], label=level) for level in levels]
    samples += [Line2D([], [], color=DARK, linestyle=":", label="goal not reached")]
    samples += [Line2D([], [], color=DARK, marker=mark, linestyle="", label=word) for mark, word in MARKS.items()]
    figure.legend(handles=samples, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure


def _draw_track(axes: Axes, places: Array, task: Task, row: EpisodeRow) -> None:
    colour, goal = LEVELS[task.level], goal_place(task.goal)
    axes.plot(*places.T, color=colour, linewidth=1.4, linestyle="-" if row.success else ":", alpha=0.9)
    axes.plot(*places[0], "o", color=colour, markersize=5, markeredgecolor="white", markeredgewidth=0.6)
    if goal is not None:
        axes.plot(*goal, "*", color=colour, markersize=9, markeredgecolor="white", markeredgewidth=0.6)
        axes.add_patch(Circle((goal[0], goal[1]), GOAL_RADIUS, facecolor=colour, alpha=0.12, edgecolor="none"))
