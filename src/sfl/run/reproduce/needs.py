"""What a run takes of a machine, what the machine has, and how long runs take."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sfl.envs import DoomConfig
from sfl.run.config import Experiment
from sfl.run.folder import RunFolder
from sfl.run.limits import cores_left, memory_left
from sfl.run.reproduce.measures import last_value
from sfl.run.reproduce.plan import PlannedRun, Progress, checkpoint_steps, progress_of

GUESSED_RATES = {"random-": 20_000.0, "mss-": 100.0, "paper-": 200.0, "": 300.0}
"""Environment steps per second in a grid where no finished run says it, by how the experiment's name begins."""
GUESSED_MAZE_RATES = {"cpu": 50.0, "gpu": 2_000.0}
"""The same in a maze. They follow the budgets in docs/reproduce.md, rounded down; without a GPU, where encoders take
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
    return isinstance(experiment.env, DoomConfig)


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
    if is_maze(run.experiment) and not name.startswith("random-"):
        return GUESSED_MAZE_RATES["cpu" if device == "cpu" else "gpu"]
    return next(rate for start, rate in GUESSED_RATES.items() if name.startswith(start))


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
