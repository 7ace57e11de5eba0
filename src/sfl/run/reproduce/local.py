"""Runs as processes of this machine, as many at once as its cores, memory and GPUs allow."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sfl.core.config import require
from sfl.core.errors import SflError, UsageError
from sfl.run.interrupt import RunStoppedError, StopRequest
from sfl.run.progress import note
from sfl.run.reproduce.needs import Machine, Need, device_of, need_of
from sfl.run.reproduce.plan import PlannedRun, follow_move
from sfl.run.reproduce.queue import STOPPED, Failure, Queue, last_line, start_words

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
