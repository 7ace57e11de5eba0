"""Plans for tests: real experiments, a small table, and runs that never ran."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sfl import experiments
from sfl.cli.commands import configure
from sfl.reproduce.plan import Plan, PlannedRun, Sizes, make_plan
from sfl.reproduce.tables import Column, Entry, Table
from sfl.run.settings import Experiment

COLUMNS = (Column("fourroom", "paper"), Column("fourroom", "any"))


def experiment_of(words: Sequence[str]) -> Experiment:
    """What `sfl train` would run."""
    experiment: Experiment = configure(words)[0]
    return experiment


def table(*entries: Entry, seeds: int = 2, **others: Any) -> Table:
    return Table("small", "A small table", COLUMNS, entries, seeds, **others)


def planned(tables: Sequence[Table], runs: Path, only: str = "", **sizes: Any) -> Plan:
    """Tiny unless a test says otherwise."""
    return make_plan(tables, experiments.names(), experiment_of, runs, Sizes(**{"tiny": True, **sizes}), only)


def random_runs(runs: Path, seeds: int = 2) -> list[PlannedRun]:
    """Tiny runs of the random policy in FourRoom."""
    return list(planned([table(Entry("Random", "fourroom", "fourroom-random"), seeds=seeds)], runs).runs)
