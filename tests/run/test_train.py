from __future__ import annotations

import csv
import errno
import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfl import experiments
from sfl.baselines.random import RandomAgent
from sfl.errors import CheckpointError, SflError, UsageError
from sfl.run import checkpoint
from sfl.run import train as train_module
from sfl.run.compare import evaluate_run
from sfl.run.folder import RunFolder, export, load_run, read_episodes
from sfl.run.log import read_columns
from sfl.run.machine import resident_megabytes
from sfl.run.metrics import MACHINE
from sfl.run.settings import Experiment
from sfl.run.stopping import RunStoppedError
from sfl.run.train import resume, train
from sfl.worlds import GymConfig, MiniGridConfig

from .worlds import random_experiment


def tiny_experiment(name: str, **sizes: int) -> Experiment:
    tiny = experiments.tiny(experiments.get(name))
    return replace(tiny, train=replace(tiny.train, **sizes))


def sfl_experiment(**sizes: int) -> Experiment:
    return tiny_experiment("fourroom-sfl", **sizes)


def with_several_environments(**sizes: int) -> Experiment:
    experiment = random_experiment(env_count=3, **sizes)
    return replace(experiment, env=MiniGridConfig("sfl/MultiRoom-N2-v0", spawn="random"))


def training_rows(folder: RunFolder) -> list[dict[str, str]]:
    with (folder.path / "train.csv").open() as file:
        return [{name: text for name, text in row.items() if name not in MACHINE} for row in csv.DictReader(file)]


def assert_same_run(one: RunFolder, other: RunFolder) -> None:
    assert one.episodes.read_bytes() == other.episodes.read_bytes()
    assert (one.path / "eval.csv").read_bytes() == (other.path / "eval.csv").read_bytes()
    assert training_rows(one) == training_rows(other)
    assert_same_checkpoint(one.last, other.last)


def assert_same_checkpoint(one: Path, other: Path) -> None:
    files = [path.name for path in one.iterdir() if path.suffix in (".safetensors", ".npz", ".npy")]
    assert len(files) >= 6
    for name in files:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    texts = [json.loads((folder / "generators.json").read_text()) for folder in (one, other)]
    for text in texts:
        del text["run"]["seconds"], text["run"]["window_seconds"]
    assert texts[0] == texts[1]


def stop_at(monkeypatch: pytest.MonkeyPatch, env_steps: int, number: int = signal.SIGINT) -> None:
    """Send a signal to this process right after the agent has learned from that step."""
    record = train_module.TrainingRun.record

    def record_and_signal(self: Any, step: Any) -> None:
        record(self, step)
        if self.env_steps == env_steps:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(train_module.TrainingRun, "record", record_and_signal)


def tabular_experiment(**sizes: int) -> Experiment:
    return tiny_experiment("fourroom-tabular", **sizes)


MAKERS = [random_experiment, with_several_environments, sfl_experiment, tabular_experiment]


