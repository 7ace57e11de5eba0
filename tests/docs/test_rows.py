"""What pages say in numbers is what the rows in benchmarks/results/ say: first tables, then sentences."""

from __future__ import annotations

import csv
import gzip
import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from statistics import fmean, stdev

import numpy as np
import pytest

from sfl import experiments
from sfl.api import Array
from sfl.old_names import new_name
from sfl.run.evaluate import EpisodeRow, eval_tasks
from sfl.run.report import ReportRow, summarise_runs
from sfl.worlds.grids import LAYOUTS

from .pages import ROOT, benchmark, read

RESULTS = ROOT / "benchmarks" / "results"
GRIDS = ("fourroom", "multiroom-n2", "multiroom-n3", "multiroom-n4")
MAZES = tuple(
    f"{place}-spawn" for place in ("sgm-random", "test-2-random", "test-6-random", "test-1-fixed", "test-4-fixed")
)
NOTES = "benchmarks/NOTES.md"


@cache
def table(name: str) -> list[dict[str, str]]:
    """A CSV file, with experiments as they are called now."""
    path = RESULTS / name
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [{**row, "experiment": new_name(row.get("experiment") or "")} for row in rows]


CURVES_PROGRAM = benchmark("curves")


@cache
def summary(name: str) -> dict[str, list[ReportRow]]:
    """experiment -> its levels, from easy to hardest."""
    found: dict[str, list[ReportRow]] = {}
    for row in summarise_runs([RESULTS / f"{name}-episodes.csv.gz"]):
        found.setdefault(row.experiment, []).append(row)
    return found


@cache
def episodes(name: str) -> list[EpisodeRow]:
    return CURVES_PROGRAM.read_rows(RESULTS / name)


def last_indicators(name: str, experiment: str, steps: int = 2_000_000) -> list[dict[str, str]]:
    """A row for each seed, after so many steps."""
    rows = table(f"{name}-indicators.csv.gz")
    return [row for row in rows if (row["experiment"], row["env_steps"]) == (experiment, str(steps))]


def span(rows: list[dict[str, str]], column: str, scale: float = 100) -> str:
    """Lowest and highest over seeds."""
    values = [scale * float(row[column]) for row in rows]
    return f"{min(values):,.0f}-{max(values):,.0f}"


def joined(levels: list[ReportRow], digits: int) -> str:
    return " / ".join(f"{row.success_percent:.{digits}f}" for row in levels)


# ---- Tables: each function gives the lines that its page must have.


def localization() -> Iterator[str]:
    for line, column, scale in (
        ("decisions localized", "graph/localized_in_evaluation", 100),
        ("of these, within 100 units", "graph/localization_within_100", 100),
        ("waypoints truly reached", "eval/waypoint_truly_reached", 100),
        ("median edge, units", "graph/edge_length_median", 1),
    ):
        cells = [span(last_indicators("doom", f"{maze}-sfl"), column, scale) for maze in MAZES]
        yield f"| {line} | {' | '.join(cells)} |"


def reachability_as_metric() -> Iterator[str]:
    runs = {"doom": "sgm-random-spawn-paper", "baselines": "sgm-random-spawn-paper-reachability"}
    success = [joined(summary(file)[run], 1) for file, run in runs.items()]
    yield f"| success %, easy / medium / hard | {' | '.join(success)} |"
    for line, column, scale in (
        ("landmarks", "graph/landmark_count", 1),
        ("decisions localized %", "graph/localized_in_evaluation", 100),
        ("of these within 100 units %", "graph/localization_within_100", 100),
        ("median edge, units", "graph/edge_length_median", 1),
        ("edges across walls %", "graph/edges_across_walls", 100),
        ("waypoints truly reached %", "eval/waypoint_truly_reached", 100),
        ("waypoints given up %", "eval/waypoint_given_up", 100),
    ):
        cells = [span(last_indicators(file, run), column, scale) for file, run in runs.items()]
        yield f"| {line} | {' | '.join(cells)} |"


