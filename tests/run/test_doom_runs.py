"""A run in ViZDoom from training to video."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from sfl.errors import CheckpointError, UsageError
from sfl.run.compare import evaluate_run, outcome_cells
from sfl.run.evaluate import eval_tasks
from sfl.run.folder import RunFolder, export, load_run, read_episodes
from sfl.run.metrics import columns
from sfl.run.report import report_cells, summarise_runs
from sfl.run.settings import EvalConfig
from sfl.run.stopping import RunStoppedError
from sfl.run.train import resume, train
from sfl.show.draw import draw
from sfl.show.video import HOLD, record
from sfl.worlds import DoomConfig, GymConfig, make_env
from sfl.worlds.gym import env_spec
from sfl.worlds.mazes.load import load_maze

from .dooms import PAIRS, doom_experiment, pairs_file
from .test_train import assert_same_run, stop_at, training_rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """150 steps of the random policy; its file of pairs is gone when the tests begin."""
    place = tmp_path_factory.mktemp("doom")
    experiment = doom_experiment(place)
    made = train(experiment, 3, place / "runs", "cpu")
    assert isinstance(experiment.env, DoomConfig)
    assert experiment.env.pairs is not None
    Path(experiment.env.pairs).unlink()
    return made


def test_tables_tasks_and_checkpoints_are_those_of_any_run(folder: RunFolder) -> None:
    rows = training_rows(folder)
    assert [int(row["env_steps"]) for row in rows] == [30, 60, 90, 120, 150]
    shares = [float(row["explore/coverage"]) for row in rows]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] < 0.5
    assert {row["time/game_restarts"] for row in rows} == {"0.0"}
    assert {path.name for path in folder.checkpoints.iterdir()} == {"last", "000000075", "000000150"}
    with (folder.path / "eval.csv").open() as file:
        evaluations = list(csv.DictReader(file))
    assert list(evaluations[0]) == columns("eval", ("easy", "medium", "hard"))
    assert [row["env_steps"] for row in evaluations] == ["75", "150"]

    saved = json.loads(folder.tasks.read_text())
    assert (saved["maze"], saved["spawn"], saved["levels"]) == ("small", "random", PAIRS)
    episodes = [row for row in read_episodes(folder.episodes) if row.env_steps == 150]
    posed = [("easy", 0, 100), ("easy", 1, 100), ("medium", 0, 200), ("medium", 1, 200), ("hard", 0, 300)]
    assert [(row.level, row.pair, row.budget) for row in episodes] == posed
    assert {(row.env, row.maze, row.spawn, row.agent) for row in episodes} == {
        ("sfl/DoomMaze-v0", "small", "random", "random")
    }
    assert [row.trivial for row in episodes] == [True, False, False, False, False]


def test_poses_are_logged_in_the_order_of_the_steps(folder: RunFolder) -> None:
    run = load_run(folder.path)
    assert run.poses.shape == (150, 3)
    first = run.poses[[0, 1, 2, 3, 4, 5]]  # games 0 and 1, then 2; then again
    gone = np.hypot(*(first[3:] - first[:3])[:, :2].T)
    assert (gone < 40).all()
    assert len(np.unique(first[:3], axis=0)) == 3
    assert run.experiment.env.spec(3).observation_shape == (120, 160, 3)


def test_the_spec_that_needs_no_game_is_that_of_the_environment() -> None:
    env = make_env(DoomConfig("small"))
    assert env_spec(env, 7) == DoomConfig("small").spec(7)
    env.close()


def test_stopped_and_resumed_equals_uninterrupted(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = doom_experiment(tmp_path)
    with monkeypatch.context() as patch:
        stop_at(patch, 122)  # the first half has just ended its second episode, the other plays
        with pytest.raises(RunStoppedError, match="stopped at step 122 and saved"):
            train(experiment, 3, tmp_path, "cpu")
    parts = resume(tmp_path / experiment.name / "seed-0003", "cpu")
    assert_same_run(folder, parts)


def test_evaluating_again_and_from_a_slim_copy_gives_the_same_rows(folder: RunFolder, tmp_path: Path) -> None:
    last = [row for row in read_episodes(folder.episodes) if row.env_steps == 150]
    slim = export(folder.path, tmp_path / "slim")
    assert evaluate_run(slim.path, device="cpu") == last
    cells = outcome_cells(last)
    assert cells[0][-2:] == ["not trivial", "their success %"]
    assert cells[1][:2] == ["easy", "2"]
    assert cells[1][-2:] == ["1", f"{100 * last[1].success:.1f}"]


def test_other_pairs_and_goals_can_be_posed(folder: RunFolder, tmp_path: Path) -> None:
    other = {"easy": [{"start": [96.0, 416.0, 0.0], "goal": [96.0, 420.0, 0.0], "distance": 4.0}]}
    (row,) = evaluate_run(folder.path, level="easy", pairs=pairs_file(tmp_path, levels=other), device="cpu")
    assert row.trivial
    with pytest.raises(UsageError, match="No level 'medium' in the pairs of 'small'"):
        evaluate_run(folder.path, pairs=pairs_file(tmp_path, levels=other))
    (row,) = evaluate_run(folder.path, goal="96,440,0", start="96,416,0", episodes=1)
    assert (row.level, row.budget, row.trivial) == ("any", 400, True)
    for words, line in (
        ({"goal": "0,0"}, r"goal \(0, 0, 0\) is inside a wall or out of reach in maze 'small'"),
        ({"goal": "96,440", "start": "0,0"}, r"start \(0, 0, 0\) is inside a wall"),
        ({"start": "96,440"}, "Give the goal in a maze as --goal x,y,degrees"),
        ({"goal": str(folder.config)}, "a picture does not say when it is reached"),
        ({"goal": "96,440", "pairs_seed": 3}, "leave them out with --goal and --start"),
        ({"pairs": "x.json", "pairs_seed": 3}, "exclude each other"),
    ):
        with pytest.raises(UsageError, match=line):
            evaluate_run(folder.path, **words)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('"maze": "small"', '"maze": "rooms"', r"in maze small \(\w{8}\), .*; here: environment .* in maze rooms \("),
        ('"texture_seed": null', '"texture_seed": 7', r"made in another environment: .* in maze small \(\w{8}\)"),
    ],
)
def test_a_checkpoint_of_another_maze_is_refused(
    folder: RunFolder, tmp_path: Path, old: str, new: str, line: str
) -> None:
    copy = RunFolder(Path(shutil.copytree(folder.path, tmp_path / "copy")))
    assert old in copy.config.read_text()
    copy.config.write_text(copy.config.read_text().replace(old, new))
    with pytest.raises(CheckpointError, match=line):
        load_run(copy.path)


def test_the_report_has_a_second_column_without_trivial_pairs(folder: RunFolder) -> None:
    easy, medium, _ = rows = summarise_runs([folder.path])
    last = [row for row in read_episodes(folder.episodes) if row.env_steps == 150]
    assert (easy.maze, easy.spawn, easy.episodes, easy.nontrivial_episodes) == ("small", "random", 2, 1)
    assert easy.success_percent == 50 * (1 + last[1].success)
    assert easy.nontrivial_percent == 100 * last[1].success
    assert (medium.nontrivial_episodes, medium.nontrivial_percent) == (2, medium.success_percent)
    head, *cells = report_cells(rows)
    assert (head[1], head[-2], head[-1]) == ("maze", "not trivial", "their success %")
    assert [line[1] for line in cells] == ["small"] * 3
    assert cells[0][-2:] == ["1", f"{easy.nontrivial_percent:.1f}"]


def test_figures_show_goals_trajectories_and_coverage(
    folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = draw([folder.path])
    assert [file.name for file in files] == ["goals.png", "trajectories.png", "coverage.png", "success.png"]
    for file in files:
        pixels = np.asarray(Image.open(file).convert("RGB"))
        assert min(pixels.shape[:2]) > 500
        assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50, f"{file} is blank"
    capsys.readouterr()


def test_a_video_shows_every_step(folder: RunFolder) -> None:
    path = record(folder.path, level="easy")
    count, _ = imageio_ffmpeg.count_frames_and_secs(str(path))
    assert 1 + HOLD <= count <= 100 + HOLD
    reader = imageio_ffmpeg.read_frames(str(path))
    width, height = next(reader)["size"]
    assert width > height  # the map above the view, and the panel beside them
    frame = np.frombuffer(next(reader), np.uint8).reshape(height, width, 3)
    reader.close()
    plan, view = frame[18:414, 18:594], frame[height - 306 : height - 18, 18:402]
    assert len(np.unique(view.reshape(-1, 3), axis=0)) > 500
    red = (plan[:, :, 0] > 200) & (plan[:, :, 1:].max(2) < 110)
    assert 20 < red.sum() < 400  # the player, on an otherwise dark map


# ---- tasks


def tasks_of(config: DoomConfig, seed: int = 0, **words: Any) -> list[tuple[Any, ...]]:
    chosen = replace(EvalConfig(episodes=2, levels=("easy", "medium", "hard")), **words)
    return [(task.level, task.pair, task.start, task.goal, task.budget) for task in eval_tasks(config, chosen, seed)]


def test_pairs_are_drawn_from_a_seed_of_their_own() -> None:
    config = DoomConfig("small")
    tasks = tasks_of(config)
    assert tasks == tasks_of(config, seed=9)
    assert tasks == tasks_of(config, pairs_seed=0)
    assert tasks != tasks_of(config, pairs_seed=1)
    assert tasks_of(config, episodes=1) == [tasks[0], tasks[2], tasks[4]]
    assert tasks_of(config, levels=("hard",)) == tasks[4:]
    assert [task[4] for task in tasks] == [100, 100, 200, 200, 300, 300]


def test_fixed_spawn_starts_at_the_start_and_fewer_pairs_are_the_first_of_more() -> None:
    config = DoomConfig("small", spawn="fixed")
    tasks = tasks_of(config, levels=("easy", "hardest"))
    assert {task[2] for task in tasks} == {(96.0, 416.0, 90.0)}
    assert [task[4] for task in tasks] == [100, 100, 400, 400]
    assert tasks_of(config, levels=("hardest",), episodes=1) == [tasks[2]]
    with pytest.raises(UsageError, match=r"No level 'paper' in the pairs of 'small'; choose .* --eval.levels easy"):
        tasks_of(config, levels=("paper",))


def test_tasks_of_the_other_spawn_can_be_asked_for() -> None:
    levels = ("easy", "hardest")
    fixed = tasks_of(DoomConfig("small", spawn="fixed"), levels=levels)
    assert tasks_of(DoomConfig("small", pairs="fixed"), levels=levels) == fixed
    assert tasks_of(DoomConfig("small", spawn="fixed", pairs="random")) == tasks_of(DoomConfig("small"))
    with pytest.raises(UsageError, match="No level 'hardest' in the pairs of 'small'"):
        tasks_of(DoomConfig("small"), levels=levels)


def test_the_authors_pairs_are_taken_where_the_folder_has_them(tmp_path: Path) -> None:
    wad = load_maze("small").wad.replace(b"MAP01\0\0\0", b"MAP05\0\0\0")  # another maze under the paper's name
    (tmp_path / "test-4.wad").write_bytes(wad)
    config = DoomConfig("test-4", maze_dir=str(tmp_path), spawn="fixed")
    drawn = tasks_of(config, levels=("easy",))
    (tmp_path / "pairs").mkdir()
    start, goal = (96.0, 416.0, 0.0), (96.0, 600.0, 0.0)
    (tmp_path / "pairs" / "test-4-fixed.json").write_text(json.dumps({"easy": [[start, goal]] * 3}))
    assert tasks_of(config, levels=("easy",)) == [("easy", 0, start, goal, 100), ("easy", 1, start, goal, 100)]
    assert tasks_of(config, levels=("easy",), pairs_seed=0) == drawn
    assert {task[2] for task in drawn} == {(96.0, 416.0, 90.0)}


def test_the_environment_of_a_maze_is_no_gym_environment() -> None:
    with pytest.raises(UsageError, match=r"sfl/DoomMaze-v0 has goals of its own: use .* or DoomConfig"):
        GymConfig("sfl/DoomMaze-v0")
