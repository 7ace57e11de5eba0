"""Windows of any size, a phone, and a page that is enlarged."""

from __future__ import annotations

import pytest

from .conftest import Opener
from .page import STICKING_OUT, TWO_FRAMES, Sight

HEIGHTS = (800, 768, 720, 1080, 651, 907, 1013, 593, 577, 1200)
WIDTHS = (1460, 1459, 1440, 1366, 1280, 1463, 1333, 1117, 1187, 1024, 997, 981, 979, 1517, 1553, 1607, 1701, 1811, 1920)
SIZES = [(width, HEIGHTS[place % len(HEIGHTS)]) for place, width in enumerate(WIDTHS)] + [
    *((1460, height) for height in (700, 751, 799, 801, 853, 901, 947)),
    *((1280, height) for height in (600, 673, 731, 800)),
    (2560, 1440),
    (1049, 1399),
    (800, 600),
    (768, 1024),
    (683, 384),
    (640, 360),
    (601, 599),
    (412, 915),
    (360, 640),
    (320, 480),
]
"""Of a window, odd ones among them."""

PAGES = 4
"""That are looked at side by side: most of the time goes into waiting."""

DRAWN = """([x, y]) => {
  const map = document.querySelector("[data-testid=map-still]");
  const box = map.getBoundingClientRect();
  const [left, top] = window.studio.screen(x, y);
  const dot = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
  dot.drawImage(map, -(left - box.left) * map.width / box.width, -(top - box.top) * map.height / box.height);
  return dot.getImageData(0, 0, 1, 1).data[3] === 255 && left > 0 && left < innerWidth && top > 0 && top < innerHeight;
}"""
"""Whether the map shows anything at a place of the world, and that place is on the screen."""

PHONE, ENLARGED = (390, 844), (720, 450)
"""A telephone held upright; a laptop's window at 200%."""

START, GOAL = (1, 1), (6, 7)
TABS = ("runs", "place", "live", "curves", "config")


def test_at_forty_sizes_the_map_is_drawn_and_keeps_its_size(see: Opener, demo: str) -> None:
    assert len(SIZES) == 40
    sights = [see(demo) for _ in range(PAGES)]
    for first in range(0, len(SIZES), PAGES):
        sizes = SIZES[first : first + PAGES]
        for sight, (width, height) in zip(sights, sizes, strict=True):
            sight.page.set_viewport_size({"width": width, "height": height})
        for sight in sights:
            sight.page.evaluate(TWO_FRAMES)
            sight.page.evaluate(TWO_FRAMES)
        before = [sight.page.evaluate("window.resized") for sight in sights]
        sights[0].page.wait_for_timeout(500)
        after = [sight.page.evaluate("window.resized") for sight in sights]
        told = {size: number - earlier for size, number, earlier in zip(sizes, after, before, strict=True)}
        assert told == dict.fromkeys(sizes, 0)  # nothing changes its size because of its size
        for sight, size in zip(sights, sizes, strict=True):
            assert sight.page.evaluate(DRAWN, [1, 1]), size
            assert sight.page.evaluate(DRAWN, [7, 7]), size


def test_a_larger_legend_leaves_the_map_as_it_is(see: Opener, demo: str) -> None:
    sight = see(demo, size=(1460, 800))
    boxes = [(sight.part("map").bounding_box(), sight.part("legend").bounding_box())]
    sight.part("layer-coverage").check()
    sight.page.evaluate(TWO_FRAMES)
    boxes.append((sight.part("map").bounding_box(), sight.part("legend").bounding_box()))
    (first, small), (second, large) = boxes
    assert small is not None
    assert large is not None
    assert large["height"] > small["height"]
    assert first == second


def on_the_page(sight: Sight) -> None:
    """Nothing sticks out of its part of the page, and the page itself is as wide and high as the window."""
    assert sight.page.evaluate(STICKING_OUT) == []
    extent = "(page => [page.scrollWidth - innerWidth, page.scrollHeight - innerHeight])(document.scrollingElement)"
    assert sight.page.evaluate(extent) == [0, 0]


