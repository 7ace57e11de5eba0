"""How anything is measured: rows of one figure each, how long to measure, clocks, and memory of a fresh process."""

from __future__ import annotations

import functools
import multiprocessing
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, TypeVar

import torch

from sfl.run.machine import resident_megabytes
from sfl.run.settings import Experiment
from sfl.run.train import train

Row = dict[str, Any]
"""benchmark, name, value, unit, must (what is asked of the value, or nothing), held (yes, no, or nothing)."""


@dataclass(frozen=True)
class Sizes:
    """How long to measure."""

    fill_steps: int = 20_000
    """Random steps in the replay before anything is measured: the size of the paper's replay."""
    settle_steps: int = 240
    """Steps of learning before anything is measured."""
    share_steps: int = 1_000
    """Steps over which the shares of a step are taken."""
    rounds: int = 15
    """Times that two contestants take turns; medians are over these."""
    block_steps: int = 32
    """Environment steps of one turn."""
    observation_steps: int = 2_000
    """Steps of one walk that times an observation."""
    memory_steps: int = 8_000
    """Steps of the training run whose memory is measured."""
    landmarks: tuple[int, ...] = (100, 1_000, 5_000)
    """Sizes of landmark graphs."""
    features: int = 2_048
    """Length of a landmark's psi."""
    turn_seconds: float = 0.1
    """Length of one turn where calls are short: of a bare matrix product, of an encoder."""
    frames: tuple[int, ...] = (8, 64)
    """Frames encoded at once: few, and half of the 128 games of a run with a GPU."""


def row(
    benchmark: str, name: str, value: float, unit: str, at_least: float | None = None, at_most: float | None = None
) -> Row:
    """One figure, and whether it is what it must be."""
    must = held = ""
    if at_least is not None:
        must, held = f">= {at_least:g}", "yes" if value >= at_least else "no"
    if at_most is not None:
        must, held = f"<= {at_most:g}", "yes" if value <= at_most else "no"
    rounded = float(f"{value:.4g}")
    return {"benchmark": benchmark, "name": name, "value": rounded, "unit": unit, "must": must, "held": held}


Action = Callable[[], object]
Clock = Callable[[], float]
Result = TypeVar("Result")


def take_turns(
    actions: Mapping[str, Action], rounds: int, repeats: int | Mapping[str, int], clock: Clock = time.process_time
) -> dict[str, list[float]]:
    """Seconds of processor time per call, one figure for each contestant and round.

    Contestants alternate, and waiting for a processor does not count, so that other work on the machine hits all alike.
    Where they wait for a GPU, `clock` must count that. `repeats`: calls of one turn, of all or of each.
    """
    calls = dict.fromkeys(actions, repeats) if isinstance(repeats, int) else repeats
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            begin = clock()
            for _ in range(calls[name]):
                action()
            seconds[name].append((clock() - begin) / calls[name])
    return seconds


def median_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """The median over rounds of the ratio within a round: both had the same neighbours on the machine."""
    return median(a / b for a, b in zip(numerators, denominators, strict=True))


def repeats_for(action: Action, seconds: float, clock: Clock = time.process_time) -> int:
    """How many calls fill this time."""
    begin = clock()
    action()
    return max(1, round(seconds / max(clock() - begin, 1e-7)))


def waited_for(action: Callable[[], Result], device: str) -> Callable[[], Result]:
    """The same, done when it returns: a GPU is waited for."""
    if not device.startswith("cuda"):
        return action

    def call() -> Result:
        result = action()
        torch.cuda.synchronize()
        return result

    return call


class Stopwatch:
    """Time of each label; what a timed call spends inside another timed call counts for that one alone."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._inside = [0.0]

    @contextmanager
    def watching(self, spans: Mapping[str, Sequence[tuple[type, str]]]) -> Iterator[None]:
        """Time these methods, by label, wherever they are called; afterwards they are as they were."""
        methods = [(label, owner, name) for label, places in spans.items() for owner, name in places]
        originals = [(owner, name, vars(owner)[name]) for _, owner, name in methods]
        for label, owner, name in methods:
            setattr(owner, name, self.timed(vars(owner)[name], label))
        try:
            yield
        finally:
            for owner, name, original in originals:
                setattr(owner, name, original)

    def timed(self, function: Callable[..., Any], label: str) -> Callable[..., Any]:
        """The same function under the clock."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._inside.append(0.0)
            begin = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                spent = time.perf_counter() - begin
                self.seconds[label] += spent - self._inside.pop()
                self._inside[-1] += spent

        return call


def in_fresh_process(function: Callable[..., Any], *args: Any) -> Any:
    """The result of a function of this package, called where nothing else was loaded."""
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *args).result()


def measure_training_memory(experiment: Experiment, sizes: Sizes) -> list[Row]:
    """The highest memory of a short but whole run: training, evaluation, checkpoints."""
    settings = replace(experiment.train, steps=sizes.memory_steps, eval_every=0)
    short = replace(experiment, train=settings, eval=replace(experiment.eval, episodes=experiment.eval.parallel))
    megabytes = in_fresh_process(_train_and_weigh, short)
    return [row("memory", f"{experiment.name}: highest of a run", megabytes, "MB", at_most=1000)]


def _train_and_weigh(experiment: Experiment) -> float:
    with tempfile.TemporaryDirectory() as folder:
        train(experiment, 0, folder, "cpu")
    return resident_megabytes("VmHWM")
