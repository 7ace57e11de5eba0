"""Looking: the map, fields, landmarks, checkpoints, curves and settings."""

from __future__ import annotations

from io import BytesIO

import pytest
from PIL import Image
from playwright.sync_api import Route

from .conftest import Opener
from .page import OLD_PROJECTOR, SCREEN, STICKING_OUT

PLACE, FAR = (6, 3), (1, 7)
"""Cells of FourRoom, in the room at the top right and in the one at the bottom left."""

GRAPH = "/api/runs/r0/graph?checkpoint="
YELLOW, PURPLE = (253, 231, 37), (68, 1, 84)
"""The ends of the colours of a field."""


def unlike(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return sum(abs(first - second) for first, second in zip(one, other, strict=True))


def test_it_opens_with_the_graph_of_the_first_run(see: Opener, demo: str) -> None:
    sight = see(demo)
    graph = sight.document(GRAPH + "last")
    assert sight.state["landmarks"] == len(graph["landmarks"]["x"]) > 5
    assert "demo-fourroom seed 0" in sight.text("runs")
    assert "fourroom-random seed 0" in sight.text("runs")
    assert f"{sum(graph['edges']['in_force'])} in force" in sight.text("overview")
    assert "visits of a landmark" in sight.text("legend")
    assert sight.page.evaluate("window.studio.firstPaint") > 0
    assert all(address.startswith((demo, "data:")) for address in sight.asked)  # nothing comes from elsewhere
    sight.shoot("map")


def test_a_click_shows_the_field_from_there(see: Opener, demo: str) -> None:
    sight = see(demo)
    before = sight.colour(PLACE[0] + 0.4, PLACE[1] + 0.4)
    sight.look(*PLACE)
    here, far = (sight.colour(x + 0.3, y - 0.3) for x, y in (PLACE, FAR))
    assert unlike(here, YELLOW) < unlike(far, YELLOW)
    assert unlike(far, PURPLE) < unlike(here, PURPLE)
    assert before not in (here, far)
    assert sight.state["reference"] == [*PLACE, None]
    assert "any heading" in sight.text("reference")
    sight.shoot("field")
    sight.page.keyboard.press("Escape")
    assert not sight.state["field"]
    assert sight.colour(PLACE[0] + 0.4, PLACE[1] + 0.4) == before


def test_thresholds_are_outlines_that_move(see: Opener, demo: str) -> None:
    sight = see(demo)
    sight.look(*PLACE)
    own = sight.document(GRAPH + "last")["thresholds"]
    for meaning in ("below it a state becomes a landmark", "above it the agent takes itself to be there"):
        assert sight.page.get_by_text(meaning, exact=True).is_visible()
    assert sight.text("threshold-add-value").startswith(f"{own['add']:.2f} · ")

    def above() -> int:
        return int(sight.text("threshold-add-value").split(" · ")[1].split()[0])

    counts = []
    for threshold in (-0.5, own["add"], 0.99):
        sight.slide("threshold-add", threshold)
        counts.append(above())
    assert counts[0] == 40  # every cell of FourRoom
    assert counts[0] > counts[1] > counts[2] == 1  # the place itself
    edge = PLACE[0] - 0.5, PLACE[1]
    outlined = sight.colour(*edge)
    sight.part("threshold-add-on").uncheck()
    assert sight.text("threshold-add-value") == "off"
    sight.part("threshold-localize-on").uncheck()
    assert sight.colour(*edge) != outlined
    sight.part("threshold-add-on").check()
    sight.part("thresholds-reset").click()
    assert above() == counts[1]


def test_the_reference_is_turned_by_its_handle_by_buttons_and_by_keys(see: Opener, demo: str) -> None:
    sight = see(demo)
    sight.look(*PLACE)
    left, top = sight.place(*PLACE)
    sight.drag((left + 30, top), (left, top + 40))
    assert sight.state["reference"] == [*PLACE, 90]  # y grows down: to the south
    sight.part("heading-180").click()
    assert sight.state["reference"][2] == 180
    sight.page.keyboard.press("q")
    assert sight.state["reference"][2] == 90
    sight.page.keyboard.press("w")
    assert sight.state["reference"][2] is None
    sight.wait("window.studio.state.field")
    mean = sight.colour(PLACE[0] - 0.8, PLACE[1] + 1)
    sight.part("headings").select_option("each")
    assert sight.colour(PLACE[0] - 0.8, PLACE[1] + 1) != mean


def test_a_landmark_shows_its_picture_and_figures(see: Opener, demo: str) -> None:
    sight = see(demo)
    landmarks = sight.document(GRAPH + "last")["landmarks"]
    cells = list(zip(landmarks["x"], landmarks["y"], strict=True))
    number = next(row for row, cell in enumerate(cells) if cells.count(cell) == 1)
    sight.page.mouse.move(*sight.place(*cells[number]))
    assert sight.state["hover"] == number
    shown = sight.text("tip")
    assert f"Landmark {number}" in shown
    assert f"{landmarks['visits'][number]:,}" in shown
    sight.wait("document.querySelector('[data-testid=tip] img').naturalWidth > 0")
    sight.shoot("landmark")
    sight.click(*cells[number])
    sight.wait("window.studio.state.field")
    assert sight.state["picked"] == number
    assert f"{landmarks['added'][number]:,}" in sight.text("landmark")
    assert sight.state["reference"] == [*cells[number], landmarks["degrees"][number]]


def test_the_slider_goes_through_the_checkpoints(see: Opener, demo: str) -> None:
    sight = see(demo)
    checkpoints = sight.document("/api/runs")["runs"][0]["checkpoints"]
    assert len(checkpoints) > 1
    sizes = [len(sight.document(GRAPH + one["name"])["landmarks"]["x"]) for one in checkpoints]
    sight.slide("checkpoint", 0)
    sight.wait(f"window.studio.state.landmarks === {sizes[0]}")
    assert sight.text("checkpoint-text") == f"{checkpoints[0]['env_steps']:,} steps, {sizes[0]} landmarks"
    sight.part("layer-coverage").check()
    assert "visits of a square" in sight.text("legend")
    covered = sight.document(GRAPH + checkpoints[0]["name"])["coverage"]["visits"]
    share = round(100 * sum(map(bool, covered)) / len(covered))
    assert f"{sum(map(bool, covered))} of {len(covered)} squares ({share}%)" in sight.text("overview")
    sight.page.locator("body").click(position={"x": 700, "y": 20})  # the focus leaves the slider
    sight.page.keyboard.press("ArrowRight")
    assert sight.state["checkpoints"]["r0"] == checkpoints[1]["name"]
    sight.wait(f"window.studio.state.landmarks === {sizes[1]}")
    sight.shoot("early")
    sight.part("grow").click()
    sight.wait(f"window.studio.state.checkpoints.r0 === {checkpoints[-1]['name']!r}")
    sight.wait(f"window.studio.state.landmarks === {sizes[-1]}")


def test_colours_and_filters_have_a_legend(see: Opener, demo: str) -> None:
    sight = see(demo)
    graph = sight.document(GRAPH + "last")
    titles = {
        "order": "added at environment step",
        "success": "share of walks along an edge that arrived",
        "component": "landmarks of each component",
        "visits": "visits of a landmark",
    }
    for name, title in titles.items():
        sight.part(f"colour-{name}").click()
        assert title in sight.text("legend")
    inside = sum(graph["edges"]["in_force"])
    outside = len(graph["edges"]["source"]) - inside
    sight.part("filters").uncheck()
    assert f"{inside} edges in force, {outside} filtered out" in sight.text("legend")
    sight.part("map").click(position={"x": 5, "y": 5})
    sight.page.keyboard.press("f")
    assert f"{inside} of {inside + outside} edges pass the filters" in sight.text("legend")


def test_pan_and_zoom_keep_the_world_under_the_pointer(see: Opener, demo: str) -> None:
    sight = see(demo)
    left, top = sight.place(*PLACE)
    sight.page.mouse.move(left, top)
    apart = sight.place(*FAR)[1] - top
    sight.page.mouse.wheel(0, -240)
    sight.page.wait_for_timeout(100)
    assert sight.place(*PLACE) == pytest.approx((left, top), abs=1.5)  # a mouse has whole pixels
    away = sight.place(*FAR)
    assert away[1] - top > 1.5 * apart
    sight.drag((left, top), (left + 40, top - 25))
    assert sight.place(*FAR) == pytest.approx((away[0] + 40, away[1] - 25), abs=1.5)
    assert not sight.state["field"]  # a drag is no click
    sight.part("zoom-fit").click()
    assert sight.place(*PLACE) == pytest.approx((left, top))


def test_curves_and_settings_of_two_runs(see: Opener, demo: str) -> None:
    sight = see(demo)
    sight.part("tab-curves").click()
    chart = sight.part("chart-eval/success_paper")
    chart.locator("path.mean").nth(1).wait_for(state="attached")
    curves = sight.document("/api/curves?runs=r0,r1")
    measured = next(one for one in curves["metrics"] if one["name"] == "eval/success_paper")["runs"]["r0"]
    assert chart.locator("path.mean").first.get_attribute("d").count("M") == len(measured["steps"])  # type: ignore[union-attr]
    assert "only guides the eye" in sight.text("panel-curves")
    box = chart.locator("svg").bounding_box()
    assert box is not None
    read = set()
    for share in (0.3, 0.45, 0.5, 0.55, 0.7, 0.9):  # nothing is said of what lies between two evaluations
        sight.page.mouse.move(box["x"] + share * box["width"], box["y"] + 0.5 * box["height"])
        at, value, other = chart.locator(".reading > *").all_inner_texts()
        step = int(at.removeprefix("at ").replace(",", ""))
        assert value == f"{round(100 * measured['values'][measured['steps'].index(step)])}%"
        assert not other[0].isdigit()  # the random policy was not measured then
        read.add(step)
    assert len(read) > 1
    sight.shoot("curves")
    sight.part("curves-training").click()
    assert sight.page.locator("figure").count() > 0
    sight.part("tab-config").click()
    sight.part("config-table").wait_for()
    assert "agent.kind" in sight.text("config-table")
    assert "SFLConfig" in sight.text("config-table")
    assert "RandomConfig" in sight.text("config-table")
    sight.shoot("settings")
    sight.part("config-search").fill("no such setting")
    assert "No setting has this name." in sight.text("panel-config")
    sight.part("config-search").fill("")
    sight.part("shown-r1").uncheck()
    sight.wait("!document.querySelector('[data-testid=config-table]').innerText.includes('RandomConfig')")


def test_seeds_become_one_curve_of_what_was_measured_at_the_same_step(see: Opener, demo: str) -> None:
    sight = see(demo)
    groups = sight.page.evaluate("""async () => {
      const { grouped } = await import("/page/seeds.js");
      const runs = ["a", "a", "b", "c", "c", "c"].map((experiment, place) => ({ id: `r${place}`, experiment }));
      const line = (steps, values) => ({ steps, values });
      return grouped({ runs: {
        r0: line([0, 10], [0, 1]), r1: line([0, 5, 10], [1, null, 0.5]), r2: line([3], [7]),
        r3: line([10, 20, 30], [0, 0.5, 1]), r4: line([10, 15, 30], [1, 1, 0]), r5: line([10], [0.5]),
      } }, runs);
    }""")
    first, second, third = groups
    assert (first["steps"], first["mean"]) == ([0, 10], [0.5, 0.75])
    assert (first["low"], first["high"]) == ([0, 0.5], [1, 1])
    assert (second["experiment"], second["mean"]) == ("b", [7])
    # At 15 and at 20 one of two seeds under way was not measured; the third had not come so far.
    assert (third["steps"], third["mean"], third["seeds"]) == ([10, 30], [0.5, 0.5], [3, 2])


def test_a_share_is_all_or_none_only_where_it_is(see: Opener, demo: str) -> None:
    sight = see(demo)
    written = sight.page.evaluate("""async () => {
      const { percent, shareOf } = await import("/page/dom.js");
      const shares = [0, 1 / 300, 0.005, 0.5, 0.994, 231 / 232, 0.99999, 1].map(percent);
      return [...shares, shareOf(231, 232, "squares")];
    }""")
    assert written == ["0%", "<1%", "1%", "50%", "99%", ">99%", ">99%", "100%", "231 of 232 squares (>99%)"]
    assert "40 of 40 squares (100%)" in sight.text("overview")

    def beside(route: Route) -> None:
        curves = route.fetch().json()
        for metric in curves["metrics"]:
            metric["random"] = 0.996 if metric["unit"] == "share" else None
        route.fulfill(json=curves)

    sight.page.route("**/api/curves?*", beside)
    sight.part("tab-curves").click()
    sight.part("chart-eval/success_paper").wait_for()
    assert "random policy >99%" in sight.text("chart-eval/success_paper")


def test_light_dark_and_projector(see: Opener, demo: str) -> None:
    sight = see(demo, size=SCREEN, dark=True)
    dark = sight.colour(2, 2.4)
    size = sight.page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)")
    sight.shoot("dark")
    sight.part("theme").click()
    assert sight.text("theme") == "Light"
    light = sight.colour(2, 2.4)
    assert sum(light) > sum(dark) + 300
    sight.page.keyboard.press("p")
    assert sight.page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)") > 1.3 * size >= 1.3 * 14
    left, top = sight.place(1, 1)
    beside = sight.page.screenshot(clip={"x": left - 10, "y": top - 10, "width": 1, "height": 1})
    assert sum(Image.open(BytesIO(beside)).convert("RGB").getpixel((0, 0))) < 150  # type: ignore[arg-type]  # the S, too
    sight.shoot("projector")


