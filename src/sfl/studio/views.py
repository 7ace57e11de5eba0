"""What a player sees, as pictures for a page, and pictures from a page as goals."""

from __future__ import annotations

import base64
import io
import re
from typing import Literal

import numpy as np
from minigrid.core.constants import OBJECT_TO_IDX
from minigrid.core.grid import Grid
from minigrid.minigrid_env import MiniGridEnv
from PIL import Image

from sfl.api import Array, Decision, Observation
from sfl.config import require
from sfl.errors import SflError, UsageError
from sfl.run.goals import picture_in
from sfl.show.video import Pictures, fitted
from sfl.worlds.doom.protocol import FRAME_SHAPE
from sfl.worlds.session import Env

SIDE = 320
"""Pixels of the longer side of a picture, at most."""

TILES = (8, 32)
"""Pixels of a cell of a grid, at least and at most."""

QUALITY = 85
"""Of the frames of a maze, as JPEG: a tenth of the size, and nobody measures them."""

PROPORTION = 0.02
"""Share by which a picture may be wider or higher than the frames of a maze."""

_ENCODED = re.compile(r"data:image/(?:png|jpeg);base64,([A-Za-z0-9+/=\s]+)")


class Window:
    """A world as its player, or whoever looks on, sees it; None where it cannot be drawn."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._grid = env.unwrapped if isinstance(env.unwrapped, MiniGridEnv) else None
        self._in_maze = env.has_wrapper_attr("maze")
        self._drawable = True
        if self._grid is not None:
            self._tile = min(TILES[1], max(TILES[0], SIDE // max(self._grid.width, self._grid.height)))

    def now(self) -> str | None:
        """At this moment: a maze through the player's eyes, a grid from above and whole, so that it can be a goal."""
        if self._grid is not None:
            return _encoded(self._grid.get_frame(highlight=False, tile_size=self._tile), "PNG")
        if self._in_maze:
            return _encoded(np.asarray(self._env.render()), "JPEG")
        if not self._drawable:
            return None
        try:
            return _encoded(np.asarray(fitted(Pictures(self._env).now(Decision()), SIDE)), "PNG")
        except SflError:  # it will not learn to draw itself
            self._drawable = False
            return None

    def of(self, observation: Observation) -> str | None:
        """An observation, such as the goal's, without loss: it may come back as a goal."""
        if self._grid is not None and observation.shape == (self._grid.width, self._grid.height, 3):
            return _encoded(_drawn(observation, self._tile), "PNG")
        picture = observation.dtype == np.uint8 and observation.ndim == 3 and observation.shape[2] == 3
        return _encoded(observation, "PNG") if picture else None


def _drawn(observation: Observation, tile: int) -> Array:
    """The whole grid with the agent in it, [H, W, 3]."""
    agents = np.argwhere(observation[:, :, 0] == OBJECT_TO_IDX["agent"]).tolist()
    x, y = agents[0] if agents else (-1, -1)
    return np.asarray(Grid.decode(observation)[0].render(tile, (x, y), int(observation[x, y, 2]) if agents else None))


def _encoded(picture: Array, kind: Literal["PNG", "JPEG"]) -> str:
    """As an address that holds the picture itself."""
    body = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture)).save(body, kind, quality=QUALITY)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(body.getvalue()).decode()}"


def read_picture(address: str) -> Array:
    """The picture [H, W, 3] in an address that a page sends."""
    found = _ENCODED.fullmatch(address)
    require(found is not None, "A goal picture must be data:image/png;base64,... or data:image/jpeg;base64,...")
    assert found is not None
    try:
        content = base64.b64decode(found[1])
    except ValueError as error:
        raise UsageError("The goal picture cannot be read: its base64 is damaged.") from error
    return picture_in(content, "The goal picture")


def as_frame(picture: Array) -> Observation:
    """A picture in the size of the frames of a maze."""
    height, width = FRAME_SHAPE[:2]
    wide = (picture.shape[1] * height) / (picture.shape[0] * width)
    fits = abs(wide - 1) <= PROPORTION
    require(
        fits,
        f"The goal picture is {picture.shape[1]}x{picture.shape[0]} pixels; a view of a maze is {width}x{height} or "
        "has the same proportions.",
    )
    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.BOX), np.uint8)
