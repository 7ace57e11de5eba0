"""Clocks: contestants that take turns, and the share of each part of a call."""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any, TypeVar

import torch

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
