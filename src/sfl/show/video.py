"""Colours and shapes of the frames of a video."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import gymnasium
import imageio_ffmpeg
import numpy as np
from minigrid.core.constants import OBJECT_TO_IDX
from minigrid.core.grid import Grid
from minigrid.minigrid_env import MiniGridEnv
from PIL import Image, ImageDraw, ImageFont

from sfl.api import GOAL, ActionValuePolicy, Array, Decision, Observation, Policy, Step
from sfl.config import require
from sfl.errors import SflError
from sfl.files import written
from sfl.run.coverage import PathRecorder
from sfl.run.evaluate import EpisodeRow, evaluate
from sfl.run.folder import LoadedRun, RunFolder, load_run
from sfl.show.views import (
    Box,
    chart,
    first_task,
    frozen,
    goal_place,
    magnified,
    poses_agree,
    route_places,
    spread,
)
from sfl.worlds import EnvConfig, Task
from sfl.worlds.doom.tasks import GOAL_RADIUS
from sfl.worlds.gym import env_spec
from sfl.worlds.mazes.layout import Maze
from sfl.worlds.session import Env

SIDE = 576  # pixels of the world's longer side
PANEL = 288  # width of the text beside it
EYE = 384  # width of what the agent sees
GOAL_SIDE = 160  # longer side of the picture of the goal
MARGIN = 18
SMOOTH = 2  # marks are drawn this much larger and then shrunk, which smooths their lines

Colour = tuple[int, int, int]
GROOVE = (44, 47, 54)
PAPER, INK, FAINT, WHITE = (24, 26, 31), (238, 238, 238), (150, 156, 166), (255, 255, 255)
SKY, ORANGE, YELLOW, GREEN, RED = (86, 180, 233), (230, 120, 20), (250, 225, 60), (0, 190, 130), (240, 60, 60)


def fitted(picture: Image.Image, side: int) -> Image.Image:
    """As large as fits into a square, in its own proportions."""
    scale = side / max(picture.size)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    return picture.resize(size, Image.Resampling.LANCZOS if scale < 1 else Image.Resampling.NEAREST)


def dot(
    draw: ImageDraw.ImageDraw,
    middle: tuple[float, float],
    radius: float,
    fill: Colour | None,
    edge: Colour,
    width: int = 2,
) -> None:
    """A disc with an edge, or without `fill` a ring."""
    x, y = middle
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=fill, outline=edge, width=max(1, width))


def dashed(
    draw: ImageDraw.ImageDraw, start: tuple[float, float], end: tuple[float, float], colour: Colour, width: int
) -> None:
    """A line of short strokes."""
    (x, y), (dx, dy) = start, (end[0] - start[0], end[1] - start[1])
    strokes = max(1, round((dx * dx + dy * dy) ** 0.5 / (8 * SMOOTH)))
    for number in range(strokes):
        begin, stop = number / strokes, (number + 0.55) / strokes
        draw.line((x + begin * dx, y + begin * dy, x + stop * dx, y + stop * dy), fill=colour, width=max(1, width))


def bar(
    draw: ImageDraw.ImageDraw, corner: tuple[int, int], width: int, height: int, share: float, colour: Colour
) -> None:
    """A horizontal bar that is filled to a share of its width."""
    x, y = corner
    draw.rectangle((x, y, x + width, y + height), fill=GROOVE)
    draw.rectangle((x, y, x + round(share * width), y + height), fill=colour)


# ---- Frames of a video: the world with landmarks and route, what the agent sees, wants and thinks beside it.

KEY = (("landmark", SKY), ("where it believes to be", YELLOW), ("route and target", ORANGE))
ENDS = {"reached": "reached the goal", "timeout": "out of time", "no_route": "out of time, no route"}
TITLE, LINE, BAR, KEY_LINE = 62, 26, 20, 24  # pixels of the title, and from one line of each kind to the next


class Scenery(Protocol):
    """A world in pictures."""

    unit: str
    """What distances on its map are measured in; empty where it has none."""

    def now(self, explanation: Decision) -> Image.Image:
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
        self._actions: Sequence[str] = run.experiment.env.action_names
        if run.experiment.env.kind == "maze":
            self._world = MazeViews(env, self._landmarks, goal)
        elif isinstance(env.unwrapped, MiniGridEnv):
            places = spread(run.landmark_poses) if located else self._landmarks
            self._world = Grids(env, env.unwrapped, places, goal)
        else:
            self._world, self._landmarks = Pictures(env), np.zeros((0, 2))

    def frame(
        self, goal: Observation | None, explanation: Decision, steps: int, action: int | None, outcome: str | None
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

    def _facts(self, explanation: Decision, steps: int, outcome: str | None) -> list[tuple[str, str]]:
        route, target = explanation.route, explanation.target
        passed = f"{route.index(target) + 1} of " if target in route else ""
        planned = f"{passed}{len(route)} waypoints" if route else "-"
        facts = [("step", f"{steps} of {self._budget}"), ("believes", self._belief(explanation))]
        facts += [("walks to", _name(target)), ("route", planned if explanation.route_found else "none found")]
        return facts if outcome is None else [*facts, ("end", ENDS[outcome])]

    def _belief(self, explanation: Decision) -> str:
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

    def _draw_values(self, canvas: Image.Image, left: int, top: int, explanation: Decision, action: int | None) -> None:
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


# ---- Worlds without a first-person view in a video: grids with what the agent thinks, others as they draw themselves.

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

    def now(self, explanation: Decision) -> Image.Image:
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

    def _layer(self, size: tuple[int, int], explanation: Decision) -> Image.Image:
        """The marks as a transparent picture; most steps have the same as the step before."""
        here = None if explanation.localized is None or self._env.here is None else tuple(self._env.here)
        shown = explanation.localized, explanation.target, explanation.route, here
        if self._marks is None or self._marks[0] != shown:
            layer = Image.new("RGBA", (size[0] * SMOOTH, size[1] * SMOOTH), (0, 0, 0, 0))
            self._draw_marks(ImageDraw.Draw(layer), explanation)
            self._marks = shown, layer.resize(size, Image.Resampling.LANCZOS)
        return self._marks[1]

    def _draw_marks(self, draw: ImageDraw.ImageDraw, explanation: Decision) -> None:
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

    def now(self, explanation: Decision) -> Image.Image:
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


# ---- A maze of ViZDoom in a video: the map with path, route and landmarks, and what the player sees.

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

    def now(self, explanation: Decision) -> Image.Image:
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

    def _draw_thoughts(self, draw: ImageDraw.ImageDraw, explanation: Decision) -> None:
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


# ---- A video of one evaluation episode, of one run or of two side by side on the same task.

FPS = 6
HOLD = FPS  # frames for which the last picture stays


def record(run: Path | str, level: str | None = None, beside: Path | str | None = None) -> Path:
    """Film the policy of a run's last checkpoint on the first task of a level; returns `figures/episode.mp4`.

    With a second run `beside` it, both are filmed on the task of the first; the folder `figures` is then the one
    beside the first run.
    """
    runs = [load_run(path, device="cpu") for path in (run, beside) if path is not None]
    _require_one_world(runs)
    task = first_task(runs[0], level)
    envs = [_on_film(run.experiment.env, task) for run in runs]
    folder = runs[0].folder.path if len(runs) == 1 else runs[0].folder.path.parent
    path = RunFolder(folder).figures / "episode.mp4"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with written(path) as draft:
            film = _Film(draft)
            try:
                cameras = [_Camera(frozen(run), Painter(run, env, task)) for run, env in zip(runs, envs, strict=True)]
                stage = _Stage(cameras, film)
                rows = evaluate(stage, envs, [task] * len(runs), seed=runs[0].seed, watch=stage.watch)
                stage.finish(rows)
            finally:
                film.close()
            _require_whole(draft, path)
    finally:
        for env in envs:
            env.close()
    return path


def _require_whole(draft: Path, path: Path) -> None:
    """ffmpeg does not tell those who ask it for a film how it ended: the parts must fill the file, the index too."""
    content, parts, place = draft.read_bytes() if draft.exists() else b"", set(), 0
    while place + 8 <= len(content):
        size = int.from_bytes(content[place : place + 4])
        parts.add(content[place + 4 : place + 8])
        place += max(size, 8)
    if place != len(content) or not {b"mdat", b"moov"} <= parts:
        raise SflError(
            f"{path} was not written, because ffmpeg did not come to its end; if the disk is full, make room."
        )


def _require_one_world(runs: list[LoadedRun]) -> None:
    worlds = [run.experiment.env.world_name() for run in runs]
    names = " and ".join(f"{run.folder.path} in {world}" for run, world in zip(runs, worlds, strict=True))
    require(len(set(worlds)) == 1, f"Runs that are filmed side by side must be in one world; {names} are not.")


def _on_film(config: EnvConfig, task: Task) -> PathRecorder:
    """The world of a task: with time for it, able to draw itself, and with its path noted."""
    return PathRecorder(config.to_show(task.budget).make())


class _Film:
    """Frames on their way into a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._send: Callable[[Array], None] | None = None
        self._close: Callable[[], None] = lambda: None

    def add(self, frame: Array) -> None:
        """One more frame; the first decides the size."""
        if self._send is None:
            size = (frame.shape[1], frame.shape[0])
            words = {"output_params": ["-f", "mp4"], "ffmpeg_log_level": "quiet"}
            writer = imageio_ffmpeg.write_frames(self._path, size, fps=FPS, quality=8, macro_block_size=2, **words)
            writer.send(None)
            self._send, self._close = writer.send, writer.close
        try:
            self._send(np.ascontiguousarray(frame))
        except OSError:  # ffmpeg has ended early; what it has written is looked at in the end
            self._send = lambda _: None

    def close(self) -> None:
        """Write the end of the file; more than once does no harm."""
        self._close()


