"""Sending agents: tasks by mouse, keyboard, list and picture; playing, scrubbing, comparing."""

from __future__ import annotations

from .conftest import Opener
from .page import Sight

START, GOAL = (1, 1), (6, 7)
"""Cells of FourRoom: opposite corners."""

WALL = (4, 1)


def arrived(sight: Sight) -> None:
    """Wait until the episode is over and shown to its end."""
    sight.wait("Boolean(window.studio.live?.over && !window.studio.live.playing)")
    assert sight.live["playhead"] == sight.live["edge"]


def test_drag_a_start_and_a_goal_and_the_agent_goes_there(see: Opener, demo: str) -> None:
    sight = see(demo)
    sight.send(START, GOAL)
    sight.wait("window.studio.live?.edge > 3")
    assert sight.state["tab"] == "live"
    sight.part("view-0").wait_for()
    sight.part("goal-picture").wait_for()
    assert "landmark" in sight.text("facts-0")
    assert "forward" in sight.text("values-0")
    sight.shoot("live")
    sight.part("speed").select_option("60")
    arrived(sight)
    (player,) = sight.live["players"]
    assert (player["run"], player["outcome"]) == ("r0", "reached")
    assert sight.text("outcome-0") == f"arrived after {player['steps'] - 1} steps"


def test_a_drag_from_a_landmark_leaves_its_figures_behind(see: Opener, demo: str) -> None:
    sight = see(demo)
    landmarks = sight.document("/api/runs/r0/graph?checkpoint=last")["landmarks"]
    start = landmarks["x"][0], landmarks["y"][0]
    sight.page.mouse.move(*sight.place(*start))
    sight.wait("window.studio.state.hover === 0")
    sight.send(start, GOAL)
    assert sight.state["hover"] is None


def test_pause_step_scrub_and_replay(see: Opener, demo: str) -> None:
    sight = see(demo)
    for _ in range(3):
        sight.page.keyboard.press("<")  # one step a second: it is not over before it is held
    sight.send(START, GOAL)
    sight.wait("window.studio.live?.edge > 0")
    with sight.page.expect_response(lambda answer: '"pause"' in (answer.request.post_data or "")):
        sight.page.keyboard.press(" ")
    held = sight.at_rest()
    assert not held["playing"]
    assert not held["over"]
    sight.page.wait_for_timeout(700)
    assert sight.live == held  # paused: nothing is computed
    sight.slide("scrub", held["edge"])
    sight.part("step").click()
    sight.wait(f"window.studio.live.playhead === {held['edge'] + 1}")
    assert sight.live["edge"] == held["edge"] + 1
    last = sight.part("view-0").get_attribute("src")
    sight.slide("scrub", 0)
    assert sight.live["playhead"] == 0
    assert sight.text("outcome-0") == "step 0"
    assert sight.part("view-0").get_attribute("src") != last
    sight.page.keyboard.press(".")
    assert sight.live["playhead"] == 1
    sight.part("speed").select_option("60")
    sight.part("again").click()
    arrived(sight)
    sight.part("stop").click()
    assert sight.live is None


def test_two_agents_side_by_side_on_one_of_the_runs_tasks(see: Opener, demo: str) -> None:
    sight = see(demo, dark=True)
    sight.part("tab-live").click()
    sight.part("player-add").click()
    assert sight.part("player-1").input_value() == "r1"  # the next run, not the same again
    sight.part("task-level").select_option("paper")
    sight.part("task-go").click()
    sight.part("speed").select_option("60")
    sight.wait("window.studio.live?.players.every(player => player.steps > 8)")
    sight.shoot("compare")
    arrived(sight)
    outcomes = {player["run"]: player["outcome"] for player in sight.live["players"]}
    assert outcomes["r0"] == "reached"
    assert "demo-fourroom" in sight.text("card-0")
    assert "fourroom-random" in sight.text("card-1")
    assert "not localized" in sight.text("facts-1")


