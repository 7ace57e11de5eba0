"""Gather the evaluation episodes of finished runs, at the last checkpoint of each, into one CSV file.

python benchmarks/collect.py RUNS... [--every-evaluation] --out benchmarks/results/minigrid-episodes.csv
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


def collect(folders: Sequence[Path], every_evaluation: bool = False) -> list[EpisodeRow]:
    """Rows of all runs in these folders, in the order of experiment, seed, steps, level and pair."""
    runs = sorted({file.parent for folder in folders for file in folder.glob("**/config.json")})
    if not runs:
        raise UsageError(f"No run in {', '.join(map(str, folders))}; give a folder of runs such as runs/minigrid.")
    rows = [
        row for run in runs for row in (read_episodes(RunFolder(run).episodes) if every_evaluation else final_rows(run))
    ]
    keys = {(row.experiment, row.seed, row.env_steps, row.level, row.pair): row for row in rows}
    if len(keys) < len(rows):
        raise UsageError("The same seed of an experiment is there twice; name each run once.")
    return [keys[key] for key in sorted(keys)]


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
    parser.add_argument("--every-evaluation", action="store_true", help="not only the one after the last step")
    options = parser.parse_args()
    try:
        rows = collect(options.runs, options.every_evaluation)
    except SflError as error:
        print("collect:", error, file=sys.stderr)
        return error.exit_code
    write(rows, options.out)
    print(f"{len(rows)} episodes in {options.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
