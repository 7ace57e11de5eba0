"""What docs/methods/sfl.md says of frontiers is what the rows say."""

from __future__ import annotations

import csv
import math
import re
from statistics import mean, stdev

from sfl.old_names import new_name

from .pages import ROOT

RULES = {rule: f"test-1-fixed-spawn-sfl-{rule}-frontiers" for rule in ("inverse-visits", "uniform")}
COLUMNS = {"visited": "explore/coverage", "often": "explore/coverage_often"}


def test_the_table_of_frontiers_follows_the_rows() -> None:
    with (ROOT / "benchmarks/results/frontiers-coverage.csv").open() as file:
        rows = [{**row, "experiment": new_name(row["experiment"])} for row in csv.DictReader(file)]
    section = (ROOT / "docs/methods/sfl.md").read_text().split("### Frontiers")[1].split("\n###")[0]
    table = re.findall(r"^\| (\d+,000) \| (.*) \|$", section, re.MULTILINE)
    assert len(table) == 5
    for steps, cells in table:
        expected = [cell(rows, rule, what, steps) for what in COLUMNS for rule in RULES]
        assert cells.split(" | ") == expected, steps


def cell(rows: list[dict[str, str]], rule: str, what: str, steps: str) -> str:
    """Mean and standard error of what each seed had at its first row from there on."""
    seeds: dict[str, float] = {}
    for row in rows:  # in the order of seeds and steps
        if row["experiment"] == RULES[rule] and int(row["env_steps"]) >= int(steps.replace(",", "")):
            seeds.setdefault(row["seed"], 100 * float(row[COLUMNS[what]]))
    assert list(seeds) == ["0", "1", "2"]
    shares = list(seeds.values())
    return f"{mean(shares):.1f} ± {stdev(shares) / math.sqrt(len(shares)):.1f}"
