"""A maze of ViZDoom in a video: the map with path, route and landmarks, and what the player sees."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from sfl.data.types import Array, Explanation, Observation
from sfl.envs.mazes import Maze
from sfl.envs.vizdoom import GOAL_RADIUS
from sfl.run.paint import (
    EYE,
    FAINT,
    GOAL_SIDE,
    GREEN,
    INK,
    MARGIN,
    ORANGE,
    PAPER,
    RED,
    SIDE,
    SKY,
    SMOOTH,
    WHITE,
    YELLOW,
    dashed,
    dot,
    fitted,
)
from sfl.run.path_recorder import PathRecorder
from sfl.run.scene import route_places

Point = tuple[float, float]


class MazeViews:
    """The map, and the player's view."""

    unit = "unit"

    def __init__(self, env: PathRecorder, landmarks: Array, goal: Array | None) -> None:
        maze: Maze = env.get_wrapper_attr("maze")
        ends = maze.walls.reshape(-1, 2)
        self._env, self._landmarks, self._goal = env, landmarks, goal
        self._corner = np.array([ends[:, 0].min(), ends[:, 1].max()])  # upper left: y points up in mazes
        extent = np.ptp(ends, axis=0)
        self._scale = SMOOTH * (SIDE - 2 * MARGIN) / float(extent.max())
        self._floor = self._draw_floor(maze, extent)

    def now(self, explanation: Explanation) -> Image.Image:
        """The map at this moment."""
        plan = self._floor.copy()
        draw = ImageDraw.Draw(plan)
        if len(self._landmarks):
            self._draw_thoughts(draw, explanation)
        path = [self._point(pose) for pose in self._env.path]
        if len(path) > 1:
            draw.line(path, fill=INK, width=2 * SMOOTH, joint="curve")
        dot(draw, path[0], 4 * SMOOTH, PAPER, INK, 2 * SMOOTH)
        draw.polygon(self._arrow(self._env.path[-1]), fill=RED, outline=WHITE)
        return plan.resize((plan.width // SMOOTH, plan.height // SMOOTH), Image.Resampling.LANCZOS)

    def view(self) -> Image.Image | None:
        """What the player sees."""
        return fitted(Image.fromarray(np.asarray(self._env.render())), EYE)

    def picture(self, observation: Observation) -> Image.Image | None:
        """A frame, small."""
        return fitted(Image.fromarray(observation), GOAL_SIDE)

    def _draw_floor(self, maze: Maze, extent: Array) -> Image.Image:
        """What stays the same: walls, landmarks and goal."""
        width, height = (round(self._scale * length) + 2 * SMOOTH * MARGIN for length in extent.tolist())
        floor = Image.new("RGB", (width, height), PAPER)
        draw = ImageDraw.Draw(floor)
        for wall in maze.walls.reshape(-1, 2, 2):
            draw.line([self._point(end) for end in wall], fill=FAINT, width=2 * SMOOTH)
        for place in self._landmarks:
            dot(draw, self._point(place), 2 * SMOOTH, SKY, SKY)
        if self._goal is not None:
            dot(draw, self._point(self._goal), self._scale * GOAL_RADIUS, None, GREEN, 2 * SMOOTH)
            dot(draw, self._point(self._goal), 4 * SMOOTH, GREEN, WHITE)
        return floor

    def _draw_thoughts(self, draw: ImageDraw.ImageDraw, explanation: Explanation) -> None:
        stops = [self._point(place) for place in route_places(explanation, self._landmarks, self._goal)]
        if len(stops) > 1:
            draw.line(stops, fill=ORANGE, width=2 * SMOOTH)
        for stop in stops:
            dot(draw, stop, 3 * SMOOTH, ORANGE, ORANGE)
        if explanation.target is not None and explanation.target >= 0:
            dot(draw, self._point(self._landmarks[explanation.target]), 5 * SMOOTH, ORANGE, WHITE, SMOOTH)
        if explanation.localized is not None:
            believed = self._point(self._landmarks[explanation.localized])
            dot(draw, believed, 7 * SMOOTH, None, YELLOW, 2 * SMOOTH)
            dashed(draw, self._point(self._env.path[-1]), believed, YELLOW, SMOOTH)

    def _arrow(self, pose: Array) -> list[Point]:
        """A player who looks to where the pose does."""
        x, y = self._point(pose)
        turns, length = np.radians(pose[2] + np.array([0.0, 140.0, 220.0])), 9 * SMOOTH
        return [(x + length * float(np.cos(turn)), y - length * float(np.sin(turn))) for turn in turns]

    def _point(self, place: Array) -> Point:
        """Where a place lies on the large plan."""
        x, y = self._scale * (np.asarray(place[:2], float) - self._corner) * (1, -1) + SMOOTH * MARGIN
        return float(x), float(y)
