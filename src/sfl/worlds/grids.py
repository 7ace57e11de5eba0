"""FourRoom and MultiRoom, the paper's MiniGrid experiments.

First the maps as data (`Layout`, `LAYOUTS`): rooms, doors, start, target. Then `GridWorld`, the environment: four
actions, the whole grid as observation, and goals. Coordinates are (x, y), x to the right, y down;
`docs/reference/environments.md` draws every map.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX
from minigrid.core.grid import Grid
from minigrid.core.mission import MissionSpace
from minigrid.core.world_object import Door, Goal, Wall
from minigrid.minigrid_env import MiniGridEnv

from sfl.api import Array, Observation
from sfl.config import require
from sfl.errors import UsageError, unknown_name
from sfl.worlds.tasks import GoalObservation, Pose, Task, grid_pose

Cell = tuple[int, int]
Room = tuple[int, int, int, int]
"""(left, top, width, height), walls included."""

STEPS: tuple[Cell, ...] = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""One cell ahead for the headings right, down, left, up."""


@dataclass(frozen=True)
class Layout:
    """One fixed grid world. The agent starts facing right; every door is closed at the start."""

    name: str
    width: int
    height: int
    walls: frozenset[Cell]
    doors: tuple[tuple[Cell, str], ...]
    """Door cells with their colours."""
    tile: Cell
    """The green tile: it shows in the observation, and walking on it does nothing."""
    start: Cell
    target: Cell
    max_steps: int

    @property
    def env_id(self) -> str:
        return f"sfl/{self.name}-v0"

    @cached_property
    def door_cells(self) -> tuple[Cell, ...]:
        return tuple(cell for cell, _ in self.doors)

    @cached_property
    def open_cells(self) -> tuple[Cell, ...]:
        """Every cell the agent can stand on once all doors are open, row by row."""
        seen = {self.start}
        queue = deque([self.start])
        while queue:
            x, y = queue.popleft()
            for dx, dy in STEPS:
                cell = (x + dx, y + dy)
                if cell not in seen and cell not in self.walls:
                    seen.add(cell)
                    queue.append(cell)
        return tuple(sorted(seen, key=lambda cell: (cell[1], cell[0])))

    @cached_property
    def free_cells(self) -> tuple[Cell, ...]:
        """The reachable floor: `open_cells` without the doors."""
        return tuple(cell for cell in self.open_cells if cell not in self.door_cells)

    def walking_distances(self, places: Array) -> Array:
        """[N, N] steps on foot between cells [N, 2] that one can stand on, all doors open."""
        from scipy.sparse import coo_array  # slow to load, and few want distances
        from scipy.sparse.csgraph import dijkstra

        number = {cell: place for place, cell in enumerate(self.open_cells)}
        joined = [
            (number[x, y], number[x + dx, y + dy])
            for x, y in self.open_cells
            for dx, dy in STEPS
            if (x + dx, y + dy) in number
        ]
        rows, columns = np.array(joined).T
        graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(number), len(number)))
        wanted = [number[int(x), int(y)] for x, y in places]
        return np.asarray(dijkstra(graph.tocsr(), indices=wanted)[:, wanted])


def _from_text(name: str, max_steps: int, text: str) -> Layout:
    """Read a drawing: # wall, A start, T target, G green tile, anything else floor."""
    rows = text.split()
    marks = {mark: (x, y) for y, row in enumerate(rows) for x, mark in enumerate(row) if mark in "ATG"}
    walls = frozenset((x, y) for y, row in enumerate(rows) for x, mark in enumerate(row) if mark == "#")
    return Layout(name, len(rows[0]), len(rows), walls, (), marks["G"], marks["A"], marks["T"], max_steps)


def _edge(room: Room) -> set[Cell]:
    left, top, width, height = room
    cells = {(x, y) for x in range(left, left + width) for y in range(top, top + height)}
    return cells - {(x, y) for x in range(left + 1, left + width - 1) for y in range(top + 1, top + height - 1)}


def _from_rooms(
    rooms: tuple[Room, ...], door_cells: tuple[Cell, ...], colors: str, *, start: Cell, target: Cell, tile: Cell
) -> Layout:
    """A chain of rooms on a 25x25 grid; neighbours share a wall, and what lies outside the rooms is empty."""
    walls = frozenset[Cell]().union(*map(_edge, rooms)) - set(door_cells)
    doors = tuple(zip(door_cells, colors.split(), strict=True))
    return Layout(f"MultiRoom-N{len(rooms)}", 25, 25, walls, doors, tile, start, target, 40 * len(rooms))


