"""Episodic Curiosity fills the memory of SPTM and SGM: from a run folder to the walks of another run."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sfl import experiments
from sfl.baselines.config import ECConfig, SGMConfig, SPTMConfig, WalksConfig
from sfl.errors import CheckpointError, SflError, UsageError
from sfl.registry import agent_name
from sfl.run.checkpoint import LEARNING_FILES
from sfl.run.folder import RunFolder, export, load_run
from sfl.run.lend import Window, find_explorer, oracle_checkpoint, window_of
from sfl.run.settings import EvalConfig, Experiment, TrainConfig
from sfl.run.train import TrainingRun, resume, train
from sfl.worlds import MiniGridConfig
from sfl.worlds.world import Squares

from .worlds import random_experiment


def exploration(steps: int = 800) -> Experiment:
    """A tiny run of EC."""
    tiny = experiments.tiny(experiments.get("fourroom-ec"))
    short = replace(tiny.train, steps=steps, eval_every=0, checkpoint_every=400)
    return replace(tiny, train=short, eval=EvalConfig(2))


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return train(exploration(), runs_dir=tmp_path_factory.mktemp("runs"), device="cpu")


def go_on(run: RunFolder, before: int, after: int) -> None:
    """Resume a run that was to have so many steps, with more."""
    config = run.config.read_text()
    assert f'"steps": {before},' in config
    run.config.write_text(config.replace(f'"steps": {before},', f'"steps": {after},', 1))
    resume(run.path, device="cpu")


def test_a_resumed_exploration_equals_one_that_never_stopped(explored: RunFolder, tmp_path: Path) -> None:
    part = train(exploration(steps=336), runs_dir=tmp_path, device="cpu")
    go_on(part, 336, 800)
    for name in ("networks", "optimisers", "replay"):
        file = f"{name}.safetensors"
        assert (part.last / file).read_bytes() == (explored.last / file).read_bytes(), name
    np.testing.assert_array_equal(np.load(part.last / "poses.npy"), np.load(explored.last / "poses.npy"))


def curious(explorer: RunFolder, kind: type[SPTMConfig] | type[SGMConfig] = SPTMConfig, **sizes: int) -> Experiment:
    """SPTM or SGM over walks of that run, with the networks that it learned."""
    source = experiments.tiny(experiments.get("fourroom-ec")).agent
    assert isinstance(source, ECConfig)
    memory = WalksConfig(steps=120, explorer=str(explorer.path), explorer_checkpoint="000000400")
    networks = str(explorer.last / "networks.safetensors")
    agent = kind(networks, source.retrieval, source.locomotion, updates_per_step=0.0, memory=memory)
    train_config = TrainConfig(**{"steps": 160, "env_count": 4, "checkpoint_every": 40, "log_every": 40, **sizes})
    return Experiment("fourroom-ec-sptm", MiniGridConfig(), agent, train_config, EvalConfig(episodes=2, parallel=2))


@pytest.mark.parametrize("kind", [SPTMConfig, SGMConfig])
def test_a_run_of_ec_walks_for_another_method(
    explored: RunFolder, kind: type[SPTMConfig] | type[SGMConfig], tmp_path: Path
) -> None:
    made = train(curious(explored, kind), seed=2, runs_dir=tmp_path, device="cpu")
    run, name = load_run(made.path, device="cpu"), f"ec-{kind.__name__.lower().removesuffix('config')}"
    assert agent_name(run.experiment.agent) == name
    assert {row.agent for row in run.episode_rows()} == {name}
    learned = load_run(explored.path, device="cpu").agent.state_dict().networks
    for key, value in run.agent.state_dict().networks.items():
        np.testing.assert_array_equal(value, learned[key], err_msg=key)
    assert len(run.graph["origin"]) > 2


def test_it_is_read_without_what_only_learning_needs(explored: RunFolder, tmp_path: Path) -> None:
    """On another machine there is no replay of it: that has gigabytes."""
    there = Path(shutil.copytree(explored.path, tmp_path / "seed-0000"))
    for name in LEARNING_FILES:
        (RunFolder(there).last / name).unlink()
    views, envs = np.random.default_rng(0).integers(8, size=(20, 4, 9, 9, 3)).astype(np.uint8), np.arange(4)
    walkers = [
        find_explorer(WalksConfig(explorer=str(path), explorer_checkpoint="last"), MiniGridConfig(), 5, "cpu").policy
        for path in (explored.path, there)
    ]
    one, other = ([walker.act(view, envs).tolist() for view in views] for walker in walkers)
    assert one == other


@pytest.mark.parametrize("kind", [SPTMConfig, SGMConfig])
def test_its_actions_are_those_of_the_frozen_policy(
    explored: RunFolder, kind: type[SPTMConfig] | type[SGMConfig]
) -> None:
    experiment = curious(explored, kind)
    assert isinstance(experiment.agent, SPTMConfig | SGMConfig)
    training = TrainingRun(experiment, 5, "cpu")
    training.lend_explorer()
    alone = find_explorer(experiment.agent.memory, experiment.env, 5, "cpu").policy
    other = find_explorer(experiment.agent.memory, experiment.env, 6, "cpu").policy
    views, envs = np.random.default_rng(0).integers(8, size=(30, 4, 9, 9, 3)).astype(np.uint8), np.arange(4)
    acted = [[walker.act(view, envs).tolist() for view in views] for walker in (training.agent, alone, other)]
    training.session.close()
    assert acted[0] == acted[1] != acted[2]


def test_a_resumed_run_goes_on_with_the_same_explorer(explored: RunFolder, tmp_path: Path) -> None:
    whole = train(curious(explored), runs_dir=tmp_path / "whole", device="cpu")
    part = train(curious(explored, steps=40), runs_dir=tmp_path / "part", device="cpu")
    go_on(part, 40, 160)
    assert (whole.last / "graph.npz").read_bytes() == (part.last / "graph.npz").read_bytes()
    np.testing.assert_array_equal(np.load(whole.last / "poses.npy"), np.load(part.last / "poses.npy"))


def test_a_resumed_run_keeps_its_explorer_when_the_oracle_would_take_another(tmp_path: Path) -> None:
    source = train(exploration(steps=400), runs_dir=tmp_path, device="cpu")

    def by_oracle(steps: int) -> Experiment:
        plain = curious(source, steps=steps)
        assert isinstance(plain.agent, SPTMConfig)
        memory = replace(plain.agent.memory, explorer_checkpoint="oracle")
        return replace(plain, agent=replace(plain.agent, memory=memory))

    whole = train(by_oracle(160), runs_dir=tmp_path / "whole", device="cpu")
    part = train(by_oracle(40), runs_dir=tmp_path / "part", device="cpu")
    assert json.loads((part.path / "system.json").read_text())["explorer_checkpoint"] == "000000400"
    go_on(source, 400, 2_000)
    memory = WalksConfig(explorer=str(source.path))
    assert find_explorer(memory, MiniGridConfig(), 0, "cpu").checkpoint != "000000400"
    go_on(part, 40, 160)
    assert (whole.last / "graph.npz").read_bytes() == (part.last / "graph.npz").read_bytes()


def folder_with(path: Path, poses: list[int], names: list[str]) -> RunFolder:
    """A run that was in these squares of a corridor, step by step, with these history checkpoints."""
    for name in (*names, "last"):
        (path / "checkpoints" / name).mkdir(parents=True)
    places = np.array([[place + 0.5, 0.5, 0.0] for place in poses], np.float32)
    np.save(path / "checkpoints" / "last" / "poses.npy", places)
    return RunFolder(path)


class EpisodeWindow(Window):
    """One episode of all environments."""

    @property
    def steps(self) -> int:
        return self.env_count * self.length


def last_steps(count: int) -> Window:
    """So many of one environment, all of which count."""
    return EpisodeWindow(1, count, count)


SQUARES = Squares(1.0, np.array([[place, 0] for place in range(5)]))


def test_the_oracle_takes_the_checkpoint_before_which_most_was_covered(tmp_path: Path) -> None:
    poses = [0, 0, 1, 2, 3, 4, 4, 4, 3, 0, 1, 2]
    run = folder_with(tmp_path / "a", poses, ["000000003", "000000006", "000000009", "000000012"])
    assert oracle_checkpoint(run, SQUARES, last_steps(3)) == "000000012"  # as much as 6, and later
    run = folder_with(tmp_path / "b", poses[:9], ["000000003", "000000006", "000000009"])
    assert oracle_checkpoint(run, SQUARES, last_steps(3)) == "000000006"


def test_the_oracle_counts_what_walks_of_the_memorys_length_cover(tmp_path: Path) -> None:
    """Two environments, episodes of three steps: the second checkpoint covers more in all, the first in two steps."""
    early, late = [0, 0, 1, 2, 1, 2], [0, 0, 0, 1, 3, 4]
    run = folder_with(tmp_path, early + late, ["000000006", "000000012"])
    assert oracle_checkpoint(run, SQUARES, EpisodeWindow(2, 3, first=3)) == "000000012"
    assert oracle_checkpoint(run, SQUARES, EpisodeWindow(2, 3, first=2)) == "000000006"


def test_steps_are_counted_from_the_start_of_their_episode() -> None:
    poses, window = np.arange(20).reshape(20, 1), EpisodeWindow(2, 4, first=1)
    assert window.early(poses, 18).ravel().tolist() == [16, 17]  # the steps before are late ones of another episode


def test_the_oracle_looks_at_whole_episodes_of_all_environments() -> None:
    maze, walks = experiments.get("test-1-fixed-spawn-ec"), experiments.get("test-1-fixed-spawn-ec-sptm").env
    window = window_of(maze, walks)
    assert (window.length, window.first, window.steps) == (500, 200, 64_000)  # of 128 games
    assert window_of(replace(maze, train=replace(maze.train, env_count=400)), walks).steps == 200_000
    grid = experiments.get("fourroom-ec")  # whose episodes have the length that the grid gives them
    assert window_of(grid, grid.env).steps == 60_000


def test_what_the_oracle_cannot_know_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no true positions .* name a checkpoint as memory.explorer-checkpoint"):
        oracle_checkpoint(RunFolder(tmp_path), SQUARES, last_steps(3))
    run = folder_with(tmp_path / "a", [0], ["000000001"])
    with pytest.raises(UsageError, match="It is not known which places can be reached"):
        oracle_checkpoint(run, None, last_steps(3))
    with pytest.raises(UsageError, match="has no history checkpoints"):
        oracle_checkpoint(folder_with(tmp_path / "b", [0], []), SQUARES, last_steps(3))


def test_an_explorer_that_cannot_be_one_is_refused(explored: RunFolder, tmp_path: Path) -> None:
    here, elsewhere = MiniGridConfig(), MiniGridConfig("sfl/MultiRoom-N2-v0")

    def refused(path: Path, kind: type[SflError], words: str, name: str = "last", env: MiniGridConfig = here) -> None:
        with pytest.raises(kind, match=words) as caught:
            find_explorer(WalksConfig(explorer=str(path), explorer_checkpoint=name), env, 0, "cpu")
        assert "\n" not in str(caught.value)

    refused(tmp_path / "none", UsageError, "whose policy fills this one.s memory, and it is not there")
    random = train(random_experiment(steps=50), runs_dir=tmp_path, device="cpu")
    refused(random.path, UsageError, "memory.explorer must be a run of ec, .* is one of random")
    refused(explored.path, UsageError, "explored sfl/FourRoom-v0; this run is in", env=elsewhere)
    refused(explored.path, CheckpointError, "does not exist", name="000000123")
    slim = export(explored.path, tmp_path / "slim")
    refused(slim.path, UsageError, "holds no true positions", name="oracle")


def test_it_is_read_without_room_for_a_replay(explored: RunFolder) -> None:
    """It learns no more, and over frames a replay has gigabytes."""
    whole, acting = (load_run(explored.path, device="cpu", learning=learning).agent for learning in (True, False))
    assert len(whole.state_dict().replay["observation_rows"]) >= 600
    assert len(acting.state_dict().replay["observation_rows"]) < 200
