"""What a row took: its own run, the runs that it reads, and what its networks took before; on tiny runs."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from sfl import experiments
from sfl.baselines.config import ControllerConfig, ECConfig, SGMConfig, WalksConfig
from sfl.method.config import MetricConfig, SFLConfig
from sfl.nn.weights import save_networks
from sfl.registry import make_agent
from sfl.reproduce.budget import (
    CSV_COLUMNS,
    HEAD,
    Budget,
    budget_of,
    budget_rows,
    budget_table,
    parameter_count,
    run_phases,
    time_words,
)
from sfl.reproduce.tables import Entry, last_value
from sfl.run.folder import RunFolder, read_config
from sfl.run.machine import machine_words
from sfl.run.settings import EvalConfig, Experiment, TrainConfig
from sfl.run.train import train
from sfl.worlds import MiniGridConfig

ENTRY = Entry("EC + SGM", "fourroom", "sgm-x", after=("ec-x",), shared=("controller-x",))
CARD = {"data": "1,200 frames of 160x120 from random walks", "time": "collecting 3 s, training 40 s on a GPU"}


@dataclass
class Made:
    runs: Path
    controller: RunFolder
    explorer: RunFolder
    reader: RunFolder

    def budget(self) -> Budget:
        return budget_of(self.runs, ENTRY, [self.reader])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """SGM of seed 1 with the networks of the first controller and EC's run of its own seed, all from one file."""
    folder = tmp_path_factory.mktemp("budgets")
    runs, file = folder / "runs", folder / "networks.safetensors"
    tiny, env = experiments.tiny(experiments.get("fourroom-ec")), MiniGridConfig()
    assert isinstance(tiny.agent, ECConfig)
    agent = ControllerConfig("", tiny.agent.retrieval, tiny.agent.locomotion, updates_per_step=0.05, replay_size=300)
    fresh = make_agent(agent, env.spec(), 0, "cpu").state_dict().networks
    cards = json.dumps({"retrieval": {**CARD, "steps": "60"}, "locomotion": {**CARD, "steps": "70"}})
    tensors = {name: torch.from_numpy(value) for name, value in fresh.items()}
    save_networks(tensors, file, {"networks": "locomotion retrieval", "cards": cards})
    short = TrainConfig(steps=400, env_count=4, eval_every=0, checkpoint_every=200, log_every=40)
    tasks = EvalConfig(2, parallel=2)

    def run(name: str, config: ControllerConfig | ECConfig | SGMConfig, seed: int, steps: int = 400) -> RunFolder:
        return train(Experiment(name, env, config, replace(short, steps=steps), tasks), seed, runs, "cpu")

    controller = run("controller-x", replace(agent, networks=str(file)), 0)
    explorer = run("ec-x", replace(tiny.agent, networks=str(file)), 1)
    memory = WalksConfig(steps=120, explorer=str(explorer.path), explorer_checkpoint="000000200")
    tuned = str(controller.last / "networks.safetensors")
    reader = run("sgm-x", SGMConfig(tuned, agent.retrieval, agent.locomotion, 0.0, memory=memory), 1, 160)
    return Made(runs, controller, explorer, reader)


def test_all_phases_are_counted_and_a_file_that_two_runs_read_once(made: Made) -> None:
    budget = made.budget()
    assert [(phase.name, phase.source, phase.spent.env_steps) for phase in budget.phases] == [
        ("pre-training", "locomotion (networks.safetensors)", 1_200),
        ("pre-training", "retrieval (networks.safetensors)", 1_200),
        ("exploration", "ec-x", 400),
        ("tuning", "controller-x", 400),
        ("filling", "sgm-x", 120),
        ("cleanup", "sgm-x", 40),
    ]
    before, known = budget.total(before=True)
    assert (before.env_steps, before.gradient_steps, before.seconds, known) == (2_400, 130, 86, True)
    within, known = budget.total(before=False)
    steps = [last_value(run, "train/gradient_steps") for run in (made.controller, made.explorer)]
    seconds = [last_value(run, "time/wall_seconds") for run in (made.controller, made.explorer, made.reader)]
    assert known
    assert (within.env_steps, within.gradient_steps) == (960, sum(value or 0 for value in steps))
    assert within.seconds == pytest.approx(sum(value or 0 for value in seconds))


def test_phases_of_one_run_share_its_time(made: Made) -> None:
    filling, cleanup = run_phases(made.reader)
    assert filling.spent.seconds is not None
    assert cleanup.spent.seconds is not None
    whole = last_value(made.reader, "time/wall_seconds")
    assert whole is not None
    assert filling.spent.seconds + cleanup.spent.seconds == pytest.approx(whole)
    assert 0 < filling.spent.seconds < whole
    assert filling.machine == machine_words(json.loads((made.reader.path / "system.json").read_text()))
    assert filling.machine.startswith("CPU, 1 of ")


def test_parameters_are_trained_where_some_run_of_the_maze_changed_them(made: Made) -> None:
    budget = made.budget()
    controller, explorer, reader = map(parameter_count, (made.controller, made.explorer, made.reader))
    assert controller is not None
    assert explorer is not None
    assert (budget.trained, budget.frozen) == (controller + explorer, 0)
    alone = budget_of(made.runs, replace(ENTRY, after=(), shared=()), [made.reader])
    assert (alone.trained, alone.frozen) == (0, reader)
    assert reader == controller < explorer


