"""Gather the evaluation episodes of finished runs, at the last checkpoint of each, into one CSV file.

python benchmarks/collect.py RUNS... --out benchmarks/results/minigrid-episodes.csv
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

from sfl.core.errors import SflError, UsageError
from sfl.run.evaluate import EPISODE_COLUMNS, EpisodeRow
from sfl.run.folder import RunFolder, read_episodes


def final_rows(path: Path) -> list[EpisodeRow]:
    """The rows of a run's evaluation after its last step; a run that has none is refused."""
    folder = RunFolder(path)
    # Only the length is needed, so that runs of an older version, whose settings differ, can be collected too.
    steps = json.loads(folder.config.read_text())["experiment"]["train"]["steps"]
    rows = [row for row in read_episodes(folder.episodes) if row.env_steps >= steps]
    if not rows:
        raise UsageError(f"{path} is not finished; continue it with `sfl resume {path}`.")
    return rows


def collect(folders: Sequence[Path]) -> list[EpisodeRow]:
    """Rows of all runs in these folders, in the order of experiment, seed, level and pair."""
    runs = sorted({file.parent for folder in folders for file in folder.glob("**/config.json")})
    if not runs:
        raise UsageError(f"No run in {', '.join(map(str, folders))}; give a folder of runs such as runs/minigrid.")
    rows = [row for run in runs for row in final_rows(run)]
    seen = {(row.experiment, row.seed, row.level, row.pair) for row in rows}
    if len(seen) < len(rows):
        raise UsageError("The same seed of an experiment is there twice; name each run once.")
    return sorted(rows, key=lambda row: (row.experiment, row.seed, row.level, row.pair))


def write(rows: Sequence[EpisodeRow], out: Path) -> None:
    """Write the file whole or not at all."""
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.with_name(out.name + ".tmp")
    with draft.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(EPISODE_COLUMNS)
        writer.writerows(astuple(row) for row in rows)
    draft.replace(out)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, help="run folders or folders of runs")
    parser.add_argument("--out", required=True, type=Path, help="the CSV file to write")
    options = parser.parse_args()
    try:
        rows = collect(options.runs)
    except SflError as error:
        print("collect:", error, file=sys.stderr)
        return error.exit_code
    write(rows, options.out)
    print(f"{len(rows)} episodes in {options.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
