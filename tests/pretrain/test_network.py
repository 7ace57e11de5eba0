"""`sfl network train`, on made walks and as a user types it."""

from __future__ import annotations

import csv
import math
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from sfl.api import EnvSpec
from sfl.baselines.config import ControllerConfig, LocomotionConfig
from sfl.baselines.controller import ControllerAgent
from sfl.baselines.networks import ActionExampleDraw, Reachability, ReachabilityDraw, RetrievalNetwork
from sfl.cli import main
from sfl.errors import UsageError
from sfl.method.config import RetrievalConfig
from sfl.nn.frame_encoders import FrameEncoder
from sfl.nn.weights import save_networks
from sfl.pretrain import networks as network_training
from sfl.pretrain.config import NetworkRecipe
from sfl.pretrain.networks import NETWORKS, Name, prepare_network, train_networks
from sfl.pretrain.networks import network_command as command
from sfl.pretrain.train import Curve, descend
from sfl.pretrain.walks import Walks
from sfl.run.inputs import pretraining_of
from sfl.run.stopping import StopRequest
from sfl.seeding import spawn

from .made import made_walks

SMALL = NetworkRecipe(
    steps=20,
    retrieval=RetrievalConfig(encoder="compact", hidden=32, layers=1, batch_size=32),
    locomotion=LocomotionConfig(encoder="compact", batch_size=32, ahead=3),
)


def walks_with_a_way() -> Walks:
    """The action says by how much the band moves next, so that it can be seen."""
    walks = made_walks()
    actions = np.random.default_rng(0).integers(7, size=walks.actions.shape)
    frames = np.zeros((*actions.shape, 60, 80, 3), np.uint8)
    places = np.cumsum(actions, axis=1) - actions
    for walk, moment in np.ndindex(actions.shape):
        start = 10 * int(places[walk, moment] % 7)
        frames[walk, moment, :, start : start + 10] = 255
    return Walks(torch.from_numpy(frames), walks.mazes, walks.names, actions.astype(np.uint8))


def learn(name: Name, recipe: NetworkRecipe, walks: Walks) -> tuple[torch.nn.Module, Curve]:
    network, judge = prepare_network(name, recipe, walks, spawn(recipe.seed, ["init", "draw"]), "cpu")
    with StopRequest() as stop:
        return network, descend(recipe, network, judge, name, None, stop)


