"""docs/methods/sfl.md tells the presets as they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sfl import experiments
from sfl.api import Array
from sfl.method.config import UNUSED_PARTS, SFLConfig
from sfl.method.presets import as_released, ours_frames, paper_frames
from sfl.run.evaluate import eval_tasks
from sfl.run.folder import read_episodes
from sfl.worlds.grids import LAYOUTS

from .pages import ROOT, read

PAGE = "docs/methods/sfl.md"

PAPER_NAMES = {
    "features.norm": "alpha",
    "features.margin": "m",
    "features.positive-window": "K_p",
    "features.negative-min": "U_n",
    "features.negative-max": "L_n",
    "successor.gamma": "gamma",
    "successor.n-step": "n-step",
    "successor.huber-delta": "gradient clip delta",
    "successor.target-every": "update interval",
    "landmarks.add-threshold": "delta_add",
    "landmarks.localize-threshold": "delta_local",
    "landmarks.window": "W",
    "landmarks.candidates-per-add": "N_cand",
    "landmarks.add-every": "N_add",
    "landmarks.update-every": "N_update",
    "edges.threshold": "delta_edge",
    "edges.k-nearest": "k",
    "edges.temporal": "tau_temporal",
    "edges.form-every": "N_form-edges",
    "navigator.frontier-steps": "N_front",
    "navigator.steps-per-landmark": "n_land",
    "navigator.explore-steps": "N_explore, T_exp",
    "train-epsilon": "epsilon_train",
    "eval-epsilon": "epsilon_eval",
}


def options(config: Any, prefix: str = "") -> Iterator[tuple[str, object]]:
    """(option, value) of a configuration and of those inside it."""
    for field in dataclasses.fields(config):
        value, word = getattr(config, field.name), prefix + field.name.replace("_", "-")
        if isinstance(config, SFLConfig) and field.name in ("states", *UNUSED_PARTS[config.states]):
            continue
        if dataclasses.is_dataclass(value):
            yield from options(value, f"{word}.")
        else:
            yield word, value


def column(family: str, released: bool = False) -> dict[str, str]:
    """option -> value as text, for all MiniGrid presets of one family together, but for the ablation's."""
    presets = {}
    for name in experiments.names():
        agent, usual = experiments.get(name).agent, name != "world-sfl" and not name.endswith("-clustered")
        if name.endswith(f"-{family}") and usual and isinstance(agent, SFLConfig) and agent.states == "grid":
            chosen = as_released(agent) if released else agent
            presets[name.removesuffix(f"-{family}").removeprefix("multiroom-")] = dict(options(chosen))
    words = presets["fourroom"]
    return {word: together({env: text(values[word]) for env, values in presets.items()}) for word in words}


def together(values: dict[str, str]) -> str:
    """One value, FourRoom's and MultiRoom's, or each environment's."""
    fourroom, others = values["fourroom"], {value for env, value in values.items() if env != "fourroom"}
    if len(others) > 1:
        return ", ".join(f"{value} ({env})" for env, value in values.items())
    return fourroom if others == {fourroom} else f"{fourroom} / {others.pop()}"


