"""A world that is open: what training, evaluation and figures ask of the place that a configuration names.

`World` is the interface. `EnvironmentWorld` has our grids; `GymWorld` adds the exam of any other Gymnasium environment;
`doom/world.py` has the mazes. `Squares` cut a world into pieces for coverage.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol, cast

import numpy as np

from sfl.api import Array, EpisodeSource, Session
from sfl.config import require
from sfl.errors import UsageError
from sfl.files import MEGABYTE
from sfl.seeding import spawn
from sfl.worlds import exam as exams
from sfl.worlds.config import GymConfig, MiniGridConfig
from sfl.worlds.exam import EXAM_FILE, Exam, exam_bytes, read_exam, save_exam
from sfl.worlds.gym import GoalReached, GoalWrapper, goal_wrapper
from sfl.worlds.session import EnvSession
from sfl.worlds.tasks import Task, TaskChoice, draw_tasks

Tell = Callable[[str], None]
"""Says a line to the user."""

SAME_CELL = 0.5
"""On a grid only the goal's own cell counts as near."""
TELL_EVERY = 10.0  # seconds


@dataclass(frozen=True, eq=False)
class Squares:
    """A world cut into squares, to count which of them were visited."""

    side: float
    """In cells of a grid, or in map units."""
    reachable: Array
    """[S, 2] the numbers, across and up, of the squares that can be reached, each once."""

    @classmethod
    def around(cls, places: Array, side: float) -> Squares:
        """The squares that hold at least one of the places [N, 2]."""
        return cls(side, np.unique(_numbers(places, side), axis=0))

    def visits(self, poses: Array) -> Array:
        """[S] how many of the poses [N, 3] lie in each square."""
        inside = _numbers(poses[np.isfinite(poses[:, 0]), :2], self.side)
        origin, size = self.reachable.min(0), np.ptp(self.reachable, axis=0) + 1
        inside = inside[((inside >= origin) & (inside < origin + size)).all(1)] - origin
        counts = np.zeros(size, np.int64)
        np.add.at(counts, tuple(inside.T), 1)
        return np.asarray(counts[tuple((self.reachable - origin).T)])


def _numbers(places: Array, side: float) -> Array:
    return np.floor(np.asarray(places) / side).astype(np.int64)


class World(Protocol):
    """An open world."""

    radius: int
    """Within it, in cells or map units, a landmark counts as the place where the agent is."""
    goal_radius: float
    """Within it a goal that is a pose counts as seen in training."""
    maze: str
    """The maze's name; empty where there is none."""

    @property
    def kind(self) -> Literal["grid", "maze", "other"]:
        """As its configuration says."""

    def session(self, count: int, source: EpisodeSource, goal_terminates: bool = True) -> Session:
        """So many environments, ready to begin episodes."""

    def tasks(self, choice: TaskChoice, seed: int) -> list[Task]:
        """What an evaluation asks, all levels in their order."""

    def save_tasks(self, run: Path, choice: TaskChoice) -> None:
        """Write the tasks into the folder of a run, where they do not follow from its seed alone."""

    def solved_at_start(self, task: Task) -> bool:
        """The goal is reached before the first decision."""

    def goal_reached(self) -> GoalReached:
        """When a goal that is an observation counts as reached."""

    def squares(self) -> Squares | None:
        """Which squares can be reached; None: not known."""

    def walls(self) -> Array | None:
        """[N, 4] x1, y1, x2, y2: the lines that block the agent; None: not known."""

    def walking_distances(self, places: Array) -> Array | None:
        """[N, N] between places [N, 2]; None: not known, or too many to find out."""