_FOUR_ROOM = """
#########
#A..#...#
#...#...#
#.......#
##.##...#
#...##.##
#...#...#
#.....TG#
#########
"""

# The authors drew these maps with MiniGrid's room generator and seed 1, seeded as gym 0.17 did. These are the rooms,
# door colours and green tiles which that gives; docs/reference/environments.md says what they were checked against.
_N4_ROOMS: tuple[Room, ...] = ((9, 7, 5, 5), (10, 11, 4, 5), (13, 13, 5, 5), (13, 17, 4, 4))
_N8_ROOMS: tuple[Room, ...] = (
    *((4, 17, 4, 5), (7, 17, 4, 4), (10, 17, 5, 4), (12, 13, 4, 5), (10, 10, 5, 4), (7, 10, 4, 4)),
    *((4, 10, 4, 5), (0, 12, 5, 4)),
)
_N4_DOORS: tuple[Cell, ...] = ((11, 11), (13, 14), (15, 17))
_N8_DOORS: tuple[Cell, ...] = ((7, 18), (10, 18), (13, 17), (13, 13), (10, 11), (7, 12), (4, 13))

LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        _from_text("FourRoom", 100, _FOUR_ROOM),
        _from_rooms(((16, 4, 5, 4), (20, 3, 4, 4)), ((20, 5),), "yellow", start=(18, 6), target=(22, 4), tile=(22, 5)),
        _from_rooms(_N4_ROOMS[:3], _N4_DOORS[:2], "green purple", start=(11, 9), target=(15, 15), tile=(15, 16)),
        _from_rooms(_N4_ROOMS, _N4_DOORS, "yellow red blue", start=(11, 9), target=(14, 18), tile=(14, 19)),
        _from_rooms(
            _N8_ROOMS[:6], _N8_DOORS[:5], "green grey blue red green", start=(5, 20), target=(8, 11), tile=(9, 12)
        ),
        _from_rooms(
            _N8_ROOMS,
            _N8_DOORS,
            "yellow red purple red blue yellow purple",
            start=(5, 20),
            target=(1, 13),
            tile=(2, 14),
        ),
    )
}


Spawn = Literal["fixed", "random"]

LEFT, RIGHT, FORWARD, TOGGLE = range(4)
ACTIONS = ("left", "right", "forward", "toggle")
"""By number: two turns, a step, and to open or close the door ahead."""
_AGENT = [(OBJECT_TO_IDX["agent"], COLOR_TO_IDX["red"], direction) for direction in range(4)]


