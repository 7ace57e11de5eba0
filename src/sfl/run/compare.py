"""Evaluation on demand: a run that is on disk, or any method that has the agent protocol.

First `evaluate_run`: the run's own levels again, or a start and goal of the user's, and the table of outcomes. Then the
public `sfl.tasks_of` and `sfl.evaluate`, by which methods are compared on the same tasks in the same worlds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np

from sfl.api import Agent, Array, Decision, EnvSpec, Observation, Policy
from sfl.config import require
from sfl.errors import UsageError
from sfl.run.chance import OUTCOMES, beside_text, is_random, random_rows, share_of, shown
from sfl.run.evaluate import NOT_TRIVIAL, EpisodeRow, Label, eval_tasks
from sfl.run.evaluate import evaluate as evaluate_tasks
from sfl.run.folder import LAST, LoadedRun, load_run
from sfl.run.goals import parse_pose, read_goal
from sfl.run.settings import MOST_EPISODES, Experiment
from sfl.seeding import spawn
from sfl.worlds import DoomConfig, EnvConfig, Pose, Task, draw_tasks, is_goal_env, make_env
from sfl.worlds.config import is_config
from sfl.worlds.gym import env_spec
from sfl.worlds.session import Env

GIVEN_EPISODES = 10
"""Episodes for one given goal, unless the user says otherwise: the policy has some chance in it."""


@dataclass(frozen=True)
class Asked:
    """A run, and the tasks that are to be posed to it."""

    run: LoadedRun
    tasks: list[Task]

    def rows(self) -> list[EpisodeRow]:
        """Evaluate: one row for each task."""
        config = self.run.experiment
        return evaluate_tasks(
            self.run.agent,
            config.env,
            self.tasks,
            seed=self.run.seed,
            parallel=config.eval.parallel,
            label=self.run.label,
        )

    def random_rows(self) -> list[EpisodeRow]:
        """Rows of the random policy on the same tasks; none where the run is one of the random policy."""
        config = self.run.experiment
        if is_random(config.agent):
            return []
        return random_rows(config.env, self.tasks, self.run.label, config.eval.parallel)


def evaluate_run(path: Path | str, **words: Any) -> list[EpisodeRow]:
    """Rows of a fresh evaluation, with the arguments of `ask`; the run's own files stay as they are."""
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
    """The tasks that these arguments choose, and the run as it was at a checkpoint."""
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
    if env.kind != "maze":
        raise UsageError("--pairs and --pairs-seed are for runs in ViZDoom; this run's tasks are chosen by --level.")
    levels = config.levels if level is None else (level,)
    wanted = replace(config, levels=levels, episodes=episodes or config.episodes, pairs_seed=pairs_seed)
    return eval_tasks(replace(env, pairs=pairs), wanted, run.seed)


def given_task(run: LoadedRun, goal: str | None, start: str | None) -> Task:
    """The task with a user's goal and start; the paper's where one is not given."""
    config = run.experiment.env
    if config.kind == "maze":
        return _given_in_maze(config, goal, start)
    env = make_env(config)
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
    return config.open().given_task(parse_pose(goal, "--goal"), place)


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


POLICY_METHODS = ("begin_episode", "act", "explain")
"""What an evaluation calls; an agent also has `policy(seed)`, which gives a frozen copy with these."""


@dataclass(frozen=True, eq=False)
class TaskSet:
    """Tasks together with the world that they are posed in."""

    env: EnvConfig
    tasks: tuple[Task, ...]
    parallel: int = 25
    """Environments that step together; has no say in what is measured."""

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

    def spec(self, env_count: int = 1) -> EnvSpec:
        """What a method may know of the world before its first step."""
        return self.env.spec(env_count)


def tasks_of(experiment: Experiment, seed: int = 0, episodes: int | None = None) -> TaskSet:
    """What the run of an experiment with that seed is evaluated on; `episodes` on each level, by default as many."""
    if not isinstance(experiment, Experiment):
        raise UsageError(f"tasks_of takes an experiment, got {experiment!r}; sfl.experiments.get(NAME) gives one.")
    require_seed(seed)
    fits = episodes is None or isinstance(episodes, int | np.integer)
    require(fits, f"episodes must be a number, got {episodes!r:.60}.")
    config = experiment.eval if episodes is None else replace(experiment.eval, episodes=episodes)
    return TaskSet(experiment.env, tuple(eval_tasks(experiment.env, config, seed)), config.parallel)


