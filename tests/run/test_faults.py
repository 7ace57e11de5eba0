"""What becomes of a run when its streams, boards, rows or folder are not what they should be. Real processes."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sfl.cli import main
from sfl.errors import CheckpointError, SflError, UsageError
from sfl.run import checkpoint, folder
from sfl.run import log as boards_module
from sfl.run.checkpoint import sign_header as signed
from sfl.run.evaluate import evaluate
from sfl.run.folder import RunFolder, export, load_run
from sfl.run.log import Boards, Progress, note
from sfl.run.report import summarise_runs
from sfl.run.stopping import RunStoppedError, StopRequest
from sfl.run.train import resume, train
from sfl.worlds.doom.workers import sweep_folders as sweep

from .test_train import assert_same_run, sfl_experiment, stop_at
from .worlds import random_experiment

SOURCES = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}
TRAIN = [sys.executable, "-m", "sfl", "train", "fourroom-random", "--tiny"]


def closed_pipe() -> int:
    reading, writing = os.pipe()
    os.close(reading)
    return writing


# ---- streams


def test_a_run_goes_on_and_saves_when_nobody_reads_its_progress(tmp_path: Path) -> None:
    """stderr closed, without a reader, on a full disk; and with all three streams closed from the start."""
    words = " ".join(TRAIN)
    ways = {0: f"{words} 2>&-", 1: f"{words} --seed 1 2>/dev/full", 2: f"{words} --seed 2 <&- >&- 2>&-"}
    running = {seed: subprocess.Popen(way, shell=True, cwd=tmp_path, env=SOURCES) for seed, way in ways.items()}
    pipe = closed_pipe()
    running[3] = subprocess.Popen([*TRAIN, "--seed", "3"], cwd=tmp_path, env=SOURCES, stderr=pipe)
    assert {seed: process.wait() for seed, process in running.items()} == dict.fromkeys(running, 0)
    for seed in running:
        assert load_run(tmp_path / "runs" / "fourroom-random" / f"seed-{seed:04d}").env_steps == 1200


def test_a_report_that_nobody_can_read_is_no_failed_run(tmp_path: Path) -> None:
    done = subprocess.run([*TRAIN], cwd=tmp_path, env=SOURCES, stdout=closed_pipe(), stderr=closed_pipe(), check=False)
    assert done.returncode == 141  # as the shell says of a program that SIGPIPE ended
    assert load_run(tmp_path / "runs" / "fourroom-random" / "seed-0000").env_steps == 1200


def test_a_full_disk_behind_stdout_is_one_line_and_its_own_exit_code() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "sfl", "list"], env=SOURCES, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr.startswith(b"sfl: No space left on device")
    assert done.stderr.count(b"\n") == 1


def test_a_bar_on_a_terminal_that_is_gone_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line of it raises: that is all there is to see."""
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        bar = Progress("a run", 100, 0)
        os.close(master)
        for done in range(100):
            bar.advance(done)
        bar.evaluated({"eval/success_any": 0.5}, {})
        note("a line")
        bar.close()
        monkeypatch.undo()
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, terminal.fileno())
        os.close(devnull)


def test_a_closed_or_missing_stderr_takes_no_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = (tmp_path / "log").open("w")
    file.close()
    for stream in (None, file):
        monkeypatch.setattr(sys, "stderr", stream)
        note("a line")
        bar = Progress("a run", 10, 0)
        bar.evaluated({"eval/success_any": 0.5}, {})
        bar.close()
    assert (tmp_path / "log").read_text() == ""


