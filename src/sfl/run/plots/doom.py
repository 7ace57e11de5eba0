"""A run in a maze of ViZDoom, drawn over its walls: where training has been, how episodes went, its graph."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from sfl.agents import wants_poses
from sfl.agents.sfl.config import AnySFLConfig, in_force
from sfl.data.types import Array, Explanation, FieldPolicy, Policy
from sfl.envs import DoomConfig, Task
from sfl.envs.vizdoom import GOAL_RADIUS
from sfl.run.evaluate import EpisodeRow, evaluate
from sfl.run.folder import LoadedRun
from sfl.run.indicators import Waypoints
from sfl.run.plots.coverage import coverage_figure
from sfl.run.plots.doom_graph import (
    early_run,
    edge_success_figure,
    graph_figure,
    mss_landmarks_figure,
    routes_figure,
    visits_figure,
)
from sfl.run.plots.doom_views import aliased_figure, goals_figure, heatmap_figure, sfs_heat, value_heat
from sfl.run.plots.marks import DARK, LEVELS, line_sample, mark_sample
from sfl.run.plots.panels import Site, headline, map_panels
from sfl.run.plots.style import Plate, Style, legend_below
from sfl.run.progress import note
from sfl.run.rollout import Step
from sfl.run.scene import SimilarityPolicy, frozen, goal_place, scores, values_policy
from sfl.run.survey import survey
from sfl.run.worlds import MazeWorld

WALKED, TRACKS = 12, 4  # episodes played for each level, and those of them that are drawn
MARKS = {"o": "start", "*": "goal"}


def maze_site(run: LoadedRun, style: Style) -> Site | None:
    """The run with its maze; None where it is in none."""
    config = run.experiment.env
    return Site(run, MazeWorld(config, run.folder.tasks), style) if isinstance(config, DoomConfig) else None


def doom_figures(site: Site) -> dict[str, Plate]:
    """Every figure that can be drawn of this run, by name; says which cannot."""
    run, agent, policy = site.run, site.run.experiment.agent, frozen(site.run)
    estimates, landmarks = values_policy(policy), len(run.landmark_poses) > 0
    alike = policy if isinstance(policy, SimilarityPolicy) else None
    graph = alike is not None and landmarks and isinstance(agent, AnySFLConfig)
    walks = _walk(run, site.world) if graph or site.style.titled else None
    plates, missing = {"goals": goals_figure(site)}, []
    if site.style.titled and walks is not None:  # the paper has no such figure
        plates["trajectories"] = _trajectories(site, walks)
    if len(run.poses):
        plates["coverage"] = coverage_figure([site])
    else:
        missing.append("coverage (a slim copy does not say where training has been)")
    if alike is not None and isinstance(agent, AnySFLConfig):
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


def _graph_figures(site: Site, agent: AnySFLConfig, walks: _Walks) -> dict[str, Plate]:
    early = early_run(site.run)
    moments = [] if early is None else [(early, _walk(early, site.world).waypoints.legs)]
    moments.append((site.run, walks.waypoints.legs))
    figures = {
        "landmark-graph": graph_figure(site, in_force(agent).edges),
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