def evaluate(
    agent: Agent | Policy,
    tasks: TaskSet | Sequence[Task],
    worlds: EnvConfig | Sequence[Env] | None = None,
    *,
    seed: int = 0,
    name: str = "",
    parallel: int | None = None,
) -> list[EpisodeRow]:
    """Pose every task once and return one row for each, in their order.

    `agent` is any object with the agent protocol (`sfl.api.Agent`), or a policy alone. An agent is evaluated as
    the frozen copy that its `policy(seed)` gives: it neither learns nor changes. `worlds` is only needed where `tasks`
    are a plain list: a configuration, or environments to use as they are. `name` goes into the rows' column `agent`.
    """
    listed, where = _world_of(tasks, worlds)
    _require_methods(agent)
    require_seed(seed)
    fits = parallel is None or (isinstance(parallel, int | np.integer) and parallel >= 1)
    require(fits, f"parallel must be 1 or more, got {parallel!r:.60}.")
    at_once = parallel or (tasks.parallel if isinstance(tasks, TaskSet) else TaskSet.parallel)
    spec = env_spec(where[0], len(where)) if isinstance(where, Sequence) else where.spec()
    checked = CheckedAgent(agent, spec)
    return evaluate_tasks(checked, where, listed, seed=seed, parallel=at_once, label=Label(agent=name, seed=seed))


def require_seed(seed: Any) -> None:
    """Refuse what is no seed; the command line has its own check."""
    whole = isinstance(seed, int | np.integer)
    require(whole and seed >= 0, f"seed must be a whole number, 0 or more, got {seed!r}.")


def _world_of(
    tasks: TaskSet | Sequence[Task], worlds: EnvConfig | Sequence[Env] | None
) -> tuple[list[Task], EnvConfig | Sequence[Env]]:
    found: Any = tasks
    worlds = _checked(worlds)
    if isinstance(found, TaskSet):
        return list(found.tasks), found.env if worlds is None else worlds
    if not isinstance(found, Sequence) or not all(isinstance(task, Task) for task in found):
        raise UsageError(f"tasks must be a TaskSet or a list of tasks, got {type(found).__name__}; see sfl.tasks_of.")
    if worlds is None:
        raise UsageError("A plain list of tasks needs `worlds`, where to pose them; sfl.tasks_of gives both together.")
    return list(found), worlds


def _checked(worlds: Any) -> EnvConfig | Sequence[Env] | None:
    """A configuration, or environments; one alone will do."""
    if isinstance(worlds, gymnasium.Env):
        worlds = [worlds]
    several = isinstance(worlds, Sequence) and len(worlds) > 0 and all(isinstance(env, gymnasium.Env) for env in worlds)
    if several:
        _require_goals(worlds)
    if worlds is None or several or is_config(worlds):
        return cast(EnvConfig | Sequence[Env] | None, worlds)
    raise UsageError(f"worlds must be a configuration or environments, at least one, got {worlds!r}.")


def _require_goals(envs: Sequence[gymnasium.Env[Any, Any]]) -> None:
    for env in envs:
        if not is_goal_env(env):
            raise UsageError(f"{env} shows no desired_goal; sfl.worlds.GoalWrapper gives any environment goals.")


def _require_methods(agent: Any) -> None:
    """Refuse what is neither an agent nor a policy; what an agent's `policy` returns is checked when it is there."""
    if isinstance(agent, type):
        raise UsageError(f"{agent.__name__} is a class; give an object of it.")
    if not callable(getattr(agent, "policy", None)):
        _require_policy(agent, type(agent).__name__)


def _require_policy(policy: Any, whose: str) -> None:
    lacking = [name for name in POLICY_METHODS if not callable(getattr(policy, name, None))]
    if lacking:
        needed = ", ".join(POLICY_METHODS)
        raise UsageError(f"{whose} lacks {', '.join(lacking)}; an agent needs policy(seed), or itself {needed}.")


class CheckedAgent:
    """A reader's own method, with what it returns checked where an error can still name it."""

    def __init__(self, agent: Any, spec: EnvSpec) -> None:
        self._agent, self._spec = agent, spec
        self._name = type(agent).__name__

    def policy(self, seed: int) -> CheckedAgent:
        """The agent's frozen copy; a policy is its own."""
        if not callable(getattr(self._agent, "policy", None)):
            return self
        copy = self._agent.policy(seed)
        _require_policy(copy, f"What {self._name}.policy returns")
        return CheckedAgent(copy, self._spec)

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """Handed on."""
        self._agent.begin_episode(env_index, goal)

    def act(self, observations: Array, env_indices: Array) -> Array:
        """The agent's actions, which must be one whole number for each environment, each an action of the world."""
        actions = np.asarray(self._agent.act(observations, env_indices))
        count = self._spec.action_count
        if actions.shape != (len(env_indices),) or not np.issubdtype(actions.dtype, np.integer):
            given = f"{actions.dtype} of shape {actions.shape}"
            raise UsageError(f"{self._name}.act must return {len(env_indices)} whole numbers, got {given}.")
        if len(actions) and not 0 <= actions.min() <= actions.max() < count:
            raise UsageError(f"{self._name}.act must return actions from 0 to {count - 1}, got {actions.tolist()}.")
        return actions

    def explain(self, env_index: int) -> Decision:
        """Handed on."""
        explained = self._agent.explain(env_index)
        if not isinstance(explained, Decision):
            kind = type(explained).__name__
            raise UsageError(f"{self._name}.explain must return an sfl.api.Decision, got {kind}.")
        return explained
