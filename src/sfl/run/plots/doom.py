"""A run in a maze of ViZDoom, drawn over its walls: where training has been, and how evaluation episodes went."""

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

from sfl.data.types import Array, Policy
from sfl.envs import DoomConfig, Task
from sfl.envs.vizdoom import GOAL_RADIUS
from sfl.run.evaluate import EpisodeRow, evaluate
from sfl.run.folder import LoadedRun
from sfl.run.plots.maps import SIDE, count_bar, set_title
from sfl.run.plots.marks import DARK, LEVELS, corners, draw_walls
from sfl.run.progress import note
from sfl.run.rollout import Step
from sfl.run.scene import frozen, goal_place
from sfl.run.worlds import MazeWorld

TRACKS = 4  # episodes drawn for each level
MARKS = {"o": "start", "*": "goal"}
UNSEEN = "#EEEEEE"


def doom_figures(run: LoadedRun, config: DoomConfig) -> dict[str, Figure]:
    """Every figure that can be drawn of this run, by name; says which cannot."""
    world = MazeWorld(config)
    figures = {"trajectories": _trajectories(run, config, world)}
    if len(run.poses):
        figures["coverage"] = _coverage(run, world)
    else:
        note(f"{run.folder.path}: not drawn: coverage (a slim copy does not say where training has been).")
    return figures


def _coverage(run: LoadedRun, world: MazeWorld) -> Figure:
    """Squares of 50 units by how often training was in them."""
    squares = world.squares()
    visits, side = squares.visits(run.poses), squares.side
    share = f"{100 * (visits > 0).mean():.0f}% of {len(visits)} squares"
    figure, axes = _map_axes(run, world, f"Where training has been: {share}")
    tiles = PatchCollection([Rectangle((side * x, side * y), side, side) for x, y in squares.reachable], linewidth=0.4)
    norm = LogNorm(1, max(2, int(visits.max())))
    colours = colormaps["viridis"].with_extremes(bad=UNSEEN)
    tiles.set(edgecolor="white", cmap=colours, norm=norm, array=np.ma.masked_equal(visits, 0))
    axes.add_collection(tiles)
    count_bar(figure, axes, tiles, f"decisions in a square of {side:g} units")
    return figure


def _trajectories(run: LoadedRun, config: DoomConfig, world: MazeWorld) -> Figure:
    """The first pairs of each level that are no child's play, walked by the run's policy."""
    levels = run.experiment.eval.levels
    posed = [task for task in run.tasks() if not world.solved_at_start(task)]
    tasks = [task for level in levels for task in [task for task in posed if task.level == level][:TRACKS]]
    tracks = _Tracks()
    parallel = run.experiment.eval.parallel
    rows = evaluate(frozen(run), config, tasks, seed=run.seed, parallel=parallel, watch=tracks)
    figure, axes = _map_axes(run, world, "Evaluation episodes")
    for number, (task, row) in enumerate(zip(tasks, rows, strict=True)):
        _draw_track(axes, np.array(tracks.places[number]), task, row)
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


@dataclass
class _Tracks:
    """Watches an evaluation and notes where each of its episodes went."""

    places: dict[int, list[Array]] = field(default_factory=dict)
    """Number of the task -> places [2]."""

    def __call__(self, step: Step, policy: Policy) -> None:
        for row, episode in enumerate(step.episodes):
            if step.lengths[row] == 1:  # also of an episode that is played again
                self.places[episode.number] = [step.poses[row, :2]]
            self.places[episode.number].append(step.next_poses[row, :2])


def _map_axes(run: LoadedRun, world: MazeWorld, title: str) -> tuple[Figure, Axes]:
    (left, bottom), (right, top) = corners(world.places.maze)
    inches = 1.2 * SIDE / max(right - left, top - bottom)
    figure = Figure(((right - left) * inches + 1.2, (top - bottom) * inches + 1.2), layout="constrained")
    axes = figure.add_subplot()
    draw_walls(axes, world.places.maze)
    set_title(axes, title, run)
    return figure, axes
