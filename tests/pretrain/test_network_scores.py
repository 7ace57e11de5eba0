"""How often networks are right: counted another way, the same on any machine, and refused where it makes no sense."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from sfl.api import EnvSpec
from sfl.baselines.config import LocomotionConfig
from sfl.baselines.networks import Locomotion, ReachabilityDraw, Retrieval
from sfl.cli import main
from sfl.method.config import RetrievalConfig
from sfl.nn.weights import save_networks
from sfl.pretrain.config import NetworkJudgement
from sfl.pretrain.networks import SHAPE, NetworkRow, even_action_examples, judge_walks, network_cells
from sfl.pretrain.walks import judging_generators
from sfl.seeding import spawn
from sfl.worlds.doom.protocol import ACTIONS

from .made import made_walks

R, L = RetrievalConfig(encoder="compact", hidden=32, layers=1), LocomotionConfig(encoder="compact", ahead=3)
SMALL = [
    *("--retrieval.encoder", "compact", "--retrieval.hidden", "32", "--retrieval.layers", "1"),
    *("--locomotion.encoder", "compact", "--locomotion.ahead", "3"),
    *("--walks", "2", "--walk-length", "60", "--pairs", "40", "--chases", "30", "--device", "cpu"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with networks that have learned nothing."""
    folder, spec = tmp_path_factory.mktemp("networks"), EnvSpec(SHAPE, "uint8", len(ACTIONS))
    arrays = {}
    for network in (Retrieval(R, spec, 0, "cpu"), Locomotion(L, spec, 0, "cpu")):
        arrays |= {f"{network.name}.{key}": value for key, value in network.network.state_dict().items()}
    save_networks(arrays, folder / "both.safetensors", {})
    only = {key: value for key, value in arrays.items() if key.startswith("retrieval.")}
    save_networks(only, folder / "r.safetensors", {})
    save_networks({"encoder.weight": torch.zeros(2, 2)}, folder / "other.safetensors", {})
    return folder


def test_examples_of_l_are_as_many_of_each_distance_and_stay_in_their_walk() -> None:
    walks = made_walks(mazes=1, per_maze=3, length=8)
    chases = even_action_examples(600, 3, walks, np.random.default_rng(0))
    before, now, goal = chases.times
    assert np.bincount(goal - now).tolist() == [0, 200, 200, 200]
    assert (now.min(), goal.max()) == (0, 7)
    assert ((now - before == 1) | ((now == 0) & (before == 0))).all()
    assert set(chases.walks.tolist()) == {0, 1, 2}


def test_shares_are_those_of_examples_looked_at_one_by_one() -> None:
    walks, spec = made_walks(mazes=1, per_maze=2, length=60), EnvSpec((60, 80, 3), "uint8", len(ACTIONS))
    retrieval, locomotion = Retrieval(R, spec, 1, "cpu"), Locomotion(L, spec, 1, "cpu")
    judgement = NetworkJudgement(pairs=20, chases=9, retrieval=R, locomotion=L)
    rows = judge_walks(retrieval, locomotion, walks, "office", judgement)
    assert {(row.maze, row.unseen) for row in rows} == {("office", "maze")}
    found = {(row.network, row.case): row for row in rows}

    config = RetrievalConfig(encoder="compact", hidden=32, layers=1, batch_size=20)
    pairs = ReachabilityDraw(config, walks.mazes, walks.length)(spawn(0, ["pairs/office"])["pairs/office"])
    for near, case in ((True, "near"), (False, "far")):
        right = []
        for number in np.flatnonzero(pairs.near == near):
            one, other = (walks.frames[pairs.walks[number], time][None] for time in pairs.times[:, number])
            chance = float(retrieval.reachable(retrieval.features(one), retrieval.features(other)))
            right.append((chance >= 0.5) == near)
        assert (found["retrieval", case].accuracy, found["retrieval", case].examples) == (np.mean(right), 10)
        assert found["retrieval", case].chance == 0.5

    chases = even_action_examples(9, 3, walks, spawn(0, ["chases/office"])["chases/office"])
    for far in (1, 2, 3):
        right = []
        for number in np.flatnonzero(chases.times[2] - chases.times[1] == far):
            walk, (before, now, goal) = chases.walks[number], chases.times[:, number]
            views = walks.frames[walk, [before, now, goal]].unsqueeze(1)
            right.append(int(locomotion.scores(views).argmax()) == walks.actions[walk, now])
        assert found["locomotion", str(far)].accuracy == np.mean(right)
        assert found["locomotion", str(far)].chance == pytest.approx(1 / 7)


def test_walks_depend_on_the_maze_alone() -> None:
    among, alone = judging_generators(["small", "office"], 3), judging_generators(["office"], 3)
    assert [rng.integers(1_000_000) for rng in among[2:]] == [rng.integers(1_000_000) for rng in alone]
    assert len({rng.integers(1_000_000) for rng in (*among, *judging_generators(["office"], 4))}) == 6


def test_rows_do_not_depend_on_workers(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for workers in ("1", "2"):
        words = ["--mazes", "office", "--workers", workers, "--json"]
        assert main(["network", "eval", str(place / "both.safetensors"), *SMALL, *words]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]
    assert [(row["network"], row["case"]) for row in found[0]] == [
        *(("retrieval", "near"), ("retrieval", "far")),
        *(("locomotion", "1"), ("locomotion", "2"), ("locomotion", "3")),
    ]


def test_the_table_has_means_by_what_is_unseen_and_chance() -> None:
    known = (("office", "maze", (0.5, 0.25)), ("star", "maze", (1.0, 0.75)), ("sgm", "textures", (1.0, 0.0)))
    rows = [
        NetworkRow(maze, unseen, "locomotion", case, share, 1 / 7, 10)
        for maze, unseen, shares in known
        for case, share in zip("12", shares, strict=True)
    ]
    assert network_cells(rows) == [
        ["maze", "unseen", "L, 1 decision %", "L, 2 decisions %"],
        ["office", "maze", "50.0", "25.0"],
        ["star", "maze", "100.0", "75.0"],
        ["sgm", "textures", "100.0", "0.0"],
        ["mean", "maze", "75.0", "50.0"],
        ["mean", "textures", "100.0", "0.0"],
        ["chance", "", "14.3", "14.3"],
    ]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["absent.safetensors"], "Cannot read networks from absent.safetensors: No such file"),
        (["r.safetensors", "--networks", "locomotion"], "r.safetensors holds no locomotion network; make one"),
        (["both.safetensors"], "both.safetensors holds another retrieval network than the settings describe"),
        (["other.safetensors"], "holds neither a retrieval nor a locomotion network"),
        (["both.safetensors", *SMALL, "--chases", "2"], "--chases must be at least 3, got 2."),
        (["both.safetensors", *SMALL, "--walk-length", "3"], "--walk-length must be at least 4, got 3."),
        (["both.safetensors", *SMALL, "--retrieval.batch-size", "8"], "--retrieval.batch-size are for training"),
        (["both.safetensors", *SMALL, "--mazes", "offic"], "'offic'"),
    ],
)
def test_wrong_use_is_one_line(
    words: list[str], complaint: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    assert main(["network", "eval", *words]) in (1, 2)
    said = capsys.readouterr().err.splitlines()
    assert len([line for line in said if line.startswith("sfl: ")]) == 1
    assert complaint in said[-1]
