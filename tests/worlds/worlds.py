"""What several tests of the grid worlds need."""

from __future__ import annotations

from collections import deque
from typing import Any

import gymnasium as gym

from sfl.worlds import GridWorld
from sfl.worlds.grids import LAYOUTS, Layout

IDS = [layout.env_id for layout in LAYOUTS.values()]
State = tuple[tuple[int, int], int, tuple[bool, ...]]


def world(name: str, **arguments: Any) -> GridWorld:
    """An environment without Gymnasium's wrappers."""
    env = gym.make(f"sfl/{name}-v0", disable_env_checker=True, **arguments).unwrapped
    assert isinstance(env, GridWorld)
    return env


def doors(env: GridWorld) -> list[Any]:
    return [env.grid.get(*cell) for cell in env.layout.door_cells]


def state_of(env: GridWorld) -> State:
    return (env.agent_pos[0], env.agent_pos[1]), env.agent_dir, tuple(door.is_open for door in doors(env))


def put(env: GridWorld, state: State) -> None:
    env.agent_pos, env.agent_dir, is_open = state
    for door, value in zip(doors(env), is_open, strict=True):
        door.is_open = value


def distances(env: GridWorld) -> dict[State, int]:
    """Fewest actions from the start to every state (cell, heading, doors), by trying all actions in the real world."""
    env.reset(options={"goal": None})
    first = state_of(env)
    found = {first: 0}
    queue = deque([first])
    while queue:
        state = queue.popleft()
        for action in range(4):
            put(env, state)
            env.step(action)
            after = state_of(env)
            if after not in found:
                found[after] = found[state] + 1
                queue.append(after)
    return found


def drawing(layout: Layout) -> str:
    """A layout as the documentation draws it: # wall, . floor, D door, A start, T target, G green tile."""
    marks = {cell: "." for cell in layout.open_cells} | dict.fromkeys(layout.walls, "#")
    marks |= dict.fromkeys(layout.door_cells, "D")
    marks |= {layout.start: "A", layout.target: "T", layout.tile: "G"}
    columns, rows = [x for x, _ in marks], [y for _, y in marks]
    lines = [
        "".join(marks.get((x, y), " ") for x in range(min(columns), max(columns) + 1)).rstrip()
        for y in range(min(rows), max(rows) + 1)
    ]
    return "\n".join(lines)
