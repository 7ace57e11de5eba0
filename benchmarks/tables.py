"""Print the tables of `sfl reproduce` as they follow from the rows in benchmarks/results/, which is docs/results.md.

python benchmarks/tables.py > docs/results.md
python benchmarks/tables.py --of sptm     (the rows of one method in mazes, which its page has)
"""

from __future__ import annotations

import argparse
import csv
import gzip
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from sfl.old_names import new_name
from sfl.reproduce.tables import TABLES, Column, Entry, Table, measure_of, paper_number
from sfl.run.report import spread, summarise_runs

RESULTS = Path(__file__).with_name("results")
GATHERED = ("minigrid", "doom", "baselines")
"""Files that `benchmarks/collect.py` wrote, as NAME-episodes.csv.gz and NAME-indicators.csv.gz; each run is in one."""

SCALED = ("quarter",)
"""The same for runs of `sfl reproduce --scale 0.25`."""

SCALED_TABLES = ("ablation-thresholds", "ablation-filters")

INDICATORS = {
    "coverage": ("explore/coverage", 100.0),
    "often": ("explore/coverage_often", 100.0),
    "landmarks": ("graph/landmark_count", 1.0),
    "edges": ("graph/edge_count", 1.0),
    "landmark distance": ("graph/landmark_distance", 1.0),
}
"""The column of each measure that is not success, and what it is to be multiplied by."""

INTRODUCTION = """# Results

The tables of [`sfl reproduce`](reproduce.md), made by `python benchmarks/tables.py` from the rows of runs in
`benchmarks/results/`. A cell has our mean over seeds ± its standard error for each measure of its column, the number
of seeds, the commits that brought their rows (`benchmarks/ages.py`: the runs are of that code or of older), and the
paper's numbers; - means that it has not been run, or that the paper does not say. Success is in percent, at the last
evaluation of each run. `sfl report benchmarks/results/NAME-episodes.csv.gz` prints 95% intervals, and the
report of `sfl reproduce` has them too. What each method is: [README](../README.md#compare-methods). What each was
given: [budgets](reproduce.md#fair-budgets).

What a careful reader should know of the cells in mazes:

- The encoder of *the paper's settings* had 4,000 gradient steps in sgm and ablation-exploration and 5,350 elsewhere
  ([budgets](reproduce.md#fair-budgets)); SPTM, whose network it is in the paper, gave its own 1,000,000.
- *Our settings* train in episodes of 500 decisions (the paper: 2,500), so that with random spawn the agent is put down
  anew five times as often.
- Start-goal pairs are the authors' in sgm and test-1 and drawn by us in test-2, test-4 and test-6. Even on the authors'
  pairs in sgm the random policy has 75 / 33 / 16 here and 58 / 22 / 12 in the paper: ours and the paper's numbers are
  not of equally hard tasks.
- *Our settings* were tuned in these mazes themselves, on pairs of our own.
- SGM has the weaker of two measured settings of R: one gradient step per 1,024 environment steps. With one per 256 it
  reached 98 / 70 / 40 instead of 92 / 54 / 32 on trial pairs in sgm (f383f45, [trials](agents/controller.md#trials)).

Rows of SPTM and SGM, also with EC, in test-1, test-2 and test-6 were made before their localization preferred places
with a route ([SPTM](agents/sptm.md#results), [SGM](agents/sgm.md#results)), and those of SPTM in test-1 and test-4
before walks from a fixed start were joined there ([why it matters](agents/ec-sptm.md#results)). There are three pairs
of pre-trained networks ([which rows have which](agents/controller.md#results)): in sgm, the controller's row has
another than SPTM's and SGM's, and in ablation-ec those without EC another than those with it, so such rows differ in
more than the method. The paper's settings have one encoder in sgm and ablation-exploration and another elsewhere
([which](reproduce.md#vizdoom)).
"""

NOTES = {
    "curves-minigrid": """\
Our settings were tuned on FourRoom, 3 and 4 rooms. In larger worlds they fall off: with one seed each, on the paper's
task / any task, `multiroom-n6-sfl` reaches 99 / 56% and `multiroom-n8-sfl` 0 / 34% (150,000 and 200,000 steps,
97adb28, `benchmarks/results/minigrid-episodes.csv.gz`).""",
}
"""What stands under a table."""

SCALED_INTRODUCTION = """## A quarter of the steps

Rows of two ablations that have no runs of 2,000,000 steps, after 500,000, with the unchanged settings after as many.
The paper's numbers are of its whole budget. What the rows say: [SFL](agents/sfl.md#thresholds-and-filters).
"""


class Value(NamedTuple):
    """One measure of runs."""

    mean: float
    """Over seeds."""
    error: float | None
    """Standard error of the mean; None with a single seed."""
    seeds: int

    def shown(self, with_error: bool) -> str:
        """In a cell."""
        return f"{self.mean:.1f} ± {self.error:.1f}" if with_error and self.error is not None else f"{self.mean:.1f}"


