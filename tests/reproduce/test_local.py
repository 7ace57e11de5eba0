"""The real command with processes of this machine: made once, killed, stopped, failed, in use."""

from __future__ import annotations

import csv
import html
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from sfl.cli import main
from sfl.cli.commands import ReproduceOptions, _report_name
from sfl.reproduce import engine as local
from sfl.reproduce.engine import LocalEngine, Machine, locked
from sfl.reproduce.plan import PlannedRun, Progress, progress_of
from sfl.run.stopping import RunStoppedError
from sfl.run.train import train

from .planning import experiment_of, random_runs

ROOT = Path(__file__).parents[2]
WORDS = ["reproduce", "curves-minigrid", "--tiny", "--jobs", "2", "--device", "cpu"]


@pytest.fixture(autouse=True, scope="module")
def sources() -> Iterator[None]:
    """Workers find sfl where this process does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT / "src"))
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny table of one row and two seeds."""
    runs = tmp_path_factory.mktemp("made")
    assert main([*WORDS, "--seeds", "2", "--only", "^fourroom-random|fourroom-mss", "--runs-dir", str(runs)]) == 0
    return runs


def test_the_report_is_written_in_three_forms(made: Path) -> None:
    (out,) = (made / "reports").glob("curves-minigrid-only-fourroom-random-fourroom-mss-????????")
    with (out / "report.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["row"] == "Random actions"]
    assert [(row["place"], row["measure"], row["seeds"]) for row in rows] == [
        ("fourroom", level, "2") for level in ("paper", "any")
    ]
    text, page = (out / "report.md").read_text(), (out / "report.html").read_text()
    assert "curves-minigrid-fourroom.svg" in text
    command = "sfl reproduce curves-minigrid --seeds 2 --only '^fourroom-random|fourroom-mss' --tiny"
    assert text.startswith(f"# {command}\n")
    assert f"<h1>{html.escape(command)}</h1>" in page
    assert all("their numbers mean nothing." in said for said in (text, page))
    assert page.count('src="data:image/svg+xml;base64,') == 1
    assert not re.search(r'(src|href)="(?!data:|#)', page)  # it needs no other file


def test_finished_runs_are_kept(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = made / "fourroom-random" / "seed-0000" / "episodes.csv"
    before = kept.stat().st_mtime_ns
    words = [*WORDS, "--runs-dir", str(made), "--only", "^fourroom-random"]
    assert main([*words, "--seeds", "3", "--plan"]) == 0
    assert "3 runs: 1 to make, 0 to go on with, 2 finished; about" in capsys.readouterr().err
    assert not (made / "fourroom-random" / "seed-0002").exists()
    assert main([*words, "--seeds", "2"]) == 0
    shown = capsys.readouterr()
    assert "2 runs: all finished." in shown.err
    assert "Random actions" in shown.out
    assert kept.stat().st_mtime_ns == before


def test_a_folder_of_other_settings_stops_everything(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "curves-minigrid", "--runs-dir", str(made), "--only", "random", "--seeds", "1"]
    assert main(words) == 2
    shown = capsys.readouterr().err
    assert "seed-0000 was made by other settings: train.steps is 1200 there and 1000 here" in shown
    assert shown.count("\n") == 1
    assert not (made / "multiroom-n3-random").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table-randon"], "Did you mean 'table-random'?"),
        (["curves-minigrid", "--seeds", "0"], "--seeds must be 1 or more, got 0."),
        (["curves-minigrid", "--jobs", "0"], "--jobs must be 1 or more, got 0."),
        (["curves-minigrid", "--seeds", "1000000"], "--seeds must be at most 9,999, got 1000000."),
        (["curves-minigrid", "--scale", "-1"], "--scale must be a positive number up to 1,000,000, got -1.0."),
        (["curves-minigrid", "--scale", "nan"], "--scale must be a finite number below 9e+18, got nan."),
        (["curves-minigrid", "--scale", "1e308"], "--scale must be a positive number up to 1,000,000, got 1e+308."),
        (["curves-minigrid", "--device", "tpu"], "--device must be auto, cpu or cuda, got 'tpu'."),
        (["curves-minigrid", "--address", "node:1"], "--address node:1 is for a Ray cluster; add --engine ray"),
        (["curves-minigrid", "--only", "nothing"], "No row matches --only 'nothing'"),
    ],
)
def test_wrong_words_are_one_line(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *words, "--runs-dir", str(tmp_path / "runs")]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("option", ["--out", "--runs-dir"])
def test_a_file_where_a_folder_should_be_is_found_out_first(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("mine")
    assert main([*WORDS, "--seeds", "1", "--only", "fourroom-random", option, "file"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("choose another path.")
    assert [path.name for path in Path().iterdir()] == ["file"]


def wait_for(happened: Callable[[], object], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


@pytest.fixture
def long_run(tmp_path: Path) -> PlannedRun:
    """A run that takes a while after its first checkpoint."""
    (run,) = random_runs(tmp_path, seeds=1)
    words = (*run.words, "--train.steps", "20000", "--train.eval-every", "0", "--train.checkpoint-every", "2000")
    return PlannedRun(experiment_of(words), run.seed, words, run.path)


def worker_of(run: PlannedRun) -> Iterator[int]:
    """Processes that have the run's folder or experiment among their words."""
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = cmdline.read_bytes().decode().split("\0")
        except OSError:
            continue
        if f"--runs-dir={run.path.parents[1]}" in words or str(run.path) in words:
            yield int(cmdline.parent.name)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="finds the worker in /proc")
@pytest.mark.parametrize(
    ("number", "reason"),
    [(signal.SIGKILL, "its process was killed by SIGKILL"), (signal.SIGTERM, "its process was told to stop")],
)
def test_a_worker_that_is_killed_or_told_to_stop_is_resumed(
    number: signal.Signals, reason: str, long_run: PlannedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    def kill() -> None:
        wait_for((long_run.path / "checkpoints" / "last" / "format.json").exists)
        for process in worker_of(long_run):
            os.kill(process, number)

    killer = Thread(target=kill)
    killer.start()
    engine = LocalEngine(long_run.path.parents[1], Machine(2, 8_000), "cpu")
    assert engine.make([long_run]) == []
    killer.join()
    shown = capsys.readouterr().err
    assert f"{reason}; it is resumed from step" in shown
    assert progress_of(long_run) is Progress.FINISHED


@pytest.mark.slow
def test_runs_that_do_not_save_in_time_are_counted(long_run: PlannedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop() -> None:
        wait_for((long_run.path / "checkpoints" / "last" / "format.json").exists)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(local, "PATIENCE", 0.0)
    Thread(target=stop).start()
    engine = LocalEngine(long_run.path.parents[1], Machine(2, 8_000), "cpu")
    with pytest.raises(RunStoppedError, match="where it was; 1 of them had not saved after 0 s and go on from an earl"):
        engine.make([long_run])


@pytest.mark.slow
def test_a_damaged_run_is_reported_and_the_others_are_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged, other = random_runs(tmp_path)
    folder = train(damaged.experiment, 0, tmp_path, "cpu")
    (folder.last / "format.json").write_text("{")
    (failure,) = LocalEngine(tmp_path, Machine(2, 8_000), "cpu").make([damaged, other])
    assert "cannot be read; bring it back, or move" in failure.reason
    assert f"FAILED {damaged.title}: " in capsys.readouterr().err
    assert folder.episodes.is_file()
    assert progress_of(other) is Progress.FINISHED


@pytest.mark.slow
def test_ctrl_c_leaves_runs_that_can_be_resumed_and_the_reasons_of_those_that_failed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sfl", "reproduce", "all", "--scale", "100", "--seeds", "1", "--jobs", "2"]
    command += ["--only", "^fourroom-random$|^sgm-random-spawn-random", "--runs-dir", str(tmp_path / "runs")]
    said, environment = tmp_path / "said", {**os.environ, "SFL_MAZES": str(tmp_path / "nowhere")}
    with said.open("w") as err, subprocess.Popen(command, stderr=err, stdout=err, env=environment) as process:
        run = tmp_path / "runs" / "fourroom-random" / "seed-0000"
        wait_for((run / "checkpoints" / "last" / "format.json").exists)
        wait_for(lambda: "FAILED sgm-random-spawn-random seed 0: No folder" in said.read_text())
        process.send_signal(signal.SIGINT)
        process.wait(timeout=300)
    assert process.returncode == 130
    last = said.read_text().strip().splitlines()[-1]
    assert "stopped; the same command goes on where it was. 0 of 2 runs are finished" in last
    assert json.loads((run / "checkpoints" / "last" / "format.json").read_text())["env_steps"] > 0
    assert "stopped at step" in (tmp_path / "runs" / "logs" / "fourroom-random-seed-0000.log").read_text()
    (report,) = (tmp_path / "runs" / "reports").glob("*/report.md")
    assert "| fourroom-random seed 0 |" in report.read_text()
    assert f"| sgm-random-spawn-random seed 0 | No folder {tmp_path / 'nowhere'}" in report.read_text()


def test_a_run_that_fails_is_reported_and_the_others_are_kept(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The maze's folder is missing: that runs in it will fail is said first, then they do."""
    monkeypatch.setenv("SFL_MAZES", str(tmp_path / "nowhere"))
    words = ["reproduce", "all", "--tiny", "--seeds", "1", "--runs-dir", str(made), "--out", str(tmp_path / "report")]
    assert main([*words, "--only", "^fourroom-random$|^sgm-random-spawn-random"]) == 1
    shown = capsys.readouterr()
    warned, _, made_then = shown.err.partition("train  ")
    assert f"1 of them will fail, first sgm-random-spawn-random seed 0: No folder {tmp_path / 'nowhere'}" in warned
    assert "FAILED sgm-random-spawn-random seed 0: No folder" in made_then
    assert "sfl: 1 run is not finished, sgm-random-spawn-random seed 0: No folder" in shown.err
    assert ".;" not in shown.err
    report = (tmp_path / "report" / "report.md").read_text()
    assert "| Random actions | fourroom | the paper's task % | 1 |" in report
    assert "## Runs that failed" in report
    assert "| sgm-random-spawn-random seed 0 |" in report


def test_a_run_that_cannot_be_started_is_reported_and_the_others_are_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "-runs"  # a name that looks like an option
    (runs / "logs" / "fourroom-random-seed-0001.log").mkdir(parents=True)
    assert main([*WORDS, f"--runs-dir={runs}", "--only", "^fourroom-random$", "--seeds", "2"]) == 1
    shown = capsys.readouterr().err
    assert "FAILED fourroom-random seed 1: [Errno 21] Is a directory" in shown
    assert "done   fourroom-random seed 0 (1 of 2)" in shown
    (report,) = (runs / "reports").glob("*/report.md")
    assert "| fourroom-random seed 1 | [Errno 21] Is a directory" in report.read_text()


def test_reports_of_patterns_that_no_folder_can_be_called_after_are_told_apart() -> None:
    long = "|".join(f"random-{number}" for number in range(100))
    patterns = ["", "sfl", "^sfl-", "sgm-sfl", "sgm.sfl", "sgm|sfl", ".", "..", long, f"{long}|more"]
    names = [_report_name(ReproduceOptions("curves-minigrid", only=pattern)) for pattern in patterns]
    assert names[:2] == ["curves-minigrid", "curves-minigrid-only-sfl"]
    assert len(set(names)) == len(patterns)
    assert max(map(len, names)) < 100


def test_two_at_once_in_one_folder_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with locked(tmp_path):
        assert main([*WORDS, "--runs-dir", str(tmp_path), "--only", "fourroom-random", "--seeds", "1"]) == 2
    assert "is in use by another `sfl reproduce`" in capsys.readouterr().err
