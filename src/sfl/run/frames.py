"""Frames of a video: the world with landmarks and route, what the agent sees, wants and thinks beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from minigrid.minigrid_env import MiniGridEnv
from PIL import Image, ImageDraw, ImageFont

from sfl.data.types import GOAL, Array, Explanation, Observation
from sfl.envs import DoomConfig, MiniGridConfig, Task
from sfl.envs.minigrid import ACTIONS as GRID_ACTIONS
from sfl.envs.vizdoom import ACTIONS as MAZE_ACTIONS
from sfl.run.folder import LoadedRun, env_spec
from sfl.run.grid_frames import Grids, Pictures
from sfl.run.maze_frames import MazeViews
from sfl.run.paint import FAINT, INK, MARGIN, ORANGE, PANEL, PAPER, SIDE, SKY, WHITE, YELLOW, bar, dot
from sfl.run.path_recorder import PathRecorder
from sfl.run.scene import goal_place, poses_agree, spread

KEY = (("landmark", SKY), ("where it believes to be", YELLOW), ("route and target", ORANGE))
ENDS = {"reached": "reached the goal", "timeout": "out of time", "no_route": "out of time, no route"}
TITLE, LINE, BAR, KEY_LINE = 62, 26, 20, 24  # pixels of the title, and from one line of each kind to the next


class Scenery(Protocol):
    """A world in pictures."""

    unit: str
    """What distances on its map are measured in; empty where it has none."""

    def now(self, explanation: Explanation) -> Image.Image:
        """The world at this moment, from above where there is such a map, with what the agent thinks."""

    def view(self) -> Image.Image | None:
        """What the agent sees, where that is something else."""

    def picture(self, observation: Observation) -> Image.Image | None:
        """A goal, small; None if it is no picture."""


class Painter:
    """Draws the frames of one episode; all have the same even size, as video codecs want it."""

    def __init__(self, run: LoadedRun, env: PathRecorder, task: Task) -> None:
        self._title, self._subtitle = run.experiment.name, f"seed {run.seed}, {run.env_steps:,} training steps"
        self._budget, self._env = task.budget, env
        self._action_count = env_spec(env, 1).action_count
        goal, located = goal_place(task.goal), poses_agree(run)
        self._landmarks = run.landmark_poses[:, :2] if located else np.zeros((0, 2))
        self._world: Scenery
        self._actions: Sequence[str] = ()
        if isinstance(run.experiment.env, DoomConfig):
            self._world, self._actions = MazeViews(env, self._landmarks, goal), MAZE_ACTIONS
        elif isinstance(env.unwrapped, MiniGridEnv):
            places = spread(run.landmark_poses) if located else self._landmarks
            self._world = Grids(env, env.unwrapped, places, goal)
            self._actions = GRID_ACTIONS if isinstance(run.experiment.env, MiniGridConfig) else ()
        else:
            self._world, self._landmarks = Pictures(env), np.zeros((0, 2))

    def frame(
        self, goal: Observation | None, explanation: Explanation, steps: int, action: int | None, outcome: str | None
    ) -> Array:
        """The world as it is now, [H, W, 3], and the action that was chosen in it; at the end there is none."""
        world, view = self._world.now(explanation), self._world.view()
        wanted = None if goal is None else self._world.picture(goal)
        below = 0 if view is None else view.height + MARGIN + LINE
        panel = self._panel_height(0 if wanted is None or view is not None else wanted.height + LINE + MARGIN)
        height = max(world.height + below, SIDE, panel) + 2 * MARGIN
        canvas = Image.new("RGB", (SIDE + PANEL + 3 * MARGIN, height), PAPER)
        canvas.paste(world, (MARGIN + (SIDE - world.width) // 2, MARGIN))
        left, top = 2 * MARGIN + SIDE, self._write_title(canvas)
        facts = self._facts(explanation, steps, outcome)
        if view is not None:
            self._show(canvas, view, "what it sees", MARGIN, world.height + 2 * MARGIN)
        if wanted is not None:
            beside = (MARGIN + (SIDE - wanted.width), world.height + 2 * MARGIN) if view is not None else (left, top)
            self._show(canvas, wanted, "goal", *beside)
            top += wanted.height + LINE + MARGIN if view is None else 0
        elif goal is not None:
            facts.insert(0, ("goal", _described(goal)))
        top = self._write_facts(canvas, left, top, facts)
        self._draw_values(canvas, left, top + MARGIN, explanation, action)
        self._write_key(canvas, left)
        return np.asarray(canvas)[: canvas.height // 2 * 2, : canvas.width // 2 * 2]

    def _panel_height(self, goal: int) -> int:
        """What the panel needs at most, given the pixels of a goal's picture: no frame may be larger than another."""
        facts = 5 * LINE if goal else 6 * LINE  # the last says how it ended; a goal that is no picture is told
        return TITLE + goal + facts + MARGIN + LINE + BAR * self._action_count + MARGIN + KEY_LINE * len(KEY)

    def _facts(self, explanation: Explanation, steps: int, outcome: str | None) -> list[tuple[str, str]]:
        route, target = explanation.route, explanation.target
        passed = f"{route.index(target) + 1} of " if target in route else ""
        planned = f"{passed}{len(route)} waypoints" if route else "-"
        facts = [("step", f"{steps} of {self._budget}"), ("believes", self._belief(explanation))]
        facts += [("walks to", _name(target)), ("route", planned if explanation.route_found else "none found")]
        return facts if outcome is None else [*facts, ("end", ENDS[outcome])]

    def _belief(self, explanation: Explanation) -> str:
        """The landmark at which the agent believes to be, and how far that is from where it is."""
        name, here = _name(explanation.localized), self._env.here
        if explanation.localized is None or here is None or not len(self._landmarks):
            return name
        off = float(np.linalg.norm(self._landmarks[explanation.localized] - here[:2]))
        digits = 0 if self._world.unit != "cell" or off.is_integer() else 1
        return f"{name}, {off:.{digits}f} {self._world.unit}{'' if off == 1 else 's'} off"

    def _write_title(self, canvas: Image.Image) -> int:
        """The run's name; returns where the panel goes on."""
        draw, left = ImageDraw.Draw(canvas), 2 * MARGIN + SIDE
        draw.text((left, MARGIN), self._title, fill=INK, font=ImageFont.load_default(21))
        draw.text((left, MARGIN + 29), self._subtitle, fill=FAINT, font=ImageFont.load_default(15))
        return MARGIN + TITLE

    @staticmethod
    def _show(canvas: Image.Image, picture: Image.Image, name: str, left: int, top: int) -> None:
        ImageDraw.Draw(canvas).text((left, top), name, fill=FAINT, font=ImageFont.load_default(15))
        canvas.paste(picture, (left, top + LINE))

    @staticmethod
    def _write_facts(canvas: Image.Image, left: int, top: int, facts: Sequence[tuple[str, str]]) -> int:
        draw = ImageDraw.Draw(canvas)
        for name, value in facts:
            draw.text((left, top), name, fill=FAINT, font=ImageFont.load_default(15))
            draw.text((left + 74, top - 2), value, fill=INK, font=ImageFont.load_default(17))
            top += LINE
        return top

    def _draw_values(
        self, canvas: Image.Image, left: int, top: int, explanation: Explanation, action: int | None
    ) -> None:
        """A bar for each action, from the lowest value to the highest; the chosen one stands out."""
        draw, values = ImageDraw.Draw(canvas), explanation.values
        if not values:
            return
        draw.text((left, top), explanation.values_name, fill=FAINT, font=ImageFont.load_default(15))
        low, span = min(values), (max(values) - min(values)) or 1.0
        for number, value in enumerate(values):
            line = top + LINE + BAR * number
            name = self._actions[number] if number < len(self._actions) else f"action {number}"
            ink = ORANGE if number == action else FAINT
            draw.text((left, line), name, fill=ink, font=ImageFont.load_default(14))
            bar(draw, (left + 92, line + 3), PANEL - 160, 12, 0.06 + 0.94 * (value - low) / span, ink)
            right = left + PANEL - 4
            draw.text((right, line), f"{value:.3f}", fill=ink, font=ImageFont.load_default(14), anchor="ra")

    def _write_key(self, canvas: Image.Image, left: int) -> None:
        draw = ImageDraw.Draw(canvas)
        for number, (word, colour) in enumerate(KEY if len(self._landmarks) else ()):
            line, ring = canvas.height - MARGIN - KEY_LINE * (len(KEY) - number), colour is YELLOW
            dot(draw, (left + 8, line + 10), 7, None if ring else colour, YELLOW if ring else WHITE)
            draw.text((left + 26, line), word, fill=FAINT, font=ImageFont.load_default(15))


def _described(goal: Observation) -> str:
    """A goal that is no picture, in words."""
    one_hot = goal.ndim == 1 and np.count_nonzero(goal) == 1 and goal.max() == 1
    return f"state {int(goal.argmax())}" if one_hot else f"{goal.size} numbers"


def _name(waypoint: int | None) -> str:
    return "-" if waypoint is None else "the goal" if waypoint == GOAL else f"landmark {waypoint}"