def test_a_path_that_the_terminal_cannot_show_is_spelt_out() -> None:
    code = "from sfl.cli import main; from sfl.cli.commands import ListOptions\n"
    code += "ListOptions.execute = lambda self: print('L\\xe4ufe \\udcff')\nmain(['list'])"
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, env={**SOURCES, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=False)
    assert (done.stdout, done.stderr) == (b"L\\xe4ufe \\udcff\n", b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_the_imports_is_one_line(number: signal.Signals) -> None:
    """Of Python's own before the command begins, and of those that a command asks for."""
    for module in ("gymnasium", "torch"):
        code = f"""
import importlib.abc, os, signal, sys
class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), {int(number)})
sys.meta_path.insert(0, Interrupt())
sys.orig_argv = [sys.executable, "-m", "sfl", "train", "fourroom-sfl", "--tiny"]
sys.argv = ["sfl", *sys.orig_argv[3:]]
import runpy
runpy.run_module("sfl", run_name="__main__", alter_sys=True)
"""
        done = subprocess.run([sys.executable, "-c", code], env=SOURCES, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (130, "sfl: stopped.\n"), module


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_after_training_is_one_line_and_one_at_the_very_end_comes_too_late(number: signal.Signals) -> None:
    """Training gives handlers back to the command, which must not fall back to ending on the spot."""
    code = f"""
import atexit, os, sys
sys.orig_argv = [sys.executable, "-m", "sfl", "list"]
from sfl.cli import main
from sfl.cli.commands import ListOptions
from sfl.run.stopping import StopRequest
def told(options):
    with StopRequest():
        pass
    os.kill(os.getpid(), {int(number)})
ListOptions.execute = told if sys.argv[1] == "command" else lambda self: None
atexit.register(os.kill, os.getpid(), {int(number)})
sys.exit(main(["list"]))
"""
    for moment, expected in (("command", (130, "sfl: stopped.\n")), ("exit", (0, ""))):
        words = [sys.executable, "-c", code, moment]
        done = subprocess.run(words, env=SOURCES, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == expected, moment


def test_ctrl_c_while_a_program_imports_the_package_is_the_programs_own_affair() -> None:
    code = "import signal, sfl; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    code += "assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL"
    subprocess.run([sys.executable, "-c", code], env=SOURCES, check=True)


def test_help_ends_however_narrow_the_terminal_says_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "1")
    with pytest.raises(SystemExit):
        main(["train", "fourroom-random", "--help"])
    assert "--train.steps" in capsys.readouterr().out
    assert os.environ["COLUMNS"] == "1"


# ---- signals


def test_a_lost_terminal_saves_like_sigterm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        stop_at(patch, 77, signal.SIGHUP)
        with pytest.raises(RunStoppedError, match="stopped at step 77 and saved"):
            train(random_experiment(), 0, tmp_path, "cpu")
    assert load_run(tmp_path / "fourroom-random" / "seed-0000").env_steps == 77


def test_two_hangups_are_one_and_nohup_is_heeded() -> None:
    with StopRequest() as stop:
        for _ in range(2):  # the shell sends one and the kernel another
            os.kill(os.getpid(), signal.SIGHUP)
        assert stop.asked
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
        assert not stop.asked
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


# ---- boards


def events(place: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard would show, read record by record."""
    from tensorboardX.proto.event_pb2 import Event

    found: dict[str, list[tuple[int, float]]] = {}
    for file in sorted(place.glob("events.out.tfevents.*")):
        body, at = file.read_bytes(), 0
        while at < len(body):
            length = int.from_bytes(body[at : at + 8], "little")
            event = Event.FromString(body[at + 12 : at + 12 + length])
            at += 16 + length
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, round(value.simple_value, 6)))
    return found


def test_a_clock_that_is_set_back_by_decades_stops_no_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boards = Boards(tmp_path, {}, "name", wandb=False, env_steps=0)
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() - 1e9)
    for step in range(100):
        boards.write({"train/sf_loss": step / 100, "train/other": 1.0}, step)
    boards.close()
    shown = events(tmp_path)
    assert shown["train/sf_loss"] == [(step, step / 100) for step in range(100)]
    assert len(shown["train/other"]) == 100


def test_a_board_that_cannot_be_written_is_said_once_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(boards_module, "FLUSH_EVERY", 0.0)
    boards = Boards(tmp_path, {}, "name", wandb=False, env_steps=0)
    tensorboard: Any = boards._boards["TensorBoard"]
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, tensorboard._file._writer.fileno())
    os.close(full)
    for step in range(100):
        boards.write({"train/sf_loss": 0.5}, step)
    boards.close()
    complaint = capsys.readouterr().err
    assert complaint.startswith("TensorBoard is left out from here on ([Errno 28] No space left on device)")
    assert complaint.count("\n") == 1


def test_a_run_without_room_for_its_board_is_the_same_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = train(random_experiment(), 0, tmp_path / "whole", "cpu")
    made = folder.create

    def with_a_file_in_its_place(*words: Any) -> RunFolder:
        found = made(*words)
        (found.path / "tensorboard").write_text("")
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder, "create", with_a_file_in_its_place)
        other = train(random_experiment(), 0, tmp_path / "other", "cpu")
    assert "TensorBoard is left out" in capsys.readouterr().err
    assert_same_run(whole, other)


def test_weights_and_biases_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gone(*words: Any, **named: Any) -> None:
        raise RuntimeError("the server is gone")

    package = SimpleNamespace(init=lambda **named: SimpleNamespace(log=gone, finish=gone))
    monkeypatch.setitem(sys.modules, "wandb", package)
    boards = Boards(tmp_path, {}, "name", wandb=True, env_steps=0)
    for step in range(3):
        boards.write({"train/sf_loss": 0.5}, step)
    boards.close()
    assert capsys.readouterr().err.count("Weights & Biases is left out from here on (the server is gone)") == 1
    assert len(events(tmp_path)["train/sf_loss"]) == 3


# ---- rows


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped after two evaluations, and has gone on a little since."""
    runs = tmp_path_factory.mktemp("rows")
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 270)
        with pytest.raises(RunStoppedError):
            train(random_experiment(), 0, runs, "cpu")
    return runs / "fourroom-random" / "seed-0000"


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def zero(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def change(file: Path) -> None:
    head, line, *rest = file.read_text().splitlines(keepends=True)
    file.write_text("".join([head, line.replace("0", "1", 1), *rest]))


@pytest.mark.parametrize("name", ["episodes.csv", "eval.csv", "train.csv"])
@pytest.mark.parametrize("harm", [Path.unlink, cut, zero, change])
def test_no_run_goes_on_without_its_rows(
    stopped: Path, tmp_path: Path, name: str, harm: Callable[[Path], None]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(stopped, run)
    harm(run / name)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(
        CheckpointError, match=rf"{name} (is missing, which|has only \d of|was changed:).* rows.* delete"
    ):
        resume(run, "cpu")
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    if name == "episodes.csv":
        for path in (run, tmp_path):  # by itself, and among others
            with pytest.raises(CheckpointError, match=r"episodes\.csv .* rows"):
                summarise_runs([path])


def test_rows_written_after_the_checkpoint_are_no_damage(stopped: Path, tmp_path: Path) -> None:
    run = tmp_path / "parts" / "fourroom-random" / "seed-0000"
    shutil.copytree(stopped, run)
    for name in ("train.csv", "eval.csv", "episodes.csv"):
        rows = (run / name).read_text().splitlines(keepends=True)
        later = rows[-1].replace(",270,", ",300,").replace("250,", "300,", 1).replace("200,", "300,", 1)
        (run / name).write_text("".join([*rows, later, "30"]))  # and one that was being written
    (run / "train.csv.tmp").write_text("half of")
    assert_same_run(train(random_experiment(), 0, tmp_path / "whole", "cpu"), resume(run, "cpu"))
    assert list(run.glob("*.tmp")) == []


TORN = (bytes(200_000), b"\xff\xfe" * 100 + b"\n", b'"' + b"x" * 200_000 + b"\n", b"9" * 5000 + b"{}\n")
AN_EARLY_STEP = b"5{}\n"  # only where a checkpoint has noted the rows can it be told from one of them


@pytest.mark.parametrize("tail", [*TORN, AN_EARLY_STEP])
def test_what_a_crash_leaves_behind_the_last_rows_is_cut(stopped: Path, tmp_path: Path, tail: bytes) -> None:
    run = tmp_path / "parts" / "fourroom-random" / "seed-0000"
    shutil.copytree(stopped, run)
    rows = (run / "train.csv").read_bytes()
    (run / "train.csv").write_bytes(rows + tail.replace(b"{}", b"," * rows.splitlines()[0].count(b",")))
    assert_same_run(train(random_experiment(), 0, tmp_path / "whole", "cpu"), resume(run, "cpu"))


def make_old(run: Path, number: int) -> None:
    """As an older version made it; those of format 3 did not protect their headers."""
    for place in RunFolder(run).checkpoints.iterdir():
        header = json.loads((place / "format.json").read_text()) | {"format": number}
        if number == 3:
            header = {name: value for name, value in header.items() if name not in ("kind", "tables", "digest")}
        (place / "format.json").write_text(json.dumps(header if number == 3 else signed(header)))


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("agent.train_epsilon", 0.5, r"says agent.train_epsilon 0.5, and checkpoint .*last was made with 0.1"),
        ("agent.landmarks.trust", 0.5, "says agent.landmarks.trust 0.5"),  # whose arrays are not in the checkpoint
        ("train.env_count", 3, "says train.env_count 3"),
        ("env.max_steps", 77, "says env.max_steps 77"),
    ],
)
def test_settings_that_a_checkpoint_was_not_made_with_are_one_line(
    learnt: Path, tmp_path: Path, name: str, value: float, line: str
) -> None:
    run = Path(shutil.copytree(learnt, tmp_path / "run"))
    body = json.loads((run / "config.json").read_text())
    *parts, last = name.split(".")
    holder = body["experiment"]
    for part in parts:
        holder = holder[part]
    assert last in holder
    holder[last] = value
    (run / "config.json").write_text(json.dumps(body))
    for use in (lambda: resume(run, "cpu"), lambda: load_run(run, device="cpu")):
        with pytest.raises(CheckpointError, match=line):
            use()


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(sfl_experiment(), 0, tmp_path_factory.mktemp("learnt"), "cpu").path


def test_rows_reach_the_disk_before_the_checkpoint_that_knows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, rename = os.fsync, os.rename

    def note_fsync(number: int) -> None:
        done.append(Path(os.readlink(f"/proc/self/fd/{number}")).name)
        fsync(number)

    def note_rename(source: Path, target: Path) -> None:
        done.append(f"-> {Path(target).name}")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "rename", note_rename)
    train(random_experiment(steps=20), 0, tmp_path, "cpu")
    last = done.index("-> last")
    assert {"train.csv", "eval.csv", "episodes.csv", "seed-0000", "last.tmp"} <= set(done[:last])


def test_cutting_a_table_on_a_full_disk_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = RunFolder(tmp_path).tables(["any"])["train"]
    table.write({"env_steps": 10})
    table.write({"env_steps": 20})
    before = table.path.read_bytes()

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            table.cut_after(10)
    assert table.path.read_bytes() == before
    assert list(tmp_path.glob("*.tmp")) == []


@pytest.mark.parametrize("number", [3, 4])
def test_checkpoints_of_older_formats_are_evaluated_and_not_resumed(
    learnt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    new, run = load_run(learnt, device="cpu"), Path(shutil.copytree(learnt, tmp_path / "old"))
    make_old(run, number)
    old = load_run(run, device="cpu")
    tasks = new.tasks(episodes=2)
    rows = [evaluate(each.agent, each.experiment.env, tasks, label=each.label) for each in (new, old)]
    assert rows[0] == rows[1]
    with pytest.raises(CheckpointError, match=f"is of format {number}, this version of sfl resumes format"):
        resume(run, "cpu")
    said = capsys.readouterr().err.count("is of an older format, which does not protect its own header")
    assert said == (number == 3)  # once, though it was read twice


# ---- folders


def kill_before_its_first_checkpoint(runs: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "save", lambda *words: pytest.fail("saved"))
        patch.setattr("sfl.run.train.TrainingRun.record", lambda self, step: (_ for _ in ()).throw(MemoryError))
        with pytest.raises(MemoryError):
            train(random_experiment(), 0, runs, "cpu")
    return runs / "fourroom-random" / "seed-0000"


def test_a_run_that_was_killed_before_its_first_checkpoint_starts_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = kill_before_its_first_checkpoint(tmp_path / "runs")
    (path / "checkpoints" / "last.tmp").mkdir(parents=True)
    with pytest.raises(UsageError, match="has no checkpoint yet: give its `sfl train` again, which starts over"):
        resume(path, "cpu")
    other = random_experiment(steps=340)
    with pytest.raises(UsageError, match=r"a run of other settings without a checkpoint\. Delete .*seed-0000, or"):
        train(other, 0, tmp_path / "runs", "cpu")
    with folder.locked(path), pytest.raises(UsageError, match="is being written by another process"):
        train(random_experiment(), 0, tmp_path / "runs", "cpu")
    again = train(random_experiment(), 0, tmp_path / "runs", "cpu")
    assert "was stopped before its first checkpoint; it starts over." in capsys.readouterr().err
    assert_same_run(train(random_experiment(), 0, tmp_path / "whole", "cpu"), again)


def test_a_run_that_was_killed_inside_its_first_save_starts_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """When its history was written and `last` was not."""
    whole = train(random_experiment(), 0, tmp_path / "whole", "cpu")
    path = kill_before_its_first_checkpoint(tmp_path / "runs")
    shutil.copytree(whole.checkpoints / "000000150", path / "checkpoints" / "000000150")
    with pytest.raises(UsageError, match="has no checkpoint yet: give its `sfl train` again, which starts over"):
        resume(path, "cpu")
    assert_same_run(whole, train(random_experiment(), 0, tmp_path / "runs", "cpu"))


def test_only_a_run_of_which_nothing_is_lost_starts_over(tmp_path: Path) -> None:
    whole = train(random_experiment(), 0, tmp_path / "runs", "cpu")
    shutil.rmtree(whole.checkpoints)
    with pytest.raises(UsageError, match="its checkpoints are gone"):
        train(random_experiment(), 0, tmp_path / "runs", "cpu")
    foreign = tmp_path / "foreign" / "fourroom-random" / "seed-0000"
    foreign.mkdir(parents=True)
    (foreign / "thesis.tex").write_text("all of it")
    with pytest.raises(UsageError, match="exists already and holds no run; move it away"):
        train(random_experiment(), 0, tmp_path / "foreign", "cpu")
    assert (foreign / "thesis.tex").exists()
    (foreign / "thesis.tex").unlink()  # as after a kill between the folder and its config.json
    (foreign / "system.json").write_text("{")
    train(random_experiment(steps=5), 0, tmp_path / "foreign", "cpu")


@pytest.mark.parametrize("moment", ["draft", "old and draft", "old and new"])
def test_what_a_kill_in_the_middle_of_a_save_leaves_is_gone_after_resuming(
    stopped: Path, tmp_path: Path, moment: str
) -> None:
    run = tmp_path / "parts" / "fourroom-random" / "seed-0000"
    shutil.copytree(stopped, run)
    places = RunFolder(run)
    if moment.startswith("old"):
        shutil.copytree(places.last, places.last.with_name("last.old"))
    if moment == "old and draft":
        shutil.move(places.last, places.last.with_name("last.tmp"))
        (places.last.with_name("last.tmp") / "format.json").unlink()
    if moment == "draft":
        places.history(300).with_name("000000300.tmp").mkdir()
    assert_same_run(train(random_experiment(), 0, tmp_path / "whole", "cpu"), resume(run, "cpu"))
    assert [path.name for path in places.checkpoints.iterdir() if path.suffix] == []


def test_a_run_killed_between_its_two_last_checkpoints_lacks_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = checkpoint.save

    def killed(place: Path, *words: Any) -> None:
        if place.name == "last" and place.exists() and words[0].env_steps == 350:
            raise SflError("killed")
        save(place, *words)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", killed)
        with pytest.raises(SflError, match="killed"):
            train(random_experiment(), 0, tmp_path / "parts", "cpu")
    parts = resume(tmp_path / "parts" / "fourroom-random" / "seed-0000", "cpu")
    whole = train(random_experiment(), 0, tmp_path / "whole", "cpu")
    assert_same_run(whole, parts)
    assert {path.name for path in whole.checkpoints.iterdir()} == {path.name for path in parts.checkpoints.iterdir()}


def test_poses_and_steps_agree(stopped: Path, tmp_path: Path) -> None:
    """Also where somebody signs the header anew."""
    run = tmp_path / "run"
    shutil.copytree(stopped, run)
    file = RunFolder(run).last / "format.json"
    header = json.loads(file.read_text())
    file.write_text(json.dumps(signed({**header, "env_steps": header["env_steps"] + 1})))
    with pytest.raises(CheckpointError, match="it has 270 poses of 271 steps"):
        resume(run, "cpu")


def test_a_pipe_in_the_place_of_a_run_or_a_file_of_one_is_one_line(stopped: Path, tmp_path: Path) -> None:
    path = tmp_path / "runs" / "fourroom-random" / "seed-0000"
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    with pytest.raises(UsageError, match="exists already and holds no run; move it away"):
        train(random_experiment(), 0, tmp_path / "runs", "cpu")
    path.unlink()
    path.mkdir()
    os.mkfifo(path / "config.json")
    with pytest.raises(UsageError, match="a run of other settings without a checkpoint"):
        train(random_experiment(), 0, tmp_path / "runs", "cpu")
    run = Path(shutil.copytree(stopped, tmp_path / "run"))
    (run / "eval.csv").unlink()
    os.mkfifo(run / "eval.csv")
    with pytest.raises(CheckpointError, match=r"eval.csv is no file. Put it back as it was"):
        resume(run, "cpu")


def test_an_export_copies_no_device_and_names_of_others_are_no_checkpoints(stopped: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(stopped, tmp_path / "run"))
    (run / "checkpoints" / "\u00b2").mkdir()  # a digit, and no number
    (run / "checkpoints" / "\u0661").mkdir()
    assert RunFolder(run).history_names() == RunFolder(stopped).history_names() != []
    export(run, tmp_path / "slim", history=9)
    (run / "tasks.json").symlink_to("/dev/zero")
    with pytest.raises(SflError, match=r"tasks.json is a pipe or a device; give a file"):
        export(run, tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "slim"]


@pytest.mark.parametrize("name", ["/", "", ".", "..", "../last", "last/.."])
def test_a_checkpoint_is_named_by_one_word(stopped: Path, name: str) -> None:
    with pytest.raises(UsageError, match="A checkpoint is last or a number of steps such as 000200000, got "):
        load_run(stopped, name)


def test_ctrl_c_while_leftovers_are_swept_is_one_line() -> None:
    code = """
import os, signal, sys
sys.orig_argv = [sys.executable, "-m", "sfl", "list"]
import sfl.cli
sfl.cli.sweep = lambda: os.kill(os.getpid(), signal.SIGINT)
sys.exit(sfl.cli.main(["--version"]))
"""
    done = subprocess.run([sys.executable, "-c", code], env=SOURCES, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "sfl: stopped.\n")


def test_leftovers_that_nobody_can_read_stop_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    game = tmp_path / "sfl-games-x" / "game-0"
    game.mkdir(parents=True)
    (game.parent / "lock").touch()
    (game / "engine.txt").write_text("not numbers")
    sweep()
    assert not list(tmp_path.iterdir())


def test_ctrl_c_again_while_the_first_is_told_comes_too_late() -> None:
    code = """
import os, signal, sys
sys.orig_argv = [sys.executable, "-m", "sfl", "list"]
import sfl.cli
def again(say):
    def complain(message):
        os.kill(os.getpid(), signal.SIGINT)
        say(message)
        os.kill(os.getpid(), signal.SIGTERM)
    return complain
sfl.cli._complain = again(sfl.cli._complain)
sfl.cli.dispatch = lambda args: os.kill(os.getpid(), signal.SIGINT)
sys.exit(sfl.cli.main(["--version"]))
"""
    done = subprocess.run([sys.executable, "-c", code], env=SOURCES, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "sfl: stopped.\n")