def test_ctrl_c_ends_the_training_of_all_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second was trained all the same, for hours."""

    def interrupted(*words: Any) -> Any:
        network, judge = prepare_network(*words)

        def judged() -> Any:
            signal.raise_signal(signal.SIGINT)
            return judge()

        return network, judged

    monkeypatch.setattr(network_training, "collect", lambda *words: walks_with_a_way())
    monkeypatch.setattr(network_training, "prepare_network", interrupted)
    out = tmp_path / "both.safetensors"
    train_networks(("retrieval", "locomotion"), replace(SMALL, steps=100_000), out, "cpu")
    with safe_open(out, "pt") as file:
        assert {key.partition(".")[0] for key in file.keys()} == {"retrieval"}  # noqa: SIM118
        assert file.metadata()["networks"] == "retrieval"


def test_locomotion_is_learned() -> None:
    recipe = replace(SMALL, locomotion=replace(SMALL.locomotion, ahead=1))
    _, curve = learn("locomotion", recipe, walks_with_a_way())
    assert curve[-1]["step"] == 20
    assert curve[-1]["loss"] < 0.9 * math.log(7)


def test_retrieval_learns_by_the_objective_of_the_paper_s_encoder() -> None:
    """That this objective is learned is tested there."""
    walks, rngs = made_walks(), spawn(0, ["init", "draw"])
    network, judge = prepare_network("retrieval", SMALL, walks, rngs, "cpu")
    assert isinstance(network, RetrievalNetwork)
    pairs = ReachabilityDraw(SMALL.retrieval, walks.mazes, walks.length)(spawn(0, ["draw"])["draw"])
    objective = Reachability(SMALL.retrieval, network.dim)
    objective.head = network.head
    assert isinstance(network.encoder, FrameEncoder)
    expected, metrics = objective(network.encoder, walks.take(pairs), pairs)
    loss, found, images = judge()
    torch.testing.assert_close(loss, expected)
    assert found["accuracy"] == metrics["accuracy"]
    assert images == 64


def test_chases_are_of_one_walk_with_goals_ahead() -> None:
    chases = ActionExampleDraw(LocomotionConfig(ahead=3, batch_size=2_000), walks=4, length=6)(np.random.default_rng(0))
    before, now, goal = chases.times
    assert set((goal - now).tolist()) == {1, 2, 3}
    assert ((now - before == 1) | (now == 0)).all()
    assert (before >= 0).all()
    assert (goal.max(), now.max()) == (5, 4)
    assert set(chases.walks.tolist()) == {0, 1, 2, 3}


def test_the_same_seed_gives_the_same_network() -> None:
    recipe = replace(SMALL, steps=2)
    (one, _), (same, _), (other, _) = (
        learn("locomotion", replace(recipe, seed=seed), made_walks()) for seed in (1, 1, 2)
    )
    assert all(torch.equal(value, same.state_dict()[name]) for name, value in one.state_dict().items())
    assert not all(torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items())


def test_the_command_names_what_differs_from_the_defaults() -> None:
    recipe = NetworkRecipe(minutes=10, retrieval=RetrievalConfig(batch_size=64))
    assert command(["retrieval"], recipe, Path("a/r.safetensors")) == (
        "sfl network train retrieval --minutes 10 --retrieval.batch-size 64 --out r.safetensors"
    )
    words = command(NETWORKS, NetworkRecipe(), Path("n.safetensors"))
    assert words == "sfl network train both --out n.safetensors"


DATA = ["--frames", "120", "--walk-length", "60", "--walks-per-maze", "2", "--mazes", "small", "--workers", "1"]
DATA += ["--device", "cpu", "--steps", "1"]
SMALL_R = ["--retrieval.encoder", "compact", "--retrieval.hidden", "32", "--retrieval.batch-size", "4"]
SMALL_L = ["--locomotion.encoder", "compact", "--locomotion.batch-size", "4"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """R and L trained apart and joined, and both trained on the same walks."""
    folder = tmp_path_factory.mktemp("networks")
    first, second, joined, both = (str(folder / f"{name}.safetensors") for name in ("r", "l", "joined", "both"))
    assert main(["network", "train", "retrieval", *DATA, *SMALL_R, "--out", first]) == 0
    assert main(["network", "train", "locomotion", *DATA, *SMALL_L, "--out", second]) == 0
    assert main(["network", "join", first, second, "--out", joined]) == 0
    assert main(["network", "train", "both", *DATA, *SMALL_R, *SMALL_L, "--out", both]) == 0
    return folder


def test_a_curve_and_a_card_go_beside_the_networks(files: Path) -> None:
    for name in ("l", "both-retrieval", "both-locomotion"):
        with (files / f"{name}.csv").open() as file:
            assert [row["step"] for row in csv.DictReader(file)] == ["1"]
    for name in ("l", "both"):
        assert str(files) not in (files / f"{name}.md").read_text()
    page = (files / "both.md").read_text()
    assert page.startswith("# Networks `both`\n\nThe retrieval network.")
    assert "\nThe locomotion network." in page
    assert page.count("collecting") == 1


@pytest.mark.parametrize(("name", "walked"), [("joined", 120), ("both", 0)])
def test_one_file_with_both_networks_is_what_agents_start_from(name: str, walked: int, files: Path) -> None:
    """`walked` for L: trained together, it learns from the frames that were collected for R."""
    file = files / f"{name}.safetensors"
    config = ControllerConfig(
        str(file), RetrievalConfig(encoder="compact", hidden=32), LocomotionConfig(encoder="compact"), replay_size=10
    )
    before = {one.network: (one.env_steps, one.gradient_steps) for one in pretraining_of(config)}
    assert before == {"retrieval": (120, 1), "locomotion": (walked, 1)}
    agent = ControllerAgent(config, EnvSpec((120, 160, 3), "uint8", 7), 0, "cpu")
    stored = load_file(file)
    for key, value in agent.state_dict().networks.items():
        np.testing.assert_array_equal(value, stored[key].to(torch.from_numpy(value).dtype).numpy(), err_msg=key)


def test_networks_trained_together_are_those_trained_apart(files: Path) -> None:
    """The same seed, walks and steps: neither learns from what the other has drawn."""
    joined, both = (load_file(files / f"{name}.safetensors") for name in ("joined", "both"))
    assert joined.keys() == both.keys()
    for key, value in joined.items():
        torch.testing.assert_close(both[key], value, msg=key)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["train"], "sfl network train"),
        (["train", "walking", "--out", "a.safetensors"], "invalid choice 'walking'"),
        (["train", "retrieval"], "Missing from sfl network train: --out PATH"),
        (["train", "retrieval", "--out", "a.pt"], "--out must name a .safetensors file, got a.pt."),
        (["train", "retrieval", "--out", "here.safetensors"], "here.safetensors exists already"),
        (["train", "both", "--out", "b.safetensors"], "b-locomotion.csv exists already"),
        (["join", "none", "--out", "a.safetensors"], "Cannot read networks from none"),
        (["join", "r", "r", "--out", "a.safetensors"], "r holds a retrieval network as a file before it does"),
        (["join", "r", "--out", "a.pt"], "--out must name a .safetensors file, got a.pt."),
        (["join", "r", "--out", "here.safetensors"], "here.safetensors exists already"),
        (["train", "retrieval", "--out", "a.safetensors", "--mazes", "test-1"], "is kept for evaluation"),
        (["show"], "No command 'network show'."),
    ],
)
def test_wrong_use_is_one_line_and_writes_nothing(
    words: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.safetensors").write_text("mine")
    (tmp_path / "b-locomotion.csv").write_text("mine")
    save_networks({"retrieval.weight": torch.zeros(1)}, tmp_path / "r", {})
    assert main(["network", *words]) in (1, 2)
    said = capsys.readouterr().err
    assert complaint in said
    assert said.startswith("sfl: ")
    assert said.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b-locomotion.csv", "here.safetensors", "r"]


def test_settings_that_would_do_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match=r"--retrieval\.learning-rate is for agents"):
        NetworkRecipe(retrieval=RetrievalConfig(learning_rate=0.1))
    with pytest.raises(UsageError, match="--half-size does not go with networks"):
        NetworkRecipe(half_size=True)