def test_a_run_left_without_its_weights_has_a_budget_without_parameters(made: Made) -> None:
    """People who keep the tables of a run throw away what is large."""
    weights = made.explorer.last.resolve() / "networks.safetensors"
    kept = weights.rename(weights.with_suffix(".kept"))
    try:
        budget = made.budget()
    finally:
        kept.rename(weights)
    assert (budget.trained, budget.frozen) == (None, 0)
    assert budget.phases == made.budget().phases
    line = dict(zip(HEAD, budget_table([budget])[1], strict=True))
    assert (line["parameters trained"], line["parameters frozen"]) == ("?", "0")


def test_networks_that_a_run_goes_on_with_are_counted_once(made: Made) -> None:
    """SGM's own gradient steps are pretended: its networks are still those of the controller."""
    file = made.reader.path / "train.csv"
    before = file.read_text()
    head, *lines = before.splitlines()
    column = head.split(",").index("train/gradient_steps")
    cells = [line.split(",") for line in lines]
    pretended = [",".join([*line[:column], "5", *line[column + 1 :]]) for line in cells]
    try:
        file.write_text("\n".join([head, *pretended]) + "\n")
        budget = made.budget()
    finally:
        file.write_text(before)
    more, usual = (one.total(before=False)[0].gradient_steps or 0 for one in (budget, made.budget()))
    assert more == usual + 5
    assert budget.trained == made.budget().trained


def test_the_network_that_a_metric_takes_over_is_counted_once(made: Made) -> None:
    tiny = experiments.tiny(experiments.get("fourroom-sfl"))
    assert isinstance(tiny.agent, SFLConfig)
    landmarks = replace(tiny.agent.landmarks, add_threshold=0.52, localize_threshold=0.5, window=3)
    config = read_config(made.controller.path)[0].agent
    assert isinstance(config, ControllerConfig)
    metric = MetricConfig("reachability", str(made.controller.last / "networks.safetensors"), config.retrieval)
    agent = replace(tiny.agent, landmarks=landmarks, metric=metric)
    run = train(replace(tiny, name="metric-x", agent=agent), 0, made.runs, "cpu")
    entry = Entry("R", "fourroom", "metric-x", shared=("controller-x",))
    alone, controller = parameter_count(run, without=("retrieval",)), parameter_count(made.controller)
    assert alone is not None
    assert controller is not None
    assert budget_of(made.runs, entry, [run]).trained == alone + controller


def test_a_run_left_without_its_checkpoints_is_asked_by_its_tables(made: Made, tmp_path: Path) -> None:
    kept = made.explorer.checkpoints.rename(tmp_path / "checkpoints")
    try:
        budget = made.budget()
    finally:
        kept.rename(made.explorer.checkpoints)
    assert budget.phases == made.budget().phases
    assert budget.trained is None


def test_what_is_not_known_is_said(made: Made) -> None:
    lost = budget_of(made.runs, replace(ENTRY, after=("lost",)), [made.reader])
    _, known = lost.total(before=False)
    assert not known
    line = dict(zip(HEAD, budget_table([lost])[1], strict=True))
    assert (line["env steps"], line["phases"]) == ("≥ 560", "training ? + tuning 400 + filling 120 + cleanup 40")
    assert line["env steps before"] == "2,400"
    rows = budget_rows("t", [lost])
    assert {row["phase"]: row["env_steps"] for row in rows}["all in the maze"] is None


def test_tables_for_people_and_programs(made: Made) -> None:
    budget = made.budget()
    line = dict(zip(HEAD, budget_table([budget])[1], strict=True))
    assert line["env steps"] == "960"
    assert line["phases"] == "exploration 400 + tuning 400 + filling 120 + cleanup 40"
    assert (line["env steps before"], line["gradient steps before"], line["time before"]) == ("2,400", "130", "86 s")
    assert line["parameters trained"] == f"{budget.trained:,.0f}"
    rows = budget_rows("table-x", [budget])
    assert all(tuple(row) == CSV_COLUMNS for row in rows)
    assert [row["phase"] for row in rows[-2:]] == ["all before the maze", "all in the maze"]
    assert rows[-1]["parameters_trained"] == budget.trained
    assert sum(row["env_steps"] for row in rows[2:-2]) == rows[-1]["env_steps"] == 960


@pytest.mark.parametrize("noted", [None, 7, [{"a": 1}]])
def test_a_run_that_did_not_note_its_pretraining_is_asked_by_its_configuration(made: Made, noted: object) -> None:
    facts = made.controller.path / "system.json"
    before = facts.read_text()
    try:
        facts.write_text(json.dumps(json.loads(before) | {"pretraining": noted}))
        entry = Entry("Controller", "fourroom", "controller-x")
        assert budget_of(made.runs, entry, [made.controller]).total(before=True)[0].env_steps == 2_400
    finally:
        facts.write_text(before)


def test_times_are_in_units_that_can_be_read() -> None:
    words = {0: "0 s", 4.26: "4.3 s", 99.4: "99 s", 99.6: "1.7 min", 150: "2.5 min", 3_600: "60 min", 90_000: "25 h"}
    assert {seconds: time_words(seconds) for seconds in words} == words


@pytest.mark.parametrize("damage", ["gone", "{", "[]"])
def test_a_damaged_side_file_leaves_the_others_to_be_reported(tmp_path: Path, damage: str) -> None:
    """The numbers of a report do not depend on them."""
    tiny = experiments.tiny(experiments.get("fourroom-random"))
    run = train(tiny, runs_dir=tmp_path, device="cpu")
    facts = run.path / "system.json"
    facts.unlink() if damage == "gone" else facts.write_text(damage)
    (run.last / "networks.safetensors").write_text("nothing of the kind")
    (run.path / "train.csv").write_bytes(b"\xff\x00env_steps\n\xfe\n")
    assert [phase.name for phase in run_phases(run)] == ["training"]
    assert parameter_count(run) is None
    assert last_value(run, "time/wall_seconds") is None
