"""The random policy beside a run: the same rows however often the run is stopped, and no word in the run itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from sfl.run import checkpoint
from sfl.run import train as train_module
from sfl.run.chance import random_rows, read_random, split_off, write_random_rows
from sfl.run.compare import ask, outcome_cells
from sfl.run.evaluate import EpisodeRow, Label, eval_tasks
from sfl.run.folder import RunFolder, read_episodes
from sfl.run.log import read_columns
from sfl.run.settings import Experiment
from sfl.run.stopping import RunStoppedError
from sfl.run.train import resume, train
from sfl.worlds import GymConfig

from .dooms import doom_experiment
from .test_train import assert_same_run, sfl_experiment, stop_at, tabular_experiment
from .worlds import random_experiment


def in_toy_text(**sizes: int) -> Experiment:
    """Goals are observations, and the last one ends the episode."""
    return replace(tabular_experiment(**sizes), env=GymConfig("FrozenLake-v1", kwargs=("is_slippery=false",)))


def in_toy_text_any() -> Experiment:
    experiment = in_toy_text()
    return replace(experiment, eval=replace(experiment.eval, levels=("any",)))


def signal_random(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Ask to stop after so many steps of the random policy."""
    original = train_module.random_rows

    def watched(env: Any, tasks: Any, label: Any, parallel: int, watch: Callable[..., None]) -> list[EpisodeRow]:
        seen = 0

        def count(*step: Any) -> None:
            nonlocal seen
            seen += 1
            if seen == steps:
                os.kill(os.getpid(), signal.SIGTERM)
            watch(*step)

        return original(env, tasks, label, parallel, count)

    monkeypatch.setattr(train_module, "random_rows", watched)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run that nothing happened to."""
    return train(in_toy_text_any(), 3, tmp_path_factory.mktemp("whole"), "cpu")


def test_every_task_is_posed_once_under_the_name_of_the_run(whole: RunFolder) -> None:
    rows, own = read_random(whole.path), read_episodes(whole.episodes)
    last = [row for row in own if row.env_steps == own[-1].env_steps]
    assert [(row.level, row.pair, row.budget) for row in rows] == [(row.level, row.pair, row.budget) for row in last]
    assert {(row.experiment, row.agent, row.seed, row.env_steps) for row in rows} == {
        ("fourroom-tabular", "random", 3, 0)
    }
    assert split_off(own + rows) == (own, rows)
    assert 0 <= read_columns(whole.path / "eval.csv")["explore/goals_unseen"][-1] < 1


def test_a_run_that_is_stopped_while_the_random_policy_plays_and_later_equals_one_that_is_not(
    whole: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = in_toy_text_any()
    path = tmp_path / experiment.name / "seed-0003"
    with monkeypatch.context() as patch:
        signal_random(patch, 5)
        with pytest.raises(RunStoppedError, match=r"stopped at step .* and saved"):
            train(experiment, 3, tmp_path, "cpu")
    assert not (path / "random.csv").exists()
    assert read_episodes(path / "episodes.csv") == []
    with monkeypatch.context() as patch:
        stop_at(patch, experiment.train.steps - 17)
        with pytest.raises(RunStoppedError):
            resume(path, "cpu")
    kept = (path / "random.csv").stat()
    parts = resume(path, "cpu")
    assert (path / "random.csv").stat().st_mtime_ns == kept.st_mtime_ns  # a whole file stays
    assert_same_run(whole, parts)
    assert parts.random.read_bytes() == whole.random.read_bytes()
    assert not list(path.glob("*.tmp"))


@pytest.mark.parametrize("harm", [None, "cut", "empty", "bytes", "outcome", "name"])
def test_what_is_missing_or_damaged_is_made_again_also_of_a_finished_run(
    whole: RunFolder, harm: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    body = whole.random.read_bytes()
    harmed = {
        "cut": body[: len(body) // 2],
        "empty": b"",
        "bytes": bytes(len(body)),
        "outcome": body[:-3],  # a last word that is cut off
        "name": body.replace(b"fourroom-tabular", b"other"),
    }
    if harm is None:
        whole.random.unlink()
    else:
        whole.random.write_bytes(harmed[harm])
    resume(whole.path, "cpu")
    assert whole.random.read_bytes() == body
    assert "nothing to resume" in capsys.readouterr().err


def test_asking_it_leaves_training_and_evaluation_as_they_are(
    whole: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_module.TrainingRun, "ask_random", lambda self, stop: None)
    without = train(in_toy_text_any(), 3, tmp_path, "cpu")
    assert not without.random.exists()
    assert_same_run(whole, without)


def test_a_run_of_the_random_policy_needs_none(tmp_path: Path) -> None:
    assert not train(random_experiment(), 0, tmp_path, "cpu").random.exists()


def test_a_file_that_cannot_be_written_whole_is_not_written(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    row = EpisodeRow("e", "random", "world", "", "", 0, 0, "any", 0, 9, 1, 4, "reached")
    write_random_rows(folder, [row])

    def broken() -> Any:
        yield replace(row, pair=1)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_random_rows(folder, broken())
    assert read_random(tmp_path) == [row]
    assert [path.name for path in tmp_path.iterdir()] == ["random.csv"]


SAVE = checkpoint.save


def save_as_before(where: Path, kept: checkpoint.Checkpoint, *kind: Any) -> None:
    run = {name: value for name, value in kept.run.items() if name != "goals_unseen"}
    SAVE(where, replace(kept, run=run), *kind)


def test_eval_shows_it_on_the_tasks_asked_for(tmp_path: Path) -> None:
    asked = ask(train(sfl_experiment(), 0, tmp_path, "cpu").path, level="any", episodes=4, device="cpu")
    rows, random = asked.rows(), asked.random_rows()
    assert [(row.level, row.pair) for row in random] == [(row.level, row.pair) for row in rows]
    assert {row.agent for row in random} == {"random"}
    head, line = outcome_cells(rows, random)
    assert head[4] == "random %"
    share = sum(row.success for row in random) / 4
    assert line[4].startswith(f"{100 * share:.1f} (")
    (given,) = ask(asked.run.folder.path, goal="3,3,0", episodes=1, device="cpu").random_rows()
    assert given.budget == 100


def test_it_plays_in_mazes_too_and_the_same_again(tmp_path: Path) -> None:
    experiment = doom_experiment(tmp_path)
    tasks = eval_tasks(experiment.env, experiment.eval, 0)[:3]
    first, again = (random_rows(experiment.env, tasks, Label("e", seed=4), parallel=2) for _ in range(2))
    assert [asdict(row) for row in first] == [asdict(row) for row in again]
    assert first[0].trivial
    assert {row.maze for row in first} == {"small"}
