"""Runs for the tests of the studio, and a server over them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.bench.specimen import Size, make_specimen
from starlette.testclient import TestClient

from sfl.run.folder import LoadedRun, load_run
from sfl.studio.server import application
from sfl.studio.shared import Studio

HERE = "testserver"


@pytest.fixture
def grid_run(small_run: Path, tmp_path: Path) -> Path:
    """A copy of it to do with as one likes."""
    return Path(shutil.copytree(small_run, tmp_path / "runs" / "grid", copy_function=shutil.copy2))


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
def loaded(small_run: Path) -> LoadedRun:
    """The run in FourRoom; only frozen copies of its agent act."""
    return load_run(small_run, device="cpu")
