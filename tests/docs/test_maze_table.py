"""The tables of the paper's mazes, in README.md and reproduce.md, say what the rows in benchmarks/results/ say."""

from __future__ import annotations

import csv
import gzip

import pytest

from sfl.old_names import new_name
from sfl.run.report import summarise_runs

from .pages import ROOT, read

RESULTS = ROOT / "benchmarks" / "results"
MAZES = tuple(
    f"{place}-spawn" for place in ("sgm-random", "test-2-random", "test-6-random", "test-1-fixed", "test-4-fixed")
)
LINES = {
    "random policy": "random",
    "the paper's settings (`*-spawn-paper`)": "paper",
    "**ours (`*-spawn-sfl`)**": "sfl",
}
INDICATORS = {
    "decisions at which the agent holds itself localized": ("graph/localized_in_evaluation", 100),
    "of these, believed landmark within 100 units": ("graph/localization_within_100", 100),
    "of all decisions": ("graph/localization_within_100_of_all", 100),
    "waypoints truly reached, within 100 units": ("eval/waypoint_truly_reached", 100),
    "median edge, units": ("graph/edge_length_median", 1),
}


METRIC_INDICATORS = {
    "landmarks": ("graph/landmark_count", 1),
    "decisions localized %": ("graph/localized_in_evaluation", 100),
    "of these within 100 units %": ("graph/localization_within_100", 100),
    "median edge, units": ("graph/edge_length_median", 1),
    "edges across walls %": ("graph/edges_across_walls", 100),
    "waypoints truly reached %": ("eval/waypoint_truly_reached", 100),
    "waypoints given up %": ("eval/waypoint_given_up", 100),
}


def last_indicators(name: str, steps: int = 2_000_000) -> list[dict[str, str]]:
    """The rows after so many steps."""
    with gzip.open(RESULTS / f"{name}-indicators.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = [{**row, "experiment": new_name(row["experiment"])} for row in csv.DictReader(file)]
    return [row for row in rows if row["env_steps"] == str(steps)]


@pytest.mark.parametrize("line", LINES)
def test_the_table_of_success_is_that_of_the_rows(line: str) -> None:
    summary = summarise_runs([RESULTS / "doom-episodes.csv.gz"])
    success, nontrivial, seeds = [], [], []
    for maze in MAZES:
        levels = [row for row in summary if row.experiment == f"{maze}-{LINES[line]}"]
        success.append(" / ".join(f"{row.success_percent:.1f}" for row in levels))
        nontrivial.append(" / ".join(f"{row.nontrivial_percent or 0:.1f}" for row in levels))
        seeds.append(str(levels[0].seeds) if levels else "")
    page = read("README.md")
    for name, cells in {line: success, "of pairs that are not trivial": nontrivial, "seeds": seeds}.items():
        row = f"| {name} | {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")
        assert f"{row}\n" in page, f"README.md needs: {row}"


@pytest.mark.parametrize("line", INDICATORS)
def test_the_table_of_localization_is_that_of_the_rows(line: str) -> None:
    rows = last_indicators("doom")
    column, scale = INDICATORS[line]
    cells = []
    for maze in MAZES:
        seeds = [scale * float(row[column]) for row in rows if row["experiment"] == f"{maze}-sfl"]
        cells.append(f"{min(seeds):.0f}-{max(seeds):.0f}")
    row = f"| {line} | {' | '.join(cells)} |"
    assert any(found.startswith(row) for found in read("docs/guides/reproduce.md").splitlines()), (
        f"docs/guides/reproduce.md needs: {row}"
    )