@pytest.mark.parametrize("make", MAKERS)
def test_stopped_and_resumed_equals_uninterrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[..., Experiment]
) -> None:
    experiment = make()
    whole = train(experiment, 3, tmp_path / "whole", "cpu")
    path = tmp_path / "parts" / experiment.name / "seed-0003"
    for part in (1, 2):  # in the middle of episodes and between two rows of train.csv
        steps = (part * experiment.train.steps // 3 + 17) // experiment.train.env_count * experiment.train.env_count
        with monkeypatch.context() as patch:
            stop_at(patch, steps)
            with pytest.raises(RunStoppedError, match=f"stopped at step {steps:,} and saved; .*`sfl resume"):
                _ = train(experiment, 3, tmp_path / "parts", "cpu") if part == 1 else resume(path, "cpu")
    parts = resume(path, "cpu")
    assert_same_run(whole, parts)


@pytest.mark.parametrize("make", [random_experiment, sfl_experiment])
def test_evaluating_twice_as_often_leaves_training_unchanged(tmp_path: Path, make: Callable[..., Experiment]) -> None:
    every = make().train.steps // 4
    seldom = train(make(eval_every=2 * every), 1, tmp_path / "seldom", "cpu")
    often = train(make(eval_every=every), 1, tmp_path / "often", "cpu")
    assert training_rows(seldom) == training_rows(often)
    assert_same_checkpoint(seldom.last, often.last)
    counts = [len(folder.episodes.read_text().splitlines()) for folder in (seldom, often)]
    assert counts[1] > counts[0]
    assert set(seldom.episodes.read_text().splitlines()) <= set(often.episodes.read_text().splitlines())


def test_ctrl_c_during_an_evaluation_does_not_wait_for_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = random_experiment()
    probe = train_module.Indicators.__call__
    seen = 0

    def probe_and_signal(self: Any, step: Any, policy: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == 350:  # an evaluation has 300 steps of its two environments: in the middle of the second
            os.kill(os.getpid(), signal.SIGINT)
        probe(self, step, policy)

    with monkeypatch.context() as patch:
        patch.setattr(train_module.Indicators, "__call__", probe_and_signal)
        with pytest.raises(RunStoppedError, match="stopped at step 200 and saved"):
            train(experiment, 3, tmp_path / "parts", "cpu")
    path = tmp_path / "parts" / experiment.name / "seed-0003"
    assert {line.split(",")[6] for line in (path / "episodes.csv").read_text().splitlines()[1:]} == {"100"}
    assert_same_run(train(experiment, 3, tmp_path / "whole", "cpu"), resume(path, "cpu"))


@pytest.mark.parametrize("make", [random_experiment, sfl_experiment, tabular_experiment])
def test_evaluating_a_run_again_gives_its_last_rows_again(tmp_path: Path, make: Callable[..., Experiment]) -> None:
    folder = train(make(), 2, tmp_path, "cpu")
    rows = read_episodes(folder.episodes)
    last = [row for row in rows if row.env_steps == make().train.steps]
    assert evaluate_run(folder.path, device="cpu") == last


@pytest.mark.parametrize("make", [sfl_experiment, tabular_experiment])
def test_small_checkpoints_and_slim_copies_can_be_evaluated(tmp_path: Path, make: Callable[..., Experiment]) -> None:
    experiment = make()
    folder = train(experiment, 0, tmp_path, "cpu")
    name = f"{experiment.train.steps:09d}"
    rows = evaluate_run(folder.path, level="any", episodes=2, checkpoint=name, device="cpu")
    assert [row.env_steps for row in rows] == [experiment.train.steps] * 2
    np.testing.assert_array_equal(load_run(folder.path, name).landmark_poses, load_run(folder.path).landmark_poses)
    slim = export(folder.path, tmp_path / "slim")
    assert evaluate_run(slim.path, device="cpu") == evaluate_run(folder.path, device="cpu")
    with pytest.raises(UsageError, match="slim copy"):
        resume(slim.path)


def test_slim_copies_have_history_and_poses_where_they_are_asked_for(tmp_path: Path) -> None:
    folder = train(random_experiment(steps=300, checkpoint_every=50, eval_every=0), 0, tmp_path, "cpu")
    slim = export(folder.path, tmp_path / "slim", history=3, poses=True)
    assert sorted(path.name for path in slim.checkpoints.iterdir()) == ["000000050", "000000150", "000000250", "last"]
    np.testing.assert_array_equal(load_run(slim.path).poses, load_run(folder.path).poses)
    assert load_run(slim.path, "000000150").env_steps == 150
    bare = export(folder.path, tmp_path / "bare")
    assert [path.name for path in bare.checkpoints.iterdir()] == ["last"]
    assert load_run(bare.path).poses.shape == (0, 3)
    everything = export(folder.path, tmp_path / "everything", history=99)
    assert len(list(everything.checkpoints.iterdir())) == 6  # the newest of the history is `last`
    with pytest.raises(UsageError, match="--history must be 0 or more, got -1"):
        export(folder.path, tmp_path / "wrong", history=-1)


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    one, other = (train(random_experiment(), seed, tmp_path, "cpu") for seed in (0, 1))
    assert training_rows(one) != training_rows(other)
    assert not np.array_equal(load_run(one.path).poses, load_run(other.path).poses)


def test_rows_and_folders_are_where_they_should_be(tmp_path: Path) -> None:
    folder = train(random_experiment(), 3, tmp_path, "cpu")
    assert folder.path == tmp_path / "fourroom-random" / "seed-0003"
    assert [row["env_steps"] for row in training_rows(folder)] == ["50", "100", "150", "200", "250", "300", "350"]
    evaluated = [line.split(",")[6] for line in folder.episodes.read_text().splitlines()[1:]]
    assert sorted(set(evaluated)) == ["100", "200", "300", "350"]
    assert len(evaluated) == 4 * 2 * 3  # evaluations, levels, episodes
    assert sorted(path.name for path in folder.checkpoints.iterdir()) == ["000000150", "000000300", "000000350", "last"]
    assert json.loads((folder.path / "system.json").read_text())["device"] == "cpu"


def test_poses_are_counted_like_the_agents_steps(tmp_path: Path) -> None:
    run = load_run(train(random_experiment(), 0, tmp_path, "cpu").path)
    assert run.poses.shape == (350, 3)
    np.testing.assert_array_equal(run.poses[[0, 100, 200, 300]], [[1, 1, 0]] * 4)  # episodes of 100 from the start


def test_coverage_is_the_share_of_cells_that_were_visited(tmp_path: Path) -> None:
    folder = train(random_experiment(), 0, tmp_path, "cpu")
    cells = {(x, y) for x, y, _ in load_run(folder.path).poses.tolist()}
    assert float(training_rows(folder)[-1]["explore/coverage"]) == len(cells) / 40  # FourRoom has 40 free cells


def test_memory_is_written_down_and_never_shrinks(tmp_path: Path) -> None:
    folder = train(random_experiment(), 0, tmp_path, "cpu")
    memory = read_columns(folder.path / "train.csv")["memory/host"]
    slack = 5  # megabytes: the kernel counts pages per core, and only now and then in all
    assert 50 < memory[0] <= memory[-1] + slack <= resident_megabytes("VmHWM") + 2 * slack


def test_no_steps_is_an_evaluation_only(tmp_path: Path) -> None:
    folder = train(random_experiment(steps=0), 0, tmp_path, "cpu")
    assert training_rows(folder) == []
    assert {line.split(",")[6] for line in folder.episodes.read_text().splitlines()[1:]} == {"0"}


def test_a_finished_run_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = train(random_experiment(), 0, tmp_path, "cpu")
    before = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    resume(folder.path)
    assert "there is nothing to resume" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()} == before


def test_a_new_run_never_writes_into_an_old_folder(tmp_path: Path) -> None:
    folder = train(random_experiment(), 0, tmp_path, "cpu")
    with pytest.raises(UsageError, match=r"exists already; continue it with `sfl resume .*seed-0000` or .*--runs-dir"):
        train(random_experiment(), 0, tmp_path)
    assert folder.path.exists()


def test_an_environment_with_continuous_actions_leaves_nothing_behind(tmp_path: Path) -> None:
    experiment = replace(random_experiment(), env=GymConfig("MountainCarContinuous-v0"))
    with pytest.raises(UsageError, match="MountainCarContinuous-v0 has continuous actions"):
        train(experiment, 0, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_sigterm_saves_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_at(monkeypatch, 77, signal.SIGTERM)
    with pytest.raises(RunStoppedError, match="stopped at step 77 and saved"):
        train(random_experiment(), 0, tmp_path)
    assert load_run(tmp_path / "fourroom-random" / "seed-0000").env_steps == 77


def test_second_ctrl_c_in_the_middle_of_a_save_keeps_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(monkeypatch, 200)
    write = checkpoint._write_json

    def write_and_signal(path: Path, value: Any) -> None:
        if value.get("run", {}).get("window_steps") == 200 or value.get("env_steps") == 200:
            os.kill(os.getpid(), signal.SIGINT)
        write(path, value)

    monkeypatch.setattr(checkpoint, "_write_json", write_and_signal)
    with pytest.raises(RunStoppedError, match="stopped without saving; continue with `sfl resume"):
        train(random_experiment(), 0, tmp_path / "parts", "cpu")
    monkeypatch.undo()
    path = tmp_path / "parts" / "fourroom-random" / "seed-0000"
    assert sorted(folder.name for folder in (path / "checkpoints").iterdir()) == ["000000150", "last"]
    assert load_run(path).env_steps == 150
    assert_same_run(train(random_experiment(), 0, tmp_path / "whole", "cpu"), resume(path, "cpu"))


def test_signal_handlers_are_put_back(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    train(random_experiment(steps=5), 0, tmp_path)
    assert signal.getsignal(signal.SIGINT) is before


def test_full_disk_while_saving_keeps_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = checkpoint._write_json

    def full(path: Path, value: Any) -> None:
        if value.get("env_steps") == 300:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, value)

    monkeypatch.setattr(checkpoint, "_write_json", full)
    with pytest.raises(SflError, match="The disk is full"):
        train(random_experiment(), 0, tmp_path / "parts", "cpu")
    monkeypatch.undo()
    path = tmp_path / "parts" / "fourroom-random" / "seed-0000"
    assert sorted(folder.name for folder in (path / "checkpoints").iterdir()) == ["000000150", "last"]
    assert_same_run(train(random_experiment(), 0, tmp_path / "whole", "cpu"), resume(path, "cpu"))


def test_full_disk_while_writing_a_table_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: object, row: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sfl.run.log.CsvTable.write", full)
    with pytest.raises(SflError, match="disk is full; there is no checkpoint yet: the same command starts over"):
        train(random_experiment(), 0, tmp_path)


def test_a_damaged_checkpoint_is_never_a_fresh_start(tmp_path: Path) -> None:
    folder = train(random_experiment(), 0, tmp_path, "cpu")
    (folder.last / "replay.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"last good checkpoint is .*000000350"):
        resume(folder.path)


def test_a_checkpoint_of_another_environment_is_refused(tmp_path: Path) -> None:
    folder = train(random_experiment(), 0, tmp_path, "cpu")
    text = folder.config.read_text()
    folder.config.write_text(text.replace("sfl/FourRoom-v0", "sfl/MultiRoom-N2-v0"))
    with pytest.raises(CheckpointError, match="made in another environment"):
        resume(folder.path)


def test_an_environment_that_does_not_repeat_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        stop_at(patch, 77)
        with pytest.raises(RunStoppedError):
            train(random_experiment(), 0, tmp_path)
    folder = RunFolder(tmp_path / "fourroom-random" / "seed-0000")
    monkeypatch.setattr("sfl.worlds.session._Slot.digest", lambda self: "something else")
    resume(folder.path)
    assert "environment 0 did not repeat its episode" in capsys.readouterr().err
    assert len(training_rows(folder)) == 7


def test_a_metric_nobody_declared_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RandomAgent, "update", lambda self: {"train/surprise": 1.0})
    with pytest.raises(KeyError, match="train/surprise"):
        train(random_experiment(), 0, tmp_path)


def test_a_folder_that_is_no_run_and_a_foreign_config_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, "x" * 5_000):
        with pytest.raises(UsageError, match="is not a run folder"):
            resume(path)
    (tmp_path / "config.json").write_text('{"experiment": {"kind": "Experiment"}, "seed": 0}')
    with pytest.raises(UsageError, match=r"missing .*'agent'.* unknown"):
        resume(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UsageError, match="is no whole JSON"):
        load_run(tmp_path)


def test_every_checkpoint_of_a_run_can_be_loaded(tmp_path: Path) -> None:
    folder = train(random_experiment(), 0, tmp_path, "cpu")
    assert [load_run(folder.path, name).env_steps for name in ("000000150", "last")] == [150, 350]
    with pytest.raises(CheckpointError, match=r"000000151 does not exist\. The last good checkpoint is .*last"):
        load_run(folder.path, "000000151")


def test_spec_is_what_the_environment_shows() -> None:
    spec = MiniGridConfig().spec()
    assert (spec.observation_shape, spec.observation_dtype, spec.action_count) == ((9, 9, 3), "uint8", 4)
