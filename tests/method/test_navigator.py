"""Algorithms 1 and 3 by script: what is seen at each decision, and where the navigator then goes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from sfl.api import GOAL, Array
from sfl.errors import UsageError
from sfl.method.config import Frontier, NavigatorConfig
from sfl.method.navigator import Navigator, Outcomes, draw_frontier, draw_route, first_waypoint
from sfl.method.planner import Planner

from .drawing import draw
from .script import Script

# ---- where a route begins


@pytest.mark.parametrize(("route", "here", "place"), [((0, 1, 2), 0, 1), ((0, 1, 2), None, 0), ((0,), 0, 0)])
def test_a_route_begins_at_its_first_landmark_unless_the_agent_is_there(
    route: tuple[int, ...], here: int | None, place: int
) -> None:
    assert first_waypoint(route, here) == place


def test_legs_are_walked_when_their_end_is_reached_those_that_were_skipped_too() -> None:
    script = Script(frontier=3).begin()
    script.see(0)
    script.see(1)
    assert script.navigator.outcomes.walked == [(0, 1)]
    assert script.see(3) is None  # past 2, the end of the trip
    assert (script.navigator.outcomes.walked, script.navigator.outcomes.failed) == ([(0, 1), (1, 2), (2, 3)], [])


def test_a_leg_that_failed_was_not_walked_nor_was_the_way_to_the_first_landmark() -> None:
    script = Script(frontier=3, replan_after=2).begin()
    script.see(None, nearest=0)  # first to 0, by no edge
    script.see(0)
    assert script.navigator.outcomes.walked == []
    for _ in range(2):
        script.see(None, nearest=0)
    assert (script.navigator.outcomes.walked, script.navigator.outcomes.failed) == ([], [(0, 1)])


@pytest.mark.parametrize(("goal_links", "route"), [(None, (1, 2, 3)), ([3], (1, 2, 3, GOAL))])
def test_not_localized_it_first_finds_the_most_similar_landmark(
    goal_links: list[int] | None, route: tuple[int, ...]
) -> None:
    script = Script(frontier=3, replan_after=3).begin(goal_links)
    assert [script.see(None, nearest=1) for _ in range(3)] == [1] * 3
    assert script.route == route
    assert script.see(None, nearest=1) == 1  # late: planned anew from where it seems to be, and no edge is to blame
    assert script.navigator.outcomes.failed == []
    assert script.see(1) == 2


def test_as_algorithm_3_says_the_most_similar_landmark_is_where_the_agent_is() -> None:
    script = Script(frontier=3, reached="nearest", replan_after=3).begin()
    assert script.see(None, nearest=0) == 1  # not localized, but most similar to 0
    assert script.see(None, nearest=1) == 2
    assert script.see(None, nearest=4) == 2  # most similar to one off the route: no reason to plan anew ...
    assert script.see(4) == 3  # ... localized to it, there is
    assert script.route == (4, 3)
    assert (script.decision.reached, script.navigator.outcomes.failed) == (None, [(1, 2)])
    assert script.see(None, nearest=3) is None
    assert script.navigator.outcomes.trips == [True]


# ---- trips to a frontier


def test_a_trip_advances_landmark_by_landmark_and_ends_at_the_frontier() -> None:
    script = Script(frontier=3).begin()
    assert script.see(0) == 1
    assert script.route == (0, 1, 2, 3)
    assert script.see(None) == 1  # on the way
    assert script.see(0) == 1  # still, or again, at the start
    assert script.see(1) == 2
    assert script.see(2) == 3
    assert script.navigator.outcomes.trips == []
    assert script.see(3) is None
    assert script.navigator.trip is None
    assert (script.navigator.outcomes.trips, script.navigator.outcomes.failed) == ([True], [])


def test_a_landmark_further_ahead_skips_those_between() -> None:
    script = Script(frontier=3).begin()
    assert script.see(0) == 1
    assert script.see(2) == 3
    assert (script.decision.reached, script.navigator.outcomes.failed) == (2, [])
    assert (script.see(None), script.decision.reached) == (3, None)  # nothing reached at this decision
    script = Script(frontier=3).begin()
    script.see(0)
    assert script.see(3) is None
    assert script.navigator.outcomes.trips == [True]


def test_a_landmark_already_passed_changes_nothing() -> None:
    script = Script(frontier=3).begin()
    script.see(0)
    assert script.see(2) == 3
    assert script.see(1) == 3
    assert script.route == (0, 1, 2, 3)
    assert script.navigator.outcomes.failed == []


def test_off_the_route_it_plans_anew_and_books_the_failed_leg() -> None:
    script = Script(frontier=3).begin()
    script.see(0)
    assert script.see(1) == 2
    assert script.see(4) == 3  # not on (0, 1, 2, 3): from 4 it is one edge
    assert script.route == (4, 3)
    assert script.navigator.outcomes.failed == [(1, 2)]


def test_off_the_route_it_may_be_told_to_go_on() -> None:
    script = Script(frontier=3, replan_off_route=False).begin()
    script.see(0)
    script.see(1)
    assert script.see(4) == 2
    assert script.navigator.outcomes.failed == []


def test_with_patience_only_several_landmarks_off_the_route_in_a_row_are_believed() -> None:
    script = Script(frontier=3, off_route_patience=2, replan_after=0).begin()
    script.see(0)
    assert script.see(4) == 1
    assert script.see(0) == 1  # on the route: the count starts again
    assert [script.see(4), script.see(None)] == [1, 1]  # nowhere says nothing
    assert script.see(4) == 3
    assert script.route == (4, 3)
    assert script.navigator.outcomes.failed == [(0, 1)]


def test_late_it_plans_anew_from_the_most_similar_landmark() -> None:
    script = Script(frontier=3, replan_after=3, frontier_steps=100, steps_per_landmark=100).begin()
    assert script.see(0) == 1
    assert [script.see(None) for _ in range(2)] == [1, 1]  # three steps towards 1 in all
    assert script.see(None, nearest=4) == 4  # it is not at 4 yet, so that is where the route begins
    assert script.route == (4, 3)
    assert script.navigator.outcomes.failed == [(0, 1)]
    assert script.see(4) == 3
    assert [script.see(None) for _ in range(2)] == [3, 3]  # the count of steps starts again
    assert script.see(None, nearest=1) == 1
    assert script.navigator.outcomes.failed == [(0, 1), (4, 3)]


def test_advancing_gives_the_next_leg_its_own_time() -> None:
    script = Script(frontier=3, replan_after=3, frontier_steps=100, steps_per_landmark=100).begin()
    script.see(0)
    script.see(None)
    script.see(1)  # two steps towards 1, then three towards 2
    assert [script.see(None) for _ in range(2)] == [2, 2]
    assert script.navigator.outcomes.failed == []
    script.see(None)
    assert script.navigator.outcomes.failed == [(1, 2)]


def test_late_without_any_landmark_in_sight_the_leg_goes_on() -> None:
    script = Script(frontier=3, replan_after=2, frontier_steps=100, steps_per_landmark=100).begin()
    script.see(0)
    script.see(None)
    assert script.see(None, nearest=None) == 1
    assert script.route == (0, 1, 2, 3)


def test_late_it_may_first_shake_itself_free() -> None:
    script = Script(frontier=3, replan_after=2, shake_steps=3, frontier_steps=100, steps_per_landmark=100).begin()
    assert [script.see(0), script.see(None)] == [1, 1]
    assert [script.see(None) for _ in range(5)] == [None, None, None, 0, 0]  # three at random, then from 0 again
    assert script.see(None) is None
    assert script.navigator.outcomes.failed == [(0, 1)]  # not to find 0 is no edge's fault
    assert script.see(0) is None  # still shaking, but the landmark counts
    assert [script.see(None) for _ in range(2)] == [None, 1]


def failed_twice(**settings: object) -> list[tuple[int, ...]]:
    """Routes after the leg from 1 to 2 was late, then that from 1 to 4 or again to 2, and in a new episode."""
    script = Script(replan_after=2, **settings).begin(goal_links=[3])  # type: ignore[arg-type]
    routes = []
    for _ in range(2):
        for localized in (1, None):
            script.see(localized)
        assert script.see(None, nearest=1) == 1
        routes.append(script.route)
    script.begin(goal_links=[3]).see(1)
    return [*routes, script.route]


def test_edges_that_failed_may_be_avoided_until_there_is_no_way_around() -> None:
    direct, around = (1, 2, 3, GOAL), (1, 4, 3, GOAL)
    assert failed_twice() == [direct, direct, direct]
    assert failed_twice(avoid_failed=True) == [around, direct, direct]  # all forgiven, then forgotten


def test_with_replan_after_zero_it_is_never_late() -> None:
    script = Script(frontier=3, replan_after=0, frontier_steps=50, steps_per_landmark=50).begin()
    script.see(0)
    assert [script.see(None, nearest=4) for _ in range(49)] == [1] * 49
    assert script.navigator.outcomes.failed == []


@pytest.mark.parametrize(("frontier_steps", "per_landmark", "limit"), [(10, 8, 10), (100, 3, 12)])
def test_a_trip_ends_after_n_front_steps_or_n_land_per_landmark(
    frontier_steps: int, per_landmark: int, limit: int
) -> None:
    script = Script(frontier=3, frontier_steps=frontier_steps, steps_per_landmark=per_landmark, replan_after=0).begin()
    targets = [script.see(0) for _ in range(limit)]  # the route (0, 1, 2, 3) has four landmarks
    assert targets == [1] * limit
    assert script.see(0) is None
    assert script.navigator.outcomes.trips == [False]


def test_replanning_does_not_lengthen_a_trip() -> None:
    script = Script(frontier=3, frontier_steps=7, replan_after=2).begin()
    targets = [script.see(None, nearest=0) for _ in range(8)]
    assert targets == [0] * 7 + [None]


def test_reaching_the_frontier_with_the_last_step_counts_as_reached() -> None:
    script = Script(frontier=3, frontier_steps=3, replan_after=0).begin()
    for localized in (0, 1, 2):
        script.see(localized)
    assert script.see(3) is None
    assert script.navigator.outcomes.trips == [True]


def test_after_a_trip_n_explore_random_steps_then_another_trip() -> None:
    script = Script(frontier=1, explore_steps=5).begin()
    assert script.see(0) == 1
    assert [script.see(1) for _ in range(5)] == [None] * 5
    assert script.see(1) is not None
    assert script.navigator.outcomes.trips == [True]


def test_one_trip_an_episode_if_told_to() -> None:
    script = Script(frontier=1, explore_steps=5, one_trip=True).begin()
    assert script.see(0) == 1
    assert [script.see(1) for _ in range(50)] == [None] * 50
    script.begin()
    assert script.see(0) == 1


def test_an_episode_begins_with_a_trip_and_forgets_the_last_ones() -> None:
    script = Script(frontier=1, explore_steps=5).begin()
    script.see(0)
    script.see(1)  # exploring now
    script.begin()
    assert script.see(0) == 1
    script.begin()
    assert script.navigator.trip is None


def test_without_landmarks_it_explores() -> None:
    script = Script(Planner(draw(0, {}))).begin()
    assert [script.see(None, nearest=None) for _ in range(3)] == [None] * 3


def test_a_trip_whose_frontier_cannot_be_reached_any_more_is_given_up() -> None:
    script = Script(frontier=3, explore_steps=5).begin()
    script.see(0)
    assert script.see(5) is None  # lost, and nothing leads away from 5
    assert script.navigator.outcomes.trips == [False]
    assert script.navigator.outcomes.failed == [(0, 1)]


def test_frontiers_are_chosen_among_companions_only() -> None:
    script = Script(frontier=5).begin()
    assert script.see(0) in (0, 1)  # 5 was never visited, but there is no way back from it, nor to it
    assert script.route[-1] != 5


def test_a_frontier_among_all_is_walked_to_directly_where_no_route_leads() -> None:
    script = Script(frontier=5, frontier_among="all", replan_after=3, frontier_steps=5).begin()
    assert [script.see(0) for _ in range(5)] == [5] * 5  # late after 3 steps: there is still no route
    assert script.route == (5,)
    assert script.see(0) is None  # N_front, not n_land for one landmark
    assert (script.navigator.outcomes.trips, script.navigator.outcomes.failed) == ([False], [])
    script = Script(frontier=5, frontier_among="all").begin()
    assert (script.see(0), script.see(5), script.navigator.outcomes.trips) == (5, None, [True])


# ---- state


@pytest.mark.parametrize("avoid_failed", [False, True])
@pytest.mark.parametrize("seen_before", [[], [0], [0, None, 1], [0, 1, 4], [0, 1, 2, 3], [0, 1, 2, 3, None, None]])
def test_a_loaded_navigator_goes_on_alike(seen_before: list[int | None], avoid_failed: bool) -> None:
    settings: dict[str, object] = {"frontier": 3, "explore_steps": 6, "replan_after": 4, "frontier_steps": 9}
    settings["avoid_failed"] = avoid_failed
    script = Script(**settings).begin()  # type: ignore[arg-type]
    for localized in seen_before:
        script.see(localized)
    other = Script(**settings)  # type: ignore[arg-type]
    other.navigator.load_state(script.navigator.state())
    other.rng.bit_generator.state = script.rng.bit_generator.state
    seen = [None, None, 4, None, None, None, 1, None, None, None, 2, 3, None, None, None, None, None, None, 1, 2]
    assert [script.see(x) for x in seen] == [other.see(x) for x in seen]
    assert script.navigator.state() == other.navigator.state()


# ---- draws


def frequencies(among: list[int], visits: list[int], rule: str, draws: int = 20_000) -> Array:
    rng = np.random.default_rng(0)
    drawn = Counter(draw_frontier(np.array(among), np.array(visits), rule, rng) for _ in range(draws))
    assert set(drawn) <= set(among)
    return np.array([drawn[index] for index in among]) / draws


def test_frontiers_are_drawn_in_inverse_proportion_to_visits() -> None:
    # 1 / max(1, visits) is 1, 1, 1/4, 1/2 for 0, 1, 4 and 2 visits; landmark 2 is not among them.
    expected = np.array([1, 1, 1 / 4, 1 / 2]) / 2.75
    observed = frequencies([0, 1, 3, 4], [0, 1, 9, 4, 2], "inverse-visits")
    np.testing.assert_allclose(observed, expected, atol=0.012)  # 3.5 standard deviations
    np.testing.assert_allclose(frequencies([0, 1, 3, 4], [0, 1, 9, 4, 2], "uniform"), 0.25, atol=0.012)


@pytest.mark.parametrize(("rule", "ends"), [("inverse-visits", {3}), ("uniform", {0, 1, 2, 3, 4})])
def test_trips_lead_where_nobody_was_or_by_the_ablation_to_all_landmarks(rule: Frontier, ends: set[int]) -> None:
    script = Script(frontier=3)
    script.navigator = Navigator(replace(script.navigator.config, frontier=rule), Outcomes())
    drawn = set()
    for _ in range(60):
        script.begin().see(0)
        drawn.add(script.route[-1])
    assert drawn == ends  # of all that can be reached; only 3 was not visited


def test_among_several_routes_rank_r_has_weight_exp_minus_r() -> None:
    planner = Planner(draw(4, {(0, 1): 1.0, (1, 3): 1.0, (0, 2): 2.0, (2, 3): 2.0, (0, 3): 9.0}))
    rng = np.random.default_rng(0)
    drawn = Counter(draw_route(planner, 0, 3, 5, rng) for _ in range(800))
    weights = np.exp([-1.0, -2.0, -3.0])
    observed = np.array([drawn[0, 1, 3], drawn[0, 2, 3], drawn[0, 3]]) / 800
    np.testing.assert_allclose(observed, weights / weights.sum(), atol=0.06)  # 3.5 standard deviations
    assert {draw_route(planner, 0, 3, 1, rng) for _ in range(20)} == {(0, 1, 3)}


@pytest.mark.parametrize("field", ["frontier_steps", "steps_per_landmark", "explore_steps", "route_choices"])
def test_wrong_settings_are_named(field: str) -> None:
    with pytest.raises(UsageError, match=f"navigator.{field.replace('_', '-')} must be at least 1, got 0"):
        NavigatorConfig(**{field: 0})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"navigator\.replan-after must not be negative, got -1"):
        NavigatorConfig(replan_after=-1)
