"""What is asked for and cannot be, and what an episode is said to do: the page says what is so."""

from __future__ import annotations

from .conftest import Opener
from .page import Sight

START, GOAL, WALL = (1, 1), (6, 7), (4, 1)
"""Cells of FourRoom."""

TAKEN_AWAY = """() => document.querySelector("[data-testid=map]").dispatchEvent(
  new PointerEvent("pointercancel", { pointerId: 1, bubbles: true }))"""
"""The browser takes the pointer for something else, such as a gesture of its own."""


def playing(sight: Sight) -> str:
    """Begin an episode that lasts: a step a second. Its name."""
    for _ in range(4):
        sight.page.keyboard.press("<")
    sight.send(START, GOAL)
    sight.wait("window.studio.live?.edge > 0")
    return str(sight.live["id"])


def test_a_goal_in_a_wall_is_refused_and_never_drawn(see: Opener, demo: str) -> None:
    sight = see(demo)
    wall = sight.colour(WALL[0] + 0.1, WALL[1] + 0.1)
    sight.page.keyboard.down("Shift")
    sight.page.mouse.move(*sight.place(*START))
    sight.page.mouse.down()
    sight.page.mouse.move(*sight.place(*WALL), steps=5)
    assert sight.colour(WALL[0] + 0.1, WALL[1] + 0.1) == wall  # no B there, not even on the way
    sight.page.mouse.up()
    sight.page.keyboard.up("Shift")
    assert sight.text("message") == "(4, 1) is inside a wall or off the map: it is no goal."
    assert sight.state["draft"] is None
    sight.send(WALL, GOAL)
    assert sight.text("message") == "(4, 1) is inside a wall or off the map: nobody can start there."
    assert sight.state["draft"] is None
    assert sight.colour(WALL[0] + 0.1, WALL[1] + 0.1) == wall
    assert not any("/api/live" in address for address in sight.asked)


def test_the_keyboard_does_not_ask_from_inside_a_wall(see: Opener, demo: str) -> None:
    sight = see(demo)
    sight.page.keyboard.press("m")
    sight.page.keyboard.press("ArrowRight")  # the cross-hairs appear in the middle, which is a wall
    sight.page.keyboard.press("Enter")
    assert sight.text("message") == "(4, 4) is inside a wall or off the map: nobody can look from there."
    sight.page.keyboard.press("a")
    assert sight.text("message") == "(4, 4) is inside a wall or off the map: nobody can start there."
    assert (sight.state["reference"], sight.state["draft"]) == (None, None)
    sight.page.keyboard.press("ArrowUp")  # the door above it
    sight.page.keyboard.press("a")
    assert sight.state["draft"] == {"start": [4, 3, 0], "goal": None}
    sight.page.keyboard.press("ArrowDown")
    sight.page.keyboard.press("b")
    assert sight.text("message") == "(4, 4) is inside a wall or off the map: it is no goal."
    assert not any(address.endswith("/field") or "/api/live" in address for address in sight.asked)


def test_what_is_refused_or_clicked_by_the_way_ends_no_episode(see: Opener, demo: str) -> None:
    sight = see(demo)
    name = playing(sight)
    sight.click(6, 3)
    assert "An episode is under way: end it" in sight.text("message")
    assert sight.state["reference"] is None
    sight.send(START, WALL)
    assert "it is no goal" in sight.text("message")
    sight.drop("goal.png", "image/png", b"no picture")
    sight.wait("document.querySelector('[data-testid=message]').innerText.includes('cannot be read')")
    assert sight.state["draft"] is None
    assert all("400 (Bad Request)" in complaint for complaint in sight.complaints)  # the browser's own remark
    sight.complaints.clear()
    sight.part("run-r1").click()  # in the same world
    sight.wait("window.studio.state.run === 'r1'")
    assert sight.live["id"] == name
    assert sight.live["playing"]
    sight.part("run-r0").click()
    sight.part("speed").select_option("60")
    sight.wait("Boolean(window.studio.live?.over && !window.studio.live.playing)")
    sight.click(6, 3)
    assert sight.text("message") == "The episode, which was over, is put away."
    sight.wait("window.studio.state.field")
    assert sight.live is None


def test_a_task_that_is_taken_back_while_it_is_drawn_is_not_sent(see: Opener, demo: str) -> None:
    sight = see(demo)
    sight.part("tool-send").click()
    for take_back in (lambda: sight.page.keyboard.press("Escape"), lambda: sight.page.evaluate(TAKEN_AWAY)):
        sight.page.mouse.move(*sight.place(*START))
        sight.page.mouse.down()
        sight.page.mouse.move(*sight.place(*GOAL), steps=5)
        assert sight.state["draft"]["goal"][:2] == list(GOAL)
        take_back()
        assert sight.state["draft"] is None
        sight.page.mouse.move(*sight.place(*GOAL), steps=2)
        sight.page.mouse.up()
        sight.page.wait_for_timeout(200)
        assert sight.state["draft"] is None
    assert not any("/api/live" in address for address in sight.asked)


def test_a_waypoint_is_not_said_to_be_the_goal_that_is_reached(see: Opener, demo: str) -> None:
    sight = see(demo)
    sight.page.keyboard.press(">")
    sight.send(START, GOAL)
    sight.wait("window.studio.live?.edge > 0")
    sight.part("speed").select_option("60")
    sight.wait("Boolean(window.studio.live?.over && !window.studio.live.playing)")
    assert sight.live["players"][0]["outcome"] == "reached"
    last, passed = sight.live["edge"], 0
    for step in range(last + 1):
        sight.slide("scrub", step)
        facts = sight.text("facts-0")
        passed += "to be reached" in facts
        assert step == last or "(reached)" not in facts
        assert ("arrived" in sight.text("outcome-0")) == (step == last)
    assert passed  # a waypoint is, now and then
