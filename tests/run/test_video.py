from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import imageio_ffmpeg
import numpy as np
import pytest

from sfl.core.errors import SflError
from sfl.data.types import GOAL, Array, Explanation
from sfl.envs import make_env
from sfl.run.evaluate import evaluate
from sfl.run.folder import load_run
from sfl.run.frames import Painter, Pictures
from sfl.run.scene import first_task, frozen
from sfl.run.train import train
from sfl.run.video import FPS, HOLD, record

from .worlds import Corridor, random_experiment


class Odd(Corridor):
    """A world that draws itself in an odd number of pixels, or not at all."""

    def __init__(self, picture: Any) -> None:
        super().__init__()
        self._picture = picture

    def render(self) -> Any:
        """What it was given."""
        if isinstance(self._picture, Exception):
            raise self._picture
        return self._picture


def frames_of(path: Path) -> tuple[int, tuple[int, int]]:
    """Number and size (width, height) of a video's frames."""
    count, _ = imageio_ffmpeg.count_frames_and_secs(str(path))
    reader = imageio_ffmpeg.read_frames(str(path))
    size = next(reader)["size"]
    reader.close()
    return count, size


def test_every_step_is_a_frame_and_the_last_stays(small_run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = record(small_run)
    assert path == small_run / "figures" / "episode.mp4"
    assert "macro_block" not in capfd.readouterr().err
    run = load_run(small_run, device="cpu")
    (row,) = evaluate(frozen(run), [make_env(run.experiment.env)], [first_task(run)], seed=run.seed)
    count, (width, height) = frames_of(path)
    assert count == row.steps + HOLD
    assert HOLD == FPS  # one second
    assert (width % 2, height % 2) == (0, 0)
    assert min(width, height) > 400
    assert not list(path.parent.glob("*.tmp*"))


def test_a_random_policy_can_be_filmed(tmp_path: Path) -> None:
    path = record(train(random_experiment(steps=50), 0, tmp_path, "cpu").path)
    assert frames_of(path)[0] > HOLD


def test_a_recording_that_breaks_off_leaves_nothing(small_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {file.name: file.stat().st_mtime_ns for file in (small_run / "figures").glob("*")}
    whole = Painter.frame

    def break_off(self: Painter, goal: Any, explanation: Explanation, steps: int, outcome: str | None) -> Array:
        if steps == 3:
            raise KeyboardInterrupt
        return whole(self, goal, explanation, steps, outcome)

    monkeypatch.setattr(Painter, "frame", break_off)
    with pytest.raises(KeyboardInterrupt):
        record(small_run)
    assert {file.name: file.stat().st_mtime_ns for file in (small_run / "figures").glob("*")} == before


def test_frames_show_what_the_agent_thinks(small_run: Path) -> None:
    run = load_run(small_run, device="cpu")
    env, task = make_env(run.experiment.env), first_task(run)
    goal = env.reset(options=task.options())[0]["desired_goal"]
    painter = Painter(run, env, task)
    thoughts = [Explanation(), Explanation(0, 1, (0, 1, GOAL)), Explanation(1, GOAL, (0, 1, GOAL))]
    frames = [painter.frame(goal, thought, 0, None) for thought in thoughts]
    frames.append(painter.frame(goal, thoughts[-1], 0, "reached"))
    assert len({frame.shape for frame in frames}) == 1
    worlds = [frame[:, :600] for frame in frames]
    assert not np.array_equal(worlds[0], worlds[1])
    assert not np.array_equal(worlds[1], worlds[2])
    assert np.array_equal(worlds[2], worlds[3])
    assert not np.array_equal(frames[2], frames[3])  # only the panel says how it ended
    agent = (frames[1] == [255, 0, 0]).all(2)
    assert agent[:, :600].sum() > 500  # no mark hides the agent


def test_foreign_worlds_fill_an_even_frame(small_run: Path) -> None:
    run = load_run(small_run, device="cpu")
    env = Odd(np.zeros((57, 101, 3), np.uint8))
    frame = Painter(run, env, first_task(run)).frame(np.array([0.0, 1.0]), Explanation(), 0, None)
    assert (frame.shape[0] % 2, frame.shape[1] % 2) == (0, 0)
    assert Pictures(env).picture(np.zeros((8, 8, 3), np.uint8)) is not None
    assert Pictures(env).picture(np.zeros(4)) is None


@pytest.mark.parametrize(
    ("picture", "reason"),
    [(None, "no render mode 'rgb_array'"), (gymnasium.error.DependencyNotInstalled("pip install x"), "pip install x")],
)
def test_a_world_that_cannot_be_drawn_is_an_error(picture: Any, reason: str) -> None:
    with pytest.raises(SflError, match=f"cannot be filmed: .*{reason}"):
        Pictures(Odd(picture)).now()
