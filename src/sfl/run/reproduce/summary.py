"""Finished runs become the cells of tables, each beside the paper's number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sfl.run.evaluate import EpisodeRow
from sfl.run.folder import RunFolder, read_episodes
from sfl.run.report import Spread, spread
from sfl.run.reproduce.budgets import Budget, budget_of
from sfl.run.reproduce.measures import measure_of
from sfl.run.reproduce.paper import PaperNumber, paper_number
from sfl.run.reproduce.plan import LackingRow, Plan, PlannedRun, Progress
from sfl.run.reproduce.queue import Failure
from sfl.run.reproduce.tables import Column, Entry, Table


@dataclass(frozen=True)
class Cell:
    """One number of a table, ours and the paper's; either may be absent."""

    row: str
    column: Column
    run: str
    ours: Spread | None
    paper: PaperNumber | None

    def __str__(self) -> str:
        ours = "-" if self.ours is None else number_text(self.ours)
        return f"{ours} (paper {'-' if self.paper is None else self.paper})"


def number_text(found: Spread) -> str:
    """Mean and standard error."""
    error = "" if found.standard_error is None else f" ± {found.standard_error:.1f}"
    return f"{found.mean:.1f}{error}"


@dataclass(frozen=True)
class TableSummary:
    """A table with everything that its report shows."""

    table: Table
    seeds: int
    cells: tuple[Cell, ...]
    """Row by row."""
    budgets: tuple[Budget, ...]
    curves: dict[str, list[EpisodeRow]]
    """Every evaluation in each place, with the row's name as the experiment's; empty where none is drawn."""
    finished: int
    planned: int

    def cell(self, row: str, column: Column) -> Cell | None:
        """The cell of a row and a column, where the row has one."""
        return next((cell for cell in self.cells if (cell.row, cell.column) == (row, column)), None)


@dataclass(frozen=True)
class Summary:
    """All tables, and whatever stands between them and the whole."""

    tables: tuple[TableSummary, ...]
    lacking: tuple[LackingRow, ...]
    failures: tuple[Failure, ...]
    unfinished: tuple[PlannedRun, ...]


def summarise_plan(plan: Plan, states: dict[Path, Progress], failures: Sequence[Failure]) -> Summary:
    """Read the finished runs of a plan; runs that are not finished count in no cell."""
    tables = tuple(_table(plan, table, states) for table in plan.tables if table.entries)
    unfinished = [run for run in plan.runs if states[run.path] is not Progress.FINISHED]
    return Summary(tables, plan.lacking, tuple(failures), tuple(unfinished))


def _table(plan: Plan, table: Table, states: dict[Path, Progress]) -> TableSummary:
    cells, budgets = [], []
    curves: dict[str, list[EpisodeRow]] = {}
    planned = finished = 0
    for entry in table.entries:
        paths = plan.paths(table, entry)
        done = [RunFolder(path) for path in paths if states[path] is Progress.FINISHED]
        planned, finished = planned + len(paths), finished + len(done)
        columns = [column for column in table.columns if column.place == entry.place]
        cells += [_cell(table, entry, column, done) for column in columns]
        if done:
            budgets.append(budget_of(plan.runs_dir, entry, done))
        if done and table.curves:
            rows = [row for folder in done for row in read_episodes(folder.episodes)]
            curves.setdefault(entry.place, []).extend(replace(row, experiment=entry.row) for row in rows)
    seeds = plan.seeds[table.name]
    return TableSummary(table, seeds, tuple(cells), tuple(budgets), curves, finished, planned)


def _cell(table: Table, entry: Entry, column: Column, done: Sequence[RunFolder]) -> Cell:
    measure = measure_of(column.measure)
    values = [value for folder in done if (value := measure.read(folder)) is not None]
    ours = spread(values, measure.bounds) if values else None
    paper = paper_number(table.name, entry.paper, column.place, column.measure)
    return Cell(entry.row, column, entry.run, ours, paper)
