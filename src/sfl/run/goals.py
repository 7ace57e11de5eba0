"""Goals as users give them: a pose, a saved observation, or a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from minigrid.core.grid import Grid
from minigrid.core.world_object import Door
from minigrid.minigrid_env import MiniGridEnv

from sfl.core.config import require
from sfl.core.errors import UsageError
from sfl.data.types import Array
from sfl.envs import Pose
from sfl.run.rollout import Env

TILE_TOLERANCE = 12.0  # mean difference of colour values (0 to 255) up to which two tiles count as the same
KNOWN_SHARE = 0.9  # share of a picture's tiles that must show this map; doors may be open or closed
NOBODY, UNKNOWN = -1, -2  # beside the four directions an agent can face


def parse_pose(text: str, what: str) -> Pose:
    """`x,y` or `x,y,degrees`."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    require(len(numbers) in (2, 3), f"{what} must be x,y or x,y,degrees, got {text!r}.")
    return (numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else 0.0)


def read_goal(text: str, env: Env) -> Pose | Array:
    """A goal from the command line: a pose, or a file with an observation (.npy) or a picture (.png)."""
    path = Path(text)
    if not path.exists():
        looks_like_file = path.suffix in (".npy", ".png") or "," not in text
        require(not looks_like_file, f"Goal file {text} does not exist; give a .npy or .png file, or x,y,degrees.")
        return parse_pose(text, "--goal")
    if path.suffix == ".npy":
        return _read_array(path)
    return goal_in_picture(f"Goal picture {path}", _read_picture(path), env)


def _read_array(path: Path) -> Array:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise UsageError(f"Goal file {path} is not a saved NumPy array: {error}.") from error


def _read_picture(path: Path) -> Array:
    import imageio.v3

    try:
        return np.asarray(imageio.v3.imread(path, mode="RGB", plugin="pillow"))
    except (OSError, ValueError) as error:  # what pillow raises for files that are no pictures
        raise UsageError(f"Goal file {path} cannot be read as a picture; give a .png or a saved .npy array.") from error


def goal_in_picture(name: str, picture: Array, env: Env) -> Pose | Array:
    """What a picture [H, W, 3] shows: an observation, or the agent on the map; `name` is what an error calls it."""
    space: Any = env.observation_space
    if picture.shape == space["observation"].shape:
        return picture.astype(space["observation"].dtype)
    require(
        isinstance(env.unwrapped, MiniGridEnv),
        f"{name} has shape {picture.shape}, the observations have {space['observation'].shape}.",
    )
    return _pose_in_map(name, picture, env.unwrapped)


def _pose_in_map(name: str, picture: Array, world: Any) -> Pose:
    """Find the agent in a picture of the map: the one tile that looks like an agent facing one of four ways."""
    tile = picture.shape[0] // world.height
    require(
        tile > 0 and picture.shape[:2] == (tile * world.height, tile * world.width),
        f"{name} is {picture.shape[1]}x{picture.shape[0]} pixels; a picture of this "
        f"{world.width}x{world.height} map has as many whole tiles.",
    )
    tiles = picture.reshape(world.height, tile, world.width, tile, 3).swapaxes(1, 2).astype(float)
    seen = {(x, y): _agent_direction(tiles[y, x], world.grid.get(x, y)) for y, x in np.ndindex(tiles.shape[:2])}
    agents = [(x, y, direction) for (x, y), direction in seen.items() if direction not in (NOBODY, UNKNOWN)]
    require(len(agents) == 1, f"{name} must show one agent on the map, it shows {len(agents)}.")
    known = sum(direction != UNKNOWN for direction in seen.values()) / len(seen)
    require(known >= KNOWN_SHARE, f"{name} shows another map than this environment's.")
    x, y, direction = agents[0]
    return (float(x), float(y), 90.0 * direction)


def _agent_direction(tile: Array, thing: Any) -> int:
    """The direction of the agent in a tile, NOBODY without an agent, UNKNOWN where the tile shows something else."""
    things = [thing, Door(thing.color, is_open=not thing.is_open)] if isinstance(thing, Door) else [thing]
    looks = {
        direction: min(_difference(tile, each, direction) for each in things) for direction in (NOBODY, 0, 1, 2, 3)
    }
    best = min(looks, key=lambda direction: looks[direction])
    return best if looks[best] <= TILE_TOLERANCE else UNKNOWN


def _difference(tile: Array, thing: Any, direction: int) -> float:
    facing = None if direction == NOBODY else direction
    look = Grid.render_tile(thing, facing, highlight=False, tile_size=len(tile))
    return float(np.abs(tile - look).mean())
