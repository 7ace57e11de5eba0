from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import imageio_ffmpeg
import numpy as np
import pytest

from sfl.api import GOAL, Array, Decision
from sfl.errors import SflError, UsageError
from sfl.run.coverage import PathRecorder
from sfl.run.evaluate import evaluate
from sfl.run.folder import LoadedRun, load_run
from sfl.run.train import train
from sfl.show.video import FPS, HOLD, ORANGE, Painter, Pictures, _Camera, _Stage, record
from sfl.show.views import first_task, frozen
from sfl.worlds import GymConfig, MiniGridConfig, make_env

from ..run.worlds import Corridor, random_experiment


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

    def break_off(self: Painter, goal: Any, explanation: Decision, steps: int, *rest: Any) -> Array:
        if steps == 3:
            raise KeyboardInterrupt
        return whole(self, goal, explanation, steps, *rest)

    monkeypatch.setattr(Painter, "frame", break_off)
    with pytest.raises(KeyboardInterrupt):
        record(small_run)
    assert {file.name: file.stat().st_mtime_ns for file in (small_run / "figures").glob("*")} == before


def stage(run: LoadedRun) -> tuple[Painter, Any]:
    """A painter before the paper's start, and the picture of its goal."""
    env, task = PathRecorder(make_env(run.experiment.env)), first_task(run)
    goal = env.reset(options=task.options())[0]["desired_goal"]
    return Painter(run, env, task), goal


def test_frames_show_what_the_agent_thinks(small_run: Path) -> None:
    painter, goal = stage(load_run(small_run, device="cpu"))
    thoughts = [
        Decision(),
        Decision(localized=0, target=1, route=(0, 1, GOAL)),
        Decision(localized=1, target=GOAL, route=(0, 1, GOAL)),
    ]
    frames = [painter.frame(goal, thought, 0, None, None) for thought in thoughts]
    frames.append(painter.frame(goal, thoughts[-1], 0, None, "reached"))
    assert len({frame.shape for frame in frames}) == 1
    worlds = [frame[:, :600] for frame in frames]
    assert not np.array_equal(worlds[0], worlds[1])
    assert not np.array_equal(worlds[1], worlds[2])
    assert np.array_equal(worlds[2], worlds[3])
    assert not np.array_equal(frames[2], frames[3])  # only the panel says how it ended
    agent = (frames[1] == [255, 0, 0]).all(2)
    assert agent[:, :600].sum() > 500  # no mark hides the agent


def test_frames_show_what_actions_are_worth(small_run: Path) -> None:
    painter, goal = stage(load_run(small_run, device="cpu"))
    plain, low, high = (
        painter.frame(goal, Decision(values=values, values_name="SFS"), 0, 1, None)
        for values in ((), (0.1, 0.2, 0.0, 0.3), (0.1, 0.3, 0.0, 0.2))
    )
    chosen = [int((frame[:, 600:] == ORANGE).all(2).sum()) for frame in (plain, low, high)]
    assert chosen[0] < chosen[1] < chosen[2]  # the bar of the chosen action, as long as it is worth
    assert plain.shape == low.shape


def test_a_belief_is_measured_against_the_truth(small_run: Path) -> None:
    run = load_run(small_run, device="cpu")
    far = replace(run, landmark_poses=np.array([[4.0, 5.0, 0.0]]))  # the agent is at 1, 1: 3 and 4 cells away
    assert stage(far)[0]._belief(Decision(localized=0)) == "landmark 0, 5 cells off"
    assert stage(far)[0]._belief(Decision()) == "-"


