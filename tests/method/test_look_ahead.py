"""Landmarks of the route that are reached or aimed at by their own SFS (reached `similar`)."""

from __future__ import annotations

from typing import Any

import pytest

from sfl.api import GOAL
from sfl.errors import UsageError
from sfl.method.config import NavigatorConfig
from sfl.method.planner import Planner

from .drawing import both_ways, draw
from .script import Script

# A line of seven landmarks.
LINE = Planner(draw(7, both_ways({(i, i + 1): 1.0 for i in range(6)})))


def on_the_line(goal_links: list[int] | None = None, **settings: Any) -> Script:
    """At 0, about to go to 6 (or to a goal): the first decision is made."""
    defaults = {"reached": "similar", "reach_threshold": 0.9, "look_ahead": 3, "aim_threshold": 0.5, "replan_after": 4}
    limits = {"frontier_steps": 100, "steps_per_landmark": 100}
    script = Script(LINE, frontier=6, **(defaults | limits | settings)).begin(goal_links)
    assert script.navigator.waypoints() == ()  # no trip yet
    assert script.see(0) == 1
    return script


def test_it_wants_to_know_about_the_next_landmarks_up_to_the_last() -> None:
    script = on_the_line()
    assert script.navigator.waypoints() == (1, 2, 3)
    script.see(4)
    assert script.navigator.waypoints() == (5, 6)
    script = on_the_line(goal_links=[2])
    assert script.navigator.waypoints() == (1, 2, GOAL)


@pytest.mark.parametrize("reached", ["nearest", "localized"])
def test_other_rules_ask_for_nothing(reached: str) -> None:
    script = on_the_line(reached=reached)
    assert script.navigator.waypoints() == ()
    assert script.see(None, nearest=0) == 1


def test_landmarks_whose_own_sfs_is_high_are_reached_and_those_before_them_skipped() -> None:
    script = on_the_line(aim_threshold=1.0)
    assert script.see(None, ahead=(0.2, 0.9, 0.1)) == 3  # at the threshold is enough; 1 was passed somehow
    assert script.decision.reached == 2
    assert script.decision.target == 3
    assert script.see(None, ahead=(0.89, 0.1, 0.1)) == 3
    assert (script.decision.reached, script.navigator.outcomes.failed) == (None, [])


def test_localized_farther_ahead_than_it_looks_counts_too() -> None:
    script = on_the_line()
    assert script.see(5, ahead=(0.95, 0.2, 0.2)) == 6
    assert script.decision.reached == 5


def test_the_last_landmark_ends_the_trip() -> None:
    script = on_the_line()
    script.see(4)
    assert script.see(None, ahead=(0.1, 0.95)) is None
    assert (script.navigator.outcomes.trips, script.decision.target) == ([True], None)


def test_it_aims_at_the_farthest_that_is_similar_and_still_waits_for_the_next() -> None:
    script = on_the_line()
    assert script.see(None, ahead=(0.8, 0.5, 0.49)) == 2  # at the threshold is enough
    assert script.decision.target == 1
    assert script.see(None, ahead=(0.1, 0.2, 0.6)) == 3  # whatever lies between
    assert script.decision.target == 1
    assert script.see(None, ahead=(0.1, 0.2, 0.3)) == 1
    # Four steps towards 1 by now, wherever it aimed: the leg is late.
    assert script.see(None, ahead=(0.1, 0.2, 0.6)) == 0
    assert script.navigator.outcomes.failed == [(0, 1)]


def test_what_is_reached_no_longer_counts_when_it_aims() -> None:
    script = on_the_line()
    assert script.see(None, ahead=(0.95, 0.3, 0.6)) == 3  # at 1: of 2 and 3, 3 is similar
    assert script.decision.target == 2
    script = on_the_line()
    assert script.see(None, ahead=(0.2, 0.95, 0.4)) == 3
    script = on_the_line()
    assert script.see(3, ahead=(0.6, 0.6, 0.6)) == 4  # all it looked at is behind it


def test_planning_anew_forgets_what_was_similar_on_the_old_route() -> None:
    script = on_the_line(replan_off_route=True, goal_links=[3])
    assert script.see(6, ahead=(0.1, 0.2, 0.6)) == 5  # from 6 back to 3; not the third of that route
    assert script.route == (6, 5, 4, 3, GOAL)


def test_the_goal_may_be_aimed_at_but_is_never_reached() -> None:
    script = on_the_line(goal_links=[2])
    assert script.see(None, ahead=(0.1, 0.2, 0.99)) == GOAL
    assert script.decision.target == 1
    assert script.see(2) == GOAL
    assert script.navigator.waypoints() == (GOAL,)
    assert script.see(None, ahead=(1.0,)) == GOAL
    assert script.navigator.trip is not None
    assert (script.decision.target, script.navigator.outcomes.trips) == (GOAL, [])


def test_there_is_no_waypoint_while_it_shakes_itself_free() -> None:
    script = on_the_line(shake_steps=1, replan_after=1)
    assert script.see(None, ahead=(0.1, 0.1, 0.1)) is None
    assert script.decision.target is None
    assert (script.see(0), script.decision.target) == (1, 1)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"look_ahead": 0}, "navigator.look-ahead must be at least 1, got 0"),
        ({"reach_threshold": 1.1}, r"navigator.reach-threshold must lie in \[-1, 1\] \(SFS is a cosine\), got 1.1"),
        ({"aim_threshold": -1.5}, r"navigator.aim-threshold must lie in \[-1, 1\] \(SFS is a cosine\), got -1.5"),
        ({"shake_steps": -1}, "navigator.shake-steps must not be negative, got -1"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        NavigatorConfig(**settings)
