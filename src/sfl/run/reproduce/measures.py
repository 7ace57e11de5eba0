"""What a finished run is measured by: one number of its folder."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from sfl.run.csv_table import read_columns
from sfl.run.evaluate import EpisodeRow, summarise
from sfl.run.folder import RunFolder, read_episodes
from sfl.run.report import PERCENT

ANY_NUMBER = (0.0, math.inf)


@dataclass(frozen=True)
class Measure:
    """How to read one number from a run folder."""

    heading: str
    bounds: tuple[float, float]
    """The values that it can have."""
    read: Callable[[RunFolder], float | None]
    """None: the run does not know."""


def measure_of(name: str) -> Measure:
    """The measure of that name; every other name is a level of the evaluation."""
    heading = {"paper": "the paper's task %", "any": "any task %"}.get(name, f"{name} %")
    return OTHERS.get(name) or Measure(heading, PERCENT, lambda folder: _success(folder, name))


def final_episodes(folder: RunFolder) -> list[EpisodeRow]:
    """The episodes of the last evaluation."""
    rows = read_episodes(folder.episodes)
    last = max((row.env_steps for row in rows), default=0)
    return [row for row in rows if row.env_steps == last]


def last_value(folder: RunFolder, metric: str, table: str = "train.csv") -> float | None:
    """The newest value of a column of train.csv or eval.csv; None where it has none."""
    file = folder.path / table
    values = read_columns(file).get(metric, []) if file.is_file() else []
    return next((value for value in reversed(values) if not math.isnan(value)), None)


def _success(folder: RunFolder, level: str) -> float | None:
    share = summarise(final_episodes(folder)).get(f"eval/success_{level}")
    return None if share is None else 100 * share


def _coverage(folder: RunFolder, metric: str = "explore/coverage") -> float | None:
    share = last_value(folder, metric)
    return None if share is None else 100 * share


OTHERS = {
    "coverage": Measure("coverage %", PERCENT, _coverage),
    "often": Measure("often visited %", PERCENT, lambda folder: _coverage(folder, "explore/coverage_often")),
    "landmarks": Measure("landmarks", ANY_NUMBER, lambda folder: last_value(folder, "graph/landmark_count")),
    "edges": Measure("edges", ANY_NUMBER, lambda folder: last_value(folder, "graph/edge_count")),
    "landmark distance": Measure(
        "distance of landmarks, cells",
        ANY_NUMBER,
        lambda folder: last_value(folder, "graph/landmark_distance", "eval.csv"),
    ),
}
"""Everything that is not success."""