def test_two_runs_are_filmed_side_by_side(small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfl.show.video.first_task", lambda run, level: replace(first_task(run), budget=4))
    ours = Path(shutil.copytree(small_run, tmp_path / "fourroom-sfl" / "seed-0000"))
    path = record(ours, beside=small_run)
    assert path == tmp_path / "fourroom-sfl" / "figures" / "episode.mp4"
    reader = imageio_ffmpeg.read_frames(str(path))
    width, height = next(reader)["size"]
    frame = np.frombuffer(next(reader), np.uint8).reshape(height, width, 3).astype(int)
    reader.close()
    left, right = np.split(frame, 2, axis=1)
    assert np.abs(left - right).mean() < 1  # the same agent on the same task, but for the codec
    assert left.std() > 20


def test_who_is_done_waits_for_the_other(small_run: Path) -> None:
    run = load_run(small_run, device="cpu")
    tasks = [replace(first_task(run), budget=budget) for budget in (2, 4)]
    envs = [PathRecorder(make_env(run.experiment.env)) for _ in tasks]
    frames: list[Array] = []
    cameras = [_Camera(frozen(run), Painter(run, env, task)) for env, task in zip(envs, tasks, strict=True)]
    shown = _Stage(cameras, SimpleNamespace(add=lambda frame: frames.append(frame.copy())))  # type: ignore[arg-type]
    shown.finish(evaluate(shown, envs, tasks, watch=shown.watch))
    assert len(frames) == 4 + HOLD
    early, late = zip(*(np.split(frame, 2, axis=1) for frame in frames), strict=True)
    assert not np.array_equal(early[0], early[1])
    assert np.array_equal(early[2], early[-1])
    assert not np.array_equal(late[2], late[3])
    assert not np.array_equal(late[3], late[-1])


def test_runs_in_two_worlds_cannot_share_a_task(small_run: Path, tmp_path: Path) -> None:
    other = replace(random_experiment(steps=50), env=MiniGridConfig(id="sfl/MultiRoom-N2-v0"))
    elsewhere = train(other, 0, tmp_path, "cpu").path
    with pytest.raises(UsageError, match=r"must be in one world; .* in sfl/FourRoom-v0 and .* in sfl/MultiRoom-N2-v0"):
        record(small_run, beside=elsewhere)


def test_foreign_worlds_fill_an_even_frame(small_run: Path) -> None:
    run = load_run(small_run, device="cpu")
    env = PathRecorder(Odd(np.zeros((57, 101, 3), np.uint8)))
    frame = Painter(run, env, first_task(run)).frame(np.array([0.0, 1.0]), Decision(), 0, None, None)
    assert (frame.shape[0] % 2, frame.shape[1] % 2) == (0, 0)
    assert Pictures(env).picture(np.zeros((8, 8, 3), np.uint8)) is not None
    assert Pictures(env).picture(np.zeros(4)) is None


def test_a_world_that_cannot_draw_itself_says_so_in_one_line(recwarn: pytest.WarningsRecorder) -> None:
    """One that takes no render mode, and one that takes it and has nothing to draw."""

    class Bare(gymnasium.Env[Any, Any]):
        observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

        def reset(self, **given: Any) -> tuple[int, dict[str, Any]]:
            return 0, {}

    class Silent(Bare):
        def __init__(self, render_mode: str | None = None) -> None:
            self.render_mode = render_mode

    class Draws(Silent):
        metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    for kind, told in ((Bare, False), (Silent, True), (Draws, True)):
        name = f"{kind.__name__}Undrawn-v0"
        gymnasium.register(name, kind)
        try:
            config = GymConfig(name).to_show(200)
            assert bool(config.kwargs) == told
            assert not recwarn.list
            env = make_env(config)
            env.reset(seed=0)
            with pytest.raises(SflError, match="cannot be filmed: it has no render mode 'rgb_array'"):
                Pictures(env).now(Decision())
            recwarn.clear()
        finally:
            del gymnasium.registry[name]


@pytest.mark.parametrize(
    ("picture", "reason"),
    [(None, "no render mode 'rgb_array'"), (gymnasium.error.DependencyNotInstalled("pip install x"), "pip install x")],
)
def test_a_world_that_cannot_be_drawn_is_an_error(picture: Any, reason: str) -> None:
    with pytest.raises(SflError, match=f"cannot be filmed: .*{reason}"):
        Pictures(Odd(picture)).now(Decision())
