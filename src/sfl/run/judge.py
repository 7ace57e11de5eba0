"""Evaluate a run that is on disk: its own levels again, or a start and goal of the user's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sfl.core.config import require
from sfl.core.errors import UsageError
from sfl.core.seeding import spawn
from sfl.envs import Task, draw_tasks, make_env
from sfl.run.evaluate import EpisodeRow, eval_tasks, evaluate
from sfl.run.folder import LAST, LoadedRun, load_run
from sfl.run.goals import parse_pose, read_goal
from sfl.run.rollout import Env

GIVEN_EPISODES = 10
"""Episodes for one given goal, unless the user says otherwise: the policy has some chance in it."""


def evaluate_run(
    path: Path | str,
    goal: str | None = None,
    start: str | None = None,
    level: str | None = None,
    episodes: int | None = None,
    checkpoint: str = LAST,
    device: str = "auto",
    threads: int = 1,
) -> list[EpisodeRow]:
    """Rows of a fresh evaluation; the run's own files stay as they are."""
    require(episodes is None or episodes >= 1, f"--episodes must be 1 or more, got {episodes}.")
    run = load_run(path, checkpoint, device, threads)
    if goal is not None or start is not None:
        require(level is None, "--level chooses starts and goals of its own; leave it out with --goal and --start.")
        tasks = [given_task(run, goal, start)] * (episodes or GIVEN_EPISODES)
    else:
        tasks = _level_tasks(run, level, episodes)
    config = run.experiment
    return evaluate(run.agent, config.env, tasks, seed=run.seed, parallel=config.eval.parallel, label=run.label)


def _level_tasks(run: LoadedRun, level: str | None, episodes: int | None) -> list[Task]:
    config = run.experiment.eval
    levels = config.levels if level is None else (level,)
    chosen = replace(config, levels=levels, episodes=episodes or config.episodes)
    return eval_tasks(run.experiment.env, chosen, run.seed)


def given_task(run: LoadedRun, goal: str | None, start: str | None) -> Task:
    """One task from a user's words; what is not given is the paper's."""
    env = make_env(run.experiment.env)
    sample = _default_task(env, goal is None)
    target = sample.goal if goal is None else read_goal(goal, env)
    place = None if start is None else parse_pose(start, "--start")
    task = replace(sample, level="any", pair=0, start=place, goal=target, reset_seed=None)
    env.reset(seed=0, options=task.options())  # a start or goal inside a wall is refused here, before anything runs
    env.close()
    return task


def _default_task(env: Env, needs_goal: bool) -> Task:
    if env.has_wrapper_attr("default_task"):
        return draw_tasks(env, "paper", 1, spawn(0, ["eval"])["eval"])[0]
    if needs_goal:
        raise UsageError("This environment has no goal of its own; give one with --goal FILE.")
    return draw_tasks(env, "any", 1, spawn(0, ["eval"])["eval"])[0]


def outcome_cells(rows: Sequence[EpisodeRow]) -> list[list[str]]:
    """A table of outcomes for each level, headings first."""
    cells = [["level", "episodes", "success %", "steps", "reached", "timeout", "no_route"]]
    for level in dict.fromkeys(row.level for row in rows):
        chosen = [row for row in rows if row.level == level]
        steps = [row.steps for row in chosen if row.success]
        counts = [str(sum(row.outcome == outcome for row in chosen)) for outcome in ("reached", "timeout", "no_route")]
        mean = f"{sum(steps) / len(steps):.1f}" if steps else "-"
        cells.append([level, str(len(chosen)), f"{100 * len(steps) / len(chosen):.1f}", mean, *counts])
    return cells
