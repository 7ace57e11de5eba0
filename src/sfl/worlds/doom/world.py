"""A maze of ViZDoom that is open: its tasks are start-goal pairs, the same for every seed of training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from sfl.api import Array, EpisodeSource, Session
from sfl.config import require
from sfl.worlds.config import SPAWNS, DoomConfig
from sfl.worlds.doom.session import PoolSession
from sfl.worlds.doom.tasks import (
    BUDGETS,
    Pairs,
    StartGoalSampler,
    draw_fixed_pairs,
    draw_random_pairs,
    load_pairs,
    save_pairs,
    trivial,
)
from sfl.worlds.gym import GoalReached
from sfl.worlds.mazes.load import PAPER, maze_folder
from sfl.worlds.tasks import Pose, Task, TaskChoice
from sfl.worlds.world import Squares

SQUARE = 50.0
"""Map units of a square of the coverage."""
PAIRS_PER_LEVEL = 50
"""As many as the paper's; fewer are the first of these."""
PAIRS_FILE = "tasks.json"
"""Name of the file of the pairs in the run folder."""


class MazeWorld:
    """A maze, and where its episodes begin and end."""

    kind: ClassVar[Literal["maze"]] = "maze"
    radius, goal_radius = 100, 100.0  # map units

    def __init__(self, config: DoomConfig, saved_pairs: Path | None = None) -> None:
        """A maze that cannot be read is refused here. `saved_pairs`: where a run has written its own."""
        self._config, self._saved_pairs = config, saved_pairs
        self.sampler = StartGoalSampler(config.load(), config.spawn)
        self.maze = self.sampler.maze.name
        self._pairs: dict[TaskChoice, Pairs] = {}

    def session(self, count: int, source: EpisodeSource, goal_terminates: bool = True) -> Session:
        """Games in processes of their own."""
        return PoolSession(
            self.sampler, count, source, max_steps=self._config.max_steps, goal_terminates=goal_terminates
        )

    def tasks(self, choice: TaskChoice, seed: int) -> list[Task]:
        """The seed of the run has no say in them."""
        return self.pairs(choice).tasks()

    def save_tasks(self, run: Path, choice: TaskChoice) -> None:
        """The pairs, as JSON."""
        save_pairs(run / PAIRS_FILE, self.pairs(choice))

    def solved_at_start(self, task: Task) -> bool:
        """The start lies within reach of the goal."""
        return trivial(task)

    def goal_reached(self) -> GoalReached:
        """A picture does not say where it was taken: only an equal one counts."""
        return "equal"

    def squares(self) -> Squares:
        """Those of 50 units that hold a free place."""
        free = self.sampler.free
        return Squares.around(free.origin + free.cell * np.argwhere(free.mask), SQUARE)

    def walls(self) -> Array:
        """Those of the maze."""
        return self.sampler.maze.walls

    def walking_distances(self, places: Array) -> None:
        """Between thousands of landmarks it takes longer than an evaluation."""

    def pairs(self, choice: TaskChoice) -> Pairs:
        """As the run saved them, from the user's file, the authors' or drawn: the first of each level asked for."""
        if choice not in self._pairs:
            found = self._find_pairs(choice)
            found.tasks(*choice.levels)  # complains of a level that is not there
            levels = {level: found.levels[level][: choice.episodes] for level in choice.levels}
            self._pairs[choice] = replace(found, levels=levels)
        return self._pairs[choice]

    def _find_pairs(self, choice: TaskChoice) -> Pairs:
        maze, free, asked = self.sampler.maze, self.sampler.free, self._config.pairs
        spawn = asked if asked in SPAWNS else self._config.spawn
        if (file := self._pairs_file(choice, spawn)) is not None:
            return load_pairs(file, maze, free, choice.episodes)
        seed = choice.pairs_seed or 0
        if spawn == "random":
            return draw_random_pairs(maze, free, seed, choice.episodes)  # the first are the same, however many
        return draw_fixed_pairs(maze, free, seed, max(PAIRS_PER_LEVEL, choice.episodes))

    def _pairs_file(self, choice: TaskChoice, spawn: str) -> Path | None:
        config = self._config
        if self._saved_pairs is not None and self._saved_pairs.is_file():
            return self._saved_pairs
        if config.pairs not in (None, *SPAWNS):
            require(choice.pairs_seed is None, "env.pairs and eval.pairs-seed exclude each other; leave one out.")
            return Path(str(config.pairs))
        if config.maze not in PAPER or choice.pairs_seed is not None:
            return None
        folder = maze_folder(config.maze, None if config.maze_dir is None else Path(config.maze_dir))
        file = folder / "pairs" / f"{config.maze}-{spawn}.json"
        return file if file.is_file() else None

    def given_task(self, goal: Pose, start: Pose | None) -> Task:
        """A user's goal, with the largest budget; without a start, where the maze spawns the player."""
        place = None if start is None else self.sampler.checked(start, "start")
        return Task("any", 0, place, self.sampler.checked(goal, "goal"), max(BUDGETS.values()))
