"""Where a run takes place: the one point at which grids and other environments differ from mazes of ViZDoom."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np

from sfl.api import Array, EpisodeSource, Session
from sfl.config import require
from sfl.errors import UsageError
from sfl.run.exams import EXAM, collected, read_exam, save_exam
from sfl.run.poses import Squares
from sfl.run.settings import EvalConfig
from sfl.seeding import spawn
from sfl.worlds import DoomConfig, EnvConfig, GymConfig, Pose, Task, draw_tasks, make_env
from sfl.worlds.config import SPAWNS
from sfl.worlds.doom.session import PoolSession
from sfl.worlds.doom.tasks import (
    BUDGETS,
    Pairs,
    Places,
    draw_fixed_pairs,
    draw_random_pairs,
    load_pairs,
    save_pairs,
    trivial,
)
from sfl.worlds.exam import Exam
from sfl.worlds.mazes.load import PAPER, maze_folder
from sfl.worlds.session import EnvSession

GRID_RADIUS, MAZE_RADIUS = 1, 100
"""Cells, and map units, within which a landmark counts as the place where the agent is."""

SQUARE = 50.0
"""Map units of a square of the coverage."""

PAIRS_PER_LEVEL = 50
"""As many as the paper's; fewer are the first of these."""


class World(Protocol):
    """What training, evaluation and figures ask of a place."""

    radius: int
    """Within it a landmark counts as the place where the agent is."""
    maze: str
    """The maze's name; empty where there is none."""

    def session(self, count: int, source: EpisodeSource, goal_terminates: bool = True) -> Session:
        """So many environments, ready to begin episodes."""

    def tasks(self, config: EvalConfig, seed: int) -> list[Task]:
        """What an evaluation poses, all levels in their order."""

    def save_tasks(self, run: Path, config: EvalConfig) -> None:
        """Write the tasks into the folder of a run, where they are not a matter of its seed alone."""

    def solved_at_start(self, task: Task) -> bool:
        """The goal is reached before the first decision."""

    def squares(self) -> Squares | None:
        """Which squares can be reached; None: not known."""

    def walls(self) -> Array | None:
        """[N, 4] x1, y1, x2, y2: the lines that block the agent; None: not known."""

    def walking_distances(self, places: Array) -> Array | None:
        """[N, N] between places [N, 2]; None: not known, or too many to find out."""


TASKS = "tasks.json"
"""Name of the file of a maze's pairs in the run folder."""


def open_world(config: EnvConfig, run: Path | None = None) -> World:
    """The world of a configuration; a maze that cannot be read is refused here.

    `run` is the folder in which a run wrote its tasks down; without one, or where they are not there, they are found
    anew.
    """
    if isinstance(config, DoomConfig):
        return MazeWorld(config, None if run is None else run / TASKS)
    return GymWorld(config, run) if isinstance(config, GymConfig) else EnvWorld(config)


class EnvWorld:
    """Our grid worlds."""

    radius, maze = GRID_RADIUS, ""

    def __init__(self, config: EnvConfig) -> None:
        self._config = config

    def session(self, count: int, source: EpisodeSource, goal_terminates: bool = True) -> Session:
        """Environments in this process."""
        return EnvSession([make_env(self._config, goal_terminates) for _ in range(count)], source)

    def tasks(self, config: EvalConfig, seed: int) -> list[Task]:
        """Each level has a generator of its own, made from the seed whenever it is asked."""
        env = make_env(self._config)
        rngs = spawn(seed, [f"eval/{level}" for level in config.levels])
        drawn = [draw_tasks(env, level, config.episodes, rngs[f"eval/{level}"]) for level in config.levels]
        env.close()
        return [task for tasks in drawn for task in tasks]

    def save_tasks(self, run: Path, config: EvalConfig) -> None:
        """They follow from the seed."""

    def solved_at_start(self, task: Task) -> bool:
        """Tasks are drawn with a goal elsewhere."""
        return False

    def squares(self) -> Squares | None:
        """The cells, where the environment lists them."""
        env = make_env(self._config)
        cells = env.get_wrapper_attr("free_cells")() if env.has_wrapper_attr("free_cells") else []
        env.close()
        return Squares.around(np.array(cells), 1.0) if cells else None

    def walls(self) -> Array | None:
        """Not known as lines."""
        return None

    def walking_distances(self, places: Array) -> Array | None:
        """In cells, where the environment can tell."""
        env = make_env(self._config)
        known = env.has_wrapper_attr("walking_distances")
        found = env.get_wrapper_attr("walking_distances")(places) if known else None
        env.close()
        return found


