"""The table of the paper's mazes in README.md says what the rows in benchmarks/results/ say."""

from __future__ import annotations

import pytest

from sfl.run.report import summarise_runs

from .pages import ROOT, read

ROWS = ROOT / "benchmarks" / "results" / "doom-episodes.csv.gz"
MAZES = ("sgm-random", "test-2-random", "test-6-random", "test-1-fixed", "test-4-fixed")
LINES = {"random policy": "random", "**ours (`sfl-doom-*`)**": "sfl"}


@pytest.mark.parametrize("line", LINES)
def test_the_table_is_that_of_the_rows(line: str) -> None:
    summary = summarise_runs([ROWS])
    success, nontrivial, seeds = [], [], []
    for maze in MAZES:
        levels = [row for row in summary if row.experiment == f"{LINES[line]}-doom-{maze}"]
        success.append(" / ".join(f"{row.success_percent:.1f}" for row in levels))
        nontrivial.append(" / ".join(f"{row.nontrivial_percent or 0:.1f}" for row in levels))
        seeds.append(str(levels[0].seeds) if levels else "")
    page = read("README.md")
    for name, cells in {line: success, "of pairs that are not trivial": nontrivial, "seeds": seeds}.items():
        row = f"| {name} | {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")
        assert f"{row}\n" in page, f"README.md needs: {row}"
