"""Worlds without a first-person view in a video: grids with what the agent thinks, others as they draw themselves."""

from __future__ import annotations

import gymnasium
import numpy as np
from minigrid.core.constants import OBJECT_TO_IDX
from minigrid.core.grid import Grid
from minigrid.minigrid_env import MiniGridEnv
from PIL import Image, ImageDraw, ImageFont

from sfl.core.errors import SflError
from sfl.data.types import GOAL, Array, Explanation, Observation
from sfl.run.paint import GOAL_SIDE, GREEN, ORANGE, PAPER, SIDE, SKY, SMOOTH, WHITE, YELLOW, dashed, dot, fitted
from sfl.run.path_recorder import PathRecorder
from sfl.run.rollout import Env
from sfl.run.scene import Box, chart, magnified, route_places

READABLE = 40  # pixels of a cell from which on landmarks are numbered


class Grids:
    """A MiniGrid world in pictures, cut to its rooms, with landmarks and route under the agent."""

    unit = "cell"

    def __init__(self, env: PathRecorder, base: MiniGridEnv, landmarks: Array, goal: Array | None) -> None:
        self._env, self._base, self._landmarks, self._goal = env, base, landmarks, goal
        found = chart(env)
        self._box: Box = (0, 0, base.width, base.height) if found is None else found.window
        self._outside = None if found is None else found.outside
        self._marks: tuple[tuple[object, ...], Image.Image] | None = None
        self.tile = SIDE // max(self._box[2] - self._box[0], self._box[3] - self._box[1])

    def now(self, explanation: Explanation) -> Image.Image:
        """What it looks like at this moment."""
        world = self._cut(self._base.get_frame(highlight=False, tile_size=self.tile))
        return _under_agent(world, self._layer(world.size, explanation))

    def view(self) -> Image.Image | None:
        """The agent sees the whole grid, which is there already."""
        return None

    def picture(self, observation: Observation) -> Image.Image | None:
        """An observation of the whole grid, small; None if it is of another kind."""
        if observation.shape != (self._base.width, self._base.height, 3):
            return None
        agents = np.argwhere(observation[:, :, 0] == OBJECT_TO_IDX["agent"]).tolist()
        place = (agents[0][0], agents[0][1]) if agents else (-1, -1)
        direction = int(observation[place][2]) if agents else None
        return fitted(self._cut(Grid.decode(observation)[0].render(self.tile, place, direction)), GOAL_SIDE)

    def _layer(self, size: tuple[int, int], explanation: Explanation) -> Image.Image:
        """The marks as a transparent picture; most steps have the same as the step before."""
        here = None if explanation.localized is None or self._env.here is None else tuple(self._env.here)
        shown = explanation.localized, explanation.target, explanation.route, here
        if self._marks is None or self._marks[0] != shown:
            layer = Image.new("RGBA", (size[0] * SMOOTH, size[1] * SMOOTH), (0, 0, 0, 0))
            self._draw_marks(ImageDraw.Draw(layer), explanation)
            self._marks = shown, layer.resize(size, Image.Resampling.LANCZOS)
        return self._marks[1]

    def _draw_marks(self, draw: ImageDraw.ImageDraw, explanation: Explanation) -> None:
        unit = self.tile * SMOOTH
        if self._goal is not None:
            x, y = self._pixels(self._goal)
            half = 0.46 * unit
            draw.rectangle((x - half, y - half, x + half, y + half), outline=GREEN, width=unit // 14)
        if not len(self._landmarks):
            return
        stops = [self._pixels(place) for place in route_places(explanation, self._landmarks, self._goal)]
        target = explanation.route.index(explanation.target) if explanation.target in explanation.route else 0
        for number in range(1, len(stops)):
            faded = number < target
            draw.line((stops[number - 1], stops[number]), fill=(*ORANGE, 80 if faded else 235), width=unit // 11)
        for number, place in enumerate(self._landmarks):
            point, aimed = self._pixels(place), number == explanation.target
            colour = ORANGE if number in explanation.route else SKY
            dot(draw, point, (0.24 if aimed else 0.16) * unit, colour, WHITE, unit // (16 if aimed else 40))
            if self.tile >= READABLE:
                draw.text(point, str(number), fill="black", font=ImageFont.load_default(0.19 * unit), anchor="mm")
        if explanation.localized is not None:
            believed = self._pixels(self._landmarks[explanation.localized])
            dot(draw, believed, 0.27 * unit, None, YELLOW, unit // 16)
            if self._env.here is not None:
                dashed(draw, self._pixels(self._env.here), believed, YELLOW, unit // 24)
        if explanation.target == GOAL and self._goal is not None:
            dot(draw, self._pixels(self._goal), 0.24 * unit, None, ORANGE, unit // 12)

    def _pixels(self, place: Array) -> tuple[float, float]:
        """Where a place in cells lies on the layer of marks."""
        unit = self.tile * SMOOTH
        return (float(place[0]) - self._box[0] + 0.5) * unit, (float(place[1]) - self._box[1] + 0.5) * unit

    def _cut(self, picture: Array) -> Image.Image:
        picture = np.array(picture)
        if self._outside is not None:
            picture[magnified(self._outside, self.tile)] = PAPER
        left, top, right, bottom = (self.tile * edge for edge in self._box)
        return Image.fromarray(picture[top:bottom, left:right])


class Pictures:
    """Any other world, as it draws itself."""

    unit = ""

    def __init__(self, env: Env) -> None:
        self._env = env

    def now(self, explanation: Explanation) -> Image.Image:
        """What it looks like at this moment; nothing is drawn in, for nobody knows where."""
        try:
            picture = self._env.render()
        except NotImplementedError:  # what Gymnasium's own says in a world without one
            picture = None
        except gymnasium.error.Error as error:  # a package for drawing is missing
            raise SflError(f"This environment cannot be filmed: {str(error).splitlines()[0]}") from error
        if not isinstance(picture, np.ndarray) or picture.ndim != 3:
            raise SflError("This environment cannot be filmed: it has no render mode 'rgb_array'.")
        return fitted(Image.fromarray(picture[:, :, :3].astype(np.uint8)), SIDE)

    def view(self) -> Image.Image | None:
        """The same picture."""
        return None

    def picture(self, observation: Observation) -> Image.Image | None:
        """An observation that is a picture itself, small; None otherwise."""
        if observation.dtype != np.uint8 or observation.ndim != 3 or observation.shape[2] != 3:
            return None
        return fitted(Image.fromarray(observation), GOAL_SIDE)


def _under_agent(world: Image.Image, layer: Image.Image) -> Image.Image:
    """Lay the marks over the world, but under the red agent."""
    pixels = np.asarray(world)
    agent = (pixels[:, :, 0] > 200) & (pixels[:, :, 1:].max(2) < 60)
    marked = np.array(Image.alpha_composite(world.convert("RGBA"), layer).convert("RGB"))
    marked[agent] = pixels[agent]
    return Image.fromarray(marked)