def test_nothing_is_cut_off_on_a_small_projector(see: Opener, demo: str) -> None:
    sight = see(demo, size=OLD_PROJECTOR)
    sight.page.keyboard.press("p")
    sight.look(*PLACE)
    assert sight.page.evaluate(STICKING_OUT) == []
    for tab in ("curves", "config", "live"):
        sight.part(f"tab-{tab}").click()
        sight.page.wait_for_timeout(200)
        assert sight.page.evaluate(STICKING_OUT) == []
    sight.part("player-add").click()
    sight.send((1, 1), (6, 7))
    sight.wait("window.studio.live?.edge > 0")
    sight.part("view-1").wait_for()
    assert sight.page.evaluate(STICKING_OUT) == []
    boxes = [sight.part(f"card-{player}").bounding_box() for player in (0, 1)]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[1]["x"] > boxes[0]["x"] + boxes[0]["width"]  # side by side


def test_no_text_is_smaller_than_14_pixels(see: Opener, demo: str) -> None:
    sight = see(demo)
    sight.look(*PLACE)
    small = """() => [...document.querySelectorAll("body *")].filter(node =>
      [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim())
      && node.checkVisibility() && parseFloat(getComputedStyle(node).fontSize) < 14 && !node.matches(".home"))
      .map(node => node.outerHTML.slice(0, 80))"""
    for tab in ("place", "live", "curves", "config"):
        sight.part(f"tab-{tab}").click()
        sight.page.wait_for_timeout(200)
        assert sight.page.evaluate(small) == []