def frontiers() -> Iterator[str]:
    rows, rules = table("frontiers-coverage.csv"), ("inverse-visits", "uniform")

    def cell(rule: str, column: str, steps: int) -> str:
        """Mean and standard error of what each seed had at its first row from there on."""
        seeds: dict[str, float] = {}
        for row in rows:  # in the order of seeds and steps
            if row["experiment"] == f"test-1-fixed-spawn-sfl-{rule}-frontiers" and int(row["env_steps"]) >= steps:
                seeds.setdefault(row["seed"], 100 * float(row[column]))
        assert list(seeds) == ["0", "1", "2"]
        shares = list(seeds.values())
        return f"{fmean(shares):.1f} ± {stdev(shares) / math.sqrt(len(shares)):.1f}"

    for steps in range(100_000, 600_000, 100_000):
        columns = ("explore/coverage", "explore/coverage_often")
        yield f"| {steps:,} | {' | '.join(cell(rule, column, steps) for column in columns for rule in rules)} |"


def ideas() -> Iterator[str]:
    for name, levels in summary("ablation").items():
        yield f"| {'all ideas' if name == 'all' else f'`{name}`'} | {joined(levels, 0)} |"


def network_scores() -> Iterator[str]:
    mazes: dict[str, dict[tuple[str, str], str]] = {}
    for row in table("network-eval.csv"):
        scores = mazes.setdefault(f"{row['maze']} | {row['unseen']}", {})
        scores[row["network"], row["case"]] = f"{100 * float(row['accuracy']):.0f}"
    shown = (("retrieval", "near"), ("retrieval", "far"), *(("locomotion", ahead) for ahead in "135"))
    for maze, scores in mazes.items():
        yield f"| {maze} | {' | '.join(scores[case] for case in shown)} |"


def mss_on_grids() -> Iterator[str]:
    rows = episodes("minigrid-curves.csv.gz")

    def cell(experiment: str, step: int) -> str:
        own = [row for row in rows if (row.experiment, row.env_steps) == (experiment, step)]
        shares = [np.mean([row.success for row in own if row.level == level]) for level in ("paper", "any")]
        return " / ".join(f"{100 * share:.1f}" for share in shares)

    ends = {grid: max(row.env_steps for row in rows if row.experiment == f"{grid}-sfl") for grid in GRIDS}
    cells = [cell(f"{grid}-mss", ends[grid]) for grid in GRIDS]
    yield f"| MSS after as many steps as ours | {' | '.join(cells)} |"
    yield f"| MSS after 300,000 steps | {' | '.join(cell(f'{grid}-mss', 300_000) for grid in GRIDS)} |"
    yield f"| ours | {' | '.join(cell(f'{grid}-sfl', ends[grid]) for grid in GRIDS)} |"


def tabular() -> Iterator[str]:
    rows = summary("minigrid")
    for grid in ("fourroom", "multiroom-n3"):
        levels = sorted(rows[f"{grid}-tabular"], key=lambda row: row.level, reverse=True)  # paper, any
        cells = [f"{row.success_percent:.1f} ± {row.standard_error:.1f}" for row in levels]
        yield f"| `{grid}` | {' | '.join(cells)} |"


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        ("docs/methods/sfl.md", localization),
        ("docs/methods/mss.md", mss_on_grids),
        ("docs/methods/tabular.md", tabular),
        (NOTES, reachability_as_metric),
        (NOTES, frontiers),
        (NOTES, ideas),
        (NOTES, network_scores),
    ],
)
def test_the_table_is_that_of_the_rows(page: str, lines: Callable[[], Iterator[str]]) -> None:
    missing = [line for line in lines() if f"\n{line}" not in read(page)]
    assert missing == [], f"{page} needs:\n" + "\n".join(missing)


def test_the_trials_are_those_of_the_rows() -> None:
    indicators = table("tuning-indicators.csv.gz")
    lines = {line.split(" | ")[0]: line for line in read(NOTES).splitlines() if " | " in line}
    for run, levels in summary("tuning").items():
        said = []
        for name in ("localized_in_evaluation", "localization_within_100"):
            shares = [float(row[f"graph/{name}"] or "nan") for row in indicators if row["experiment"] == run]
            said.append("" if np.isnan(shares).any() else f" {100 * np.mean(shares):.0f}")
        assert lines[f"| `{run}`"].endswith(f" | {joined(levels, 0)} |{said[0]} |{said[1]} |"), run
    page = words("docs/methods/controller.md")
    fewer, more = (joined(summary("tuning")[f"trial-sgm-{kind}"], 0) for kind in ("quarter", "all"))
    assert f"lifted SGM from {fewer} to {more}%" in page


