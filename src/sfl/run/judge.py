"""Evaluate a run that is on disk: its own levels again, or a start and goal of the user's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sfl.core.config import require
from sfl.core.errors import UsageError
from sfl.core.seeding import spawn
from sfl.data.types import Observation
from sfl.envs import DoomConfig, Pose, Task, draw_tasks, make_env
from sfl.run.chance import OUTCOMES, beside_text, is_random, random_rows, share_of, shown
from sfl.run.config import MOST_EPISODES
from sfl.run.evaluate import NOT_TRIVIAL, EpisodeRow, eval_tasks, evaluate
from sfl.run.folder import LAST, LoadedRun, load_run
from sfl.run.goals import parse_pose, read_goal
from sfl.run.rollout import Env
from sfl.run.worlds import MazeWorld

GIVEN_EPISODES = 10
"""Episodes for one given goal, unless the user says otherwise: the policy has some chance in it."""


@dataclass(frozen=True)
class Asked:
    """A run, and the tasks that are to be posed to it."""

    run: LoadedRun
    tasks: list[Task]

    def rows(self) -> list[EpisodeRow]:
        """What becomes of them."""
        config = self.run.experiment
        parallel = config.eval.parallel
        return evaluate(
            self.run.agent, config.env, self.tasks, seed=self.run.seed, parallel=parallel, label=self.run.label
        )

    def random_rows(self) -> list[EpisodeRow]:
        """What the random policy makes of the same tasks; nothing beside a run of the random policy."""
        config = self.run.experiment
        if is_random(config.agent):
            return []
        return random_rows(config.env, self.tasks, self.run.label, config.eval.parallel)


def evaluate_run(path: Path | str, **words: Any) -> list[EpisodeRow]:
    """Rows of a fresh evaluation, with the words of `ask`; the run's own files stay as they are."""
    return ask(path, **words).rows()


def ask(
    path: Path | str,
    goal: str | None = None,
    start: str | None = None,
    level: str | None = None,
    episodes: int | None = None,
    pairs: str | None = None,
    pairs_seed: int | None = None,
    checkpoint: str = LAST,
    device: str = "auto",
    threads: int = 1,
) -> Asked:
    """The tasks that these words choose, and the run as it was at a checkpoint."""
    fits = 1 <= (1 if episodes is None else episodes) <= MOST_EPISODES
    require(fits, f"--episodes must be 1 to {MOST_EPISODES:,}, got {episodes}.")
    run = load_run(path, checkpoint, device, threads)
    if goal is not None or start is not None:
        chosen = level is not None or pairs is not None or pairs_seed is not None
        require(not chosen, "--level and --pairs choose starts and goals; leave them out with --goal and --start.")
        tasks = [given_task(run, goal, start)] * (episodes or GIVEN_EPISODES)
    elif pairs is not None or pairs_seed is not None:
        tasks = _other_pairs(run, level, episodes, pairs, pairs_seed)
    else:
        tasks = run.tasks(level, episodes)
    return Asked(run, tasks)


def _other_pairs(
    run: LoadedRun, level: str | None, episodes: int | None, pairs: str | None, pairs_seed: int | None
) -> list[Task]:
    """Start-goal pairs from a file of the user's, or drawn from a seed."""
    env, config = run.experiment.env, run.experiment.eval
    if not isinstance(env, DoomConfig):
        raise UsageError("--pairs and --pairs-seed are for runs in ViZDoom; this run's tasks are chosen by --level.")
    levels = config.levels if level is None else (level,)
    wanted = replace(config, levels=levels, episodes=episodes or config.episodes, pairs_seed=pairs_seed)
    return eval_tasks(replace(env, pairs=pairs), wanted, run.seed)


def given_task(run: LoadedRun, goal: str | None, start: str | None) -> Task:
    """One task from a user's words; what is not given is the paper's."""
    if isinstance(run.experiment.env, DoomConfig):
        return _given_in_maze(run.experiment.env, goal, start)
    env = make_env(run.experiment.env)
    target = None if goal is None else read_goal(goal, env)
    task = task_in(env, target, None if start is None else parse_pose(start, "--start"))
    env.close()
    return task


def task_in(env: Env, goal: Pose | Observation | None, start: Pose | None) -> Task:
    """A task in a world that is no maze; a goal that is not given is the paper's. Resets the environment."""
    sample = _default_task(env, goal is None)
    task = replace(
        sample, level="any", pair=0, start=start, goal=sample.goal if goal is None else goal, reset_seed=None
    )
    env.reset(seed=0, options=task.options())  # a start or goal inside a wall is refused here, before anything runs
    return task


def _given_in_maze(config: DoomConfig, goal: str | None, start: str | None) -> Task:
    if goal is None or Path(goal).exists():
        raise UsageError("Give the goal in a maze as --goal x,y,degrees: a picture does not say when it is reached.")
    place = None if start is None else parse_pose(start, "--start")
    return MazeWorld(config).given_task(parse_pose(goal, "--goal"), place)


def _default_task(env: Env, needs_goal: bool) -> Task:
    if env.has_wrapper_attr("default_task"):
        return draw_tasks(env, "paper", 1, spawn(0, ["eval"])["eval"])[0]
    if needs_goal:
        raise UsageError("This environment has no goal of its own; give one with --goal FILE.")
    return Task("any", 0, None, None, env.get_wrapper_attr("max_steps"))


def outcome_cells(rows: Sequence[EpisodeRow], random: Sequence[EpisodeRow] = ()) -> list[list[str]]:
    """A table of outcomes for each level, headings first; beside them success of the random policy, where it is given.

    Intervals are Wilson's, over episodes.
    """
    in_maze = any(row.maze for row in rows)
    head = ["level", "episodes", "success %", "95% interval", *(["random %"] if random else []), "steps", *OUTCOMES]
    cells = [[*head, *(NOT_TRIVIAL if in_maze else ())]]
    for level in dict.fromkeys(row.level for row in rows):
        chosen = [row for row in rows if row.level == level]
        steps = [row.steps for row in chosen if row.success]
        counts = [str(sum(row.outcome == outcome for row in chosen)) for outcome in OUTCOMES]
        mean = f"{sum(steps) / len(steps):.1f}" if steps else "-"
        percent, interval = shown(share_of(chosen))
        chance = [beside_text(share_of([row for row in random if row.level == level]))] if random else []
        others = [row.success for row in chosen if not row.trivial]
        second = [str(len(others)), f"{100 * sum(others) / len(others):.1f}" if others else "-"] if in_maze else []
        cells.append([level, str(len(chosen)), percent, interval, *chance, mean, *counts, *second])
    return cells
