"""Which legs of a route a failure is booked on, and which were walked."""

from __future__ import annotations

from sfl.method.config import NavigatorConfig
from sfl.method.navigator import Navigator, Outcomes

from .script import Script


def test_where_both_are_to_blame_a_leg_is_walked_when_the_next_one_is_and_fails_with_it() -> None:
    script = Script(frontier=3, replan_after=2, blame="both").begin()
    script.see(0)
    script.see(1)
    assert script.navigator.outcomes.walked == []  # 1 may be a place that only looks like it
    script.see(2)
    assert script.navigator.outcomes.walked == [(0, 1)]
    for _ in range(3):
        script.see(None, nearest=4)
    assert (script.navigator.outcomes.walked, script.navigator.outcomes.failed) == ([(0, 1)], [(1, 2), (2, 3)])


def test_the_last_leg_of_a_trip_stays_open() -> None:
    script = Script(frontier=3, blame="both").begin()
    script.see(0)
    assert script.see(3) is None  # the end of the trip, past 1 and 2
    assert (script.navigator.outcomes.walked, script.navigator.outcomes.failed) == ([(0, 1), (1, 2)], [])


def test_a_new_route_is_not_to_blame_for_the_old_one() -> None:
    script = Script(frontier=3, blame="both", replan_after=2).begin()
    for place in (0, 1, 4):
        script.see(place)  # off the route at 4: (0, 1) and (1, 2) have failed
    assert script.navigator.outcomes.failed == [(0, 1), (1, 2)]
    for _ in range(2):
        script.see(None, nearest=4)
    assert script.navigator.outcomes.failed == [(0, 1), (1, 2), (4, 3)]


def test_routes_avoid_all_legs_that_were_blamed() -> None:
    script = Script(frontier=3, blame="both", avoid_failed=True, replan_after=2).begin()
    for place in (0, 1, 2):
        script.see(place)
    for _ in range(3):
        script.see(None, nearest=1)
    assert script.navigator.outcomes.failed == [(1, 2), (2, 3)]
    assert script.route == (1, 4, 3)


def test_the_first_leg_of_a_trip_is_to_blame_for_its_own_failure() -> None:
    script = Script(frontier=3, blame="both", replan_after=2).begin()
    script.see(0)
    script.see(4)
    assert (script.navigator.outcomes.walked, script.navigator.outcomes.failed) == ([], [(0, 1)])


def test_what_is_settled_of_a_trip_is_part_of_its_state() -> None:
    script = Script(frontier=3, blame="both", replan_after=2).begin()
    for place in (0, 1, 2):
        script.see(place)
    other = Navigator(NavigatorConfig(blame="both"), Outcomes())
    other.load_state(script.navigator.state())
    assert other.trip is not None
    assert (other.trip, other.trip.settled) == (script.navigator.trip, 1)
