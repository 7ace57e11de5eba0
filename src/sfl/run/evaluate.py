"""Evaluation: tasks are posed to a frozen policy, and a row is written of what became of each.

First what a row holds, then `evaluate`, then the queue of tasks, and what metrics a set of rows makes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfl.api import Agent, Episode, Policy, Session, Step
from sfl.errors import SflError
from sfl.run.log import note
from sfl.run.rollout import rollout
from sfl.run.settings import EvalConfig
from sfl.seeding import draw_seed, spawn
from sfl.worlds import EnvConfig, Task
from sfl.worlds.session import Env, EnvSession

if TYPE_CHECKING:
    from sfl.worlds.doom.world import MazeWorld
    from sfl.worlds.world import EnvironmentWorld

NOT_TRIVIAL = ("not trivial", "their success %")
"""Headings of the columns without the tasks whose goal lies within reach of their start."""

ATTEMPTS = 3
"""How often a task is posed whose game dies, before the evaluation is given up."""

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

    @property
    def trivial(self) -> bool:
        """The goal was reached where the episode started: tables show a second column without such tasks."""
        return bool(self.success) and self.steps == 0


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
    A task whose goal lies within reach of its start counts as reached in 0 steps and is not posed.
    """
    if not tasks:
        return []
    policy, queue = freeze(agent, tasks, seed)
    label = label or Label(seed=seed)
    if isinstance(worlds, Sequence):
        shared = {**asdict(label), "env": env_name(worlds[0]), "maze": "", "spawn": ""}
        return _play(policy, EnvSession(worlds, queue), tasks, queue, shared, watch)
    world = open_world(worlds)
    spawned = getattr(worlds, "spawn", "")
    shared = {**asdict(label), "env": worlds.id, "maze": world.maze, "spawn": spawned}
    solved = {number: _row(shared, task, True, 0) for number, task in enumerate(tasks) if world.solved_at_start(task)}
    queue.leave_out(solved)
    if len(solved) == len(tasks):
        return list(solved.values())
    session = world.session(min(parallel, len(tasks) - len(solved)), queue)
    try:
        return _play(policy, session, tasks, queue, shared, watch, solved)
    finally:
        session.close()


def freeze(agent: Agent | Policy, tasks: Sequence[Task], seed: int) -> tuple[Policy, TaskQueue]:
    """The policy that is evaluated, an agent's frozen one, and the episodes; all chance in both comes from `seed`."""
    rng = spawn(seed, ["eval"])["eval"]
    policy: Policy = agent.policy(draw_seed(rng)) if hasattr(agent, "policy") else agent
    return policy, TaskQueue(tasks, rng)


def _play(
    policy: Policy,
    session: Session,
    tasks: Sequence[Task],
    queue: TaskQueue,
    shared: dict[str, Any],
    watch: Watcher | None,
    solved: Mapping[int, EpisodeRow] | None = None,
) -> list[EpisodeRow]:
    rows = dict(solved or {})
    lost: set[int] = set()
    for step in rollout(policy, session):
        envs = step.transitions.env_indices.tolist()
        lost.update(
            episode.number
            for episode, env in zip(step.episodes, envs, strict=True)
            if not policy.explain(env).route_found
        )
        if watch is not None:
            watch(step, policy)
        for row in step.ended:
            number = step.episodes[row].number
            if row in step.broken:
                lost.discard(number)
                queue.pose_again(number)
                continue
            reached = bool(step.succeeded[row])
            rows[number] = _row(shared, tasks[number], reached, int(step.lengths[row]), number in lost)
    return [rows[number] for number in range(len(tasks))]


class TaskQueue:
    """The episodes of all tasks, in their order."""

    def __init__(self, tasks: Sequence[Task], rng: np.random.Generator) -> None:
        # Seeds are drawn for all tasks at once, so that the number of environments cannot change which task gets which.
        seeds = [draw_seed(rng) for _ in tasks]
        self._tasks = tasks
        self._episodes = [
            Episode(number, seed if task.reset_seed is None else task.reset_seed, task.options(), task.budget)
            for number, (task, seed) in enumerate(zip(tasks, seeds, strict=True))
        ]
        self._waiting = deque(range(len(tasks)))
        self._attempts = Counter[int]()

    def __call__(self) -> Episode | None:
        return self._episodes[self._waiting.popleft()] if self._waiting else None

    def leave_out(self, numbers: Iterable[int]) -> None:
        """Do not pose these tasks."""
        left_out = set(numbers)
        self._waiting = deque(number for number in self._waiting if number not in left_out)

    def pose_again(self, number: int) -> None:
        """A game that died says nothing about the policy."""
        task = self._tasks[number]
        self._attempts[number] += 1
        if self._attempts[number] == ATTEMPTS:
            raise SflError(f"The game died {ATTEMPTS} times on {task.level} pair {task.pair}; is its maze playable?")
        note(f"a game died on {task.level} pair {task.pair}; the episode is played again.")
        self._waiting.append(number)


def env_name(env: Env) -> str:
    """How rows call an environment: its id, else its class."""
    return type(env.unwrapped).__name__ if env.spec is None else env.spec.id


def _row(shared: dict[str, Any], task: Task, reached: bool, steps: int, lost: bool = False) -> EpisodeRow:
    return EpisodeRow(
        **shared,
        level=task.level,
        pair=task.pair,
        budget=task.budget,
        success=int(reached),
        steps=steps,
        outcome="reached" if reached else "no_route" if lost else "timeout",
    )


def open_world(config: EnvConfig, run: Path | None = None) -> EnvironmentWorld | MazeWorld:
    """The world of a configuration; a maze that cannot be read is refused here.

    `run` is the folder in which a run wrote its tasks down; without one, or where they are not there, they are found
    anew.
    """
    return config.open(run, note)


def eval_tasks(env_config: EnvConfig, config: EvalConfig, seed: int, run: Path | None = None) -> list[Task]:
    """The tasks of a run; those that are saved in its folder, if they are."""
    return open_world(env_config, run).tasks(config, seed)


def summarise(rows: Sequence[EpisodeRow]) -> dict[str, float]:
    """`eval/success_<level>` and `eval/steps_<level>` (mean over the successful episodes, absent without one)."""
    metrics: dict[str, float] = {}
    for level in dict.fromkeys(row.level for row in rows):
        chosen = [row for row in rows if row.level == level]
        metrics[f"eval/success_{level}"] = float(np.mean([row.success for row in chosen]))
        if steps := [row.steps for row in chosen if row.success]:
            metrics[f"eval/steps_{level}"] = float(np.mean(steps))
    return metrics