class GridWorld(MiniGridEnv):
    """A fixed map in which the agent is asked to reach a cell it is shown as a picture of the grid.

    Actions: 0 turn left, 1 turn right, 2 forward, 3 open or close the door ahead.
    """

    def __init__(
        self,
        layout: str,
        spawn: Spawn = "fixed",
        goal_terminates: bool = True,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if layout not in LAYOUTS:
            raise unknown_name("layout", layout, LAYOUTS, f"There are {', '.join(LAYOUTS)}.")
        self.layout: Layout = LAYOUTS[layout]
        self.spawn = spawn
        self.goal_terminates = goal_terminates
        limit = self.layout.max_steps if max_steps is None else max_steps
        require(limit >= 1, f"max_steps must be at least 1, got {limit}.")
        require(spawn in ("fixed", "random"), f"spawn must be 'fixed' or 'random', got {spawn!r}.")
        super().__init__(
            mission_space=MissionSpace(mission_func=lambda: "reach the cell shown in the goal observation"),
            width=self.layout.width,
            height=self.layout.height,
            max_steps=limit,
            render_mode=render_mode,
            highlight=False,  # the agent sees the whole grid, so no part of it is special
        )
        self.action_space = spaces.Discrete(4)
        image = spaces.Box(0, 255, (self.width, self.height, 3), np.uint8)
        self.observation_space = spaces.Dict(
            {"observation": image, "achieved_goal": image, "desired_goal": image}  # one space thrice: only data differ
        )
        self._gen_grid(self.width, self.height)
        self._background: Observation = self.grid.encode()
        self._doors: list[tuple[Cell, Door]] = [
            (cell, door) for cell in self.layout.door_cells if isinstance(door := self.grid.get(*cell), Door)
        ]
        self._no_goal: Observation = np.zeros(image.shape, np.uint8)
        self._goal_cell: Cell | None = None
        self._goal_image = self._no_goal
        self.carrying = None
        self.step_count = 0
        self.agent_pos, self.agent_dir = self.layout.start, 0

    def reset(  # type: ignore[override]  # MiniGrid's annotation leaves the observation's type open
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[GoalObservation, dict[str, Any]]:
        """Start an episode. `options`: `start` a pose; `goal` a pose, an observation, or None for no goal."""
        gym.Env.reset(self, seed=seed)  # MiniGrid's own reset would build the grid anew, which never changes here
        options = options or {}
        unknown = sorted(set(options) - {"start", "goal"})
        require(not unknown, f"Unknown reset options {unknown} for {self.layout.env_id}; known are 'start' and 'goal'.")
        start = self._start(options.get("start"))
        self._goal_cell, self._goal_image = self._goal(options.get("goal", (*self.layout.target, 0.0)))
        self.agent_pos, self.agent_dir = start
        for _, door in self._doors:
            door.is_open = False
        self.step_count = 0
        if self.render_mode == "human":
            self.render()  # type: ignore[no-untyped-call]
        return self.gen_obs(), self._info()

    def step(  # type: ignore[override]
        self, action: Any
    ) -> tuple[GoalObservation, float, bool, bool, dict[str, Any]]:
        """One action. The episode ends at the goal (if `goal_terminates`) or, truncated, at the time limit."""
        self._move(action)
        self.step_count += 1
        info = self._info()
        success = info["is_success"]
        reward = self._reward() if success else 0.0
        if self.render_mode == "human":
            self.render()  # type: ignore[no-untyped-call]
        terminated = success and self.goal_terminates
        return self.gen_obs(), reward, terminated, self.step_count >= self.max_steps and not terminated, info

    def _move(self, action: Any) -> None:
        if action == LEFT:
            self.agent_dir = (self.agent_dir - 1) % 4
        elif action == RIGHT:
            self.agent_dir = (self.agent_dir + 1) % 4
        elif action in (FORWARD, TOGGLE):
            dx, dy = STEPS[self.agent_dir]
            cell = (self.agent_pos[0] + dx, self.agent_pos[1] + dy)
            ahead = self.grid.get(*cell)
            if action == TOGGLE:
                if ahead is not None:
                    ahead.toggle(self, cell)
            elif ahead is None or ahead.can_overlap():
                self.agent_pos = cell
        else:
            raise UsageError(f"Action {action!r} is none of 0 left, 1 right, 2 forward, 3 toggle.")

    def gen_obs(self) -> GoalObservation:
        """What MiniGrid calls to observe: the whole grid, as `FullyObsWrapper` encodes it, and the goal's."""
        image = self._background.copy()
        for (x, y), door in self._doors:
            if door.is_open:
                image[x, y, 2] = 0
        image[self.agent_pos] = _AGENT[self.agent_dir]
        return {"observation": image, "achieved_goal": image.copy(), "desired_goal": self._goal_image.copy()}

    def _info(self) -> dict[str, Any]:
        success = self.agent_pos == self._goal_cell
        return {"pose": grid_pose(self.agent_pos, self.agent_dir), "is_success": success}

    def _gen_grid(self, width: int, height: int) -> None:
        self.grid = Grid(width, height)
        for cell in self.layout.walls:
            self.grid.set(*cell, Wall())
        for cell, color in self.layout.doors:
            self.grid.set(*cell, Door(color))
        self.grid.set(*self.layout.tile, Goal())

    def _start(self, given: Any) -> tuple[Cell, int]:
        if given is not None:
            return self._checked(given, "start", self.layout.free_cells)
        if self.spawn == "fixed":
            return self.layout.start, 0
        return self._random_place(self.np_random)

    def _random_place(self, rng: np.random.Generator) -> tuple[Cell, int]:
        index, direction = divmod(int(rng.integers(4 * len(self.layout.free_cells))), 4)
        return self.layout.free_cells[index], direction

    def _goal(self, given: Any) -> tuple[Cell | None, Observation]:
        if given is None:
            return None, self._no_goal
        if isinstance(given, np.ndarray) and given.ndim > 1:
            return self._pictured_cell(given), given.copy()
        cell, direction = self._checked(given, "goal", self.layout.open_cells)
        return cell, self._picture(cell, direction)

    def _picture(self, cell: Cell, direction: int) -> Observation:
        """What the agent sees at a cell when every door is open, as in the paper's goal observations."""
        image = self._background.copy()
        for x, y in self.layout.door_cells:
            image[x, y, 2] = 0
        image[cell] = _AGENT[direction]
        return image

    def _pictured_cell(self, image: Observation) -> Cell:
        require(
            image.shape == self._background.shape and image.dtype == np.uint8,
            f"A goal observation of {self.layout.env_id} is a uint8 array of shape {self._background.shape}, "
            f"got {image.dtype} of shape {image.shape}.",
        )
        cells = np.argwhere(image[:, :, 0] == OBJECT_TO_IDX["agent"])
        require(
            len(cells) == 1,
            f"A goal observation of {self.layout.env_id} must show one agent (object {OBJECT_TO_IDX['agent']}), "
            f"this one shows {len(cells)}.",
        )
        x, y = cells[0]
        return self._checked((x, y, 0), "goal", self.layout.open_cells)[0]

    def _checked(self, pose: Any, role: str, allowed: tuple[Cell, ...]) -> tuple[Cell, int]:
        """Cell and direction of a pose given by a user."""
        numbers = np.asarray(pose, dtype=object).ravel().tolist()
        try:
            x, y, degrees = map(float, [*numbers, 0.0] if len(numbers) == 2 else numbers)
        except (TypeError, ValueError):
            raise UsageError(f"{role} must be a pose (x, y, degrees), got {pose!r}.") from None
        require(degrees % 90 == 0, f"The degrees of a {role} must be a multiple of 90, got {degrees:g}.")
        if (x, y) not in allowed:
            examples = ", ".join(str(cell) for cell in allowed[:: max(1, len(allowed) // 3)][:3])
            raise UsageError(
                f"{role} ({x:g}, {y:g}) is {self._obstacle((x, y))} of {self.layout.env_id}; "
                f"free cells are e.g. {examples}."
            )
        return (int(x), int(y)), int(degrees // 90) % 4

    def _obstacle(self, cell: Any) -> str:
        if cell in self.layout.walls:
            return "inside a wall"
        if cell in self.layout.door_cells:
            return "on a closed door"
        if not (0 <= cell[0] < self.width and 0 <= cell[1] < self.height):
            return f"outside the {self.width}x{self.height} grid"
        return "in no room" if cell[0] % 1 == cell[1] % 1 == 0 else "between the cells"

    def free_cells(self) -> list[Cell]:
        """Every reachable floor cell, doors not counted, row by row."""
        return list(self.layout.free_cells)

    def walking_distances(self, places: Array) -> Array:
        """[N, N] steps on foot between cells [N, 2], all doors open."""
        return self.layout.walking_distances(places)

    def default_task(self, pair: int = 0) -> Task:
        """The paper's start and target."""
        return Task("paper", pair, (*self.layout.start, 0.0), (*self.layout.target, 0.0), self.max_steps)

    def sample_task(self, rng: np.random.Generator, pair: int) -> Task:
        """A random start and heading, and another random cell as the goal."""
        start, direction = self._random_place(rng)
        others = [cell for cell in self.layout.free_cells if cell != start]
        goal = others[int(rng.integers(len(others)))]
        return Task("any", pair, (*start, 90.0 * direction), (*goal, 0.0), self.max_steps)

    def survey(self) -> tuple[Array, Array]:
        """Poses [N, 3] and observations [N, W, H, 3] of every cell and heading, all doors open."""
        places = [(cell, direction) for cell in self.layout.open_cells for direction in range(4)]
        poses: list[Pose] = [(x, y, 90.0 * direction) for (x, y), direction in places]
        return np.array(poses, np.float64), np.stack([self._picture(*place) for place in places])

    def map_image(self, tile: int) -> Array:
        """The map from above without the agent, doors closed: uint8 [H * tile, W * tile, 3]."""
        return np.asarray(Grid.decode(self._background)[0].render(tile, (-1, -1)))


def register_all() -> None:
    """Make the worlds known to Gymnasium as `sfl/NAME-v0`."""
    for layout in LAYOUTS.values():
        if layout.env_id not in gym.registry:
            gym.register(layout.env_id, "sfl.worlds.grids:GridWorld", kwargs={"layout": layout.name})
