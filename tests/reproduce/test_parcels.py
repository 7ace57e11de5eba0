"""Run folders on their way between machines, and a task of the cluster without a cluster."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sfl.reproduce.cluster import TIED, Order, work
from sfl.reproduce.parcels import Stamps, pack, unpack
from sfl.reproduce.plan import PlannedRun, Progress, checkpoint_steps, progress_of
from sfl.run.checkpoint import LEARNING_FILES
from sfl.run.folder import RunFolder, load_run
from sfl.run.train import train

from .planning import experiment_of, random_runs


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_parcel_holds_what_is_new(tmp_path: Path) -> None:
    (run,) = random_runs(tmp_path / "there", seeds=1)
    train(run.experiment, 0, tmp_path / "there", "cpu")
    sent, here = Stamps(), tmp_path / "here" / "seed-0000"
    whole = pack(run.path, sent)
    assert whole is not None
    unpack(whole, here)
    assert content(here) == content(run.path)
    (run.path / "train.csv").write_text("new\n")
    (run.path / "checkpoints" / "last.tmp").mkdir()
    (run.path / "checkpoints" / "last.tmp" / "half").write_text("written")
    rest = pack(run.path, sent)
    assert rest is not None
    assert len(rest) < len(whole) / 5
    unpack(rest, here)
    assert (here / "train.csv").read_text() == "new\n"
    assert not (here / "checkpoints" / "last.tmp").exists()
    assert checkpoint_steps(RunFolder(here)) == 1_200
    assert sorted(path.name for path in here.parent.iterdir()) == ["seed-0000"]  # no draft is left


def test_a_run_that_is_only_read_travels_without_what_learning_needs(tmp_path: Path) -> None:
    (run,) = random_runs(tmp_path / "there", seeds=1)
    train(run.experiment, 0, tmp_path / "there", "cpu")
    here, packed = tmp_path / "here" / "seed-0000", pack(run.path, {}, but=LEARNING_FILES)
    assert packed is not None
    unpack(packed, here)
    left = {f"checkpoints/last/{name}" for name in LEARNING_FILES}
    assert set(content(run.path)) - set(content(here)) == left
    assert load_run(here, device="cpu", learning=False).env_steps == 1_200


def test_a_checkpoint_that_arrives_replaces_the_old_one_whole(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder, name in ((here, "old.txt"), (there, "new.txt")):
        last = RunFolder(folder).last
        last.mkdir(parents=True)
        (last / name).write_text(name)
        (last / "format.json").write_text('{"env_steps": 1}')
    packed = pack(there, Stamps())
    assert packed is not None
    unpack(packed, here)
    assert sorted(file.name for file in RunFolder(here).last.iterdir()) == ["format.json", "new.txt"]
    assert [path.name for path in RunFolder(here).checkpoints.iterdir()] == ["last"]


@pytest.mark.slow
def test_a_task_sends_its_run_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given a run to go on with that names a file of another run, and both lie elsewhere on its node."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "src"))
    home = tmp_path / "home"
    other, run = random_runs(home)
    train(other.experiment, 0, home, "cpu")
    run = replace(run, after=(other.path,))
    started = PlannedRun(experiment_of((*run.words, "--train.steps", "600")), 1, run.words, run.path)
    train(started.experiment, 1, home, "cpu")
    config = RunFolder(run.path).config
    body = json.loads(config.read_text())
    body["experiment"]["train"]["steps"] = 1_200
    body["read"] = f"{other.path}/config.json"
    config.write_text(json.dumps(body))
    assert progress_of(run) is Progress.BROKEN_OFF
    needed = (("random-fourroom/seed-0000", pack(other.path, {}) or b""),)
    order = Order(run, str(home), "cpu", pack(run.path, {}), needed)
    shutil.rmtree(run.path)
    *_, last = parcels = list(work(order))
    assert last.code == 0, last.said
    for parcel in parcels:
        if parcel.packed:
            unpack(parcel.packed, run.path)
    assert progress_of(run) is Progress.FINISHED
    assert json.loads(config.read_text())["read"] == f"{last.home}/random-fourroom/seed-0000/config.json"
    assert not Path(last.home).exists()
    assert last.home != str(home)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_run_ends_with_the_worker_that_started_it(tmp_path: Path) -> None:
    endless = ["train", "random-fourroom", "--train.steps", "1000000000", "--runs-dir", str(tmp_path / "runs")]
    script = (
        "import os, subprocess, sys; "
        f"run = subprocess.Popen([sys.executable, {str(TIED)!r}, str(os.getpid()), *{endless!r}]); "
        "print(run.pid, flush=True); run.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        run = Path("/proc") / worker.stdout.readline().strip()
        end = time.monotonic() + 120
        while b"-m\0sfl" not in (run / "cmdline").read_bytes():
            assert time.monotonic() < end, "the run does not begin"
        worker.kill()
    try:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it is gone, and collected
            while "Z" not in (run / "stat").read_text().rpartition(")")[2].split()[0]:
                assert time.monotonic() < end, "the run outlives its worker"
                time.sleep(0.05)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(run.name), signal.SIGKILL)
