"""Start-goal pairs: what an evaluation episode asks of an agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from sfl.api import Array, Observation
from sfl.config import require
from sfl.errors import UsageError

Pose = tuple[float, float, float]
"""(x, y, degrees); on a grid the degrees are 90 times the direction: 0 right, 90 down, 180 left, 270 up."""

GoalObservation = dict[str, Observation]
"""What every environment here gives: `observation`, `achieved_goal` and `desired_goal` (zeros without a goal)."""


def grid_pose(cell: Any, direction: int) -> Array:
    """MiniGrid's place and direction as `info["pose"]`."""
    return np.array((cell[0], cell[1], 90 * direction), np.float64)


@dataclass(frozen=True, eq=False)
class Task:
    """Go from a start to a goal within a budget of environment steps."""

    level: str
    """`paper`: the start and goal of the paper. `any`: drawn at random, or one of all goals of an exam; `near`,
    `middle` and `far`: one of a third of its distances."""
    pair: int
    """The number of the pair within its level."""
    start: Pose | None
    """None: wherever the environment starts."""
    goal: Pose | Observation | None
    """A pose, or the picture of the goal where poses are not known; None: no goal, explore freely."""
    budget: int
    """Environment steps after which the episode counts as failed."""
    reset_seed: int | None = None
    """The seed to reset with, where the goal exists in that world only."""

    def options(self) -> dict[str, Any]:
        """What to hand to `env.reset(options=...)`."""
        start = {} if self.start is None else {"start": self.start}
        return {**start, "goal": self.goal}


class TaskChoice(Protocol):
    """Which tasks an evaluation asks: the part of its configuration that worlds look at."""

    @property
    def episodes(self) -> int:
        """Tasks on each level."""

    @property
    def levels(self) -> tuple[str, ...]:
        """Their levels, in order."""

    @property
    def pairs_seed(self) -> int | None:
        """In a maze: draw the start-goal pairs from this seed."""

    @property
    def exam_steps(self) -> int:
        """In worlds of the user's: steps that collecting the exam may take."""

    @property
    def exam_goals(self) -> int:
        """The most goals that the exam keeps."""


DRAW_STEPS = 20_000
"""Environment steps that `draw_tasks` may take in a world whose goals it has to find."""


def draw_tasks(env: gym.Env[Any, Any], level: str, count: int, rng: np.random.Generator) -> list[Task]:
    """`count` tasks of one level. Drawing may step `env`: reset it before using it for anything else.

    In a world that `GoalWrapper` has given goals, they are those of its exam, whatever `rng`.
    """
    from sfl.worlds.collector import collect
    from sfl.worlds.gym import goal_wrapper

    if (wrapper := goal_wrapper(env)) is not None:
        return collect(wrapper, DRAW_STEPS).tasks(level, count)
    if level == "any" and not env.has_wrapper_attr("sample_task"):
        name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        raise UsageError(
            f"{name} cannot draw tasks: give a list of sfl.worlds.Task, or let the environment have a method "
            f"sample_task(rng, pair) that returns one."
        )
    if level == "any":
        sample = env.get_wrapper_attr("sample_task")
        drawn = [sample(rng, pair) for pair in range(count)]
        for task in drawn:
            require(isinstance(task, Task), f"sample_task must return an sfl.worlds.Task, it gave {task!r:.60}.")
        return drawn
    if level != "paper":
        raise UsageError(f"No level {level!r}; the levels are 'paper' and 'any'.")
    if not env.has_wrapper_attr("default_task"):
        raise UsageError("This environment has no start and goal of the paper; use the level 'any' instead of 'paper'.")
    default = env.get_wrapper_attr("default_task")
    return [default(pair) for pair in range(count)]
