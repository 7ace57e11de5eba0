"""Tables over runs: success on each level, with the error over seeds, beside the random policy.

`spread` and `summarise_runs` make the numbers, `report_cells` and `report_lines` the words of `sfl report`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from scipy import stats

from sfl.errors import UsageError
from sfl.run.chance import RANDOM, Share, beside_text, interval_text, read_random, share_of, split_off, wilson
from sfl.run.diagnosis import Facts, Finding, Level, diagnose, finding_line, goals_unseen, read_facts, run_title
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
    """Standard error of the mean over seeds; None with a single seed."""
    interval: tuple[float, float] | None
    """95% confidence interval of the mean over seeds (Student's t), kept within the bounds of the number."""
    interquartile_mean: float | None
    """The mean without the lowest and the highest quarter of the seeds; None with fewer than four."""


def spread(values: Sequence[float], bounds: tuple[float, float] = PERCENT) -> Spread:
    """Mean, error and interval over seeds; one value each, at least one."""
    found, count = np.asarray(values, np.float64), len(values)
    mean = float(found.mean())
    middle = float(stats.trim_mean(found, 0.25)) if count >= QUARTERED else None
    if count == 1:
        return Spread(count, mean, None, None, middle)
    error = float(found.std(ddof=1) / np.sqrt(count))
    half = float(stats.t.ppf(0.975, count - 1)) * error
    return Spread(count, mean, error, (max(bounds[0], mean - half), min(bounds[1], mean + half)), middle)


@dataclass(frozen=True)
class RunFinding(Finding):
    """A finding, and whose it is."""

    run: str
    """The run, or the experiment where all its seeds are meant."""


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
    """Standard error of the mean over seeds; None with a single seed."""
    interval: tuple[float, float]
    """95% confidence interval: with several seeds of their mean (Student's t), kept within 0 and 100; with a single one
    of its share of successful episodes (Wilson's)."""
    random: Share | None
    """The random policy on the same tasks, over all its episodes; None where it was not asked, and for itself."""
    steps: float | None
    """Mean length of the successful episodes, seeds weighing the same; None without a success."""
    env_steps: int
    """Training steps at that evaluation; the smallest where seeds differ."""
    nontrivial_episodes: int
    """Episodes that did not begin within reach of their goal."""
    nontrivial_percent: float | None
    """Success without the trivial ones, seeds weighing the same; None where all are."""
    goals_unseen_percent: float | None
    """Distinct goals of all levels that training never came near, mean over seeds; None where it is not known."""
    findings: tuple[RunFinding, ...]
    """What most likely keeps its runs from succeeding; the same on every level."""


def summarise_runs(paths: Iterable[Path | str]) -> list[ReportRow]:
    """Read run folders, folders of runs and CSV files of episodes, and sum them up."""
    sources = [source for path in paths for source in _sources(Path(path))]
    own = [row for source in sources for row in source.rows]
    random = [row for source in sources for row in source.random]
    groups: dict[Key, list[EpisodeRow]] = {}
    for row in own:
        groups.setdefault((row.experiment, row.agent, row.env, row.maze, row.spawn), []).append(row)
    found = []
    for key, rows in groups.items():
        beside = _beside(key, random, own)
        levels = [_summary(level, [row for row in beside if row.level == name]) for name, level in _levels(rows)]
        folders = {run_title(source.rows): source.folder for source in sources if source.folder and source.has(key)}
        unseen = [share for folder in folders.values() if (share := goals_unseen(folder)) is not None]
        percent = 100 * float(np.mean(unseen)) if unseen else None
        findings = () if key[1] == RANDOM else tuple(_findings(levels, folders))
        found += [replace(level, goals_unseen_percent=percent, findings=findings) for level in levels]
    order = {key: place for place, key in enumerate(dict.fromkeys((*_key(row), row.level) for row in own))}
    return sorted(found, key=lambda row: order[row.experiment, row.agent, row.env, row.maze, row.spawn, row.level])


Key = tuple[str, str, str, str, str]
"""Experiment, agent, environment, maze and spawn."""


def _key(row: EpisodeRow) -> Key:
    return row.experiment, row.agent, row.env, row.maze, row.spawn


@dataclass(frozen=True)
class _Source:
    """What one run folder or file holds."""

    rows: list[EpisodeRow]
    random: list[EpisodeRow]
    """Rows of the random policy, under the names of the experiments that they stand beside."""
    folder: Path | None
    """None: a file."""

    def has(self, key: Key) -> bool:
        """Whether rows of an experiment are in it."""
        return any(_key(row) == key for row in self.rows)


def _sources(path: Path) -> list[_Source]:
    if path.is_file():
        return [_Source(*split_off(read_episodes(path)), None)]
    found = [RunFolder(place) for place in ([path] if _is_run(path) else _runs_below(path))]
    own = [_Source(own_episodes(run), read_random(run.path), run.path) for run in found]
    if not any(run.episodes.is_file() for run in found):
        raise UsageError(
            f"{path} holds no episodes.csv; give a run folder, a folder of runs or a CSV file of episodes."
        )
    return [source for source in own if source.rows]


def _is_run(path: Path) -> bool:
    return any(file.is_file() for file in (RunFolder(path).config, RunFolder(path).episodes))


def _runs_below(path: Path) -> list[Path]:
    names = ("config.json", "episodes.csv")
    return sorted({file.parent for name in names for file in path.glob(f"**/{name}")})


def _beside(key: Key, random: Sequence[EpisodeRow], rows: Sequence[EpisodeRow]) -> list[EpisodeRow]:
    """The random policy on the tasks of an experiment: the experiment's own rows of it, else a run of it in that place.

    That run is taken at its last evaluation, and only where the budgets are the same.
    """
    experiment, agent, *place = key
    if agent == RANDOM:
        return []
    if own := [row for row in random if row.experiment == experiment and list(_key(row)[2:]) == place]:
        return own
    budgets = {(row.level, row.budget) for row in rows if _key(row) == key}
    others = [row for row in rows if row.agent == RANDOM and list(_key(row)[2:]) == place]
    last = {(row.experiment, row.seed): row.env_steps for row in sorted(others, key=lambda row: row.env_steps)}
    return [
        row for row in others if row.env_steps == last[row.experiment, row.seed] and (row.level, row.budget) in budgets
    ]


def _levels(rows: Sequence[EpisodeRow]) -> list[tuple[str, list[EpisodeRow]]]:
    return [(name, [row for row in rows if row.level == name]) for name in dict.fromkeys(row.level for row in rows)]


def _findings(levels: Sequence[ReportRow], folders: Mapping[str, Path]) -> Iterator[RunFinding]:
    """Findings of each run by itself; whether it beats chance is asked of all seeds together, as in the table."""
    alone = len(folders) == 1 and levels[0].seeds == 1
    for title, folder in folders.items():
        facts = read_facts(folder)
        yield from (_of(title, finding) for finding in diagnose(facts if alone else replace(facts, levels=())))
    if not alone:
        asked = [(row, row.random) for row in levels if row.random is not None]
        together = [Level(row.level, row.episodes, row.success_percent, row.interval, chance) for row, chance in asked]
        name = levels[0].experiment or levels[0].agent
        yield from (_of(name, finding) for finding in diagnose(Facts(levels=tuple(together))))


def _of(run: str, finding: Finding) -> RunFinding:
    return RunFinding(**asdict(finding), run=run)


def _summary(rows: Sequence[EpisodeRow], random: Sequence[EpisodeRow]) -> ReportRow:
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
        interval=success.interval or wilson(sum(row.success for row in rows), len(rows)),
        random=share_of(random),
        steps=float(np.mean(steps)) if steps else None,
        env_steps=min(last.values()),
        nontrivial_episodes=sum(map(len, others)),
        nontrivial_percent=spread(_percents(others)).mean if any(others) else None,
        goals_unseen_percent=None,
        findings=(),
    )


