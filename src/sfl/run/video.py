"""A video of one evaluation episode, of one run or of two side by side on the same task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import imageio_ffmpeg
import numpy as np

from sfl.core.config import require
from sfl.core.errors import SflError
from sfl.core.files import written
from sfl.data.types import Array, Explanation, Observation, Policy, WeighingPolicy
from sfl.envs import DoomConfig, EnvConfig, GymConfig, Task, make_env, world_name
from sfl.run.evaluate import EpisodeRow, evaluate
from sfl.run.folder import LoadedRun, RunFolder, load_run
from sfl.run.frames import Painter
from sfl.run.paint import PAPER
from sfl.run.path_recorder import PathRecorder
from sfl.run.rollout import Step
from sfl.run.scene import drawing_itself, first_task, frozen

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
    worlds = [world_name(run.experiment.env) for run in runs]
    names = " and ".join(f"{run.folder.path} in {world}" for run, world in zip(runs, worlds, strict=True))
    require(len(set(worlds)) == 1, f"Runs that are filmed side by side must be in one world; {names} are not.")


def _on_film(config: EnvConfig, task: Task) -> PathRecorder:
    """The world of a task: with time for it, able to draw itself, and with its path noted."""
    if isinstance(config, DoomConfig):
        config = replace(config, max_steps=task.budget)
    elif isinstance(config, GymConfig):
        config = drawing_itself(config)
    return PathRecorder(make_env(config))


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
        thought = policy.weigh(0) if isinstance(policy, WeighingPolicy) and not over else policy.explain(0)
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

    def explain(self, env_index: int) -> Explanation:
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
