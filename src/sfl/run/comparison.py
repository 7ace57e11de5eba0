"""Methods side by side: the same tasks in the same worlds, posed to whatever has the agent protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast, get_args

import gymnasium
import numpy as np

from sfl.core.config import require
from sfl.core.errors import UsageError
from sfl.data.types import Agent, Array, EnvSpec, Explanation, Observation, Policy
from sfl.envs import EnvConfig, Task, is_goal_env
from sfl.run.config import Experiment
from sfl.run.evaluate import EpisodeRow, Label, eval_tasks
from sfl.run.evaluate import evaluate as pose
from sfl.run.folder import config_spec, env_spec
from sfl.run.rollout import Env

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
        return config_spec(self.env, env_count)


def tasks_of(experiment: Experiment, seed: int = 0, episodes: int | None = None) -> TaskSet:
    """What the run of an experiment with that seed is evaluated on; `episodes` on each level, by default as many."""
    if not isinstance(experiment, Experiment):
        raise UsageError(f"tasks_of takes an experiment, got {experiment!r}; sfl.experiments.get(NAME) gives one.")
    _require_seed(seed)
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

    `agent` is any object with the agent protocol (`sfl.data.types.Agent`), or a policy alone. An agent is evaluated as
    the frozen copy that its `policy(seed)` gives: it neither learns nor changes. `worlds` is only needed where `tasks`
    are a plain list: a configuration, or environments to use as they are. `name` goes into the rows' column `agent`.
    """
    listed, where = _world_of(tasks, worlds)
    _require_methods(agent)
    _require_seed(seed)
    fits = parallel is None or (isinstance(parallel, int | np.integer) and parallel >= 1)
    require(fits, f"parallel must be 1 or more, got {parallel!r:.60}.")
    at_once = parallel or (tasks.parallel if isinstance(tasks, TaskSet) else TaskSet.parallel)
    spec = env_spec(where[0], len(where)) if isinstance(where, Sequence) else config_spec(where)
    checked = CheckedAgent(agent, spec)
    return pose(checked, where, listed, seed=seed, parallel=at_once, label=Label(agent=name, seed=seed))


def _require_seed(seed: Any) -> None:
    require(isinstance(seed, int) and seed >= 0, f"seed must be 0 or more, got {seed!r}.")


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
    if worlds is None or several or isinstance(worlds, get_args(EnvConfig)):
        return cast(EnvConfig | Sequence[Env] | None, worlds)
    raise UsageError(f"worlds must be a configuration or environments, at least one, got {worlds!r}.")


def _require_goals(envs: Sequence[gymnasium.Env[Any, Any]]) -> None:
    for env in envs:
        if not is_goal_env(env):
            raise UsageError(f"{env} shows no desired_goal; sfl.envs.GoalWrapper gives any environment goals.")


def _require_methods(agent: Any) -> None:
    """Of an agent or a policy; what an agent's `policy` gives is looked at when it is there."""
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
        """Handed on; one whole number for each environment must come back, each an action that there is."""
        actions = np.asarray(self._agent.act(observations, env_indices))
        count = self._spec.action_count
        if actions.shape != (len(env_indices),) or not np.issubdtype(actions.dtype, np.integer):
            given = f"{actions.dtype} of shape {actions.shape}"
            raise UsageError(f"{self._name}.act must return {len(env_indices)} whole numbers, got {given}.")
        if len(actions) and not 0 <= actions.min() <= actions.max() < count:
            raise UsageError(f"{self._name}.act must return actions from 0 to {count - 1}, got {actions.tolist()}.")
        return actions

    def explain(self, env_index: int) -> Explanation:
        """Handed on."""
        explained = self._agent.explain(env_index)
        if not isinstance(explained, Explanation):
            kind = type(explained).__name__
            raise UsageError(f"{self._name}.explain must return an sfl.data.types.Explanation, got {kind}.")
        return explained