class _Camera:
    """Films one policy in one environment: what it saw and thought at each decision becomes its newest frame."""

    def __init__(self, policy: Policy, painter: Painter) -> None:
        self.policy, self._painter = policy, painter
        self._goal: Observation | None = None
        self._steps = 0
        self.frame: Array = np.zeros((0, 0, 3), np.uint8)

    def begin(self, goal: Observation | None) -> None:
        """The episode begins."""
        self._goal = goal
        self.policy.begin_episode(0, goal)

    def act(self, observations: Array) -> Array:
        """Act as the policy does; the environment still stands where the decision was made."""
        actions = self.policy.act(observations, np.zeros(1, np.int64))
        self._paint(int(actions[0]), None)
        self._steps += 1
        return actions

    def finish(self, outcome: str) -> None:
        """How it ended."""
        self._paint(None, outcome)

    def _paint(self, action: int | None, outcome: str | None) -> None:
        policy, over = self.policy, action is None  # at the end there is nothing left to weigh
        thought = policy.action_values(0) if isinstance(policy, ActionValuePolicy) and not over else policy.explain(0)
        self.frame = self._painter.frame(self._goal, thought, self._steps, action, outcome)


class _Stage:
    """One policy for all environments, each of which has a camera; whoever is done waits in its last picture."""

    def __init__(self, cameras: list[_Camera], film: _Film) -> None:
        self._cameras, self._film = cameras, film

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """An environment's episode begins."""
        self._cameras[env_index].begin(goal)

    def act(self, observations: Array, env_indices: Array) -> Array:
        """Every policy acts in its own environment, and all are filmed together."""
        envs = env_indices.tolist()
        actions = [self._cameras[env].act(observations[row : row + 1])[0] for row, env in enumerate(envs)]
        self._film.add(self._together())
        return np.array(actions)

    def explain(self, env_index: int) -> Decision:
        """What the environment's policy says."""
        return self._cameras[env_index].policy.explain(0)

    def watch(self, step: Step, policy: Policy) -> None:
        """Whoever is done at this step shows so while the others go on."""
        for row in step.ended:
            reached = bool(step.succeeded[row])
            self._cameras[int(step.transitions.env_indices[row])].finish("reached" if reached else "timeout")

    def finish(self, rows: list[EpisodeRow]) -> None:
        """The last pictures, held for a second."""
        for camera, row in zip(self._cameras, rows, strict=True):
            camera.finish(row.outcome)
        for _ in range(HOLD):
            self._film.add(self._together())

    def _together(self) -> Array:
        """The newest frames side by side, as high as the highest."""
        frames = [camera.frame for camera in self._cameras]
        canvas = np.full((max(map(len, frames)), sum(frame.shape[1] for frame in frames), 3), PAPER, np.uint8)
        left = 0
        for frame in frames:
            canvas[: len(frame), left : left + frame.shape[1]] = frame
            left += frame.shape[1]
        return canvas
