"""Making the runs of a plan on this machine.

From top to bottom: what a run takes of a machine and what the machine has, about how long the runs take, the queue of
runs that wait for each other (for every engine), and the engine of local processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from sfl.config import require
from sfl.errors import SflError, UsageError
from sfl.reproduce.plan import (
    PlannedRun,
    Progress,
    checkpoint_steps,
    damage_of,
    follow_move,
    loss_of_restart,
    progress_of,
)
from sfl.reproduce.tables import last_value
from sfl.run.folder import RunFolder, require_idle
from sfl.run.log import note
from sfl.run.machine import cores_left, memory_left
from sfl.run.settings import Experiment
from sfl.run.stopping import RunStoppedError, StopRequest

GUESSED_RATES = {"-random": 20_000.0, "-mss": 100.0, "-paper": 200.0, "": 300.0}
"""Environment steps per second in a grid where no finished run says it, by how the experiment's name ends."""
GUESSED_MAZE_RATES = {"cpu": 50.0, "gpu": 2_000.0}
"""The same in a maze. They follow benchmarks/results/budgets.csv, rounded down; without a GPU, where encoders take
all the time, what SFL over `place` does on one of two cores."""

START_SECONDS = 10.0
"""For every run: imports, networks, games."""


@dataclass(frozen=True)
class Need:
    """What one run takes."""

    cores: int
    memory: int
    """MB."""
    gpu_memory: int
    """MB; 0: none."""


GRID_NEED = Need(cores=1, memory=1_000, gpu_memory=0)
MAZE_NEED = Need(cores=4, memory=5_000, gpu_memory=8_000)
"""Games keep some cores busy; a run of SFL with 5,000 landmarks has 2.1 GB beside them and 6.0 GB on the GPU."""


def is_maze(experiment: Experiment) -> bool:
    """It plays ViZDoom, which is what takes cores and a GPU."""
    return experiment.env.kind == "maze"


def need_of(experiment: Experiment, device: str) -> Need:
    """A run's need on that device."""
    if not is_maze(experiment):
        return GRID_NEED
    return MAZE_NEED if device != "cpu" else Need(MAZE_NEED.cores, MAZE_NEED.memory, 0)


def device_of(experiment: Experiment, device: str) -> str:
    """`auto` is the CPU for grids: networks as small as theirs are fastest there, and the GPU is left to the mazes."""
    return "cpu" if device == "auto" and not is_maze(experiment) else device


@dataclass
class Machine:
    """What is free; taking and giving back change it."""

    cores: int
    memory: int
    gpus: list[int] = field(default_factory=list)
    """MB free on each GPU."""
    gpu_names: tuple[str, ...] = ()
    """What CUDA_VISIBLE_DEVICES calls each of them."""

    def take(self, need: Need, alone: bool) -> int | None:
        """Set a need aside; the GPU it is on (0 without one), or None where it does not fit.

        A run that is `alone` is let in whatever it needs: a small machine is slow, not useless.
        """
        most = max(self.gpus, default=0)
        short_of_gpu = bool(self.gpus) and most < need.gpu_memory
        if not alone and (need.cores > self.cores or need.memory > self.memory or short_of_gpu):
            return None
        place = self.gpus.index(most) if self.gpus else 0
        self._add(need, place, -1)
        return place

    def give_back(self, need: Need, place: int) -> None:
        """A run has ended."""
        self._add(need, place, 1)

    def _add(self, need: Need, place: int, sign: int) -> None:
        self.cores += sign * need.cores
        self.memory += sign * need.memory
        if self.gpus:
            self.gpus[place] += sign * need.gpu_memory


def this_machine() -> Machine:
    """What this process may use now."""
    free = _free_on_gpus()
    if not free:
        return Machine(cores_left(), memory_left())
    lent = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(number) for number in range(len(free))] if lent is None else lent.split(",")
    found = {name: memory for name in names if (memory := _free_on(name.strip(), free))}
    return Machine(cores_left(), memory_left(), list(found.values()), tuple(found))


def _free_on(name: str, free: Mapping[str, int]) -> int:
    """MB free on the GPU that CUDA calls so; 0: there is none."""
    if name.isascii() and name.isdigit():
        return [*free.values(), 0][min(int(name), len(free))]
    if name.startswith("MIG"):
        return MAZE_NEED.gpu_memory  # a part of a GPU, whose size the driver says elsewhere: one run at a time
    return next((memory for uuid, memory in free.items() if name and uuid.startswith(name)), 0)


