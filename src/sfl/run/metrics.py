"""The names of all metrics, as metrics.toml beside this file declares them, and the values between two rows."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal, cast

File = Literal["train", "eval"]

LEVEL = "<level>"

MACHINE = frozenset({"memory/host", "memory/gpu", "time/env_steps_per_second", "time/wall_seconds"})
"""The only columns in which two runs of one seed may differ."""


@dataclass(frozen=True)
class Metric:
    """One name and how to read it."""

    name: str
    file: File
    """The CSV file it is a column of."""
    kind: Literal["mean", "last"]
    """How the values between two rows become one: their mean, or the newest."""
    unit: str
    meaning: str
    bad: str
    """What a bad value looks like."""


@functools.cache
def metrics() -> tuple[Metric, ...]:
    """All declared metrics, in the order of their columns."""
    declared = tomllib.loads((files("sfl.run") / "metrics.toml").read_text(encoding="utf-8"))
    return tuple(
        Metric(name, cast(File, file), cast(Literal["mean", "last"], kind), unit, meaning, bad)
        for name, (file, kind, unit, meaning, bad) in declared.items()
    )


def declared(name: str) -> Metric:
    """The declaration of a name; an undeclared name is an error of the program, not of the user."""
    for metric in metrics():
        stem, _, level = metric.name.partition(LEVEL)
        if name == metric.name or (metric.name.endswith(LEVEL) and not level and name.startswith(stem)):
            return metric
    raise KeyError(
        f"metric {name!r} is not declared in sfl/run/metrics.toml; add it there and to docs/reference/metrics.md"
    )


def columns(file: File, levels: Sequence[str] = ()) -> list[str]:
    """The fixed columns of train.csv or eval.csv; one set of `<level>` columns per level."""
    names = ["env_steps"]
    for metric in metrics():
        if metric.file == file:
            names += [metric.name.replace(LEVEL, level) for level in levels] if LEVEL in metric.name else [metric.name]
    return names


class MetricWindow:
    """What was reported since the last row: sums for means, the newest value for the rest."""

    def __init__(self) -> None:
        self._sums: dict[str, list[float]] = {}
        self._kinds: dict[str, str] = {}

    def add(self, metrics: Mapping[str, float]) -> None:
        """Take in the metrics of one step; undeclared names raise."""
        for name, value in metrics.items():
            kind = self._kinds.get(name) or self._kinds.setdefault(name, declared(name).kind)
            total = self._sums.setdefault(name, [0.0, 0])
            if kind == "mean":
                total[0] += float(value)
                total[1] += 1
            else:
                total[0], total[1] = float(value), 1

    def take(self) -> dict[str, float]:
        """The window's values; starts a new window."""
        values = {name: total / count for name, (total, count) in self._sums.items()}
        self._sums = {}
        return values

    def state(self) -> dict[str, list[float]]:
        """For a checkpoint in the middle of a window."""
        return {name: list(total) for name, total in self._sums.items()}

    def load_state(self, state: Mapping[str, Sequence[float]]) -> None:
        """Go on with a saved window."""
        self._sums = {name: [float(total), int(count)] for name, (total, count) in state.items()}
