"""Gather the evaluation episodes of finished runs, at the last checkpoint of each, into one CSV file.

python benchmarks/collect.py RUNS... [--every-evaluation] [--add] --out EPISODES.csv[.gz] [--indicators FILE.csv[.gz]]
                             [--coverage FILE.csv]
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from sfl.errors import SflError, UsageError
from sfl.old_names import new_name
from sfl.run.chance import read_random
from sfl.run.evaluate import EPISODE_COLUMNS, EpisodeRow
from sfl.run.folder import RunFolder, read_episodes
from sfl.run.log import read_columns
from sfl.run.metrics import metrics

INDICATORS = tuple(
    metric.name for metric in metrics() if metric.name.startswith(("graph/", "explore/", "eval/waypoint", "memory/"))
)
"""The leading indicators, which success follows from, and what the run took of the machine."""

INDICATOR_COLUMNS = ("experiment", "seed", "env_steps", *INDICATORS)

COVERAGE_COLUMNS = ("experiment", "seed", "env_steps", "explore/coverage", "explore/coverage_often")


def find_runs(folders: Sequence[Path]) -> list[Path]:
    """The run folders in these folders, each once."""
    runs = sorted({file.parent for folder in folders for file in folder.glob("**/config.json")})
    if not runs:
        raise UsageError(f"No run in {', '.join(map(str, folders))}; give a folder of runs such as runs/minigrid.")
    return runs


def read_body(run: Path) -> dict[str, Any]:
    """A run's config.json as it stands, so that runs of an older version, whose settings differ, are read too."""
    body: dict[str, Any] = json.loads(RunFolder(run).config.read_text())
    body["experiment"]["name"] = new_name(body["experiment"]["name"])
    return body


def final_rows(run: Path) -> list[EpisodeRow]:
    """The rows of a run's evaluation after its last step; a run that has none is refused."""
    steps = read_body(run)["experiment"]["train"]["steps"]
    rows = [row for row in read_episodes(RunFolder(run).episodes) if row.env_steps >= steps]
    if not rows:
        raise UsageError(f"{run} is not finished; continue it with `sfl resume {run}`.")
    return rows


def collect(runs: Sequence[Path], every_evaluation: bool = False) -> list[EpisodeRow]:
    """Rows of all runs in the order of experiment, seed and steps; levels and pairs as the run had them.

    Those of the random policy that stand beside a run come with it, under its name.
    """
    rows = [
        row
        for run in runs
        for row in [
            *(read_episodes(RunFolder(run).episodes) if every_evaluation else final_rows(run)),
            *read_random(run),
        ]
    ]
    if len({(row.experiment, row.agent, row.seed, row.env_steps, row.level, row.pair) for row in rows}) < len(rows):
        raise UsageError("The same seed of an experiment is there twice; name each run once.")
    return sorted(rows, key=lambda row: (row.experiment, row.seed, row.env_steps))


def collect_indicators(runs: Sequence[Path]) -> list[tuple[Any, ...]]:
    """Rows of `INDICATOR_COLUMNS`: every evaluation of all runs, in the order of experiment, seed and steps."""
    return sorted((row for run in runs for row in _indicator_rows(run)), key=lambda row: row[:3])


def _indicator_rows(run: Path) -> Iterable[tuple[Any, ...]]:
    body = read_body(run)
    evaluated, trained = (_by_step(run / name) for name in ("eval.csv", "train.csv"))
    for step, values in evaluated.items():
        values = {**trained.get(step, {}), **values}  # training writes a row before an evaluation at the same step
        cells = (values.get(name, math.nan) for name in INDICATORS)
        yield body["experiment"]["name"], body["seed"], step, *("" if math.isnan(cell) else cell for cell in cells)


def collect_coverage(runs: Sequence[Path]) -> list[tuple[Any, ...]]:
    """Rows of `COVERAGE_COLUMNS`: what had been visited at each row of train.csv of all runs."""
    rows = []
    for run in runs:
        body = read_body(run)
        name, seed = body["experiment"]["name"], body["seed"]
        for step, values in _by_step(run / "train.csv").items():
            cells = (values.get(column, math.nan) for column in COVERAGE_COLUMNS[3:])
            rows.append((name, seed, step, *("" if math.isnan(cell) else round(cell, 4) for cell in cells)))
    return sorted(rows, key=lambda row: row[:3])