def test_the_table_of_r_as_the_metric_is_that_of_the_rows() -> None:
    runs = {"doom": "sgm-random-spawn-paper", "baselines": "sgm-random-spawn-paper-reachability"}
    shown: dict[str, list[str]] = {}
    for file, run in runs.items():
        levels = [row for row in summarise_runs([RESULTS / f"{file}-episodes.csv.gz"]) if row.experiment == run]
        assert {row.seeds for row in levels} == {3}
        success = " / ".join(f"{row.success_percent:.1f}" for row in levels)
        shown.setdefault("success %, easy / medium / hard", []).append(success)
        seeds = [row for row in last_indicators(file) if row["experiment"] == run]
        for line, (column, scale) in METRIC_INDICATORS.items():
            values = [scale * float(row[column]) for row in seeds]
            shown.setdefault(line, []).append(f"{min(values):,.0f}-{max(values):,.0f}")
    page = read("docs/methods/sfl.md")
    for line, cells in shown.items():
        row = f"| {line} | {' | '.join(cells)} |"
        assert f"\n{row}\n" in page, f"docs/methods/sfl.md needs: {row}"


def test_what_is_said_of_thresholds_and_filters_is_what_the_rows_say() -> None:
    text = " ".join(read("docs/methods/sfl.md").split())
    rows = {row["experiment"]: row for row in last_indicators("quarter", 500_032)}
    runs = [f"sgm-random-spawn-sfl{end}" for end in ("-localize-0.80", "", "-localize-0.90", "-localize-0.95")]
    known, right = (
        [f"{100 * float(rows[run][f'graph/{column}']):.0f}" for run in runs]
        for column in ("localized_in_evaluation", "localization_within_100")
    )
    assert "{}% of its decisions with `localize` 0.80, {}% with our 0.85, {}% with 0.90 and {}%".format(*known) in text
    assert "within 100 units at {}, {}, {} and {}% of these".format(*right) in text
    hardest, lowest = {}, {"easy": 100.0, "medium": 100.0, "hard": 100.0}
    for row in summarise_runs([RESULTS / "quarter-episodes.csv.gz"]):
        if row.level == "hardest":
            hardest[row.experiment.removeprefix("test-1-fixed-spawn-sfl").strip("-")] = f"{row.success_percent:.0f}%"
        if row.maze == "sgm":
            lowest[row.level] = min(lowest[row.level], row.success_percent)
    ends = ("", "no-filter", "failures-cost-nothing", "neither-filter-nor-price")
    said = "{} becomes {} without the filter of edges, {} when failures cost nothing, and {} without both"
    assert said.format(*(hardest[end] for end in ends)) in text
    assert lowest == {"easy": 96.0, "medium": 94.0, "hard": 88.0}
    edges, free = (rows[f"test-1-fixed-spawn-sfl{end}"] for end in ("", "-no-filter"))
    counts = [f"{float(row['graph/edge_count']):,.0f}" for row in (free, edges)]
    shares = [f"{100 * float(row['graph/edges_across_walls']):.0f}" for row in (free, edges)]
    assert (
        f"{counts[0]} instead of {counts[1]} edges, of which {shares[0]} instead of {shares[1]}% cross a wall" in text
    )


def test_the_table_of_ablations_is_that_of_the_rows() -> None:
    levels: dict[str, list[float]] = {}
    for row in summarise_runs([RESULTS / "ablation-episodes.csv.gz"]):
        levels.setdefault(row.experiment, []).append(row.success_percent)
    page = read("docs/guides/reproduce.md")
    for name, cells in levels.items():
        called = "all ideas" if name == "all" else f"`{name}`"
        line = f"| {called} | {' / '.join(f'{cell:.0f}' for cell in cells)} |"
        assert f"\n{line}" in page, f"docs/guides/reproduce.md needs: {line}"


def test_the_first_screen_says_what_the_rows_say() -> None:
    rows = summarise_runs([RESULTS / "doom-episodes.csv.gz"])
    hard = {row.experiment: row.success_percent for row in rows if row.level == "hard"}
    spans = []
    for kind in ("sfl", "paper", "random"):
        found = [hard[f"{maze}-{kind}"] for maze in MAZES if maze.endswith("-random-spawn")]
        spans.append(
            f"{min(found):.1f} to {max(found):.0f}%" if kind == "sfl" else f"{min(found):.0f} to {max(found):.0f}%"
        )
    text = " ".join(read("README.md").split())
    assert f"SFL with our settings reaches {spans[0]} of the goals; the paper reports 48 to 67%" in text
    assert f"it reaches {spans[1]}, the random policy {spans[2]}" in text
