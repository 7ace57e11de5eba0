"""Print what each method was given and took as a table, from benchmarks/results/budgets.csv.

python benchmarks/budgets.py [--add BUDGETS.csv]

`sfl reproduce all --plan` writes such a file beside its report, of the runs that are there; with --add its runs come to
those that are known, or take their place.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

from sfl.old_names import new_name
from sfl.reproduce.budget import CSV_COLUMNS, time_words

KEPT = Path(__file__).with_name("results") / "budgets.csv"

HEAD = (
    *("runs", "seeds", "env steps", "gradient steps", "time", "trained", "frozen"),
    *("env steps before", "gradient steps before", "time before"),
)

Row = dict[str, str]


def read(path: Path) -> dict[str, list[Row]]:
    """The phases of each run, once: a run may be in several tables."""
    runs: dict[str, dict[str, list[Row]]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            row |= {column: new_name(row[column]) for column in ("run", "source")}
            runs.setdefault(row["run"], {}).setdefault(row["table"], []).append(row)
    return {run: next(iter(tables.values())) for run, tables in runs.items()}


def write(runs: dict[str, list[Row]], path: Path) -> None:
    """The rows of `read`, whole or not at all."""
    draft = path.with_name(path.name + ".tmp")
    with draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, CSV_COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for _, rows in sorted(runs.items()) for row in rows)
    draft.replace(path)


def table_lines(runs: dict[str, list[Row]]) -> Iterator[str]:
    """A line for each run that learns or plans: in the maze, its parameters, and before the maze."""
    yield f"| {' | '.join(HEAD)} |"
    yield "|---" * len(HEAD) + "|"
    for run, rows in sorted(runs.items()):
        phases = {row["phase"]: row for row in rows}
        within, before = phases["all in the maze"], phases["all before the maze"]
        if not run.endswith("-random"):
            trained, frozen = (_millions(within[f"parameters_{word}"]) for word in ("trained", "frozen"))
            cells = [*_spent(within), trained, frozen, *_spent(before)]
            yield f"| `{run}` | {within['seeds']} | {' | '.join(cells)} |"


def _spent(row: Row) -> list[str]:
    if not float(row["env_steps"] or 1):
        return ["", "", ""]
    time = time_words(float(row["seconds"])) if row["seconds"] else "?"
    return [*(f"{float(row[name]):,.0f}" if row[name] else "?" for name in ("env_steps", "gradient_steps")), time]


def _millions(number: str) -> str:
    if not number:
        return "?"
    return f"{float(number) / 1e6:.2f}M" if float(number) else ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--add", type=Path, help="a budgets.csv of more runs")
    more = parser.parse_args().add
    known = read(KEPT) if KEPT.is_file() else {}
    if more is not None:
        known |= read(more)
        write(known, KEPT)
    print("\n".join(table_lines(known)))