def text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " ".join(map(text, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


def columns() -> list[dict[str, str]]:
    return [column("paper"), column("paper", released=True), column("sfl")]


def frame_columns() -> list[dict[str, str]]:
    """The paper's settings in ViZDoom, the released code's, and ours."""
    return [
        {word: text(value) for word, value in options(config)}
        for config in (paper_frames(), as_released(paper_frames()), ours_frames())
    ]


def settings_table(families: list[dict[str, str]]) -> str:
    """Options that have a name in the paper, and options on which the families differ."""
    rows = []
    for word in families[0]:
        values = [family[word] for family in families]
        if word in PAPER_NAMES or len(set(values)) > 1:
            rows.append(f"| `{word}` | {PAPER_NAMES.get(word, '')} | {' | '.join(values)} |\n")
    return "".join(rows)


def without_reason(reasons: str, paper: dict[str, str], ours: dict[str, str]) -> list[str]:
    """Settings of ours that depart from the paper's and that the text does not name."""
    return [word for word in paper if paper[word] != ours[word] and f"`{word}`" not in reasons]


def test_the_settings_table_is_that_of_the_presets() -> None:
    table = settings_table(columns())
    assert table in read(PAGE), f"put this table into {PAGE}:\n{table}"
    assert all(f"| `{word}` |" in table for word in PAPER_NAMES)


def test_the_settings_table_over_frames_is_that_of_the_presets() -> None:
    table = settings_table(frame_columns())
    found = over_frames().partition("|---|---|---|---|---|\n")[2]
    assert found == table, f"put this table into {PAGE}, 'Over frames':\n{table}"


def test_every_setting_of_ours_that_departs_from_the_paper_has_a_reason() -> None:
    paper, _, ours = columns()
    assert without_reason(read(PAGE).partition("### Ours")[2].partition("### Open choices")[0], paper, ours) == []
    paper, _, ours = frame_columns()
    assert without_reason(over_frames().partition("| option |")[0], paper, ours) == []


def over_frames() -> str:
    return read(PAGE).partition("## Over frames (ViZDoom)")[2].partition("\n## ")[0]


def test_the_mazes_have_the_settings_of_the_table() -> None:
    for name in experiments.names():
        agent, ours = experiments.get(name).agent, ours_frames()
        ablated = name.endswith("-frontiers")  # tests/test_experiments.py says what differs there
        if name.endswith("-spawn-sfl") and not ablated:
            if name.endswith("-fixed-spawn-sfl"):  # the text above the table says so
                ours = dataclasses.replace(ours, navigator=dataclasses.replace(ours.navigator, blame="both"))
            assert agent == ours, name


GRIDS = ("fourroom", "multiroom-n2", "multiroom-n3", "multiroom-n4")


def shares(rows: list[tuple[int, str, str, int]], level: str, seeds: range) -> list[str]:
    """Mean success in percent of ours on each grid."""
    found = [
        [reached for seed, grid, kind, reached in rows if (grid, kind) == (name, level) and seed in seeds]
        for name in GRIDS
    ]
    return [f"{100 * float(np.mean(reached)):.1f}" for reached in found]


def test_what_is_said_of_seeds_is_so() -> None:
    episodes = read_episodes(ROOT / "benchmarks" / "results" / "minigrid-episodes.csv.gz")
    named = [(row, row.experiment.removesuffix("-sfl")) for row in episodes if row.experiment.endswith("-sfl")]
    rows = [(row.seed, grid, row.level, int(row.success)) for row, grid in named if grid in GRIDS]
    later, first, page = range(4, 100), range(4), " ".join(read(PAGE).split())
    said = [f"`{level}` {' / '.join(shares(rows, level, later))}" for level in ("paper", "any")]
    assert f"Seeds 4 and up alone, from the same CSV: {', '.join(said)} (" in page
    assert f"Seeds 0 to 3 have {' and '.join(shares(rows, 'any', first)[2:])} on `any` of 3 and 4 rooms." in page


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
    for row in read_episodes(ROOT / "benchmarks" / "results" / "minigrid-episodes.csv.gz"):
        if (row.experiment, row.level) == (experiment.name, "any"):
            if row.seed not in tasks:
                drawn = eval_tasks(experiment.env, experiment.eval, row.seed)
                starts = {task.pair: task.start for task in drawn if task.level == "any"}
                tasks[row.seed] = {pair: (int(s[0]), int(s[1])) for pair, s in starts.items() if s is not None}
            failed[room_of(tasks[row.seed][row.pair], f"MultiRoom-N{rooms}")].append(1 - int(row.success))
    *some, last = [f"{100 * np.mean(room):.0f}" for room in failed]
    assert f"{', '.join(some)} and {last}%" in " ".join(read(PAGE).split())
