"""Tables over runs: success on each level, with the error over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from sfl.core.errors import UsageError
from sfl.run.evaluate import NOT_TRIVIAL, EpisodeRow
from sfl.run.folder import RunFolder, own_episodes, read_episodes

PERCENT = (0.0, 100.0)
"""Within these a share in percent stays, however wide its interval is."""

QUARTERED = 4
"""Seeds of which a quarter can be left out at either end."""


@dataclass(frozen=True)
class Spread:
    """A number that every seed has one of."""

    seeds: int
    mean: float
    standard_error: float | None
    """Of the mean over seeds; None with a single seed."""
    interval: tuple[float, float] | None
    """95% confidence interval of the mean over seeds (Student's t), kept within the bounds of the number."""
    interquartile_mean: float | None
    """The mean without the lowest and the highest quarter of the seeds; None with fewer than four."""


def spread(values: Sequence[float], bounds: tuple[float, float] = PERCENT) -> Spread:
    """Mean, error and interval over seeds; one value each, at least one."""
    found, count = np.asarray(values, np.float64), len(values)
    mean = float(found.mean())
    error = float(found.std(ddof=1) / np.sqrt(count)) if count > 1 else None
    middle = float(stats.trim_mean(found, 0.25)) if count >= QUARTERED else None
    return Spread(count, mean, error, None if error is None else _interval(mean, error, count, bounds), middle)


@dataclass(frozen=True)
class ReportRow:
    """One experiment on one level, over all its seeds at the last evaluation of each."""

    experiment: str
    agent: str
    env: str
    maze: str
    spawn: str
    level: str
    seeds: int
    episodes: int
    success_percent: float
    standard_error: float | None
    """Of the mean over seeds; None with a single seed."""
    interval: tuple[float, float] | None
    """95% confidence interval of the mean over seeds (Student's t), kept within 0 and 100."""
    steps: float | None
    """Mean length of the successful episodes, seeds weighing the same; None without a success."""
    env_steps: int
    """Training steps at that evaluation; the smallest where seeds differ."""
    nontrivial_episodes: int
    """Those that did not begin within reach of their goal."""
    nontrivial_percent: float | None
    """Success without the trivial ones, seeds weighing the same; None where all are."""


def summarise_runs(paths: Iterable[Path | str]) -> list[ReportRow]:
    """Read run folders, folders of runs and CSV files of episodes, and sum them up."""
    rows = [row for path in paths for row in _rows_of(Path(path))]
    groups: dict[tuple[str, ...], list[EpisodeRow]] = {}
    for row in rows:
        key = (row.experiment, row.agent, row.env, row.maze, row.spawn, row.level)
        groups.setdefault(key, []).append(row)
    return [_summary(group) for group in groups.values()]


def _rows_of(path: Path) -> list[EpisodeRow]:
    if path.is_file():
        return read_episodes(path)
    found = [RunFolder(place) for place in ([path] if _is_run(path) else _runs_below(path))]
    rows = [row for run in found for row in own_episodes(run)]
    if not any(run.episodes.is_file() for run in found):
        raise UsageError(
            f"{path} holds no episodes.csv; give a run folder, a folder of runs or a CSV file of episodes."
        )
    return rows


def _is_run(path: Path) -> bool:
    return any(file.is_file() for file in (RunFolder(path).config, RunFolder(path).episodes))


def _runs_below(path: Path) -> list[Path]:
    names = ("config.json", "episodes.csv")
    return sorted({file.parent for name in names for file in path.glob(f"**/{name}")})


def _summary(rows: Sequence[EpisodeRow]) -> ReportRow:
    last = {seed: max(row.env_steps for row in rows if row.seed == seed) for seed in {row.seed for row in rows}}
    rows = [row for row in rows if row.env_steps == last[row.seed]]
    _refuse_twins(rows)
    seeds = [[row for row in rows if row.seed == seed] for seed in sorted(last)]
    success = spread(_percents(seeds))
    others = [[row for row in group if not row.trivial] for group in seeds]
    steps = [np.mean([row.steps for row in group if row.success]) for group in seeds if any(r.success for r in group)]
    first = rows[0]
    return ReportRow(
        first.experiment,
        first.agent,
        first.env,
        first.maze,
        first.spawn,
        first.level,
        seeds=len(seeds),
        episodes=len(rows),
        success_percent=success.mean,
        standard_error=success.standard_error,
        interval=success.interval,
        steps=float(np.mean(steps)) if steps else None,
        env_steps=min(last.values()),
        nontrivial_episodes=sum(map(len, others)),
        nontrivial_percent=spread(_percents(others)).mean if any(others) else None,
    )


def _percents(seeds: Sequence[Sequence[EpisodeRow]]) -> list[float]:
    """Success of each seed that has episodes."""
    return [100.0 * float(np.mean([row.success for row in group])) for group in seeds if group]


def _refuse_twins(rows: Sequence[EpisodeRow]) -> None:
    """The same seed read twice would look like twice the evidence."""
    seen = set()
    for row in rows:
        if (row.seed, row.pair) in seen:
            raise UsageError(f"Seed {row.seed} of {row.experiment or row.agent} is given twice; name each run once.")
        seen.add((row.seed, row.pair))


def _interval(mean: float, error: float, count: int, bounds: tuple[float, float]) -> tuple[float, float]:
    half = float(stats.t.ppf(0.975, count - 1)) * error
    return max(bounds[0], mean - half), min(bounds[1], mean + half)


def report_cells(rows: Sequence[ReportRow]) -> list[list[str]]:
    """The table as text, headings first; with mazes among them, also which, and success without trivial pairs."""
    head = ["experiment", "level", "seeds", "tries", "success %", "std. error", "95% interval", "steps", "env steps"]
    cells = [head, *(_cells(row) for row in rows)]
    if not any(row.maze for row in rows):
        return cells
    mazes = ["maze", *(row.maze for row in rows)]
    second = [list(NOT_TRIVIAL), *(_nontrivial_cells(row) for row in rows)]
    return [[line[0], maze, *line[1:], *more] for line, maze, more in zip(cells, mazes, second, strict=True)]


def _nontrivial_cells(row: ReportRow) -> list[str]:
    if not row.maze:
        return ["", ""]
    return [str(row.nontrivial_episodes), "-" if row.nontrivial_percent is None else f"{row.nontrivial_percent:.1f}"]


def _cells(row: ReportRow) -> list[str]:
    return [
        row.experiment or row.agent,
        row.level,
        str(row.seeds),
        str(row.episodes),
        f"{row.success_percent:.1f}",
        "-" if row.standard_error is None else f"{row.standard_error:.1f}",
        "-" if row.interval is None else "{:.1f}-{:.1f}".format(*row.interval),
        "-" if row.steps is None else f"{row.steps:.1f}",
        f"{row.env_steps:,}",
    ]
