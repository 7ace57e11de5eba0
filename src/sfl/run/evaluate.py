"""Evaluation: pose tasks to a frozen policy and write down what became of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, cast

import numpy as np

from sfl.core.seeding import draw_seed, spawn
from sfl.data.types import Agent, Array, Policy
from sfl.envs import EnvConfig, Task, draw_tasks, make_env
from sfl.run.config import EvalConfig
from sfl.run.rollout import Env, EnvSession, Episode, Step, rollout

GRID_RADIUS = 1
"""Cells within which a landmark counts as the place where the agent is."""

Watcher = Callable[[Step, Policy], None]
"""Looks on at every step of an evaluation; `policy.explain` speaks of that step."""


@dataclass(frozen=True)
class EpisodeRow:
    """One evaluation episode: one line of episodes.csv."""

    experiment: str
    agent: str
    env: str
    maze: str
    spawn: str
    seed: int
    env_steps: int
    level: str
    pair: int
    budget: int
    success: int
    steps: int
    outcome: str


EPISODE_COLUMNS = tuple(field.name for field in fields(EpisodeRow))


@dataclass(frozen=True)
class Label:
    """Whose evaluation it is: the columns that all its rows share."""

    experiment: str = ""
    agent: str = ""
    seed: int = 0
    env_steps: int = 0


def evaluate(
    agent: Agent | Policy,
    worlds: EnvConfig | Sequence[Env],
    tasks: Sequence[Task],
    *,
    seed: int = 0,
    parallel: int = 25,
    label: Label | None = None,
    watch: Watcher | None = None,
) -> list[EpisodeRow]:
    """Run every task once and return their rows in the order of `tasks`.

    An agent is evaluated as its frozen policy, so that it neither learns nor changes. All chance comes from `seed`.
    `worlds` is a configuration, of which `parallel` environments are made, or environments to use as they are.
    """
    if not tasks:
        return []
    rng = spawn(seed, ["eval"])["eval"]
    policy: Policy = agent.policy(draw_seed(rng)) if hasattr(agent, "policy") else agent
    made = [] if isinstance(worlds, Sequence) else [make_env(worlds) for _ in range(min(parallel, len(tasks)))]
    shared = _shared_columns(worlds, label or Label(seed=seed))
    session = EnvSession(made or cast(Sequence[Env], worlds), _task_episodes(tasks, rng))
    rows: dict[int, EpisodeRow] = {}
    lost: set[int] = set()
    for step in rollout(policy, session):
        lost.update(_without_route(step, policy))
        if watch is not None:
            watch(step, policy)
        for row in step.ended:
            number = step.episodes[row].number
            rows[number] = _row(shared, tasks[number], step, row, number in lost)
    for env in made:
        env.close()
    return [rows[number] for number in range(len(tasks))]


def _task_episodes(tasks: Sequence[Task], rng: np.random.Generator) -> Callable[[], Episode | None]:
    # Seeds are drawn for all tasks at once, so that the number of environments cannot change which task gets which.
    seeds = [draw_seed(rng) for _ in tasks]
    episodes = iter(
        [
            Episode(number, seed if task.reset_seed is None else task.reset_seed, task.options(), task.budget)
            for number, (task, seed) in enumerate(zip(tasks, seeds, strict=True))
        ]
    )
    return lambda: next(episodes, None)


def _without_route(step: Step, policy: Policy) -> Iterable[int]:
    for episode, env_index in zip(step.episodes, step.transitions.env_indices, strict=True):
        if not policy.explain(int(env_index)).route_found:
            yield episode.number


def _shared_columns(worlds: EnvConfig | Sequence[Env], label: Label) -> dict[str, Any]:
    if isinstance(worlds, Sequence):
        spec = worlds[0].spec
        env = type(worlds[0].unwrapped).__name__ if spec is None else spec.id
        return {**asdict(label), "env": env, "maze": "", "spawn": ""}
    maze, spawned = getattr(worlds, "maze", ""), getattr(worlds, "spawn", "")
    return {**asdict(label), "env": worlds.id, "maze": maze, "spawn": spawned}


def _row(shared: dict[str, Any], task: Task, step: Step, row: int, lost: bool) -> EpisodeRow:
    reached = bool(step.succeeded[row])
    return EpisodeRow(
        **shared,
        level=task.level,
        pair=task.pair,
        budget=task.budget,
        success=int(reached),
        steps=int(step.lengths[row]),
        outcome="reached" if reached else "no_route" if lost else "timeout",
    )


def eval_tasks(env_config: EnvConfig, config: EvalConfig, seed: int) -> list[Task]:
    """The tasks of a run: each level has a generator of its own, made from the seed whenever it is asked."""
    env = make_env(env_config)
    rngs = spawn(seed, [f"eval/{level}" for level in config.levels])
    tasks = [task for level in config.levels for task in draw_tasks(env, level, config.episodes, rngs[f"eval/{level}"])]
    env.close()
    return tasks


def summarise(rows: Sequence[EpisodeRow]) -> dict[str, float]:
    """`eval/success_<level>` and `eval/steps_<level>` (mean over the successful episodes, absent without one)."""
    metrics: dict[str, float] = {}
    for level in dict.fromkeys(row.level for row in rows):
        chosen = [row for row in rows if row.level == level]
        metrics[f"eval/success_{level}"] = float(np.mean([row.success for row in chosen]))
        if steps := [row.steps for row in chosen if row.success]:
            metrics[f"eval/steps_{level}"] = float(np.mean(steps))
    return metrics


class LocalizationProbe:
    """Compares where a policy believes to be with where it is; the only reader of true poses during evaluation."""

    def __init__(self, landmark_poses: Array) -> None:
        self._landmarks = landmark_poses  # [L, 3]
        self._distances: list[float] = []

    def __call__(self, step: Step, policy: Policy) -> None:
        """Note the distance between each environment's pose and the landmark it is localized at."""
        for pose, env_index in zip(step.poses, step.transitions.env_indices, strict=True):
            landmark = policy.explain(int(env_index)).localized
            if landmark is not None and 0 <= landmark < len(self._landmarks):
                self._distances.append(float(np.hypot(*(pose[:2] - self._landmarks[landmark, :2]))))

    def metrics(self, radius: int) -> dict[str, Any]:
        """Share of the localized decisions that were within `radius` of their landmark."""
        distances = np.array(self._distances)
        distances = distances[np.isfinite(distances)]
        if distances.size == 0:
            return {}
        return {f"graph/localization_within_{radius}": float(np.mean(distances <= radius))}
