"""Goals as users give them: a pose, a saved observation, or a picture."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from minigrid.core.grid import Grid
from minigrid.core.world_object import Door
from minigrid.minigrid_env import MiniGridEnv
from PIL import Image

from sfl.api import Array
from sfl.config import require
from sfl.errors import FileError
from sfl.files import array_in, read_bytes
from sfl.worlds import Pose
from sfl.worlds.session import Env

TILE_TOLERANCE = 12.0  # mean difference of colour values (0 to 255) up to which two tiles count as the same
KNOWN_SHARE = 0.9  # share of a picture's tiles that must show this map; doors may be open or closed
LONGEST = 4096  # pixels of the longer side of a picture that is read
MOST_TILE = 64  # pixels of a tile in a picture of the map: each is compared with tiles that are drawn here
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
        goal = array_in(read_bytes(path), f"Goal file {path}")
        require(goal.dtype.kind in "biuf", f"Goal file {path} holds words instead of numbers; save an observation.")
        require(bool(np.isfinite(goal).all()), f"Goal file {path} holds numbers that are none: NaN or infinite.")
        return goal
    name = f"Goal picture {path}"
    return goal_in_picture(name, picture_in(read_bytes(path), name), env)


_NO_PICTURE = (OSError, ValueError, SyntaxError, EOFError, LookupError, TypeError, OverflowError)
"""What Pillow raises of Python's own errors for pictures that are none or are cut off."""


def picture_in(content: bytes, name: str) -> Array:
    """The picture [H, W, 3] in a PNG or JPEG file. Its size is looked at before room is made for it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's, of several lines: of notes in the file that are not looked at
            picture = Image.open(io.BytesIO(content), formats=("PNG", "JPEG"))
            width, height = picture.size
            if max(width, height) <= LONGEST:
                return np.asarray(picture.convert("RGB"))
    except Image.DecompressionBombError:  # it does not tell the size
        raise FileError(f"{name} is far too large; pictures of at most {LONGEST}x{LONGEST} pixels are read.") from None
    except (*_NO_PICTURE, struct.error, zlib.error) as error:
        raise FileError(f"{name} cannot be read as a picture; give a PNG or JPEG file.") from error
    raise FileError(f"{name} is {width}x{height} pixels; at most {LONGEST}x{LONGEST} are read.")


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
    require(tile <= MOST_TILE, f"{name} has tiles of {tile} pixels; give one whose tiles have at most {MOST_TILE}.")
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
