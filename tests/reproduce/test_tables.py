"""The tables as data, and the paper's numbers beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sfl import experiments
from sfl.baselines.config import ControllerConfig, SPTMConfig
from sfl.errors import UnknownNameError
from sfl.method.config import FrameSFLConfig
from sfl.reproduce.plan import Plan
from sfl.reproduce.tables import (
    ALL,
    FILE,
    OTHERS,
    PAPER_SEEDS,
    TABLES,
    Entry,
    Table,
    chosen_tables,
    paper_number,
    paper_numbers,
)

from .planning import planned

ENTRIES = [(table, entry) for table in TABLES.values() for entry in table.entries]


def test_the_tables_are_those_of_the_paper() -> None:
    assert list(TABLES) == [
        *("table-random", "table-fixed", "curves-minigrid", "curves-doom", "ablation-metric", "ablation-exploration"),
        *("ablation-landmarks", "ablation-thresholds", "ablation-filters", "ablation-ec"),
    ]
    assert [table.name for table in chosen_tables(ALL)] == list(TABLES)
    assert TABLES["table-random"].seeds == PAPER_SEEDS
    with pytest.raises(UnknownNameError, match=r"No table 'table-randon'\. Did you mean 'table-random'"):
        chosen_tables("table-randon")


@pytest.fixture(scope="module")
def plan() -> Plan:
    """One seed of everything, in full size."""
    return planned(list(TABLES.values()), Path("runs"), tiny=False, seeds=1)


def test_every_row_of_an_experiment_that_exists_can_be_planned(plan: Plan) -> None:
    """An option that its experiment lacks would otherwise show in the report only."""
    wrong = [lack for lack in plan.lacking if not lack.reason.startswith("there is no experiment")]
    assert wrong == []
    there = {
        entry.run for _, entry in ENTRIES if {entry.experiment, *entry.after, *entry.shared} <= set(experiments.names())
    }
    assert there <= {run.experiment.name for run in plan.runs}
    assert {"fourroom-sfl", "sgm-random-spawn-paper-add-0.70", "test-1-fixed-spawn-sfl-uniform-frontiers"} <= there


def test_options_change_what_the_row_says(plan: Plan) -> None:
    agents = {run.experiment.name: run.experiment.agent for run in plan.runs}

    def agent(name: str) -> FrameSFLConfig:
        found = agents[name]
        assert isinstance(found, FrameSFLConfig)
        return found

    plain = agent("sgm-random-spawn-paper")
    assert (plain.landmarks.add_threshold, plain.landmarks.localize_threshold) == (0.8, 0.9)  # rows without options
    assert plain.successor.learning_rate == 1e-4
    assert agent("sgm-random-spawn-paper-localize-0.95").landmarks.localize_threshold == 0.95
    bare = agent("test-1-fixed-spawn-paper-neither-filter-nor-cleanup").edges
    assert (bare.temporal, bare.k_nearest, bare.failure_limit) == (0, 0, 0)
    assert agent("test-1-fixed-spawn-sfl-uniform-frontiers").navigator.frontier == "uniform"


def test_the_ablation_of_the_metric_takes_the_networks_of_the_controller(tmp_path: Path) -> None:
    plan = planned([TABLES["ablation-metric"]], tmp_path, "reachability", seeds=2)
    assert plan.lacking == ()
    runs = {(run.experiment.name, run.seed): run for run in plan.runs}
    for seed in (0, 1):
        run, source = runs["sgm-random-spawn-paper-reachability", seed], runs["sgm-random-spawn-controller", 0]
        assert run.after == (source.path,)
        file = source.path / "checkpoints" / "last" / "networks.safetensors"
        assert run.words[-2:] == ("--agent.metric.networks", str(file))
    assert isinstance(run.experiment.agent, FrameSFLConfig)
    assert run.experiment.agent.metric.measure == "reachability"


def test_networks_are_tuned_once_for_a_maze_and_explorers_trained_for_each_seed() -> None:
    plan = planned([TABLES["table-fixed"]], Path("runs"), "^test-1-fixed-spawn-ec-sptm", tiny=False, seeds=3)
    made = [(run.experiment.name, run.seed) for run in plan.runs]
    names = ("test-1-fixed-spawn-ec", "test-1-fixed-spawn-controller", "test-1-fixed-spawn-ec-sptm")
    assert made == [*((name, 0) for name in names), *((name, seed) for seed in (1, 2) for name in names[::2])]
    last = plan.runs[-1]
    explorer, controller = Path("runs/test-1-fixed-spawn-ec/seed-0002"), Path(f"runs/{names[1]}/seed-0000")
    assert last.after == (explorer, controller)
    assert isinstance(last.experiment.agent, SPTMConfig)
    assert last.experiment.agent.memory.explorer == str(explorer)
    assert last.experiment.agent.networks == str(controller / "checkpoints" / "last" / "networks.safetensors")


def test_every_seed_of_the_controllers_row_evaluates_the_networks_of_its_first_run() -> None:
    plan = planned([TABLES["table-random"]], Path("runs"), "Visual controller", tiny=False, seeds=2)
    steps = [(run.experiment.name, run.seed, run.experiment.train.steps) for run in plan.runs if "sgm" in run.title]
    tuned = "sgm-random-spawn-controller"
    assert steps == [(tuned, 0, 4_000_000), (f"{tuned}-tuned", 0, 1_000), (f"{tuned}-tuned", 1, 1_000)]
    agent = plan.runs[-1].experiment.agent
    assert isinstance(agent, ControllerConfig)
    assert agent.updates_per_step == 0
    assert plan.runs[-1].experiment.train.env_count < plan.runs[0].experiment.train.env_count / 10  # games start slowly


def test_rows_with_networks_of_ec_read_its_run_of_the_same_seed() -> None:
    plan = planned([TABLES["ablation-ec"]], Path("runs"), "ec-networks$", tiny=False, seeds=2)
    second = {run.experiment.name: run for run in plan.runs if run.seed == 1}
    explorer = second.pop("test-1-fixed-spawn-ec").path
    assert len(second) == 3
    for run in second.values():
        assert run.after == (explorer,)
        assert getattr(run.experiment.agent, "networks", "").startswith(f"{explorer}/")


@pytest.mark.parametrize(("table", "entry"), ENTRIES, ids=lambda part: getattr(part, "run", getattr(part, "name", "")))
def test_every_row_has_a_column_and_names_a_row_of_the_paper(table: Table, entry: Entry) -> None:
    columns = [column for column in table.columns if column.place == entry.place]
    assert columns
    rows = {row for name, row, *_ in paper_numbers() if name == table.name}
    figure_only = {"mss"} if table.name == "curves-minigrid" else set()
    assert entry.paper in {*rows, *figure_only, ""}
    assert bool(entry.name) or not entry.options or bool(entry.after + entry.shared), (
        "a run with options needs a name of its own"
    )
    assert all(column.measure in {*OTHERS, "easy", "medium", "hard", "hardest", "paper", "any"} for column in columns)


@pytest.mark.parametrize(
    ("cell", "value", "error"),
    [
        (("table-random", "sfl", "sgm", "hard"), 67, 1.2),
        (("table-random", "sgm", "sgm", "medium"), 64, None),
        (("table-random", "controller", "test-6", "easy"), 89, 0.7),
        (("table-fixed", "ec-sptm", "test-1", "medium"), 16, None),
        (("table-fixed", "sfl", "test-4", "hardest"), 23, None),
        (("ablation-metric", "reachability", "sgm", "medium"), 57, 2.6),
        (("ablation-exploration", "uniform", "test-1", "often"), 72.3, 1.9),
        (("ablation-landmarks", "clustered", "multiroom-n3", "paper"), 35.6, 18.8),
        (("ablation-landmarks", "progressive", "fourroom", "landmark distance"), 6.72, 0.43),
        (("ablation-thresholds", "localize-0.80", "sgm", "hard"), 24, None),
        (("ablation-filters", "none", "test-1", "edges"), 8316, None),
        (("ablation-ec", "ec-ec-sptm", "test-1", "hardest"), 4, None),
    ],
)
def test_cells_of_the_paper(cell: tuple[str, str, str, str], value: float, error: float | None) -> None:
    number = paper_number(*cell)
    assert number is not None
    assert (number.value, number.error) == (value, error)
    assert number.source


def test_the_papers_numbers_have_the_shape_of_their_tables() -> None:
    body = json.loads(FILE.read_text())
    assert list(body) == list(TABLES)
    for table, blocks in body.items():
        columns = {(column.place, column.measure) for column in TABLES[table].columns}
        for block in blocks:
            assert {tuple(column) for column in block["columns"]} <= columns
            for numbers in block["rows"].values():
                assert {len(column) for column in numbers.values()} == {len(block["columns"])}
    assert {len(block["rows"]) for block in body["ablation-ec"]} == {11 + 2}  # with MSS and SFL for reference
    assert paper_number("table-fixed", "mss", "sgm", "easy") is None
