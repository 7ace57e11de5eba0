"""docs/methods/mss.md tells the presets as they are, and what came of them."""

from __future__ import annotations

import numpy as np

from sfl import experiments

from .pages import ROOT, benchmark, read
from .test_agents import options, text

PAGE = "docs/methods/mss.md"

PAPER_NAMES = {
    "uvfa.learning-rate": "learning rate",
    "uvfa.batch-size": "batch size",
    "replay-size": "replay buffer size",
    "uvfa.gamma": "discount gamma",
    "uvfa.target-every": "target update interval",
    "map.clip": "clip threshold",
    "map.landmarks": "max landmarks",
    "uvfa.future": "HER future step limit",
    "plan-share": "planner epsilon_plan",
    "train-epsilon": "explore epsilon_explore",
    "eval-epsilon": "evaluation epsilon_eval",
    "reach": "delta_reach",
}
COLUMNS = ("fourroom-mss", "multiroom-n4-mss", "test-1-fixed-spawn-mss")


def settings_table() -> str:
    columns = [{word: text(value) for word, value in options(experiments.get(name).agent)} for name in COLUMNS]
    words = dict.fromkeys(word for column in columns for word in column)
    rows = (
        f"| `{word}` | {PAPER_NAMES.get(word, '')} | {' | '.join(c.get(word, '-') for c in columns)} |"
        for word in words
    )
    return "\n".join(rows) + "\n"


def test_the_settings_table_is_that_of_the_presets() -> None:
    table = settings_table()
    assert table in read(PAGE), f"put this table into {PAGE}:\n{table}"
    assert all(f"| `{word}` |" in table for word in PAPER_NAMES)


def test_presets_of_a_kind_differ_in_the_world_only() -> None:
    agents = {name: experiments.get(name).agent for name in experiments.names() if "-mss" in name}
    assert agents["multiroom-n2-mss"] == agents["multiroom-n3-mss"] == agents["multiroom-n4-mss"]
    assert agents["test-1-fixed-spawn-mss"] == agents["test-4-fixed-spawn-mss"]
    assert agents["test-1-fixed-spawn-mss-oracle"] != agents["test-1-fixed-spawn-mss"]
    assert {name for name, agent in agents.items() if getattr(agent, "oracle", False)} == {
        "test-1-fixed-spawn-mss-oracle"
    }


def test_tiny_reaches_every_part() -> None:
    for name in COLUMNS:
        tiny = experiments.tiny(experiments.get(name))
        agent = dict(options(tiny.agent))
        assert int(str(agent["uvfa.start-step"])) + int(str(agent["map.redraw-every"])) < tiny.train.eval_every


def test_the_results_are_those_of_the_rows() -> None:
    rows = benchmark("curves").read_rows(ROOT / "benchmarks" / "results" / "minigrid-curves.csv.gz")
    page, grids = read(PAGE), ("fourroom", "multiroom-n2", "multiroom-n3", "multiroom-n4")

    def cell(experiment: str, step: int) -> str:
        own = [row for row in rows if (row.experiment, row.env_steps) == (experiment, step)]
        shares = [np.mean([row.success for row in own if row.level == level]) for level in ("paper", "any")]
        return " / ".join(f"{100 * share:.1f}" for share in shares)

    ends = {grid: max(row.env_steps for row in rows if row.experiment == f"{grid}-sfl") for grid in grids}
    lines = {
        "MSS after as many steps as ours": [cell(f"{grid}-mss", ends[grid]) for grid in grids],
        "MSS after 300,000 steps": [cell(f"{grid}-mss", 300_000) for grid in grids],
        "ours": [cell(f"{grid}-sfl", ends[grid]) for grid in grids],
    }
    for name, cells in lines.items():
        assert f"| {name} | {' | '.join(cells)} |\n" in page
