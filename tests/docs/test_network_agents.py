"""docs/methods/controller.md, sptm.md and sgm.md tell the presets as they are."""

from __future__ import annotations

import csv
import gzip
from collections import Counter

import numpy as np
import pytest

from sfl import experiments
from sfl.baselines.config import ControllerConfig, SGMConfig, SPTMConfig
from sfl.method.config import NavigatorConfig
from sfl.registry import AgentConfig
from sfl.run.folder import read_episodes
from sfl.run.report import summarise_runs

from .pages import ROOT, read
from .test_agents import options, text

RESULTS = ROOT / "benchmarks" / "results"

DEFAULTS: dict[str, AgentConfig] = {"controller": ControllerConfig(), "sptm": SPTMConfig(), "sgm": SGMConfig()}


def presets(method: str) -> list[AgentConfig]:
    names = [name for name in experiments.names() if f"-spawn-{method}-" in f"{name}-"]
    return [experiments.get(name).agent for name in names]


def settings_table(method: str) -> str:
    """Every option but the file; of networks for the controller alone, of the navigator where it departs from SFL's."""
    preset, usual = dict(options(presets(method)[0])), dict(options(DEFAULTS[method]))
    walks = {f"navigator.{word}": value for word, value in options(NavigatorConfig())}
    rows = []
    for word, value in preset.items():
        elsewhere = word.split(".")[0] in ("retrieval", "locomotion") and method != "controller"
        if word != "networks" and not elsewhere and walks.get(word) != value:
            rows.append(f"| `{word}` | {text(value)} | {text(usual[word])} |\n")
    return "".join(rows)


@pytest.mark.parametrize("method", DEFAULTS)
def test_the_settings_table_is_that_of_the_presets(method: str) -> None:
    table, page = settings_table(method), f"docs/methods/{method}.md"
    assert read(page).count(table) == 1, f"put this table into {page}:\n{table}"


@pytest.mark.parametrize("method", DEFAULTS)
def test_all_mazes_have_the_settings_of_the_table(method: str) -> None:
    first, *others = (
        {word: value for word, value in options(agent) if word != "networks"} for agent in presets(method)
    )
    assert all(other == first for other in others)


def test_the_table_of_trials_is_that_of_the_rows() -> None:
    levels: dict[str, list[str]] = {}
    for row in summarise_runs([RESULTS / "tuning-episodes.csv.gz"]):
        levels.setdefault(row.experiment, []).append(f"{row.success_percent:.0f}")
    with gzip.open(RESULTS / "tuning-indicators.csv.gz", "rt", encoding="utf-8", newline="") as file:
        indicators = list(csv.DictReader(file))
    lines = {line.split(" | ")[0]: line for line in read("docs/methods/controller.md").splitlines() if " | " in line}
    for run, cells in levels.items():
        said = []
        for name in ("localized_in_evaluation", "localization_within_100"):
            shares = [float(row[f"graph/{name}"] or "nan") for row in indicators if row["experiment"] == run]
            said.append("" if np.isnan(shares).any() else f" {100 * np.mean(shares):.0f}")
        assert lines[f"| `{run}`"].endswith(f" | {' / '.join(cells)} |{said[0]} |{said[1]} |"), run


def test_what_is_said_of_shared_starts_is_what_the_rows_say() -> None:
    outcomes: dict[str, Counter[str]] = {}
    for row in read_episodes(RESULTS / "tuning-episodes.csv.gz"):
        outcomes.setdefault(row.experiment, Counter())[row.outcome] += 1
    apart, merged = (outcomes[f"trial-starts-{kind}"] for kind in ("apart", "merged"))
    assert set(apart) == {"no_route", "reached"}
    assert set(merged) == {"timeout", "reached"}
    reached = f"{merged['reached']} instead of {apart['reached']}"
    assert f"all {apart['no_route']} episodes that fail" in read("docs/methods/controller.md")
    assert f"{reached} of {apart.total()} reach the goal" in read("docs/methods/controller.md")
    page = " ".join(read("docs/methods/ec-sptm.md").split())
    assert (
        f"{apart['no_route']} of {apart.total()} episodes failed for want of a route before and none does now" in page
    )
    assert f"{reached} reach the goal" in page


def test_the_scores_are_those_of_the_rows() -> None:
    mazes: dict[str, dict[tuple[str, str], str]] = {}
    with (RESULTS / "network-eval.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            scores = mazes.setdefault(f"{row['maze']} | {row['unseen']}", {})
            scores[row["network"], row["case"]] = f"{100 * float(row['accuracy']):.0f}"
    shown = (("retrieval", "near"), ("retrieval", "far"), *(("locomotion", ahead) for ahead in "135"))
    lines = [f"| {maze} | {' | '.join(scores[case] for case in shown)} |\n" for maze, scores in mazes.items()]
    assert read("docs/methods/controller.md").count("".join(lines)) == 1