def _percents(seeds: Sequence[Sequence[EpisodeRow]]) -> list[float]:
    """Success of each seed that has episodes."""
    return [100.0 * float(np.mean([row.success for row in group])) for group in seeds if group]


def _refuse_twins(rows: Sequence[EpisodeRow]) -> None:
    """Refuse a seed that is given twice: it would look like twice the evidence."""
    seen = set()
    for row in rows:
        if (row.seed, row.pair) in seen:
            raise UsageError(f"Seed {row.seed} of {row.experiment or row.agent} is given twice; name each run once.")
        seen.add((row.seed, row.pair))


def report_cells(rows: Sequence[ReportRow]) -> list[list[str]]:
    """The table as text, headings first; with mazes among them, also which, and success without trivial pairs."""
    head = ["experiment", "level", "seeds", "tries", "success %", "std. error", "95% interval", "random %"]
    cells = [[*head, "steps", "env steps"], *(_cells(row) for row in rows)]
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
        interval_text(row.interval),
        beside_text(row.random),
        "-" if row.steps is None else f"{row.steps:.1f}",
        f"{row.env_steps:,}",
    ]


def report_lines(rows: Sequence[ReportRow]) -> list[str]:
    """What is said under the table: goals that were never seen, and a line for each run that most likely failed."""
    known = [(row.experiment or row.agent, row.goals_unseen_percent) for row in rows]
    unseen = {name: share for name, share in known if share is not None}
    shares = ", ".join(f"{name} {share:.0f}%" for name, share in unseen.items())
    lines = finding_lines(rows)
    return [f"goals that training never came near: {shares}", *lines] if shares else lines


def finding_lines(rows: Sequence[ReportRow]) -> list[str]:
    """One line for each run with findings."""
    by_run: dict[str, dict[Finding, None]] = {}
    for row in rows:
        for finding in row.findings:
            by_run.setdefault(finding.run, {})[finding] = None  # once, though every level has it
    return [finding_line(run, list(findings)) for run, findings in by_run.items()]
