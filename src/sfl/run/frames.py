"""Frames of a video: the world with landmarks and route on the left, what the agent thinks beside it."""

from __future__ import annotations

import textwrap

import gymnasium
import numpy as np
from minigrid.core.constants import OBJECT_TO_IDX
from minigrid.core.grid import Grid
from minigrid.minigrid_env import MiniGridEnv
from PIL import Image, ImageDraw, ImageFont

from sfl.core.errors import SflError
from sfl.data.types import GOAL, Array, Explanation, Observation
from sfl.envs import Task
from sfl.run.folder import LoadedRun
from sfl.run.maze_frames import MazeViews, PathRecorder
from sfl.run.paint import (
    FAINT,
    GREEN,
    INK,
    MARGIN,
    ORANGE,
    PANEL,
    PAPER,
    SIDE,
    SKY,
    SMOOTH,
    WHITE,
    YELLOW,
    dot,
    fitted,
)
from sfl.run.rollout import Env
from sfl.run.scene import Box, chart, goal_place, magnified, poses_agree, route_places, spread

READABLE = 40  # pixels of a cell from which on landmarks are numbered
KEY = (("landmark", SKY), ("where it believes to be", YELLOW), ("route and target", ORANGE))
ENDS = {"reached": "reached the goal", "timeout": "out of time", "no_route": "out of time, no route"}