def _free_on_gpus() -> dict[str, int]:
    """MB by the GPU's UUID, asked of the driver's own program: asking torch would take memory on every GPU."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    words = [program, "--query-gpu=uuid,memory.free", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    rows = [line.split(", ") for line in done.stdout.splitlines()] if done.returncode == 0 else []
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


@dataclass(frozen=True)
class Estimate:
    """How many runs are left, and about how long they take."""

    finished: int
    broken_off: int
    missing: int
    seconds: float
    """Training alone, as many at once as the machine allows; evaluations come on top."""
    guessed: int
    """Runs whose rate no finished run of the same name says."""

    def __str__(self) -> str:
        total = self.finished + self.broken_off + self.missing
        runs = "1 run" if total == 1 else f"{total} runs"
        left = f"{self.missing} to make, {self.broken_off} to go on with, {self.finished} finished"
        if self.finished == total:
            return f"{runs}: all finished."
        basis = f"; the rate of {self.guessed} of them is guessed" if self.guessed else ""
        return f"{runs}: {left}; about {_in_words(self.seconds)} of training, evaluation not counted{basis}."


def _in_words(seconds: float) -> str:
    minutes = seconds / 60
    if minutes < 2:
        return f"{max(seconds, 1):.0f} seconds"
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"


def estimate(runs: Sequence[PlannedRun], states: Mapping[Path, Progress], at_once: int, device: str) -> Estimate:
    """From the rates of finished runs of the same name, else from `GUESSED_RATES`."""
    measured = _measured_rates(runs, states)
    left = [run for run in runs if states[run.path] is not Progress.FINISHED]
    rates = [measured.get(run.experiment.name, guessed_rate(run, device)) for run in left]
    steps = [run.experiment.train.steps - (checkpoint_steps(RunFolder(run.path)) or 0) for run in left]
    seconds = [START_SECONDS + count / rate for count, rate in zip(steps, rates, strict=True)]
    counted = [sum(states[run.path] is state for run in runs) for state in (Progress.FINISHED, Progress.BROKEN_OFF)]
    guessed = sum(run.experiment.name not in measured for run in left)
    spent = max([sum(seconds) / max(min(at_once, len(left)), 1), *seconds], default=0.0)
    return Estimate(counted[0], counted[1], len(runs) - sum(counted), spent, guessed)


def _measured_rates(runs: Iterable[PlannedRun], states: Mapping[Path, Progress]) -> dict[str, float]:
    rates: dict[str, list[float]] = {}
    for run in runs:
        if states[run.path] is not Progress.FINISHED:
            continue
        seconds = last_value(RunFolder(run.path), "time/wall_seconds")
        steps = last_value(RunFolder(run.path), "env_steps")
        if seconds and steps:
            rates.setdefault(run.experiment.name, []).append(steps / seconds)
    return {name: sum(found) / len(found) for name, found in rates.items()}


def guessed_rate(run: PlannedRun, device: str) -> float:
    """Environment steps per second, before any run has shown it."""
    name = run.words[0]
    if is_maze(run.experiment) and not name.endswith("-random"):
        return GUESSED_MAZE_RATES["cpu" if device == "cpu" else "gpu"]
    return next(rate for end, rate in GUESSED_RATES.items() if name.endswith(end))


def most_at_once(runs: Sequence[PlannedRun], machine: Machine, device: str, jobs: int | None) -> int:
    """How many of these runs the machine can hold together; `jobs` overrules it."""
    if jobs is not None:
        return jobs
    free = Machine(machine.cores, machine.memory, list(machine.gpus))
    count = 0
    for run in runs:
        if free.take(need_of(run.experiment, device_of(run.experiment, device)), alone=count == 0) is None:
            break
        count += 1
    return max(count, 1)


def look_at(runs: Iterable[PlannedRun]) -> dict[Path, Progress]:
    """How far each run is."""
    return {run.path: progress_of(run) for run in runs}


ATTEMPTS = 3
"""How often a run is started whose worker is killed, before it counts as failed."""

STOPPED = "its process was told to stop"
"""A reason: by a signal that it answered by saving itself, and which this command did not send."""


@dataclass(frozen=True)
class Failure:
    """A run that is not finished, and why: one line."""

    run: PlannedRun
    reason: str


class Engine(Protocol):
    """Makes runs."""

    failures: list[Failure]
    """Runs that have failed so far, also where the user stops the others."""

    def make(self, runs: Sequence[PlannedRun]) -> list[Failure]:
        """Make or go on with runs; those that fail are named, the others are finished."""

    def room(self) -> Machine:
        """What runs can have, all of them together."""

    def close(self) -> None:
        """Nothing more is to be made."""


class Queue:
    """Which run is next, what became of each, and how often a killed one was tried."""

    def __init__(self, runs: Sequence[PlannedRun]) -> None:
        self._waiting = list(runs)
        self._total, self._done = len(runs), 0
        self._open = {run.path for run in runs}
        self._attempts: dict[Path, int] = {}
        self._failed: set[Path] = set()
        self.failures: list[Failure] = []

    @property
    def waiting(self) -> bool:
        """Some runs have not been started."""
        return bool(self._waiting)

    def take(self, fits: Callable[[PlannedRun], bool]) -> PlannedRun | None:
        """The next run that may start; None where each waits for another run or for room."""
        for run in list(self._waiting):
            blocked = [path for path in run.after if path in self._failed]
            if blocked:
                self._waiting.remove(run)
                self.fail(run, f"it reads {blocked[0]}, which failed")
            elif not any(path in self._open for path in run.after) and fits(run):
                self._waiting.remove(run)
                return run
        return None

    def ended(self, run: PlannedRun, reason: str = "") -> None:
        """A worker has ended on its own; with `reason`, by an error, which would come again."""
        if not reason and progress_of(run) is not Progress.FINISHED:
            reason = "it ended without an error and is not finished"
        if reason:
            self.fail(run, reason)
            return
        self._done += 1
        self._open.discard(run.path)
        note(f"done   {run.title} ({self._done} of {self._total})")

    def killed(self, run: PlannedRun, reason: str) -> None:
        """A worker was killed from outside: the run is tried again, from its last checkpoint if it has one."""
        self._attempts[run.path] = self._attempts.get(run.path, 1) + 1
        if self._attempts[run.path] > ATTEMPTS:
            self.fail(run, f"{reason}, {ATTEMPTS} times")
            return
        steps = checkpoint_steps(RunFolder(run.path))
        start = "starts again" if steps is None else f"is resumed from step {steps:,}"
        note(f"KILLED {run.title}: {reason}; it {start}.")
        self._waiting.insert(0, run)

    def fail(self, run: PlannedRun, reason: str) -> None:
        """Give a run up."""
        self._failed.add(run.path)
        self._open.discard(run.path)
        self.failures.append(Failure(run, reason))
        note(f"FAILED {run.title}: {reason}")


def start_words(run: PlannedRun, runs_dir: Path, path: Path) -> list[str]:
    """The words of `sfl` that make a run, or go on with what lies in `path`.

    A folder without a checkpoint holds nothing to go on from; it was made by the same settings, and starts again. One
    whose checkpoint or rows were damaged or taken away is refused, and so is one that another process is making.
    """
    if path.exists():
        require_usable(run, path)
    if path.exists() and checkpoint_steps(RunFolder(path)) is None:
        if loss := loss_of_restart(run, path):
            raise SflError(f"{loss}; bring it back, or move {path} away to make the run again.")
        note(f"{path} has no checkpoint; it starts again.")
        shutil.rmtree(path)
    if path.exists():
        return ["resume", str(path)]
    return ["train", *run.words, f"--runs-dir={runs_dir}"]


def require_usable(run: PlannedRun, path: Path) -> None:
    """A run that another process is making is left alone, and so is one that ended and whose rows are not whole."""
    require_idle(path)
    if damage := damage_of(run, path):
        raise SflError(f"{damage}; move {path} away to make the run again.")


def last_line(log: Path) -> str:
    """What a worker said last."""
    lines = log.read_text(errors="replace").split("\n") if log.is_file() else []
    last = next((" ".join(line.split()) for line in reversed(lines) if line.strip()), "it said nothing")
    return last.removeprefix("sfl: ")


LOOK_EVERY = 0.2
"""Seconds between two looks at the processes."""

Worker = subprocess.Popen[bytes]

PATIENCE = 60.0
"""Seconds that runs have to save themselves when the user stops them."""


@contextlib.contextmanager
def locked(runs_dir: Path) -> Iterator[int]:
    """One `sfl reproduce` for a folder of runs at a time: two would make the same runs.

    Workers inherit the lock's file, so that it also holds while one of them outlives a killed parent.
    """
    runs_dir.mkdir(parents=True, exist_ok=True)
    with (runs_dir / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(
                f"{runs_dir} is in use by another `sfl reproduce` or by a run of one; wait for it or choose another "
                "--runs-dir."
            ) from error
        yield file.fileno()


def log_file(runs_dir: Path, run: PlannedRun) -> Path:
    """What a run's worker prints goes here."""
    file = runs_dir / "logs" / f"{run.experiment.name}-{run.path.name}.log"
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


