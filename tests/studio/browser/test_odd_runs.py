"""Runs that are not what one hopes for: the page says so and goes on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sfl import experiments
from sfl.envs import GymConfig
from sfl.run import folder
from sfl.run.config import EvalConfig
from sfl.run.train import train
from sfl.studio.bench import running

from .conftest import Opener


@pytest.fixture
def odd(demo_runs: list[Path], tmp_path: Path, _sources: None) -> Iterator[tuple[str, Path]]:
    """A server, and the folder of its runs: a world without a map, a run that has just begun, and a good one."""
    random = experiments.tiny(experiments.get("random-fourroom"))
    lake = replace(random, name="frozen-lake", env=GymConfig("FrozenLake-v1"), eval=EvalConfig(2, ("any",)))
    shutil.move(train(lake, 0, tmp_path / "made", "cpu").path, tmp_path / "0")
    folder.create(tmp_path / "1", random, 0, {})
    shutil.copytree(demo_runs[0], tmp_path / "2")
    with running(tmp_path) as server:
        yield server.address, tmp_path


@pytest.mark.slow
def test_worlds_without_maps_new_runs_and_runs_that_vanish(see: Opener, odd: tuple[str, Path]) -> None:
    address, place = odd
    sight = see(address)
    assert sight.state["run"] == "r2"  # the first that has something to show
    sight.part("run-r0").click()
    sight.wait("document.querySelector('[data-testid=map-empty]').innerText.includes('no map from above')")
    sight.part("tab-curves").click()
    sight.wait("document.querySelector('[data-testid=panel-curves]').innerText.includes('Success')")
    sight.part("tab-live").click()
    sight.part("task-go").click()
    sight.wait("window.studio.live?.edge > 0")
    sight.part("view-0").wait_for()  # an environment that can draw itself is seen
    assert not sight.part("finding").is_visible()
    sight.part("run-r1").click()
    sight.wait("!document.querySelector('[data-testid=map-empty]').innerText.includes('no map from above')")
    sight.part("tab-live").click()
    assert "no agent that can be played" in sight.text("panel-live")
    sight.part("run-r2").click()
    sight.wait("window.studio.state.landmarks > 5")
    assert not sight.part("finding").is_visible()  # a good run
    (place / "2" / "eval.csv").write_text("env_steps,explore/goals_unseen\n1000,0.75\n")
    sight.wait("!document.querySelector('[data-testid=finding]').hidden")
    assert "goals never seen: training never came near 75% of the goals" in sight.text("finding")
    assert sight.complaints == []
    shutil.rmtree(place / "2")
    sight.wait("document.querySelector('[data-testid=run-r2]').innerText.includes('gone')")
    sight.click(6, 3)
    sight.wait("!document.querySelector('[data-testid=message]').hidden")
    assert "\n" not in sight.text("message")
    assert all("Failed to load resource" in complaint for complaint in sight.complaints)  # the browser's own remark
    sight.complaints.clear()


@pytest.mark.slow
@pytest.mark.usefixtures("_sources")
def test_a_server_that_ends_is_missed(see: Opener, demo_runs: list[Path]) -> None:
    with running(*demo_runs) as server:
        sight = see(server.address)
    sight.wait("document.querySelector('[data-testid=message]').innerText.includes('does not answer')")
    sight.part("colour-order").click()  # what was loaded can still be looked at
    assert "added at environment step" in sight.text("legend")
    sight.complaints.clear()  # the browser remarks on every request that failed
