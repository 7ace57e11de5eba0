"""The tables of the paper's mazes, in README.md and docs/reproduce.md, say what the rows in benchmarks/results/ say."""

from __future__ import annotations

import csv
import gzip

import pytest

from sfl.run.report import summarise_runs

from .pages import ROOT, read

RESULTS = ROOT / "benchmarks" / "results"
MAZES = ("sgm-random", "test-2-random", "test-6-random", "test-1-fixed", "test-4-fixed")
LINES = {"random policy": "random", "the paper's settings (`paper-doom-*`)": "paper", "**ours (`sfl-doom-*`)**": "sfl"}
INDICATORS = {
    "decisions at which the agent holds itself localized": ("graph/localized_in_evaluation", 100),
    "of these, believed landmark within 100 units": ("graph/localization_within_100", 100),
    "of all decisions": ("graph/localization_within_100_of_all", 100),
    "waypoints truly reached, within 100 units": ("eval/waypoint_truly_reached", 100),
    "median edge, units": ("graph/edge_length_median", 1),
}


@pytest.mark.parametrize("line", LINES)
def test_the_table_of_success_is_that_of_the_rows(line: str) -> None:
    summary = summarise_runs([RESULTS / "doom-episodes.csv.gz"])
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


@pytest.mark.parametrize("line", INDICATORS)
def test_the_table_of_localization_is_that_of_the_rows(line: str) -> None:
    with gzip.open(RESULTS / "doom-indicators.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["env_steps"] == "2000000"]
    column, scale = INDICATORS[line]
    cells = []
    for maze in MAZES:
        seeds = [scale * float(row[column]) for row in rows if row["experiment"] == f"sfl-doom-{maze}"]
        cells.append(f"{min(seeds):.0f}-{max(seeds):.0f}")
    row = f"| {line} | {' | '.join(cells)} |"
    assert any(found.startswith(row) for found in read("docs/reproduce.md").splitlines()), (
        f"docs/reproduce.md needs: {row}"
    )


def test_the_table_of_ablations_is_that_of_the_rows() -> None:
    levels: dict[str, list[float]] = {}
    for row in summarise_runs([RESULTS / "ablation-episodes.csv.gz"]):
        levels.setdefault(row.experiment, []).append(row.success_percent)
    page = read("docs/reproduce.md")
    for name, cells in levels.items():
        called = "all ideas" if name == "all" else f"`{name}`"
        line = f"| {called} | {' / '.join(f'{cell:.0f}' for cell in cells)} |"
        assert f"\n{line}" in page, f"docs/reproduce.md needs: {line}"


def test_the_first_screen_says_what_the_rows_say() -> None:
    rows = summarise_runs([RESULTS / "doom-episodes.csv.gz"])
    hard = {row.experiment: row.success_percent for row in rows if row.level == "hard"}
    spans = []
    for kind in ("sfl", "paper", "random"):
        found = [hard[f"{kind}-doom-{maze}"] for maze in MAZES if maze.endswith("-random")]
        spans.append(
            f"{min(found):.1f} to {max(found):.0f}%" if kind == "sfl" else f"{min(found):.0f} to {max(found):.0f}%"
        )
    text = " ".join(read("README.md").split())
    assert f"SFL with our settings reaches {spans[0]} of the goals; the paper reports 48 to 67%" in text
    assert f"it reaches {spans[1]}, the random policy {spans[2]}" in text
