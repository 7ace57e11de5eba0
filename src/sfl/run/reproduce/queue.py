"""Runs that wait, run and end: the same book for every engine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sfl.core.errors import SflError
from sfl.run.folder import RunFolder, require_idle
from sfl.run.progress import note
from sfl.run.reproduce.needs import Machine
from sfl.run.reproduce.plan import PlannedRun, Progress, checkpoint_steps, damage_of, loss_of_restart, progress_of

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
