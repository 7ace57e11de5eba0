"""`sfl/DoomMaze-v0`: reach the place shown in a picture, in a maze seen through the player's eyes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from sfl.api import Array, Observation
from sfl.config import require
from sfl.errors import UsageError
from sfl.worlds.doom.protocol import ACTIONS, BEGIN, DEFAULT_LIMITS, FRAME_SHAPE, STEP, Limits
from sfl.worlds.doom.tasks import GOAL_RADIUS, StartGoalSampler
from sfl.worlds.doom.workers import Workers
from sfl.worlds.mazes.layout import Maze
from sfl.worlds.mazes.load import load_maze
from sfl.worlds.mazes.textures import PAPER_TEXTURES, Textures
from sfl.worlds.tasks import GoalObservation, Pose, Task

TICS_PER_SECOND = 35.0
MAX_STEPS = 2500


class DoomMaze(gym.Env[Any, Any]):
    """A maze in which the player is asked to come within 63 units of where a picture was taken.

    Actions: 0 move left, 1 move right, 2 forward, 3 backward, 4 turn left, 5 turn right, 6 nothing; each lasts four
    tics. Observations are stacks of frames, oldest first, zeros before the first. The game runs in a process of its
    own; one that dies or hangs is started again, which truncates the episode and counts in `info["restarts"]`.

    Gymnasium's vector environments take several of them: `gym.make_vec("sfl/DoomMaze-v0", 8, "async")` plays them at
    the same time. Runs use `GamePool`, which shares workers and memory among games and lets one half play while the
    other is looked at.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": round(TICS_PER_SECOND / 4)}  # noqa: RUF012

    def __init__(
        self,
        maze: str | Maze = "small",
        maze_dir: str | Path | None = None,
        textures: Textures = PAPER_TEXTURES,
        spawn: Literal["fixed", "random"] = "fixed",
        max_steps: int = MAX_STEPS,
        goal_terminates: bool = True,
        visible: bool = False,
        stack: int = 4,
        render_mode: str | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """`maze`: a name, a file (.txt or .wad) or a Maze; `maze_dir` and `textures` are for names and files."""
        require(max_steps >= 1, f"max_steps must be at least 1, got {max_steps}.")
        self.maze = load(maze, maze_dir, textures)
        self.sampler = StartGoalSampler(self.maze, spawn)
        self.max_steps = max_steps
        self.goal_terminates = goal_terminates
        self.render_mode = render_mode
        self.action_space = spaces.Discrete(len(ACTIONS))
        require(stack >= 1, f"stack must be at least 1, got {stack}.")
        image = spaces.Box(0, 255, (stack, *FRAME_SHAPE), np.uint8)
        self.observation_space = spaces.Dict({"observation": image, "achieved_goal": image, "desired_goal": image})
        self._stack: Array = np.zeros((stack, *FRAME_SHAPE), np.uint8)  # the newest frame last
        self._goal_place: Array | None = None
        self._goal_image: Observation = np.zeros((stack, *FRAME_SHAPE), np.uint8)
        self.step_count = 0
        self._running = False
        self.workers = Workers([self.maze], [0], 1, visible, limits)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[GoalObservation, dict[str, Any]]:
        """Start an episode.

        `options`: `start` a pose; `goal` a pose, a picture (it is then not known when it is reached), or None for no
        goal. A goal that is not mentioned is drawn at random.
        """
        super().reset(seed=seed)
        start, goal, picture = chosen_episode(self.sampler, options, self.np_random)
        self._running = False
        self._begin(start, goal)
        self._goal_place = None if goal is None else np.array(goal[:2])
        shown = self.workers.shared.goals[0] if picture is None else picture  # zeros without a goal
        self._goal_image = np.broadcast_to(shown, self._goal_image.shape).copy()
        self._running = True
        self.step_count = 0
        self._stack[:] = 0  # stands for frames before the first
        self._push_frame()
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[GoalObservation, float, bool, bool, dict[str, Any]]:
        """One action. The episode ends at the goal (if `goal_terminates`) or, truncated, at the time limit."""
        require(self._running, "No episode runs: reset the environment first.")
        if action not in range(len(ACTIONS)):
            raise UsageError(f"Action {action!r} is none of {numbered_actions()}.")
        shared = self.workers.shared
        shared.actions[0], shared.commands[0] = action, STEP
        self.workers.post(0)
        self.workers.wait(0)
        self.step_count += 1
        self._push_frame()
        info = self._info()
        terminated = info["is_success"] and self.goal_terminates
        truncated = not terminated and (bool(shared.cut[0]) or self.step_count >= self.max_steps)
        return self._observation(), float(info["is_success"]), terminated, truncated, info

    def _begin(self, start: Pose, goal: Pose | None) -> None:
        shared = self.workers.shared
        shared.starts[0], shared.goal_poses[0], shared.commands[0] = start, np.nan if goal is None else goal, BEGIN
        self.workers.post(0)
        self.workers.wait(0)

    def _push_frame(self) -> None:
        self._stack[:-1] = self._stack[1:]
        self._stack[-1] = self.workers.shared.frames[0]

    def _observation(self) -> GoalObservation:
        seen = self._stack
        return {"observation": seen.copy(), "achieved_goal": seen.copy(), "desired_goal": self._goal_image.copy()}

    def _info(self) -> dict[str, Any]:
        pose = self.workers.shared.poses[0].copy()
        goal = self._goal_place
        within = goal is not None and bool(np.hypot(*(pose[:2] - goal)) <= GOAL_RADIUS)
        success = within and not self.workers.shared.cut[0]  # where a cut action led to is not known
        return {"pose": pose, "is_success": bool(success), "restarts": int(self.workers.shared.restarts[0])}

    def render(self) -> Any:
        """The newest frame [120, 160, 3]."""
        return self.workers.shared.frames[0].copy() if self.render_mode == "rgb_array" else None

    def sample_task(self, rng: np.random.Generator, pair: int) -> Task:
        """A start as the environment chooses it, and a goal anywhere free."""
        return Task("any", pair, self.sampler.draw_start(rng), self.sampler.draw_goal(rng), self.max_steps)

    def pictures(self, poses: Array) -> Array:
        """What is seen at poses [N, 3], as frames [N, 120, 160, 3]. Ends the running episode."""
        self._running = False
        frames = np.empty((len(poses), *FRAME_SHAPE), np.uint8)
        for frame, pose in zip(frames, poses, strict=True):
            self._begin(self.sampler.checked(pose, "goal"), None)
            frame[:] = self.workers.shared.frames[0]
        return frames

    def close(self) -> None:
        """End the game."""
        self._running = False
        self.workers.close()


def load(maze: str | Maze, maze_dir: str | Path | None, textures: Textures) -> Maze:
    """The maze itself, or the one of that name."""
    if isinstance(maze, Maze):
        return maze
    return load_maze(maze, None if maze_dir is None else Path(maze_dir), textures)


def numbered_actions() -> str:
    """The actions as an error message lists them."""
    return ", ".join(f"{number} {name}" for number, name in enumerate(ACTIONS))


def chosen_episode(
    sampler: StartGoalSampler, options: dict[str, Any] | None, rng: np.random.Generator
) -> tuple[Pose, Pose | None, Observation | None]:
    """Start, goal and a picture given as the goal, from the options of a reset; what they leave out is drawn."""
    options = options or {}
    unknown = sorted(set(options) - {"start", "goal"})
    require(not unknown, f"Unknown reset options {unknown} for sfl/DoomMaze-v0; known are 'start' and 'goal'.")
    given = options.get("start")
    start = sampler.draw_start(rng) if given is None else sampler.checked(given, "start")
    if "goal" not in options:
        return start, sampler.draw_goal(rng), None
    goal = options["goal"]
    if isinstance(goal, np.ndarray) and goal.ndim > 1:
        return start, None, _checked_picture(goal)
    return start, None if goal is None else sampler.checked(goal, "goal"), None


def _checked_picture(picture: Array) -> Observation:
    fits = picture.dtype == np.uint8 and picture.shape[-3:] == FRAME_SHAPE and picture.ndim in (3, 4)
    require(
        fits,
        f"A goal picture of sfl/DoomMaze-v0 is a uint8 array of shape {FRAME_SHAPE} or a stack of them, "
        f"got {picture.dtype} of shape {picture.shape}.",
    )
    return picture
