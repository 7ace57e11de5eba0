"""Which run is next, what becomes of killed ones, and what a machine holds."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sfl import experiments
from sfl.errors import SflError, UsageError
from sfl.reproduce.engine import (
    ATTEMPTS,
    Machine,
    Need,
    Progress,
    Queue,
    device_of,
    estimate,
    last_line,
    look_at,
    most_at_once,
    need_of,
    start_words,
    this_machine,
)
from sfl.reproduce.plan import progress_of
from sfl.run.evaluate import EPISODE_COLUMNS
from sfl.run.folder import RunFolder, locked
from sfl.run.train import resume, train

from .planning import random_runs


def test_a_run_waits_for_those_it_reads_and_fails_with_them(tmp_path: Path) -> None:
    first, second = random_runs(tmp_path)
    second = replace(second, after=(first.path,))
    queue = Queue([second, first])
    assert queue.take(lambda run: True) is first
    assert queue.take(lambda run: True) is None
    train(first.experiment, 0, tmp_path, "cpu")
    queue.ended(first)
    assert queue.take(lambda run: True) is second
    assert not queue.waiting

    queue = Queue([second, first])
    queue.take(lambda run: True)
    queue.ended(first, "the disk is full")
    assert queue.take(lambda run: True) is None
    assert [failure.reason for failure in queue.failures] == [
        "the disk is full",
        f"it reads {first.path}, which failed",
    ]


def test_a_killed_run_is_tried_again_and_then_given_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run,) = random_runs(tmp_path, seeds=1)
    queue = Queue([run])
    for _ in range(ATTEMPTS - 1):
        assert queue.take(lambda run: True) is run
        queue.killed(run, "killed by SIGKILL")
        assert queue.waiting
    train(run.experiment, 0, tmp_path, "cpu")
    queue.take(lambda run: True)
    queue.killed(run, "killed by SIGKILL")
    assert not queue.waiting
    assert [failure.reason for failure in queue.failures] == ["killed by SIGKILL, 3 times"]
    assert capsys.readouterr().err.count("it starts again.") == ATTEMPTS - 1


def test_a_run_that_says_it_is_done_must_be(tmp_path: Path) -> None:
    (run,) = random_runs(tmp_path, seeds=1)
    queue = Queue([run])
    queue.take(lambda run: True)
    queue.ended(run)
    assert [failure.reason for failure in queue.failures] == ["it ended without an error and is not finished"]


def test_a_folder_without_a_checkpoint_starts_again_and_one_with_it_is_resumed(tmp_path: Path) -> None:
    (run,) = random_runs(tmp_path, seeds=1)
    run.path.mkdir(parents=True)
    assert start_words(run, tmp_path, run.path)[:2] == ["train", "fourroom-random"]
    assert not run.path.exists()
    train(run.experiment, 0, tmp_path, "cpu")
    assert start_words(run, tmp_path, run.path) == ["resume", str(run.path)]
    assert RunFolder(run.path).last.exists()


@pytest.mark.parametrize("damage", ["", "{}", "[]", '{"env_steps": null}'])
def test_a_folder_whose_checkpoint_is_damaged_is_never_cleared(tmp_path: Path, damage: str) -> None:
    (run,) = random_runs(tmp_path, seeds=1)
    folder = train(run.experiment, 0, tmp_path, "cpu")
    (folder.last / "format.json").write_text(damage)
    with pytest.raises(SflError, match=r"checkpoints/last cannot be read; bring it back, or move .*seed-0000 away"):
        start_words(run, tmp_path, run.path)
    assert progress_of(run) is Progress.STARTED
    assert folder.episodes.is_file()
    shutil.rmtree(folder.checkpoints)
    with pytest.raises(SflError, match=r"it was evaluated at its end, and its checkpoint .* is gone"):
        start_words(run, tmp_path, run.path)
    assert folder.episodes.is_file()


def test_a_folder_that_another_process_writes_is_left_alone(tmp_path: Path) -> None:
    """Before its first checkpoint it looks like one that may be cleared."""
    (run,) = random_runs(tmp_path, seeds=1)
    run.path.mkdir(parents=True)
    (run.path / "train.csv").write_text("env_steps\n")
    with (
        locked(run.path),
        pytest.raises(UsageError, match=r"seed-0000 is being written by another process; wait for it"),
    ):
        start_words(run, tmp_path, run.path)
    assert (run.path / "train.csv").is_file()
    assert start_words(run, tmp_path, run.path)[0] == "train"


def test_a_run_is_made_by_one_process_at_a_time(tmp_path: Path) -> None:
    (run,) = random_runs(tmp_path, seeds=1)
    made = train(run.experiment, 0, tmp_path, "cpu")
    before = made.episodes.read_bytes()
    with locked(made.path), pytest.raises(UsageError, match="is being written by another process"):
        resume(made.path, device="cpu")
    resume(made.path, device="cpu")
    assert made.episodes.read_bytes() == before


@pytest.mark.parametrize("damage", ["cut", "twice", "binary", "long", "gone", "wrong"])
def test_rows_that_are_not_whole_count_as_no_evaluation(tmp_path: Path, damage: str) -> None:
    (run,) = random_runs(tmp_path, seeds=1)
    episodes = train(run.experiment, 0, tmp_path, "cpu").episodes
    assert progress_of(run) is Progress.FINISHED
    whole = episodes.read_text().splitlines(keepends=True)
    if damage == "gone":
        episodes.unlink()
    else:
        place = EPISODE_COLUMNS.index("success")
        parts = [line.split(",") for line in whole[1:]]
        changed = {
            "cut": whole[:-1],
            "twice": [*whole, whole[-1]],
            "binary": ["\x00\xff"],
            "long": [*whole, '"', "x" * 200_000],
            "wrong": [whole[0], *(",".join([*part[:place], "7", *part[place + 1 :]]) for part in parts)],
        }[damage]
        episodes.write_bytes("".join(changed).encode("latin-1"))
    assert progress_of(run) is Progress.BROKEN_OFF
    with pytest.raises(SflError, match=rf"; move {run.path} away to make the run again\.$") as caught:
        start_words(run, tmp_path, run.path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["eval.csv", "train.csv"])
@pytest.mark.parametrize("damage", ["cut", "long", "gone"])
def test_measures_that_do_not_go_to_the_end_count_as_damage(tmp_path: Path, name: str, damage: str) -> None:
    """A table would show an earlier number as the last one."""
    (run,) = random_runs(tmp_path, seeds=1)
    file = train(run.experiment, 0, tmp_path, "cpu").path / name
    whole = file.read_text().splitlines(keepends=True)
    file.write_text("".join([whole[0], '"' + "x" * 200_000 + "\n", *whole[1:]] if damage == "long" else whole[:-1]))
    if damage == "gone":
        file.unlink()
    assert progress_of(run) is Progress.BROKEN_OFF
    with pytest.raises(SflError, match=rf"{name} does not go to the end of the run; move {run.path} away"):
        start_words(run, tmp_path, run.path)


def test_the_last_line_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_line(log) == "it said nothing"
    log.write_text("one\n two  words \n\n")
    assert last_line(log) == "two words"


def test_a_machine_holds_what_fits_and_one_run_in_any_case() -> None:
    machine, need = Machine(cores=4, memory=9_000, gpus=[10_000, 24_000]), Need(1, 2_000, 8_000)
    assert [machine.take(need, alone=False) for _ in range(4)] == [1, 1, 0, 1]
    assert machine.take(need, alone=False) is None
    machine.give_back(need, 1)
    assert machine.take(need, alone=False) == 1
    small = Machine(cores=1, memory=100)
    assert small.take(need, alone=False) is None
    assert small.take(need, alone=True) == 0


def test_gpus_are_asked_of_the_driver_and_only_those_lent_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for the driver's program, which this machine may not have."""
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nprintf 'GPU-5f1e, 80000\\nGPU-77aa, 40000\\nGPU-0b2c, 20000\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert this_machine().gpus == [80_000, 40_000, 20_000]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    machine = this_machine()
    assert (machine.gpus, machine.gpu_names) == ([20_000, 80_000], ("2", "0"))
    for names, free in {
        "GPU-77,GPU-5f1e": [40_000, 80_000],
        "1,7": [40_000],
        "GPU-none": [],
        "MIG-9d": [need_of(experiments.get("laptop-maze-sfl"), "cuda").gpu_memory],
    }.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", names)
        assert this_machine().gpus == free, names
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert this_machine().gpus == []
    program.write_text("#!/bin/sh\nexit 9\n")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert this_machine().gpus == []
    assert this_machine().cores >= 1
    assert this_machine().memory > 0