def test_a_player_can_be_an_earlier_checkpoint_of_the_same_run(see: Opener, demo: str) -> None:
    sight = see(demo)
    first = sight.document("/api/runs")["runs"][0]["checkpoints"][0]["name"]
    sight.part("tab-live").click()
    sight.part("player-add").click()
    sight.part("player-1").select_option("r0")
    sight.part("player-1-checkpoint").select_option(first)
    sight.send(START, (2, 3))
    sight.wait("window.studio.live?.edge > 0")
    assert [player["checkpoint"] for player in sight.live["players"]] == ["last", first]
    sight.part("setup").locator("summary").click()
    sight.part("player-1-remove").click()
    assert sight.part("player-1").count() == 0


def test_by_keyboard_alone(see: Opener, demo: str) -> None:
    sight = see(demo)
    sight.page.keyboard.press("m")
    keys = ["ArrowRight", *["ArrowLeft"] * 3, *["ArrowUp"] * 3, "a"]  # from the middle (4, 4) to the corner
    for key in [*keys, *["ArrowRight"] * 2, "ArrowDown", "b"]:
        sight.page.keyboard.press(key)
    sight.wait("window.studio.live !== null")
    arrived(sight)
    assert sight.live["players"][0]["outcome"] == "reached"


def test_a_picture_dropped_onto_the_page_is_a_goal(see: Opener, demo: str) -> None:
    sight = see(demo)
    sight.send((2, 1), (3, 3))
    sight.part("goal-picture").wait_for()
    picture = sight.picture("goal-picture")
    before = sight.live["id"]
    sight.part("goal-file").set_input_files({"name": "goal.png", "mimeType": "image/png", "buffer": picture})
    sight.wait(f"(window.studio.live?.id ?? {before!r}) !== {before!r}")
    sight.part("speed").select_option("60")
    arrived(sight)
    assert sight.live["players"][0]["outcome"] == "reached"
    chosen = sight.live["id"]
    sight.drop("goal.png", "image/png", picture)
    sight.wait(f"(window.studio.live?.id ?? {chosen!r}) !== {chosen!r}")
    arrived(sight)
    assert sight.live["players"][0]["outcome"] == "reached"


def test_what_cannot_be_done_is_said_in_one_line(see: Opener, demo: str) -> None:
    sight = see(demo)
    sight.drop("notes.txt", "text/plain", b"no picture")
    assert sight.text("message") == "A goal is a PNG or JPEG picture; notes.txt is text/plain."
    sight.send(START, WALL)
    sight.wait("document.querySelector('[data-testid=message]').innerText.includes('(4, 1)')")
    assert "\n" not in sight.text("message")
    assert sight.live is None
    # The browser itself remarks on every refused request; nothing else may have been said.
    assert all("400 (Bad Request)" in complaint for complaint in sight.complaints)
    sight.complaints.clear()


def test_that_an_episode_broke_off_stays_said(see: Opener, demo: str) -> None:
    sight = see(demo)
    sight.page.route("**/events", lambda route: route.fulfill(status=404))
    sight.send((1, 1), (6, 7))
    sight.wait("window.studio.live?.over")
    broken = "The line to the server broke; the episode is shown as far as it came."
    assert sight.text("message") == broken
    sight.part("message").click()
    assert not sight.part("message").is_visible()
    assert broken in sight.text("step-count")
    assert all("404 (Not Found)" in complaint for complaint in sight.complaints)  # the browser's own remark
    sight.complaints.clear()


def test_from_a_look_to_an_arrival(see: Opener, demo: str) -> None:
    sight = see(demo, size=(1280, 760))
    film = sight.film("at-work")
    film.take(900)
    sight.look(6, 3)
    sight.page.wait_for_timeout(300)
    film.take(900)
    for threshold in (0.55, 0.6, 0.65, 0.7):
        sight.slide("threshold-add", threshold)
        film.take(250)
    film.take(600)
    sight.part("tab-live").click()
    sight.part("player-add").click()
    sight.send(START, GOAL)
    sight.part("speed").select_option("60")
    assert not sight.state["field"]  # the map shows one thing at a time
    sight.wait("window.studio.live?.players[0].outcome !== null")
    sight.page.keyboard.press(" ")
    (sent, beside) = sight.live["players"]
    assert (sent["outcome"], beside["run"]) == ("reached", "r1")
    for step in range(sent["steps"]):
        sight.slide("scrub", step)
        film.take(160)
    film.take(2000)
    film.save()