def test_the_first_table_of_the_readme_is_that_of_the_rows() -> None:
    """Each cell is the hardest level of its place, rounded to half a point or better."""
    grids, mazes = summary("minigrid"), summary("doom")
    lines = [line for line in read("README.md").replace("*", "").splitlines() if line.startswith("|")]
    table_rows = {line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ")[1:] for line in lines}
    kinds = {"random policy": "random", "SFL, the paper's settings, run here": "paper", "SFL, our settings": "sfl"}
    for line, agent in kinds.items():
        found = [grids[f"{grid}-{agent}"] for grid in ("fourroom", "multiroom-n3")]
        expected = [next(row.success_percent for row in rows if row.level == "paper") for rows in found]
        for maze in ("sgm-random-spawn", "test-1-fixed-spawn", "test-4-fixed-spawn"):
            expected.append(mazes[f"{maze}-{agent}"][-1].success_percent)
        assert [float(cell) for cell in table_rows[line]] == pytest.approx(expected, abs=0.5), line


# ---- Sentences.


def words(page: str) -> str:
    return " ".join(read(page).split())


SFL = "docs/methods/sfl.md"


def test_what_is_said_of_the_papers_settings_in_mazes_is_so() -> None:
    page, runs = words(SFL), {maze: last_indicators("doom", f"{maze}-paper") for maze in MAZES}
    outside = [row for maze, rows in runs.items() if maze != "sgm-random-spawn" for row in rows]
    landmarks, localized, right = (
        sorted(scale * float(row[column]) for row in outside)
        for column, scale in (
            ("graph/landmark_count", 1),
            ("graph/localized_in_evaluation", 100),
            ("graph/localization_within_100", 100),
        )
    )
    assert f"has {landmarks[0]:.0f} to {landmarks[-1]:.0f} landmarks" in page
    assert f"localized at {localized[0]:.0f} to {localized[-1]:.0f}% of its decisions" in page
    assert f"at {right[0]:.0f} to {right[-2]:.0f}% of these ({right[-1]:.0f}% in test-4)" in page
    in_sgm = span(runs["sgm-random-spawn"], "graph/localization_within_100").replace("-", " to ")
    assert f"is right at {in_sgm}%" in page
    fixed = [row for maze, rows in runs.items() if "fixed" in maze for row in rows]
    assert {float(row["graph/edge_count"]) for row in fixed} == {0.0}
    played = [row for row in episodes("doom-episodes.csv.gz") if row.experiment == "test-1-fixed-spawn-paper"]
    lost = sum(row.outcome == "no_route" for row in played)
    assert f"In test-1 {lost} of {len(played)} episodes have no route" in page
    shown = {maze: joined(summary("doom")[f"{maze}-paper"], 1) for maze in MAZES}
    assert f"{shown['sgm-random-spawn']}% in SGM" in page
    assert f"{shown['test-1-fixed-spawn']}% in test-1" in page


def test_what_is_said_of_seeds_in_three_rooms_is_so() -> None:
    rows = episodes("minigrid-curves.csv.gz")
    rows = [row for row in rows if (row.experiment, row.level) == ("multiroom-n3-paper", "paper")]
    steps, seeds = (sorted({getattr(row, name) for row in rows}) for name in ("env_steps", "seed"))
    reached: dict[tuple[int, int], list[bool]] = {}
    for row in rows:
        reached.setdefault((row.env_steps, row.seed), []).append(row.success)
    shares = {step: [100 * fmean(reached[step, seed]) for seed in seeds] for step in steps[-6:]}
    *first, last = [f"{share:.0f}" for share in shares[steps[-1]]]
    assert f"the five end at {', '.join(first)} and {last}%" in words(SFL)
    means = [fmean(of_seeds) for of_seeds in shares.values()]
    assert f"between {min(means):.0f} and {max(means):.0f}% at the last six evaluations" in words(SFL)


def test_what_is_said_of_seeds_that_tuning_did_not_watch_is_so() -> None:
    rows = episodes("minigrid-episodes.csv.gz")

    def share(grid: str, level: str) -> float:
        own = [row for row in rows if (row.experiment, row.level) == (f"{grid}-sfl", level) and row.seed >= 4]
        return 100 * fmean(row.success for row in own)

    said = [f"`{level}` {' / '.join(f'{share(grid, level):.1f}' for grid in GRIDS)}" for level in ("paper", "any")]
    assert f"Seeds 4 and up alone: {', '.join(said)} (" in words(SFL)


def room_of(cell: tuple[int, int], layout: str) -> int:
    """Closed doors between it and the start."""
    plan = LAYOUTS[layout]
    doors = np.array([*plan.door_cells])
    at: Array = plan.walking_distances(np.array([plan.start, cell, *doors]))
    return int(np.sum(at[0, 2:] < at[0, 1]))


@pytest.mark.parametrize("rooms", [3, 4])
def test_what_is_said_of_starts_is_so(rooms: int) -> None:
    experiment = experiments.get(f"multiroom-n{rooms}-sfl")
    failed: list[list[int]] = [[] for _ in range(rooms)]
    tasks: dict[int, dict[int, tuple[int, int]]] = {}
    for row in episodes("minigrid-episodes.csv.gz"):
        if (row.experiment, row.level) == (experiment.name, "any"):
            if row.seed not in tasks:
                drawn = eval_tasks(experiment.env, experiment.eval, row.seed)
                starts = {task.pair: task.start for task in drawn if task.level == "any"}
                tasks[row.seed] = {pair: (int(s[0]), int(s[1])) for pair, s in starts.items() if s is not None}
            failed[room_of(tasks[row.seed][row.pair], f"MultiRoom-N{rooms}")].append(1 - int(row.success))
    *some, last = [f"{100 * np.mean(room):.0f}" for room in failed]
    assert f"{', '.join(some)} and {last}%" in words(SFL)


def test_what_is_said_of_thresholds_and_filters_is_so() -> None:
    notes = words(NOTES)
    runs = [f"sgm-random-spawn-sfl{end}" for end in ("-localize-0.80", "", "-localize-0.90", "-localize-0.95")]
    rows = {row["experiment"]: row for row in table("quarter-indicators.csv.gz") if row["env_steps"] == "500032"}
    known, right = (
        [f"{100 * float(rows[run][f'graph/{column}']):.0f}" for run in runs]
        for column in ("localized_in_evaluation", "localization_within_100")
    )
    assert "{}% of its decisions with `localize` 0.80, {}% with our 0.85, {}% with 0.90 and {}%".format(*known) in notes
    assert "right within 100 units at {}, {}, {} and {}% of these".format(*right) in notes
    ends = [
        f"test-1-fixed-spawn-sfl{end}"
        for end in ("", "-no-filter", "-failures-cost-nothing", "-neither-filter-nor-price")
    ]
    hardest = [f"{summary('quarter')[run][-1].success_percent:.0f}%" for run in ends]
    said = "{} becomes {} without the filter of edges, {} when failures cost nothing, and {} without both"
    assert said.format(*hardest) in words(SFL)
    lowest = min(
        row.success_percent for run, levels in summary("quarter").items() if run.startswith("sgm") for row in levels
    )
    assert f"every row of SGM has {lowest:.0f}% or more on every level" in words(SFL)
    counts = [f"{float(rows[run]['graph/edge_count']):,.0f}" for run in reversed(ends[:2])]
    shares = [f"{100 * float(rows[run]['graph/edges_across_walls']):.0f}" for run in reversed(ends[:2])]
    assert "{} instead of {} edges".format(*counts) in notes
    assert "{} instead of {}% cross a wall".format(*shares) in notes


def test_what_is_said_of_shared_starts_is_so() -> None:
    outcomes: dict[str, Counter[str]] = {}
    for row in episodes("tuning-episodes.csv.gz"):
        outcomes.setdefault(row.experiment, Counter())[row.outcome] += 1
    apart, merged = (outcomes[f"trial-starts-{kind}"] for kind in ("apart", "merged"))
    assert set(apart) == {"no_route", "reached"}
    assert set(merged) == {"timeout", "reached"}
    said = f"{merged['reached']} instead of {apart['reached']} of {apart.total()} reach the goal"
    assert f"All {apart['no_route']} episodes that fail" in words(NOTES)
    assert said in words(NOTES)
