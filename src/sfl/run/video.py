"""A video of one evaluation episode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import imageio_ffmpeg
import numpy as np

from sfl.data.types import Array, Explanation, Observation, Policy
from sfl.envs import DoomConfig, EnvConfig, GymConfig, Task, make_env
from sfl.run.evaluate import EpisodeRow, evaluate
from sfl.run.folder import load_run
from sfl.run.frames import Painter
from sfl.run.maze_frames import PathRecorder
from sfl.run.rollout import Env
from sfl.run.scene import first_task, frozen

FPS = 6
HOLD = FPS  # frames for which the last picture stays


def record(run: Path | str, level: str | None = None) -> Path:
    """Film the policy of a run's last checkpoint on the first task of a level; returns `figures/episode.mp4`."""
    loaded = load_run(run, device="cpu")
    task = first_task(loaded, level)
    env = _on_film(loaded.experiment.env, task)
    path = loaded.folder.figures / "episode.mp4"
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp.mp4")
    film = _Film(draft)
    try:
        camera = _Camera(frozen(loaded), Painter(loaded, env, task), film)
        (row,) = evaluate(camera, [env], [task], seed=loaded.seed, label=loaded.label)
        camera.finish(row)
        film.close()
        draft.replace(path)
    finally:
        film.close()
        draft.unlink(missing_ok=True)
        env.close()
    return path


def _on_film(config: EnvConfig, task: Task) -> Env:
    """Foreign environments draw themselves only when they are told so as they are made; games note their path."""
    if isinstance(config, DoomConfig):
        return PathRecorder(make_env(replace(config, max_steps=task.budget)))
    if isinstance(config, GymConfig) and not any(word.startswith("render_mode=") for word in config.kwargs):
        config = replace(config, kwargs=(*config.kwargs, "render_mode=rgb_array"))
    return make_env(config)


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
            writer = imageio_ffmpeg.write_frames(self._path, size, fps=FPS, quality=8, macro_block_size=2)
            writer.send(None)
            self._send, self._close = writer.send, writer.close
        self._send(np.ascontiguousarray(frame))

    def close(self) -> None:
        """Write the end of the file; more than once does no harm."""
        self._close()


class _Camera:
    """A policy that films: what it saw and thought at each decision becomes a frame."""

    def __init__(self, policy: Policy, painter: Painter, film: _Film) -> None:
        self._policy, self._painter, self._film = policy, painter, film
        self._goal: Observation | None = None
        self._steps = 0

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """The episode begins."""
        self._goal = goal
        self._policy.begin_episode(env_index, goal)

    def act(self, observations: Array, env_indices: Array) -> Array:
        """Act as the policy does; the environment still stands where the decision was made."""
        actions = self._policy.act(observations, env_indices)
        self._film.add(self._painter.frame(self._goal, self.explain(0), self._steps, None))
        self._steps += 1
        return actions

    def explain(self, env_index: int) -> Explanation:
        """What the policy says."""
        return self._policy.explain(env_index)

    def finish(self, row: EpisodeRow) -> None:
        """The last picture, held for a second."""
        last = self._painter.frame(self._goal, self.explain(0), self._steps, row.outcome)
        for _ in range(HOLD):
            self._film.add(last)
