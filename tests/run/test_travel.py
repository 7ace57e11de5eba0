"""Runs are read from other folders, after they were moved, and without the files and modules that they were made of."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import gymnasium
import pytest

from sfl import user_modules as modules
from sfl.baselines.config import SPTMConfig, WalksConfig
from sfl.baselines.mss.config import over_frames
from sfl.cli import main
from sfl.errors import CheckpointError, UsageError
from sfl.method.config import FrameConfig, SuccessorConfig
from sfl.method.presets import paper_frames
from sfl.run import inputs
from sfl.run.compare import evaluate_run
from sfl.run.folder import RunFolder, create, export, load_run, read_config, usable_config
from sfl.run.settings import EvalConfig, Experiment
from sfl.run.train import resume, train
from sfl.studio.curves import settings
from sfl.studio.runs import Shelf
from sfl.worlds import DoomConfig
from sfl.worlds.mazes.load import LAYOUTS, build_file
from sfl.worlds.mazes.textures import PAPER_TEXTURES

from .dooms import PAIRS, doom_experiment, pairs_file, unlearned_encoder
from .worlds import random_experiment

CELLS = """
import gymnasium
import numpy as np
from gymnasium import spaces


class Cells(gymnasium.Env):
    action_space, observation_space = spaces.Discrete(2), spaces.Box(0, 5, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.cell = int(np.clip(self.cell + 2 * action - 1, 0, 5))
        return np.array([self.cell], np.float32), 0.0, False, False, {}


gymnasium.register("Cells-v0", Cells, max_episode_steps=20)
"""


@pytest.fixture
def fresh_modules() -> Iterator[None]:
    """As a new process: nothing of the user's is imported or noted."""
    path, loaded, known = list(sys.path), set(sys.modules), dict(gymnasium.registry)
    yield
    forget(path, loaded, known)


def forget(path: list[str], loaded: set[str], known: dict[str, gymnasium.envs.registration.EnvSpec]) -> None:
    sys.path[:] = path
    modules._noted.clear()
    for name in set(sys.modules) - loaded:
        if name.startswith("my_"):
            del sys.modules[name]
    gymnasium.registry.clear()
    gymnasium.registry.update(known)


def test_a_module_beside_the_user_is_found_again_from_elsewhere(
    tmp_path: Path, fresh_modules: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = list(sys.path), set(sys.modules), dict(gymnasium.registry)
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir()
    away.mkdir()
    (home / "my_cells.py").write_text(CELLS)
    monkeypatch.chdir(home)
    words = ["train", "world-sfl", "--env.id", "my_cells:Cells-v0", "--tiny", "--train.steps", "300", "--device", "cpu"]
    assert main([*words, "--train.eval-every", "0"]) == 0
    shutil.move(home / "runs" / "world-sfl" / "seed-0000", away / "run")
    assert json.loads((away / "run" / "inputs" / "inputs.json").read_text())["modules"] == {"my_cells": str(home)}

    forget(*state)
    monkeypatch.chdir(away)
    assert main(["eval", "run", "--episodes", "2"]) == 0
    assert main(["plot", "run"]) == 0
    assert main(["export", "run", "--out", "slim"]) == 0
    assert main(["resume", "run"]) == 0
    assert Shelf(["slim"]).runs[0].facts.world_key.startswith("my_cells:Cells-v0")
    capsys.readouterr()

    forget(*state)
    (away / "my_cells.py").write_text(CELLS)
    (home / "my_cells.py").unlink()
    assert main(["eval", "slim", "--episodes", "2"]) == 0
    said = capsys.readouterr().err
    assert f"the module my_cells is taken from {away}; slim was made with the one in {home}" in said

    forget(*state)
    (away / "my_cells.py").unlink()
    assert main(["eval", "slim", "--episodes", "2"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"the module 'my_cells' is not in {home} any more, where the run found it; call sfl in the folder" in said


def maze_experiment(place: Path) -> Experiment:
    """SFL over frames for a few steps, with a maze, pairs and an encoder of the user's, by relative paths."""
    shutil.copy(LAYOUTS / "small.txt", place / "mine.txt")
    (place / "mine.txt").write_text((place / "mine.txt").read_text().replace("name: small", "name: mine"))
    pairs_file(place, "mine", {"easy": PAIRS["easy"], "medium": PAIRS["medium"]})
    unlearned_encoder(place)
    base = doom_experiment(place, steps=60, env_count=2, eval_every=0, checkpoint_every=30)
    successor = SuccessorConfig((16,), gamma=0.9, n_step=1, batch_size=8, start_step=20, updates_per_step=0.1)
    agent = paper_frames(frames=FrameConfig("encoder.safetensors"), successor=successor, replay_size=100)
    env = DoomConfig("mine.txt", pairs="mine-pairs.json", max_steps=20)
    return replace(base, name="mine", env=env, agent=agent, eval=EvalConfig(1, ("medium",), parallel=1))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in a maze of the user's, moved, with everything gone that it was made of."""
    home, away = (tmp_path_factory.mktemp(name) for name in ("home", "away"))
    before = Path.cwd()
    os.chdir(home)
    try:
        run = train(maze_experiment(home), 0, "runs", "cpu").path.absolute()
    finally:
        os.chdir(before)
    shutil.move(run, away / "run")
    shutil.rmtree(home)
    return away / "run"


def test_a_run_in_a_maze_of_ones_own_is_whole_without_its_files(made: Path, tmp_path: Path) -> None:
    written, _ = read_config(made)
    assert isinstance(written.env, DoomConfig)
    assert (written.env.maze, written.env.pairs) == ("mine.txt", "mine-pairs.json")
    slim = export(made, tmp_path / "slim").path
    rows = evaluate_run(slim, level="easy", episodes=2)  # pairs that the run itself was not evaluated on
    assert [(row.maze, row.level) for row in rows] == [("mine", "easy")] * 2
    assert resume(made).path == made
    one, other = Shelf([made, slim]).runs
    assert one.facts.world_key == other.facts.world_key == load_run(slim).experiment.env.world_name()
    found = settings([one, other])
    assert found["differs"] == []
    assert found["settings"]["r0"]["env.maze"] == "mine.txt"


def test_it_goes_on_as_if_nothing_had_been_moved(made: Path, tmp_path: Path) -> None:
    """From its checkpoint in the middle, with another end in its configuration."""
    run = shutil.copytree(made, tmp_path / "run")
    body = json.loads((run / "config.json").read_text())
    body["experiment"]["train"]["steps"] = 80
    (run / "config.json").write_text(json.dumps(body))
    assert load_run(resume(run).path).env_steps == 80


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("maze/mine.txt", r"the file of env.maze, is not what it was"),
        ("pairs/mine-pairs.json", "env.pairs, is not what"),
    ],
)
def test_another_maze_in_its_place_is_noticed(made: Path, tmp_path: Path, name: str, words: str) -> None:
    run = shutil.copytree(made, tmp_path / "run")
    (run / "inputs" / name).write_text("another")
    with pytest.raises(UsageError, match=words) as caught:
        load_run(run)
    assert "\n" not in str(caught.value)
    assert Shelf([run]).runs[0].facts.experiment.name == "mine"  # curves and settings can be looked at all the same


def test_weights_can_be_given_again(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = shutil.copytree(made, tmp_path / "run")
    shutil.move(run / "inputs" / "encoder" / "encoder.safetensors", tmp_path / "encoder.safetensors")
    with pytest.raises(
        UsageError, match=r"agent.frames.encoder, is missing; .* with SHA-256 \w{64} there, or name .*SFL"
    ):
        load_run(run)
    monkeypatch.setenv("SFL_INPUTS", str(tmp_path))
    assert load_run(run).env_steps == 60


def test_large_weights_are_known_by_their_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MOST_COPIED", 1_000)
    file = unlearned_encoder(tmp_path)
    experiment = replace(random_experiment(), agent=over_frames(encoder=file))
    run = create(tmp_path / "run", experiment, 0, {}).path
    assert [path.name for path in (run / "inputs").iterdir()] == ["inputs.json"]
    assert usable_config(run)[0].agent == experiment.agent
    (tmp_path / "here").mkdir()
    moved = shutil.move(file, tmp_path / "here" / "encoder.safetensors")
    with pytest.raises(
        UsageError, match=r"the file of agent.encoder, is missing \(it lay at .*encoder.safetensors\); put"
    ):
        usable_config(run)
    assert usable_config(run, whole=False)[0].agent == experiment.agent
    monkeypatch.setenv("SFL_INPUTS", str(tmp_path / "here"))
    assert usable_config(run)[0].agent == over_frames(encoder=str(moved))
    Path(file).write_bytes(b"another")
    monkeypatch.delenv("SFL_INPUTS")
    with pytest.raises(UsageError, match="where another file is now"):
        usable_config(run)


def test_the_papers_mazes_travel_by_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mazes = tmp_path / "mazes"
    (mazes / "pairs").mkdir(parents=True)
    build_file("corridors", mazes / "sgm-base.wad", PAPER_TEXTURES)
    (mazes / "textures-test.txt").write_text("STONE2\nBRICK7\n")
    (mazes / "pairs" / "sgm-random.json").write_text("{}")
    monkeypatch.setenv("SFL_MAZES", str(mazes))
    env = DoomConfig("sgm")
    experiment, name = replace(random_experiment(), env=env), env.world_name()
    run = create(tmp_path / "run", experiment, 0, {}).path
    shutil.rmtree(mazes)
    found = usable_config(run)[0].env
    assert isinstance(found, DoomConfig)
    assert (found.maze, found.world_name()) == ("sgm", name)
    assert Path(str(found.maze_dir), "pairs", "sgm-random.json").read_text() == "{}"


def test_a_map_of_a_wad_and_its_textures_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SFL_MAZES", raising=False)
    build_file("small", tmp_path / "own.wad", PAPER_TEXTURES)
    monkeypatch.chdir(tmp_path)
    env = DoomConfig("./own.wad:MAP01", texture_seed=3)
    run = create(tmp_path / "run", replace(random_experiment(), env=env), 0, {}).path
    name = env.world_name()
    (tmp_path / "own.wad").unlink()
    (tmp_path / "textures-test.txt").write_text("STONE2\n")
    monkeypatch.setenv("SFL_MAZES", str(tmp_path))  # a list that had no say when the run was made
    assert usable_config(run)[0].env.world_name() == name


def test_a_run_without_anything_of_the_users_keeps_nothing(tmp_path: Path) -> None:
    run = create(tmp_path / "run", replace(random_experiment(), env=DoomConfig("small")), 0, {}).path
    assert not (run / "inputs").exists()
    assert usable_config(run) == read_config(run)


def test_networks_are_taken_from_the_checkpoint_and_the_explorer_from_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = SPTMConfig(networks="gone.safetensors", memory=WalksConfig(explorer="runs/ec/seed-0000"))
    (tmp_path / "runs" / "ec" / "seed-0000").mkdir(parents=True)
    (tmp_path / "runs" / "ec" / "seed-0000" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    run = create(tmp_path / "runs" / "sptm" / "seed-0000", replace(random_experiment(), agent=agent), 0, {}).path

    def found(path: Path) -> tuple[str, str]:
        agent = usable_config(path)[0].agent
        assert isinstance(agent, SPTMConfig)
        return agent.networks, agent.memory.explorer

    assert found(run) == ("", "runs/ec/seed-0000")
    monkeypatch.chdir("/")
    assert found(run) == ("", str(tmp_path / "runs" / "ec" / "seed-0000"))
    shutil.move(tmp_path / "runs", tmp_path / "elsewhere")
    assert found(tmp_path / "elsewhere" / "sptm" / "seed-0000")[1] == str(tmp_path / "elsewhere" / "ec" / "seed-0000")
    shutil.rmtree(tmp_path / "elsewhere" / "ec")
    assert found(tmp_path / "elsewhere" / "sptm" / "seed-0000")[1] == "runs/ec/seed-0000"


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        '{"folder": 1, "files": [], "modules": {}}',
        '{"folder": "/", "files": [{}], "modules": {}}',
        "[" * 20_000,
    ]
    + [
        json.dumps({"folder": "/", "files": [{**entry, name: value}], "modules": {}})
        for entry in [{"setting": "env.maze", "name": "a", "path": "b", "bytes": 1, "sha256": "c", "copied": True}]
        for name, value in {
            "name": "../../etc/passwd",
            "bytes": "many",
            "copied": None,
            "path": "\0",
            "sha256": "\ud800",
        }.items()
    ],
)
def test_a_damaged_list_is_one_line(tmp_path: Path, body: str) -> None:
    run = RunFolder(create(tmp_path / "run", random_experiment(), 0, {}).path)
    (run.path / "inputs").mkdir()
    (run.path / "inputs" / "inputs.json").write_text(body)
    with pytest.raises(CheckpointError, match=r"inputs.json cannot be read") as caught:
        usable_config(run.path)
    assert "\n" not in str(caught.value)


def test_nobody_reads_a_device_or_a_pipe_in_the_place_of_an_input(tmp_path: Path) -> None:
    run = RunFolder(create(tmp_path / "run", random_experiment(), 0, {}).path)
    (run.path / "inputs").mkdir()
    os.mkfifo(run.path / "inputs" / "pipe")
    entry = {"setting": "agent.frames.encoder", "name": "pipe", "path": "/dev/zero", "bytes": 0, "copied": True}
    body = {"folder": "/", "files": [{**entry, "sha256": hashlib.sha256().hexdigest()}], "modules": {}}
    (run.path / "inputs" / "inputs.json").write_text(json.dumps(body))
    with pytest.raises(UsageError, match=r"pipe, the file of agent.frames.encoder, is missing"):
        usable_config(run.path)
    os.truncate(run.path / "inputs" / "inputs.json", 3 << 30)  # takes no room on the disk
    with pytest.raises(CheckpointError, match=r"inputs.json cannot be read \(FileError"):
        usable_config(run.path)