class Painter:
    """Draws the frames of one episode; all have the same even size, as video codecs want it."""

    def __init__(self, run: LoadedRun, env: Env, task: Task) -> None:
        self._title, self._subtitle = run.experiment.name, f"seed {run.seed}, {run.env_steps:,} training steps"
        self._budget = task.budget
        self._goal = goal_place(task.goal)
        self._places = run.landmark_poses[:, :2] if poses_agree(run) else np.zeros((0, 2))
        self._world: Grids | MazeViews | Pictures
        if isinstance(env, PathRecorder):
            self._world = MazeViews(env, self._places, self._goal)
        elif isinstance(env.unwrapped, MiniGridEnv):
            self._world = Grids(env, env.unwrapped)
            self._places = spread(run.landmark_poses) if len(self._places) else self._places
        else:
            self._world, self._places = Pictures(env), np.zeros((0, 2))
        self._marks: tuple[Explanation, Image.Image] | None = None

    def frame(self, goal: Observation | None, explanation: Explanation, steps: int, outcome: str | None) -> Array:
        """The world as it is now, [H, W, 3]."""
        world = self._world.now(explanation) if isinstance(self._world, MazeViews) else self._world.now()
        if isinstance(self._world, Grids):
            world = _under_agent(world, self._layer(world.size, explanation, self._world))
        canvas = Image.new("RGB", (world.width + PANEL + 3 * MARGIN, max(world.height, SIDE) + 2 * MARGIN), PAPER)
        canvas.paste(world, (MARGIN, MARGIN))
        facts = self._facts(explanation, steps, outcome)
        picture = None if goal is None else self._world.picture(goal)
        if goal is not None and picture is None:
            facts.insert(0, ("goal", _described(goal)))
        self._write(canvas, 2 * MARGIN + world.width, picture, facts)
        return np.asarray(canvas)[: canvas.height // 2 * 2, : canvas.width // 2 * 2]

    def _facts(self, explanation: Explanation, steps: int, outcome: str | None) -> list[tuple[str, str]]:
        route = (
            " > ".join(_name(waypoint) for waypoint in explanation.route) if explanation.route_found else "none found"
        )
        facts = [("step", f"{steps} of {self._budget}"), ("is at", _name(explanation.localized))]
        facts += [("goes to", _name(explanation.target)), ("route", textwrap.fill(route, 22, max_lines=5) or "-")]
        return facts if outcome is None else [*facts, ("end", ENDS[outcome])]

    def _write(self, canvas: Image.Image, left: int, goal: Image.Image | None, facts: list[tuple[str, str]]) -> None:
        draw, top = ImageDraw.Draw(canvas), MARGIN + 62
        draw.text((left, MARGIN), self._title, fill=INK, font=ImageFont.load_default(21))
        draw.text((left, MARGIN + 29), self._subtitle, fill=FAINT, font=ImageFont.load_default(15))
        if goal is not None:
            draw.text((left, top), "goal", fill=FAINT, font=ImageFont.load_default(15))
            canvas.paste(goal, (left, top + 24))
            top += goal.height + 44
        for name, value in facts:
            draw.text((left, top), name, fill=FAINT, font=ImageFont.load_default(15))
            draw.multiline_text((left + 74, top - 2), value, fill=INK, font=ImageFont.load_default(17), spacing=5)
            top += 30 + 23 * value.count("\n")
        for number, (word, colour) in enumerate(KEY if len(self._places) else ()):
            line = canvas.height - MARGIN - 24 * (len(KEY) - number)
            dot(
                draw,
                (left + 8, line + 10),
                7,
                None if colour is YELLOW else colour,
                YELLOW if colour is YELLOW else WHITE,
            )
            draw.text((left + 26, line), word, fill=FAINT, font=ImageFont.load_default(15))

    # ---- marks on the world

    def _layer(self, size: tuple[int, int], explanation: Explanation, world: Grids) -> Image.Image:
        """The marks as a transparent picture; most steps have the same as the step before."""
        if self._marks is None or self._marks[0] != explanation:
            layer = Image.new("RGBA", (size[0] * SMOOTH, size[1] * SMOOTH), (0, 0, 0, 0))
            self._draw_marks(ImageDraw.Draw(layer), explanation, world)
            self._marks = explanation, layer.resize(size, Image.Resampling.LANCZOS)
        return self._marks[1]

    def _draw_marks(self, draw: ImageDraw.ImageDraw, explanation: Explanation, world: Grids) -> None:
        unit = world.tile * SMOOTH
        if self._goal is not None:
            x, y = world.pixels(self._goal)
            half = 0.46 * unit
            draw.rectangle((x - half, y - half, x + half, y + half), outline=GREEN, width=unit // 14)
        if not len(self._places):
            return
        stops = [world.pixels(place) for place in route_places(explanation, self._places, self._goal)]
        target = explanation.route.index(explanation.target) if explanation.target in explanation.route else 0
        for number in range(1, len(stops)):
            faded = number < target
            draw.line((stops[number - 1], stops[number]), fill=(*ORANGE, 80 if faded else 235), width=unit // 11)
        for number, place in enumerate(self._places):
            point, aimed = world.pixels(place), number == explanation.target
            colour = ORANGE if number in explanation.route else SKY
            dot(draw, point, (0.24 if aimed else 0.16) * unit, colour, WHITE, unit // (16 if aimed else 40))
            if world.tile >= READABLE:
                draw.text(point, str(number), fill="black", font=ImageFont.load_default(0.19 * unit), anchor="mm")
        if explanation.localized is not None:
            dot(draw, world.pixels(self._places[explanation.localized]), 0.27 * unit, None, YELLOW, unit // 16)
        if explanation.target == GOAL and self._goal is not None:
            dot(draw, world.pixels(self._goal), 0.24 * unit, None, ORANGE, unit // 12)


class Grids:
    """A MiniGrid world in pictures, cut to its rooms."""

    def __init__(self, env: Env, base: MiniGridEnv) -> None:
        self._base = base
        found = chart(env)
        self._box: Box = (0, 0, base.width, base.height) if found is None else found.window
        self._outside = None if found is None else found.outside
        self.tile = SIDE // max(self._box[2] - self._box[0], self._box[3] - self._box[1])

    def now(self) -> Image.Image:
        """What it looks like at this moment."""
        return self._cut(self._base.get_frame(highlight=False, tile_size=self.tile))

    def picture(self, observation: Observation) -> Image.Image | None:
        """An observation of the whole grid, small; None if it is of another kind."""
        if observation.shape != (self._base.width, self._base.height, 3):
            return None
        agents = np.argwhere(observation[:, :, 0] == OBJECT_TO_IDX["agent"]).tolist()
        place = (agents[0][0], agents[0][1]) if agents else (-1, -1)
        direction = int(observation[place][2]) if agents else None
        return fitted(self._cut(Grid.decode(observation)[0].render(self.tile, place, direction)), PANEL * 2 // 3)

    def pixels(self, place: Array) -> tuple[float, float]:
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

    def __init__(self, env: Env) -> None:
        self._env = env

    def now(self) -> Image.Image:
        """What it looks like at this moment."""
        try:
            picture = self._env.render()
        except gymnasium.error.Error as error:  # a package for drawing is missing
            raise SflError(f"This environment cannot be filmed: {str(error).splitlines()[0]}") from error
        if not isinstance(picture, np.ndarray) or picture.ndim != 3:
            raise SflError("This environment cannot be filmed: it has no render mode 'rgb_array'.")
        return fitted(Image.fromarray(picture[:, :, :3].astype(np.uint8)), SIDE)

    def picture(self, observation: Observation) -> Image.Image | None:
        """An observation that is a picture itself, small; None otherwise."""
        if observation.dtype != np.uint8 or observation.ndim != 3 or observation.shape[2] != 3:
            return None
        return fitted(Image.fromarray(observation), PANEL * 2 // 3)


def _under_agent(world: Image.Image, layer: Image.Image) -> Image.Image:
    """Lay the marks over the world, but under the red agent."""
    pixels = np.asarray(world)
    agent = (pixels[:, :, 0] > 200) & (pixels[:, :, 1:].max(2) < 60)
    marked = np.array(Image.alpha_composite(world.convert("RGBA"), layer).convert("RGB"))
    marked[agent] = pixels[agent]
    return Image.fromarray(marked)


def _described(goal: Observation) -> str:
    """A goal that is no picture, in words."""
    one_hot = goal.ndim == 1 and np.count_nonzero(goal) == 1 and goal.max() == 1
    return f"state {int(goal.argmax())}" if one_hot else f"{goal.size} numbers"


def _name(waypoint: int | None) -> str:
    return "-" if waypoint is None else "goal" if waypoint == GOAL else str(waypoint)
