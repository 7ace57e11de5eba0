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

The tables of [`sfl reproduce`](guides/reproduce.md), made by `python benchmarks/tables.py` from the rows in
`benchmarks/results/`. A cell has our mean over seeds ± its standard error, the number of seeds, the commits that
brought the rows (runs are of that code or older), and the paper's numbers; - means that there is none. Success is in
percent at the last evaluation. `sfl report benchmarks/results/NAME-episodes.csv.gz` prints 95% intervals. Rows without
runs are left out. What each method was given is in `benchmarks/results/budgets.csv`, how the rows came about in
`benchmarks/NOTES.md`.

On grids the paper's settings and MSS have 300,000 steps, ours 40,000 in FourRoom and 2 rooms, 60,000 in 3 and 80,000 in
4; in mazes SFL and MSS have 2,000,000.

What to know of the cells in mazes:

- *The paper's settings* are near random; [what is known of why](methods/sfl.md#the-papers-settings-in-mazes). Their
  encoder had 4,000 gradient steps in sgm and ablation-exploration and 5,350 elsewhere; SPTM, whose network it is in the
  paper, gave its own 1,000,000.
- *Our settings* train in episodes of 500 decisions (the paper: 2,500), so that with random spawn the agent is put down
  anew five times as often. They were tuned in these mazes themselves, on pairs of our own.
- Start-goal pairs are the authors' in sgm and test-1 and drawn by us in test-2, test-4 and test-6. Even on the authors'
  pairs in sgm the random policy has 75 / 33 / 16 here and 58 / 22 / 12 in the paper: ours and the paper's numbers are
  not of equally hard tasks.
- SGM has the weaker of two measured settings of R; with four times its gradient steps it reached 98 / 70 / 40 instead
  of 92 / 54 / 32 on trial pairs in sgm (f383f45, [which](methods/controller.md#settings)).
- Most rows of [SPTM](methods/sptm.md#results) and [SGM](methods/sgm.md#results), also [with EC](methods/ec.md#results),
  are of code before repairs that their pages name. There are three pairs of pre-trained networks: in sgm the
  controller's row has another than SPTM's and SGM's, in ablation-ec those without EC another than those with it.
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
The paper's numbers are of its whole budget. What the rows say: [SFL](methods/sfl.md#the-papers-ablations).
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
        return f"{self.mean:.1f}±{self.error:.1f}" if with_error and self.error is not None else f"{self.mean:.1f}"


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
    parts, shown = [INTRODUCTION], list[str]()
    for table in TABLES.values():
        lines = list(table_lines(table, gathered, only_run=True))
        if set(lines) <= set(shown):  # curves have the cells of another table
            lines = ["Its cells are those of the same rows above."]
        shown += lines
        parts += [f"## {table.name}", "", f"{table.title}.", "", *lines, ""]
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
