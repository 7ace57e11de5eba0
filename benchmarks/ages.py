"""Print for every experiment in the files of rows which commits brought its rows: they are of that code or of older.

python benchmarks/ages.py > benchmarks/results/ages.csv        (needs the project's history)
"""

from __future__ import annotations

import csv
import gzip
import io
import subprocess
from collections import defaultdict
from pathlib import Path

RESULTS = Path(__file__).with_name("results")


def git(*words: str) -> bytes:
    """What git prints."""
    return subprocess.run(["git", "-C", str(RESULTS), *words], check=True, capture_output=True).stdout


def runs_in(packed: bytes) -> dict[tuple[str, str], str]:
    """The rows of each experiment and seed, as text."""
    found = defaultdict(list)
    for row in csv.DictReader(io.StringIO(gzip.decompress(packed).decode())):
        found[row["experiment"], row["seed"]].append("\t".join(str(cell) for cell in row.values()))
    return {run: "\n".join(rows) for run, rows in found.items()}


def ages(file: Path) -> dict[str, list[str]]:
    """Experiment -> the commits, oldest first, since which the rows of its seeds have been as they are now."""
    born: dict[tuple[str, str], str] = {}
    before: dict[tuple[str, str], str] = {}
    order = git("log", "--reverse", "--format=%h", "--", file.name).decode().split()
    for commit in order:
        now = runs_in(git("show", f"{commit}:./{file.name}"))
        born = {run: born[run] if before.get(run) == rows else commit for run, rows in now.items()}
        before = now
    grouped: dict[str, set[str]] = defaultdict(set)
    for (experiment, _), commit in born.items():
        grouped[experiment].add(commit)
    return {experiment: sorted(commits, key=order.index) for experiment, commits in sorted(grouped.items())}


if __name__ == "__main__":
    print("file,experiment,commits")
    for file in sorted(RESULTS.glob("*-episodes.csv.gz")):
        for experiment, commits in ages(file).items():
            print(f"{file.name},{experiment},{' '.join(commits)}")