def test_grids_need_a_core_and_mazes_a_share_of_a_gpu() -> None:
    grid, maze = experiments.get("fourroom-sfl"), experiments.get("laptop-maze-sfl")
    assert (device_of(grid, "auto"), device_of(maze, "auto"), device_of(grid, "cuda")) == ("cpu", "auto", "cuda")
    assert need_of(grid, "cpu").gpu_memory == need_of(maze, "cpu").gpu_memory == 0
    assert need_of(maze, "auto").gpu_memory > 0


def test_rates_of_finished_runs_make_the_estimate(tmp_path: Path) -> None:
    runs = random_runs(tmp_path, seeds=3)
    machine = Machine(cores=2, memory=8_000)
    assert most_at_once(runs, machine, "cpu", None) == 2
    assert most_at_once(runs, machine, "cpu", 3) == 3
    guess = estimate(runs, look_at(runs), 2, "cpu")
    assert (guess.missing, guess.guessed) == (3, 3)
    assert guess.seconds == pytest.approx(3 * (10 + 1_200 / 20_000) / 2)
    assert "3 to make" in str(guess)
    assert "the rate of 3 of them is guessed" in str(guess)
    folder = train(runs[0].experiment, 0, tmp_path, "cpu")
    (folder.path / "train.csv").write_text("env_steps,time/wall_seconds\n600,10\n1200,60\n")
    measured = estimate(runs, look_at(runs), 1, "cpu")
    assert (measured.finished, measured.missing, measured.guessed) == (1, 2, 0)
    assert measured.seconds == pytest.approx(2 * (10 + 60))  # 1,200 steps at 20 a second, twice
    half = replace(
        runs[0], experiment=replace(runs[0].experiment, train=replace(runs[0].experiment.train, steps=2_400))
    )
    left = estimate([half], look_at([half]), 1, "cpu")
    assert (left.broken_off, left.seconds) == (1, pytest.approx(10 + 1_200 / 20_000))  # what is done is not counted
    assert str(estimate(runs[:1], {runs[0].path: Progress.FINISHED}, 1, "cpu")) == "1 run: all finished."
