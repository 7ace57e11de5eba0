"""What observations were taken for is said when training starts; what is unsure is refused before that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sfl import experiments
from sfl.baselines.config import ControllerConfig
from sfl.baselines.mss.config import MSSConfig, over_frames
from sfl.baselines.random import RandomConfig
from sfl.cli import main
from sfl.errors import UsageError
from sfl.method.config import FrameSFLConfig, SFLConfig, TabularConfig
from sfl.registry import AgentConfig
from sfl.run.inputs import describe_input
from sfl.run.train import train
from sfl.worlds import DoomConfig, EnvConfig, GymConfig, MiniGridConfig

from .worlds import random_experiment


def shown(shape: tuple[int, ...]) -> gymnasium.Env[object, int]:
    """FrozenLake in pictures: as bright as the number of the state."""
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    space = spaces.Box(0, 255, shape, np.uint8)
    return gymnasium.wrappers.TransformObservation(lake, lambda state: np.full(shape, 16 * state, np.uint8), space)


@pytest.fixture(autouse=True)
def lakes() -> Iterator[None]:
    sizes = {"Small": (32, 32, 3), "First": (3, 44, 48)}
    for name, shape in sizes.items():
        gymnasium.register(f"{name}Lake-v0", lambda shape=shape: shown(shape), max_episode_steps=20)
    yield
    for name in sizes:
        del gymnasium.registry[f"{name}Lake-v0"]


def test_a_run_says_what_it_took_its_observations_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = replace(experiments.tiny(experiments.get("world-sfl")), env=GymConfig("FirstLake-v0"))
    experiment = replace(experiment, train=replace(experiment.train, steps=120, eval_every=0))
    made = train(experiment, 0, tmp_path, "cpu")
    line = "observations: RGB picture 44x48, channels first, put last; encoder: convolutions over pixels."
    assert line in capsys.readouterr().err.splitlines()
    assert made.last.is_dir()


def test_what_is_unsure_is_refused_and_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "world-sfl", "--env.id", "SmallLake-v0", "--tiny", "--runs-dir", str(tmp_path / "runs")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "32x32x3 numbers (uint8, 0 to 255): they may be a small picture or a grid of symbols" in said
    assert not (tmp_path / "runs").exists()
    random = replace(random_experiment(steps=40, eval_every=0), env=GymConfig("SmallLake-v0"))
    tasks = replace(random.eval, levels=("any",))
    assert train(replace(random, eval=tasks), 0, tmp_path / "runs").last.is_dir()  # it looks at nothing


@pytest.mark.parametrize(
    ("env", "agent", "line"),
    [
        (DoomConfig(), FrameSFLConfig(), "RGB picture 120x160, channels last; encoder: place."),
        (DoomConfig(), over_frames(encoder="mine.safetensors"), "channels last; encoder: mine.safetensors."),
        (DoomConfig(), ControllerConfig(), "channels last; encoder: resnet18."),
        (DoomConfig(), RandomConfig(), "channels last; encoder: none."),
        (MiniGridConfig(), SFLConfig(), "with 3 symbols each (MiniGrid); encoder: convolutions over cells."),
        (MiniGridConfig(), ControllerConfig(), "(MiniGrid); encoder: convolutions over cells."),
        (MiniGridConfig(), TabularConfig(), "(MiniGrid); encoder: none."),
        (GymConfig("CartPole-v1"), MSSConfig(), "observations: 4 numbers; encoder: dense layers over numbers."),
    ],
)
def test_the_line_names_the_encoder(env: EnvConfig, agent: AgentConfig, line: str) -> None:
    assert describe_input(env.observation_kind(), agent).endswith(line)


def test_settings_for_frames_are_refused_elsewhere() -> None:
    for agent, other in ((FrameSFLConfig(), "SFLConfig"), (over_frames(), 'states "grid"')):
        with pytest.raises(UsageError, match=f"these observations are grid of 9x9 .*; use {other}"):
            describe_input(MiniGridConfig().observation_kind(), agent)
