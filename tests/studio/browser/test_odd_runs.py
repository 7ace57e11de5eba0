"""Runs that are not what one hopes for: the page says so and goes on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.bench.studio import running

from sfl import experiments
from sfl.run import folder
from sfl.run.settings import EvalConfig
from sfl.run.train import train
from sfl.worlds import GymConfig

from .conftest import Opener


@pytest.fixture
def odd(demo_runs: list[Path], tmp_path: Path, _sources: None) -> Iterator[tuple[str, Path]]:
    """A server, and the folder of its runs: a world without a map, a run that has just begun, and a good one."""
    random = experiments.tiny(experiments.get("fourroom-random"))
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
    sight.send((1, 1), (6, 7))
    sight.wait("window.studio.live?.players[0].run === 'r2' && window.studio.live.edge > 0")
    sight.part("run-r0").click()
    sight.wait("window.studio.live === null")
    assert sight.text("message") == "The episode was ended: its world is left."
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
def test_a_server_that_ends_is_missed_and_one_that_comes_back_is_found(see: Opener, demo_runs: list[Path]) -> None:
    with running(*demo_runs) as server:
        sight = see(server.address)
        assert not sight.part("lost").is_visible()
    sight.wait("window.studio.state.lost")
    assert "does not answer; is it still running? What was loaded is still shown" in sight.text("lost")
    sight.part("colour-order").click()  # what was loaded can still be looked at
    assert "added at environment step" in sight.text("legend")
    sight.click(6, 3)
    sight.part("tab-curves").click()
    sight.part("message").wait_for(state="hidden")  # one banner is enough
    assert sight.part("lost").is_visible()
    with running(*demo_runs, port=server.port):
        sight.wait("window.studio.state.lost === null")
        assert not sight.part("lost").is_visible()
        sight.part("chart-eval/success_paper").wait_for()  # what could not be had is asked for anew
        sight.wait("window.studio.state.field")
        assert sight.state["reference"] == [6, 3, None]
        sight.send((1, 1), (6, 7))
        sight.wait("window.studio.live?.edge > 0")
    sight.complaints.clear()  # the browser remarks on every request that failed


# ---- training goes on


@pytest.fixture(scope="module")
def growing(demo_runs: list[Path], tmp_path_factory: pytest.TempPathFactory, _sources: None) -> Iterator[Growing]:
    """A server over a folder with a run that is being trained."""
    place = tmp_path_factory.mktemp("growing")
    last = shutil.copytree(demo_runs[0], place / "runs" / "demo") / "checkpoints" / "last"
    last.rename(place / "next")
    shutil.copytree(last.with_name("000005000"), last)
    with running(place / "runs") as server:
        yield Growing(server.address, place)


class Growing:
    """Where the server is, and where its runs are."""

    def __init__(self, address: str, place: Path) -> None:
        self.address, self.runs = address, place / "runs"
        self._next = place / "next"

    def go_on(self) -> None:
        """The run makes another checkpoint, as training does."""
        last = self.runs / "demo" / "checkpoints" / "last"
        last.rename(last.with_name("last.old"))
        self._next.rename(last)
        shutil.rmtree(last.with_name("last.old"))


@pytest.mark.slow
def test_a_new_checkpoint_renews_the_field_that_is_open(see: Opener, growing: Growing) -> None:
    sight = see(growing.address)
    assert "training" in sight.text("run-r0")
    sight.look(6, 3)
    assert sight.state["fieldAt"] == 5_000
    sight.slide("threshold-add", 0.7)
    sight.page.evaluate("""() => {
      window.seen = [];
      const look = () => {
        const line = document.querySelector("[data-testid=renewing]");
        window.seen.push([window.studio.state.fieldAt, line.hidden ? "" : line.textContent]);
        requestAnimationFrame(look);
      };
      look();
    }""")
    growing.go_on()
    sight.wait("window.seen.at(-1)[0] === 40000")  # that it is shown was seen as well, in the frame after
    seen = sight.page.evaluate("window.seen")
    assert {at for at, _ in seen} == {5_000, 40_000}  # at no moment was there none
    said = {line for at, line in seen if at == 5_000 and line}
    assert said
    assert all("the field at step 5,000; that of the newest checkpoint is being made" in line for line in said)
    assert not sight.part("renewing").is_visible()
    assert sight.state["reference"] == [6, 3, None]
    assert sight.text("threshold-add-value").startswith("0.70")  # the slider stays where it was put


@pytest.mark.slow
def test_a_run_that_is_begun_after_the_server_is_listed(see: Opener, growing: Growing) -> None:
    sight = see(growing.address)
    assert sight.part("run-r1").count() == 0
    words = ("train", "fourroom-random", "--tiny", "--name", "late", "--runs-dir", str(growing.runs))
    subprocess.run([sys.executable, "-m", "sfl", *words], check=True, capture_output=True)
    sight.part("run-r1").wait_for()
    assert "late seed 0" in sight.text("run-r1")
    assert sight.part("shown-r1").is_checked()
    sight.part("run-r1").click()
    sight.wait("window.studio.state.run === 'r1'")
    sight.part("tab-curves").click()
    sight.wait("document.querySelector('[data-testid=panel-curves]').innerText.includes('late')")
