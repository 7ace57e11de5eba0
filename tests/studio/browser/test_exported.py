"""The page in one file: it opens from disk, and knows what was recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfl.cli import main

from .conftest import Opener

PLACE = (6, 3)


@pytest.fixture(scope="module")
def exported(demo_runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of an export of the demo's runs."""
    file = tmp_path_factory.mktemp("export") / "page.html"
    assert main(["studio", *map(str, demo_runs), "--export", str(file)]) == 0
    return file.as_uri()


def test_it_opens_from_disk_and_asks_nobody(see: Opener, exported: str) -> None:
    sight = see(exported)
    assert sight.state["landmarks"] > 5
    sight.look(*PLACE)
    assert sight.state["reference"] == [*PLACE, None]
    sight.part("heading-90").click()
    sight.wait("window.studio.state.reference[2] === 90 && window.studio.state.field")
    sight.slide("checkpoint", 0)
    sight.wait("window.studio.state.landmarks < 10")
    sight.part("tab-curves").click()
    sight.part("chart-eval/success_paper").wait_for()
    sight.part("tab-config").click()
    sight.part("config-table").wait_for()
    assert all(address.startswith(("file:", "data:")) for address in sight.asked)


def test_its_fields_are_those_of_the_server(see: Opener, exported: str, demo: str) -> None:
    on_disk, served = see(exported), see(demo)
    colours = []
    for sight in (on_disk, served):
        sight.look(*PLACE)
        sight.part("heading-180").click()
        sight.wait("window.studio.state.field")
        sight.page.wait_for_timeout(300)
        colours.append([sight.colour(x + 0.3, y - 0.3) for x, y in ((6, 3), (5, 1), (3, 3), (1, 7))])
    for one, other in zip(*colours, strict=True):
        assert one == pytest.approx(other, abs=12)  # a field in bytes has 255 colours


def test_recorded_episodes_can_be_played_and_scrubbed(see: Opener, exported: str) -> None:
    sight = see(exported)
    sight.part("tab-live").click()
    sight.part("episode-play").click()
    sight.part("speed").select_option("60")
    sight.wait("window.studio.live.over && !window.studio.live.playing")
    outcomes = {player["run"]: player["outcome"] for player in sight.live["players"]}
    assert outcomes["r0"] == "reached"
    assert set(outcomes) == {"r0", "r1"}
    sight.slide("scrub", 0)
    assert sight.text("outcome-0") == "step 0"
    sight.shoot("export")


def test_a_landmark_has_its_picture_in_the_file(see: Opener, exported: str) -> None:
    sight = see(exported)
    x, y = sight.page.evaluate("""() => {
      const { x, y } = window.SFL_EXPORT.documents["/api/runs/r0/graph?checkpoint=last"].landmarks;
      const alone = (one) => x.filter((_, other) => x[other] === x[one] && y[other] === y[one]).length === 1;
      const place = x.findIndex((_, one) => alone(one));
      return [x[place], y[place]];
    }""")
    sight.page.mouse.move(*sight.place(x, y))
    sight.wait("document.querySelector('[data-testid=tip] img')?.naturalWidth > 0")
    assert (sight.part("tip").locator("img").get_attribute("src") or "").startswith("data:image/png;base64,")


def test_what_needs_a_server_says_so(see: Opener, exported: str) -> None:
    sight = see(exported)
    assert not sight.part("tool-send").is_visible()
    sight.send((1, 1), (6, 7))
    assert sight.text("message") == "An exported page has no agent to send; open the run with `sfl studio` for that."
    sight.drop("goal.png", "image/png", b"")
    assert "An exported page has no agent to send" in sight.text("message")
