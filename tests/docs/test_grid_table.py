"""The table of MiniGrid, wherever it stands, says what the rows in benchmarks/results/ say."""

from __future__ import annotations

import re
from statistics import fmean

import pytest

from sfl.run.report import summarise_runs

from .pages import ROOT, benchmark, read

ROWS = ROOT / "benchmarks" / "results" / "minigrid-episodes.csv.gz"
CURVES = ROWS.with_name("minigrid-curves.csv.gz")
GRIDS = ("fourroom", "multiroom-n2", "multiroom-n3", "multiroom-n4")
LINES = {"random policy": "random", "the paper's settings (`*-paper`)": "paper", "ours (`*-sfl`)": "sfl"}
PAGES = ("README.md", "docs/guides/reproduce.md")


@pytest.mark.parametrize("page", [*PAGES, "docs/methods/sfl.md"])
@pytest.mark.parametrize("level", ["paper", "any"])
@pytest.mark.parametrize("line", LINES)
def test_the_table_is_that_of_the_rows(line: str, level: str, page: str) -> None:
    found = {row.experiment: row for row in summarise_runs([ROWS]) if row.level == level}
    ours = [found[f"{grid}-{LINES[line]}"] for grid in GRIDS]
    cells = [f"{row.success_percent:.1f} ± {row.standard_error:.1f}" for row in ours]
    row = f"| {line}, `{level}` | {' | '.join(cells)} |\n"
    assert row in read(page).replace("**", ""), f"{page} needs: {row}"


@pytest.mark.parametrize("page", PAGES)
def test_steps_and_seeds_are_those_of_the_rows(page: str) -> None:
    found = {row.experiment: row for row in summarise_runs([ROWS]) if row.level == "paper"}
    kinds = [[found[f"{grid}-{kind}"] for kind in ("paper", "sfl", "random")] for grid in GRIDS]
    steps = " | ".join(f"{paper.env_steps:,} / {ours.env_steps:,}" for paper, ours, _ in kinds)
    seeds = " | ".join(" / ".join(str(row.seeds) for row in rows) for rows in kinds)
    text = read(page)
    assert f"| environment steps, paper's settings / ours | {steps} |\n" in text
    assert f"| seeds, paper's settings / ours / random | {seeds} |\n" in text


@pytest.mark.parametrize("page", PAGES)
def test_what_is_said_of_seeds_in_three_rooms_is_so(page: str) -> None:
    rows = [
        row
        for row in benchmark("curves").read_rows(CURVES)
        if row.experiment == "multiroom-n3-paper" and row.level == "paper"
    ]
    steps, seeds = (sorted({getattr(row, name) for row in rows}) for name in ("env_steps", "seed"))
    reached: dict[tuple[int, int], list[bool]] = {}
    for row in rows:
        reached.setdefault((row.env_steps, row.seed), []).append(row.success)
    shares = {step: [100 * fmean(reached[step, seed]) for seed in seeds] for step in steps[-6:]}
    text = re.sub(r"\s+", " ", read(page))
    ends = [f"{share:.0f}" for share in shares[steps[-1]]]
    assert f"the five end at {', '.join(ends[:-1])} and {ends[-1]}%" in text
    means = [fmean(of_seeds) for of_seeds in shares.values()]
    assert f"between {min(means):.0f} and {max(means):.0f}% at the last six evaluations" in text