@dataclass
class Job:
    """A process at work."""

    run: PlannedRun
    process: Worker
    log: Path
    need: Need
    gpu: int


def start_process(words: Sequence[str], device: str, log: IO[bytes], gpu: str | None, lock: int | None) -> Worker:
    """A worker in a session of its own: Ctrl-C reaches the parent alone, which then asks each worker to save."""
    chosen = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu}
    return subprocess.Popen(
        [sys.executable, "-m", "sfl", *words, "--device", device],
        stdout=log,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **chosen},
        start_new_session=True,
        pass_fds=() if lock is None else (lock,),
    )


class LocalEngine:
    """`python -m sfl train` and `resume`, side by side."""

    def __init__(self, runs_dir: Path, machine: Machine, device: str = "auto", jobs: int | None = None) -> None:
        require(jobs is None or jobs >= 1, f"--jobs must be 1 or more, got {jobs}.")
        self._runs_dir, self._machine, self._device, self._jobs = runs_dir, machine, device, jobs
        self._running: list[Job] = []
        self.failures: list[Failure] = []

    def make(self, runs: Sequence[PlannedRun]) -> list[Failure]:
        """Make or go on with runs; on Ctrl-C all save themselves."""
        queue = Queue(runs)
        self.failures = queue.failures
        with locked(self._runs_dir) as lock, StopRequest() as stop:
            try:
                while queue.waiting or self._running:
                    self._start(queue, lock)
                    time.sleep(LOOK_EVERY)
                    self._look(queue)
                    if stop.asked:
                        self._stop()
            finally:
                for job in self._running:
                    _signal(job.process, signal.SIGKILL)
        return queue.failures

    def room(self) -> Machine:
        """What this machine has free."""
        return self._machine

    def close(self) -> None:
        """There is nothing to leave."""

    def _start(self, queue: Queue, lock: int) -> None:
        while (run := queue.take(self._fits)) is not None:
            device = device_of(run.experiment, self._device)
            need = need_of(run.experiment, device)
            gpu = self._machine.take(need, alone=True)
            assert gpu is not None
            several = self._machine.gpu_names[gpu] if need.gpu_memory and len(self._machine.gpus) > 1 else None
            try:
                words = start_words(run, self._runs_dir, run.path)
                follow_move(run)
                log = log_file(self._runs_dir, run)
                with log.open("ab") as out:
                    process = start_process(words, device, out, several, lock)
            except (SflError, OSError) as error:
                self._machine.give_back(need, gpu)
                queue.fail(run, str(error))
                continue
            note(f"{words[0]:6} {run.title}")
            self._running.append(Job(run, process, log, need, gpu))

    def _fits(self, run: PlannedRun) -> bool:
        """There is room for it; a number of jobs that the user gives overrules what the machine seems to have."""
        if self._jobs is not None:
            return len(self._running) < self._jobs
        need = need_of(run.experiment, device_of(run.experiment, self._device))
        place = self._machine.take(need, alone=not self._running)
        if place is None:
            return False
        self._machine.give_back(need, place)
        return True

    def _look(self, queue: Queue) -> None:
        for job in [job for job in self._running if job.process.poll() is not None]:
            self._running.remove(job)
            self._machine.give_back(job.need, job.gpu)
            code = job.process.returncode
            if code < 0:
                queue.killed(job.run, f"its process was killed by {signal.Signals(-code).name}")
            elif code == RunStoppedError.exit_code:
                queue.killed(job.run, STOPPED)
            else:
                queue.ended(job.run, last_line(job.log) if code else "")

    def _stop(self) -> None:
        note(f"stopping: {len(self._running)} runs save themselves; Ctrl-C again stops them at once.")
        for job in self._running:
            _signal(job.process, signal.SIGINT)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and any(job.process.poll() is None for job in self._running):
            time.sleep(LOOK_EVERY)
        late = sum(job.process.poll() is None for job in self._running)
        unsaved = f"; {late} of them had not saved after {PATIENCE:.0f} s and go on from an earlier checkpoint"
        raise RunStoppedError(f"stopped; the same command goes on where it was{unsaved if late else ''}.")


def _signal(process: Worker, number: signal.Signals) -> None:
    """To the worker alone, which ends its own games; killed, its games end with it."""
    if process.poll() is None:
        process.send_signal(number)