def test_everything_has_a_key_and_the_list_says_so(see: Opener, demo: str) -> None:
    sight = see(demo)
    sight.page.keyboard.press("?")
    assert "Keys and mouse" in sight.text("keys")
    sight.shoot("keys")
    sight.page.keyboard.press("Escape")
    assert not sight.part("keys").is_visible()
    sight.page.keyboard.press("m")
    sight.page.keyboard.press("ArrowRight")  # the cross-hairs appear in the middle, which is a wall
    for key in ("ArrowRight", "ArrowRight", "ArrowUp"):
        sight.page.keyboard.press(key)
    sight.page.keyboard.press("Enter")
    sight.wait("window.studio.state.field")
    assert sight.state["reference"] == [6, 3, None]
    sight.page.keyboard.press("c")
    assert sight.state["colourBy"] == "order"
    for number, tab in enumerate(("place", "live", "curves", "config"), 1):
        sight.page.keyboard.press(str(number))
        assert sight.state["tab"] == tab
    sight.page.keyboard.press("]")
    assert sight.state["run"] == "r1"


def test_every_control_has_a_name_for_tests_and_for_those_who_cannot_see_it(see: Opener, demo: str) -> None:
    sight = see(demo)
    sight.look(*PLACE)
    controls = "[...document.querySelectorAll('button, select, input')]"
    for tab in ("place", "live", "curves", "config"):
        sight.part(f"tab-{tab}").click()
        sight.page.wait_for_timeout(200)
        nameless = f"{controls}.filter(node => !node.dataset.testid).map(node => node.outerHTML.slice(0, 80))"
        assert sight.page.evaluate(nameless) == []
        silent = (
            f"{controls}.filter(node => !(node.ariaLabel || node.innerText || node.labels?.length || node.title))"
            ".map(node => node.dataset.testid)"
        )
        assert sight.page.evaluate(silent) == []