@pytest.mark.parametrize(("size", "touch"), [(PHONE, True), (ENLARGED, False)])
def test_with_little_room_everything_can_be_reached(see: Opener, demo: str, size: tuple[int, int], touch: bool) -> None:
    sight = see(demo, size=size, touch=touch)
    act = sight.tap if touch else sight.click
    box = sight.part("map").bounding_box()
    assert box is not None
    assert box["width"] * box["height"] > 0.35 * size[0] * size[1]  # the map is no stamp
    for tab in TABS:
        sight.part(f"tab-{tab}").click()
        sight.part(f"panel-{tab}").wait_for()
        sight.page.wait_for_timeout(150)
        on_the_page(sight)
    sight.part("tab-runs").click()
    sight.part("layer-coverage").check()
    sight.slide("checkpoint", 1)
    sight.slide("checkpoint", 4)
    sight.part("layer-coverage").uncheck()
    assert not sight.part("legend").is_visible()  # there it covers too much, unless one asks for it
    sight.part("legend-toggle").click()
    assert "visits of a landmark" in sight.text("legend")
    sight.part("legend-toggle").click()
    act(6, 3)
    sight.wait("window.studio.state.field")
    assert sight.state["reference"] == [6, 3, None]
    assert "From 6, 3" in sight.text("reference")
    on_the_page(sight)
    sight.part("tool-send").click()
    act(*START)
    assert sight.state["draft"] == {"start": [*START, 0], "goal": None}
    act(*GOAL)
    sight.part("speed").select_option("60")
    sight.wait("Boolean(window.studio.live?.over && !window.studio.live.playing)")
    assert sight.live["players"][0]["outcome"] == "reached"
    on_the_page(sight)
    sight.part("help").click()
    sight.part("keys-close").click()
    if touch:
        sight.shoot("phone")


def test_no_tab_is_cut_off_on_the_smallest_screens(see: Opener, demo: str) -> None:
    sight = see(demo, size=(568, 320))
    for width, height in ((568, 320), (480, 300), (500, 400), (320, 256), (320, 568)):
        sight.page.set_viewport_size({"width": width, "height": height})
        for tab in TABS:
            sight.part(f"tab-{tab}").click()
            sight.page.evaluate(TWO_FRAMES)
            on_the_page(sight)


def test_the_left_side_comes_back_when_there_is_room(see: Opener, demo: str) -> None:
    sight = see(demo, size=ENLARGED)
    sight.part("tab-runs").click()
    sight.part("run-r1").click()
    sight.page.set_viewport_size({"width": 1366, "height": 768})
    sight.wait("window.studio.state.tab === 'place'")
    assert sight.part("runs").is_visible()
    assert not sight.part("tab-runs").is_visible()
    assert "fourroom-random" in sight.text("headline")
    assert "visits of a landmark" not in sight.text("legend")  # the random policy has none
    sight.page.keyboard.press("2")
    assert sight.state["tab"] == "live"


def test_two_fingers_zoom_and_pan(see: Opener, demo: str) -> None:
    sight = see(demo, size=PHONE, touch=True)
    fingers = sight.page.context.new_cdp_session(sight.page)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        places = [{"x": x, "y": y, "id": finger} for finger, (x, y) in enumerate(points)]
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})

    left, top = sight.place(4, 4)
    apart = sight.place(7, 4)[0] - sight.place(1, 4)[0]
    touch("touchStart", (left - 30, top))
    touch("touchStart", (left - 30, top), (left + 30, top))
    for wide in (40, 50, 60):
        touch("touchMove", (left - wide + 10, top + 5), (left + wide + 10, top + 5))
    touch("touchEnd")
    assert sight.place(7, 4)[0] - sight.place(1, 4)[0] == pytest.approx(2 * apart, rel=0.05)
    assert sight.place(4, 4) == pytest.approx((left + 10, top + 5), abs=3)  # what was between the fingers still is
    assert sight.state["reference"] is None  # it was no tap
    sight.tap(4, 3)
    sight.wait("window.studio.state.field")