class GymWorld(EnvWorld):
    """Any other Gymnasium environment. Its tasks are an exam, the same for every method and seed."""

    def __init__(self, config: GymConfig, run: Path | None = None) -> None:
        super().__init__(config)
        self._gym, self._file = config, None if run is None else run / EXAM
        self._exams: dict[tuple[int, int], Exam] = {}

    def tasks(self, config: EvalConfig, seed: int) -> list[Task]:
        """The seed of the run has no say in them. Levels without goals are left out."""
        exam = self.exam(config)
        tasks = [task for level in config.levels for task in exam.tasks(level, config.episodes)]
        if not tasks:
            ranges = ", ".join(f"{level} ({near} to {far} steps)" for level, (near, far) in exam.ranges().items())
            raise UsageError(f"No goals on level {' or '.join(config.levels)} in {self._gym.id}; there are {ranges}.")
        return tasks

    def save_tasks(self, run: Path, config: EvalConfig) -> None:
        """The exam, whole."""
        save_exam(run / EXAM, self.exam(config))

    def exam(self, config: EvalConfig) -> Exam:
        """As the run saved it, else collected now."""
        sizes = (config.exam_steps, config.exam_goals)
        if sizes not in self._exams:
            saved = self._file is not None and self._file.exists()
            self._exams[sizes] = read_exam(self._file) if self._file and saved else collected(self._gym, config)
        return self._exams[sizes]


class MazeWorld:
    """A maze of ViZDoom. Its tasks are start-goal pairs, the same for every seed of training."""

    radius = MAZE_RADIUS

    def __init__(self, config: DoomConfig, saved_pairs: Path | None = None) -> None:
        self._config, self._saved_pairs = config, saved_pairs
        self.places = Places(config.load(), config.spawn)
        self.maze = self.places.maze.name
        self._pairs: dict[EvalConfig, Pairs] = {}

    def session(self, count: int, source: EpisodeSource, goal_terminates: bool = True) -> Session:
        """Games in processes of their own."""
        return PoolSession(
            self.places, count, source, max_steps=self._config.max_steps, goal_terminates=goal_terminates
        )

    def tasks(self, config: EvalConfig, seed: int) -> list[Task]:
        """The seed of the run has no say in them."""
        return self.pairs(config).tasks()

    def save_tasks(self, run: Path, config: EvalConfig) -> None:
        """The pairs, as JSON."""
        save_pairs(run / TASKS, self.pairs(config))

    def solved_at_start(self, task: Task) -> bool:
        """The start lies within reach of the goal."""
        return trivial(task)

    def squares(self) -> Squares:
        """Those of 50 units that hold a free place."""
        free = self.places.free
        return Squares.around(free.origin + free.cell * np.argwhere(free.mask), SQUARE)

    def walls(self) -> Array:
        """Those of the maze."""
        return self.places.maze.walls

    def walking_distances(self, places: Array) -> None:
        """Between thousands of landmarks it takes longer than an evaluation."""

    def pairs(self, config: EvalConfig) -> Pairs:
        """As the run saved them, from the user's file, the authors' or drawn: the first of each level asked for."""
        if config not in self._pairs:
            found = self._find_pairs(config)
            found.tasks(*config.levels)  # complains of a level that is not there
            levels = {level: found.levels[level][: config.episodes] for level in config.levels}
            self._pairs[config] = replace(found, levels=levels)
        return self._pairs[config]

    def _find_pairs(self, config: EvalConfig) -> Pairs:
        maze, free = self.places.maze, self.places.free
        if (file := self._pairs_file(config)) is not None:
            return load_pairs(file, maze, free, config.episodes)
        seed = config.pairs_seed or 0
        if self._task_spawn == "random":
            return draw_random_pairs(maze, free, seed, config.episodes)  # the first are the same, however many
        return draw_fixed_pairs(maze, free, seed, max(PAIRS_PER_LEVEL, config.episodes))

    def _pairs_file(self, config: EvalConfig) -> Path | None:
        if self._saved_pairs is not None and self._saved_pairs.is_file():
            return self._saved_pairs
        if self._config.pairs not in (None, *SPAWNS):
            require(config.pairs_seed is None, "env.pairs and eval.pairs-seed exclude each other; leave one out.")
            return Path(str(self._config.pairs))
        if self._config.maze not in PAPER or config.pairs_seed is not None:
            return None
        folder = maze_folder(self._config.maze, None if self._config.maze_dir is None else Path(self._config.maze_dir))
        file = folder / "pairs" / f"{self._config.maze}-{self._task_spawn}.json"
        return file if file.is_file() else None

    @property
    def _task_spawn(self) -> str:
        """Where tasks start: where training episodes do, unless the configuration says otherwise."""
        asked = self._config.pairs
        return asked if asked in SPAWNS else self._config.spawn

    def given_task(self, goal: Pose, start: Pose | None) -> Task:
        """A user's goal, with the largest budget; without a start, where the maze spawns the player."""
        place = None if start is None else self.places.checked(start, "start")
        return Task("any", 0, place, self.places.checked(goal, "goal"), max(BUDGETS.values()))