class EnvironmentWorld:
    """Environments in this process: our grid worlds."""

    kind: ClassVar[Literal["grid", "other"]] = "grid"
    radius, goal_radius, maze = 1, SAME_CELL, ""

    def __init__(self, config: MiniGridConfig | GymConfig) -> None:
        self._config = config

    def session(self, count: int, source: EpisodeSource, goal_terminates: bool = True) -> Session:
        """They step one after the other."""
        return EnvSession([self._config.make(goal_terminates) for _ in range(count)], source)

    def tasks(self, choice: TaskChoice, seed: int) -> list[Task]:
        """Each level has a generator of its own, made from the seed whenever it is asked."""
        env = self._config.make()
        rngs = spawn(seed, [f"eval/{level}" for level in choice.levels])
        drawn = [draw_tasks(env, level, choice.episodes, rngs[f"eval/{level}"]) for level in choice.levels]
        env.close()
        return [task for tasks in drawn for task in tasks]

    def save_tasks(self, run: Path, choice: TaskChoice) -> None:
        """They follow from the seed."""

    def solved_at_start(self, task: Task) -> bool:
        """Tasks are drawn with a goal elsewhere."""
        return False

    def goal_reached(self) -> GoalReached:
        """When both are equal."""
        return "equal"

    def squares(self) -> Squares | None:
        """The cells, where the environment lists them."""
        env = self._config.make()
        cells = env.get_wrapper_attr("free_cells")() if env.has_wrapper_attr("free_cells") else []
        env.close()
        return Squares.around(np.array(cells), 1.0) if cells else None

    def walls(self) -> Array | None:
        """Not known as lines."""
        return None

    def walking_distances(self, places: Array) -> Array | None:
        """In cells, where the environment can tell."""
        env = self._config.make()
        known = env.has_wrapper_attr("walking_distances")
        found = env.get_wrapper_attr("walking_distances")(places) if known else None
        env.close()
        return found


class GymWorld(EnvironmentWorld):
    """Any other Gymnasium environment. Its tasks are an exam, the same for every method and seed."""

    kind: ClassVar[Literal["grid", "other"]] = "other"

    def __init__(self, config: GymConfig, run: Path | None = None, tell: Tell | None = None) -> None:
        """`run`: the folder of a run that has saved its exam; `tell` hears how collecting one goes."""
        super().__init__(config)
        self._gym, self._file = config, None if run is None else run / EXAM_FILE
        self._tell = tell or (lambda line: None)
        self._exams: dict[tuple[int, int], Exam] = {}

    def tasks(self, choice: TaskChoice, seed: int) -> list[Task]:
        """The seed of the run has no say in them. Levels without goals are left out."""
        exam = self.exam(choice)
        tasks = [task for level in choice.levels for task in exam.tasks(level, choice.episodes)]
        if not tasks:
            ranges = ", ".join(f"{level} ({near} to {far} steps)" for level, (near, far) in exam.ranges().items())
            raise UsageError(f"No goals on level {' or '.join(choice.levels)} in {self._gym.id}; there are {ranges}.")
        return tasks

    def save_tasks(self, run: Path, choice: TaskChoice) -> None:
        """The exam, whole."""
        save_exam(run / EXAM_FILE, self.exam(choice))

    def goal_reached(self) -> GoalReached:
        """As its goal test says."""
        if self._gym.goal_test == "equal":
            return "equal"
        if self._gym.goal_test == "distance":
            return self._gym.radius
        env = self._gym.make()
        asked = cast(GoalWrapper, goal_wrapper(env)).reached
        env.close()
        return asked

    def exam(self, choice: TaskChoice) -> Exam:
        """As the run saved it, else collected now."""
        sizes = (choice.exam_steps, choice.exam_goals)
        if sizes not in self._exams:
            saved = self._file is not None and self._file.exists()
            self._exams[sizes] = read_exam(self._file) if self._file and saved else self._collected(*sizes)
        return self._exams[sizes]

    def _collected(self, steps: int, goals: int) -> Exam:
        """The exam of the world, with a line for the user that says what it is."""
        from sfl.worlds.collector import collect

        env = self._gym.make()
        told = time.monotonic()

        def tell(line: str) -> None:
            nonlocal told
            if time.monotonic() - told > TELL_EVERY:
                told = time.monotonic()
                self._tell(f"exam of {self._gym.id}: {line} of {steps:,}")

        exam = collect(cast(GoalWrapper, env), steps, goals, tell)
        env.close()
        size = exam_bytes(exam)
        require(
            size <= exams.UNPACKED - MEGABYTE,  # a file has headers, too
            f"The exam of {self._gym.id} has {size // MEGABYTE:,} MB, and at most {exams.UNPACKED // MEGABYTE - 1} are "
            f"kept; give --eval.exam-goals below {len(exam.goals):,}.",
        )
        self._tell(f"exam of {self._gym.id}: {exam.summary()}.")
        return exam
