"""What a success rate stands beside: the random policy on the very tasks of a run, and how sure a share is.

The random policy learns nothing, so it is asked once; its rows are kept in the run's folder as random.csv.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from scipy import stats

from sfl.baselines.random import RandomConfig
from sfl.errors import UsageError
from sfl.files import write_text
from sfl.registry import AgentConfig, agent_name, make_agent
from sfl.run.evaluate import EpisodeRow, Label, Watcher, evaluate
from sfl.run.folder import RunFolder, read_episodes
from sfl.run.log import csv_text
from sfl.worlds import EnvConfig, Task

RANDOM = agent_name(RandomConfig())
"""Its name in the column `agent`."""


OUTCOMES = ("reached", "timeout", "no_route")


def is_random(config: AgentConfig) -> bool:
    """Whether a run is one of the random policy, which needs nothing beside it."""
    return isinstance(config, RandomConfig)


def random_rows(
    env: EnvConfig, tasks: Sequence[Task], label: Label, parallel: int, watch: Watcher | None = None
) -> list[EpisodeRow]:
    """Its rows, under the name of the run that they stand beside, with the reset seeds of that run's evaluation.

    All chance comes from the run's seed, by generators made for this: asking it changes nothing else.
    """
    agent = make_agent(RandomConfig(), env.spec(), label.seed, "cpu")
    label = replace(label, agent=RANDOM)
    return evaluate(agent, env, tasks, seed=label.seed, parallel=parallel, label=label, watch=watch)


def usable_random_rows(folder: RunFolder, experiment: str, seed: int, tasks: Sequence[Task]) -> list[EpisodeRow] | None:
    """What random.csv holds; None where it is missing, damaged or of other tasks."""
    try:
        rows = read_episodes(folder.random)
    except UsageError:
        return None
    expected = [(experiment, RANDOM, seed, task.level, task.pair, task.budget) for task in tasks]
    found = [(row.experiment, row.agent, row.seed, row.level, row.pair, row.budget) for row in rows]
    sound = all((row.outcome == "reached") == bool(row.success) and row.outcome in OUTCOMES for row in rows)
    return rows if found == expected and sound else None


def write_random_rows(folder: RunFolder, rows: Sequence[EpisodeRow]) -> None:
    """Write random.csv, whole or not at all."""
    write_text(folder.random, csv_text([asdict(row) for row in rows]))


def read_random(path: Path) -> list[EpisodeRow]:
    """The rows in the random.csv of a run folder; none in folders from before there was one."""
    file = RunFolder(path).random
    return read_episodes(file) if file.is_file() else []


def split_off(rows: Iterable[EpisodeRow]) -> tuple[list[EpisodeRow], list[EpisodeRow]]:
    """An experiment's own rows, and those of the random policy that stand beside it under its name.

    An experiment of the random policy itself has no other rows: these are its own.
    """
    rows = list(rows)
    learners = {row.experiment for row in rows if row.agent != RANDOM}
    beside = [row for row in rows if row.agent == RANDOM and row.experiment in learners]
    return [row for row in rows if row.agent != RANDOM or row.experiment not in learners], beside


def wilson(successes: int, tries: int) -> tuple[float, float]:
    """95% confidence interval of a share, in percent: Wilson's, which has a width even where all or none succeed."""
    z = float(stats.norm.ppf(0.975))
    share, weight = successes / tries, z * z / tries
    middle = (share + weight / 2) / (1 + weight)
    half = z / (1 + weight) * ((share * (1 - share) + weight / 4) / tries) ** 0.5
    # At the ends it is exact, whatever rounding makes of it.
    low, high = 0.0 if successes == 0 else middle - half, 1.0 if successes == tries else middle + half
    return 100 * low, 100 * high


@dataclass(frozen=True)
class Share:
    """Successes among episodes."""

    episodes: int
    percent: float
    interval: tuple[float, float]
    """95% confidence interval, in percent: Wilson's, over the episodes."""


def share_of(rows: Sequence[EpisodeRow]) -> Share | None:
    """How many of the episodes succeeded; None without an episode."""
    if not rows:
        return None
    successes = sum(row.success for row in rows)
    return Share(len(rows), 100 * successes / len(rows), wilson(successes, len(rows)))


def shown(share: Share | None) -> tuple[str, str]:
    """The number and its interval, for tables."""
    return ("-", "") if share is None else (f"{share.percent:.1f}", interval_text(share.interval))


def beside_text(share: Share | None) -> str:
    """Both in one cell, `53.0 (43.3-62.5)`."""
    return "-" if share is None else f"{share.percent:.1f} ({interval_text(share.interval)})"


def interval_text(interval: tuple[float, float]) -> str:
    """`43.3-62.5`."""
    return "{:.1f}-{:.1f}".format(*interval)