def _by_step(path: Path) -> dict[int, dict[str, float]]:
    """The rows of train.csv or eval.csv by their environment steps."""
    if not path.is_file():
        raise UsageError(f"{path} is missing: there are no indicators of this run.")
    columns = read_columns(path)
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return {int(row["env_steps"]): row for row in rows}


def add(rows: Sequence[EpisodeRow], known: Sequence[EpisodeRow]) -> list[EpisodeRow]:
    """These rows, and of the known ones those of other runs: a table may be made on several machines, in turn."""
    runs = {(row.experiment, row.seed) for row in rows}
    kept = [row for row in known if (row.experiment, row.seed) not in runs]
    return sorted([*kept, *rows], key=lambda row: (row.experiment, row.seed, row.env_steps))


def add_table(rows: Sequence[tuple[Any, ...]], columns: Sequence[str], path: Path) -> list[tuple[Any, ...]]:
    """The same for a table whose rows begin with experiment, seed and steps; columns newer than its file stay empty."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        known = csv.DictReader(file)
        foreign = sorted(set(known.fieldnames or ()) - set(columns))
        if foreign or not set(columns[:3]) <= set(known.fieldnames or ()):
            what = f"foreign columns ({', '.join(foreign)})" if foreign else "no experiment, seed or steps"
            raise UsageError(f"{path} has {what}; write to a new file.")
        rows_known = [{**row, "experiment": new_name(row["experiment"])} for row in known]
        cells = [[row.get(name) or "" for name in columns] for row in rows_known]
    runs = {row[:2] for row in rows}
    numbered = ((experiment, int(seed), int(step), *rest) for experiment, seed, step, *rest in cells)
    return sorted([*(row for row in numbered if row[:2] not in runs), *rows], key=lambda row: row[:3])


def write(columns: Sequence[str], rows: Iterable[Sequence[Any]], out: Path) -> None:
    """Write a file whole or not at all; the same rows give the same bytes, compressed (.gz) or not."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    body = text.getvalue().encode()
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.with_name(out.name + ".tmp")
    draft.write_bytes(gzip.compress(body, mtime=0) if out.suffix == ".gz" else body)
    draft.replace(out)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, help="run folders or folders of runs")
    parser.add_argument("--out", required=True, type=Path, help="the CSV file of episodes to write, also .csv.gz")
    parser.add_argument("--every-evaluation", action="store_true", help="not only the one after the last step")
    parser.add_argument("--add", action="store_true", help="keep the rows of other runs that the files have")
    parser.add_argument("--indicators", type=Path, help="a CSV file of the leading indicators at every evaluation")
    parser.add_argument("--coverage", type=Path, help="a CSV file of the squares visited, over the steps of these runs")
    options = parser.parse_args()
    try:
        runs = find_runs(options.runs)
        rows = collect(runs, options.every_evaluation)
        indicators = [] if options.indicators is None else collect_indicators(runs)
        coverage = [] if options.coverage is None else collect_coverage(runs)
        if options.add and options.out.is_file():
            rows = add(rows, read_episodes(options.out))
        if options.add and options.indicators is not None and options.indicators.is_file():
            indicators = add_table(indicators, INDICATOR_COLUMNS, options.indicators)
        if options.add and options.coverage is not None and options.coverage.is_file():
            coverage = add_table(coverage, COVERAGE_COLUMNS, options.coverage)
    except SflError as error:
        print("collect:", error, file=sys.stderr)
        return error.exit_code
    write(EPISODE_COLUMNS, map(astuple, rows), options.out)
    print(f"{len(rows)} episodes in {options.out}", file=sys.stderr)
    if options.indicators is not None:
        write(INDICATOR_COLUMNS, indicators, options.indicators)
        print(f"leading indicators in {options.indicators}", file=sys.stderr)
    if options.coverage is not None:
        write(COVERAGE_COLUMNS, coverage, options.coverage)
        print(f"coverage in {options.coverage}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
