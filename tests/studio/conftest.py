"""One small trained run for all tests of the studio that only look at one, and a server over it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from sfl import experiments
from sfl.agents.sfl.config import SFLConfig
from sfl.run.folder import LoadedRun, load_run
from sfl.run.train import train
from sfl.studio.server import application
from sfl.studio.shared import Studio
from sfl.studio.specimen import Size, make_specimen

HERE = "testserver"


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FourRoom in seconds; landmarks recognise their surroundings, so that even so short a run has edges."""
    experiment = experiments.tiny(experiments.get("sfl-fourroom"))
    agent = experiment.agent
    assert isinstance(agent, SFLConfig)
    landmarks = replace(agent.landmarks, localize_threshold=0.5, add_threshold=0.999)
    experiment = replace(experiment, agent=replace(agent, landmarks=landmarks))
    return train(experiment, 0, tmp_path_factory.mktemp("runs"), "cpu").path


@pytest.fixture
def grid_run(trained: Path, tmp_path: Path) -> Path:
    """A copy of it to do with as one likes."""
    return Path(shutil.copytree(trained, tmp_path / "runs" / "grid", copy_function=shutil.copy2))


@pytest.fixture(scope="session")
def maze_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in the maze `small` with 40 landmarks, made without playing."""
    return make_specimen(tmp_path_factory.mktemp("mazes") / "specimen", Size(40, 160), "small").path


@pytest.fixture
def studio(grid_run: Path, maze_run: Path) -> Iterator[Studio]:
    """r0 in FourRoom, r1 in a maze."""
    made = Studio([grid_run, maze_run])
    yield made
    made.close()


@pytest.fixture
def client(studio: Studio) -> Iterator[TestClient]:
    """Asks the server of these two; an error of the server's own fails the test."""
    with TestClient(application(studio, frozenset({HERE}), None)) as asking:
        yield asking


@pytest.fixture(scope="session")
def loaded(trained: Path) -> LoadedRun:
    """The run in FourRoom; only frozen copies of its agent act."""
    return load_run(trained, device="cpu")