class Gathered:
    """What the files say of each experiment."""

    def __init__(self, results: Path = RESULTS, names: Sequence[str] = GATHERED) -> None:
        found = [results / f"{name}-episodes.csv.gz" for name in names]
        rows = summarise_runs([path for path in found if path.is_file()])
        self._success = {
            (row.experiment, row.level): Value(row.success_percent, row.standard_error, row.seeds) for row in rows
        }
        self._code = _commits(results / "ages.csv", [path.name for path in found])
        self._last: dict[str, dict[int, dict[str, str]]] = {}  # by seed, the row of the last evaluation
        for name in names:
            self._read_indicators(results / f"{name}-indicators.csv.gz")

    def _read_indicators(self, path: Path) -> None:
        if path.is_file():
            with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
                for row in csv.DictReader(file):  # in the order of steps
                    self._last.setdefault(new_name(row["experiment"]), {})[int(row["seed"])] = row

    def code(self, run: str) -> str:
        """The commits that brought the rows of this name; empty where that is not known."""
        return self._code.get(run, "")

    def value(self, run: str, measure: str) -> Value | None:
        """Of the runs of a name; None without a row."""
        if measure not in INDICATORS:
            return self._success.get((run, measure))
        column, factor = INDICATORS[measure]
        cells = [row[column] for row in self._last.get(run, {}).values() if row.get(column)]
        if not cells:
            return None
        found = spread([factor * float(cell) for cell in cells], (0.0, math.inf))
        return Value(found.mean, found.standard_error, len(cells))


def _commits(ages: Path, names: Sequence[str]) -> dict[str, str]:
    """Of each experiment in these files, as `benchmarks/ages.py` found them."""
    if not ages.is_file():
        return {}
    with ages.open(encoding="utf-8", newline="") as file:
        return {new_name(row["experiment"]): row["commits"] for row in csv.DictReader(file) if row["file"] in names}


def table_lines(table: Table, gathered: Gathered, only_run: bool = False) -> Iterator[str]:
    """A row for each method, a column for each place; `only_run` leaves out rows without a run."""
    places = list(dict.fromkeys(column.place for column in table.columns))
    measures = {place: [column for column in table.columns if column.place == place] for place in places}
    heads = [f"{place}: {' / '.join(measure_of(one.measure).heading for one in measures[place])}" for place in places]
    yield f"| | {' | '.join(heads)} |"
    yield "|---" * (len(places) + 1) + "|"
    entries = {(entry.row, entry.place): entry for entry in table.entries}
    for row in table.rows:
        cells = [_cell(table, entries.get((row, place)), measures[place], gathered) for place in places]
        if only_run and all(not cell or cell.startswith("-") for cell in cells):
            continue
        yield f"| {row} | {' | '.join(cells)} |"


def _cell(table: Table, entry: Entry | None, columns: list[Column], gathered: Gathered) -> str:
    if entry is None:
        return ""
    ours, seeds, paper = _numbers(table, entry, columns, gathered, with_error=True)
    code = f", {gathered.code(entry.run)}" if gathered.code(entry.run) else ""
    shown = f"{ours} ({seeds} {'seed' if seeds == 1 else 'seeds'}{code})" if seeds else "-"
    return f"{shown}<br>paper {paper}" if paper else shown


def _numbers(
    table: Table, entry: Entry, columns: list[Column], gathered: Gathered, with_error: bool = False
) -> tuple[str, int, str]:
    """Ours, the number of seeds behind them, and the paper's, which are empty where it has none."""
    found = [gathered.value(entry.run, column.measure) for column in columns]
    seeds = max((one.seeds for one in found if one is not None), default=0)
    ours = " / ".join("-" if one is None else one.shown(with_error) for one in found)
    said = [paper_number(table.name, entry.paper, column.place, column.measure) for column in columns]
    paper = " / ".join("-" if one is None else f"{one.value:g}" for one in said)
    return ours, seeds, paper if any(said) else ""


def method_lines(method: str, gathered: Gathered) -> Iterator[str]:
    """A row for each experiment `...-METHOD` in mazes that has runs: levels from easy to hardest."""
    yield "| experiment | seeds | success % | paper | code |"
    yield "|---|---|---|---|---|"
    known: set[str] = set()
    for table in TABLES.values():
        for entry in table.entries:
            columns = [column for column in table.columns if column.place == entry.place]
            ours, seeds, paper = _numbers(table, entry, columns, gathered)
            if seeds and entry.run not in known and f"-spawn-{method}-" in f"{entry.run}-":
                known.add(entry.run)
                yield f"| `{entry.run}` | {seeds} | {ours} | {paper} | {gathered.code(entry.run)} |"


def page(gathered: Gathered, scaled: Gathered) -> str:
    """The whole page; `scaled` are the runs with fewer steps."""
    parts = [INTRODUCTION]
    for table in TABLES.values():
        parts += [f"## {table.name}", "", f"{table.title}.", "", *table_lines(table, gathered), ""]
        parts += [NOTES[table.name], ""] if table.name in NOTES else []
    parts.append(SCALED_INTRODUCTION)
    for name in SCALED_TABLES:
        lines = table_lines(TABLES[name], scaled, only_run=True)
        parts += [f"### {name}, a quarter of the steps", "", *lines, ""]
    return "\n".join(parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--of", metavar="METHOD", help="the rows of this method alone, as its page has them")
    method = parser.parse_args().of
    if method is None:
        print(page(Gathered(), Gathered(names=SCALED)), end="")
    else:
        print(*method_lines(method, Gathered()), sep="\n")
