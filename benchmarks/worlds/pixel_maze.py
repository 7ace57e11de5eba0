"""A maze of 15x15 cells drawn in 84x84 pixels, as a module of a user's own would register it.

sfl train world-sfl --env.id pixel_maze:PixelMaze-v0        # in this folder
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

MAZE = """
###############
#S..#.....#...#
###.#.###.#.#.#
#...#.#.#...#.#
#.###.#.#####.#
#.....#.......#
#.###.#######.#
#.#.....#...#.#
#.#.###.#.#.#.#
#.#.#.....#...#
#.#.#.#######.#
#...#.....#...#
#.#######.#.###
#.......#.....#
###############
""".strip().splitlines()
STEPS = ((0, -1), (1, 0), (0, 1), (-1, 0))
"""By action: up, right, down, left, in columns and rows."""
SIZE, CELL = 84, 5
EDGE = (SIZE - CELL * len(MAZE)) // 2


class PixelMaze(gym.Env[Any, Any]):
    """Four actions, one cell each; a wall stops. The picture shows the walls and the agent."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012  # as Gymnasium has it
    action_space = gym.spaces.Discrete(4)
    observation_space = gym.spaces.Box(0, 255, (SIZE, SIZE, 3), np.uint8)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.place = (1, 1)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """At S."""
        super().reset(seed=seed)
        row = next(number for number, line in enumerate(MAZE) if "S" in line)
        self.place = (MAZE[row].index("S"), row)
        return draw(self.place), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One cell on, where there is no wall."""
        column, row = (one + by for one, by in zip(self.place, STEPS[action], strict=True))
        if MAZE[row][column] != "#":
            self.place = (column, row)
        return draw(self.place), 0.0, False, False, {}

    def render(self) -> Any:
        """What the agent sees."""
        return draw(self.place)


def draw(place: tuple[int, int]) -> Any:
    """The maze with the agent at a place, uint8 [84, 84, 3]."""
    picture = np.full((SIZE, SIZE, 3), 40, np.uint8)
    for row, line in enumerate(MAZE):
        for column, cell in enumerate(line):
            if cell != "#":
                _fill(picture, column, row, (220, 220, 210))
    _fill(picture, *place, (200, 30, 30))
    return picture


def _fill(picture: Any, column: int, row: int, colour: tuple[int, int, int]) -> None:
    top, left = EDGE + CELL * row, EDGE + CELL * column
    picture[top : top + CELL, left : left + CELL] = colour


if "PixelMaze-v0" not in gym.registry:
    gym.register("PixelMaze-v0", "pixel_maze:PixelMaze", max_episode_steps=200)
