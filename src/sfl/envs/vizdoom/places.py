"""Where episodes of a maze may start and what may be their goal."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sfl.core.config import require
from sfl.core.errors import UsageError
from sfl.envs.mazes.maze import Maze
from sfl.envs.tasks import Pose

if TYPE_CHECKING:
    from sfl.envs.mazes.free_space import FreeSpace

GOAL_RADIUS = 63.0
"""Map units within which a goal counts as reached, whatever the heading."""


class Places:
    """Draws and checks the starts and goals of one maze."""

    def __init__(self, maze: Maze, spawn: Literal["fixed", "random"]) -> None:
        require(spawn in ("fixed", "random"), f"spawn must be 'fixed' or 'random', got {spawn!r}.")
        self.maze = maze
        self.spawn = spawn

    @cached_property
    def free(self) -> FreeSpace:
        """Worked out when it is first needed: a run with fixed starts and no goals does without."""
        from sfl.envs.mazes.free_space import FreeSpace

        return FreeSpace.of(self.maze)

    def draw_start(self, rng: np.random.Generator) -> Pose:
        """The maze's start, or with random spawn one of its spots, or without those anywhere, with any heading."""
        if self.spawn == "fixed":
            return self.maze.start
        if not self.maze.spots:
            return self.draw_goal(rng)
        x, y = self.maze.spots[int(rng.integers(len(self.maze.spots)))]
        return (x, y, float(rng.uniform(0.0, 360.0)))

    def draw_goal(self, rng: np.random.Generator) -> Pose:
        """Anywhere free, with any heading. Games know whole units only, so that is what is drawn."""
        while True:
            place = np.round(self.free.sample(rng, 1))
            if self.free.contains(place)[0]:
                return (float(place[0, 0]), float(place[0, 1]), float(rng.uniform(0.0, 360.0)))

    def checked(self, pose: Any, role: Literal["start", "goal"]) -> Pose:
        """A pose given by a user. A player must be able to stand at a start; goals may be closer to a wall."""
        numbers = np.asarray(pose, dtype=object).ravel().tolist()
        try:
            x, y, degrees = map(float, numbers)
        except (TypeError, ValueError):
            raise UsageError(f"{role} must be a pose (x, y, degrees), got {pose!r}.") from None
        require(bool(np.isfinite([x, y, degrees]).all()), f"{role} must hold finite numbers, got {pose!r}.")
        test = self.free.contains if role == "start" else self.free.covers
        if not test(np.array([[x, y]]))[0]:
            near = self.maze.start
            raise UsageError(
                f"{role} ({x:g}, {y:g}, {degrees:g}) is inside a wall or out of reach in maze {self.maze.name!r}; "
                f"free is e.g. ({near[0]:g}, {near[1]:g})."
            )
        return (x, y, degrees)
