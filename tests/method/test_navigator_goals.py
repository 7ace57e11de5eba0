"""On the way to a goal by script: its links, and what happens without a route."""

from __future__ import annotations

from sfl.api import GOAL
from sfl.method.planner import Planner

from .drawing import draw
from .script import Script


def test_to_a_goal_it_follows_the_route_and_then_the_goal_itself_for_ever() -> None:
    script = Script(frontier_steps=1, steps_per_landmark=1, replan_after=0).begin(goal_links=[2])
    assert script.see(0) == 1
    assert script.route == (0, 1, 2, GOAL)
    assert script.see(1) == 2
    assert script.see(2) == GOAL
    assert [script.see(None) for _ in range(500)] == [GOAL] * 500
    assert script.navigator.outcomes.trips == []
    assert script.navigator.route_found


def test_at_the_goals_landmark_it_heads_for_the_goal_at_once() -> None:
    script = Script().begin(goal_links=[2])
    assert script.see(2) == GOAL


def test_of_several_links_the_best_is_taken_and_the_next_when_the_goal_was_not_found_there() -> None:
    script = Script(replan_after=1).begin(goal_links=[3, 1])
    script.see(2)
    assert script.route == (2, 3, GOAL)
    assert script.see(3) == GOAL
    script.see(3)
    assert script.route[-2:] == (1, GOAL)
    script.begin(goal_links=[5, 3])  # the best link cannot be reached, the second can
    script.see(2)
    assert script.route == (2, 3, GOAL)


def test_lost_on_the_way_to_a_goal_it_plans_anew_to_the_goal() -> None:
    script = Script(replan_after=2).begin(goal_links=[3])
    script.see(0)
    assert script.see(1) == 2
    assert script.see(4) == 3
    assert script.route == (4, 3, GOAL)
    assert script.navigator.outcomes.failed == [(1, 2)]
    assert script.see(3) == GOAL
    script.see(None, nearest=3)
    assert script.see(None, nearest=3) == 3  # late towards the goal: once more from 3, and no edge is to blame
    assert script.navigator.outcomes.failed == [(1, 2)]
    assert script.see(3) == GOAL


def test_without_a_route_it_goes_straight_to_the_goal_and_says_so() -> None:
    script = Script().begin(goal_links=[5])
    assert script.see(0) == GOAL
    assert script.route == (GOAL,)
    assert not script.navigator.route_found
    assert [script.see(None) for _ in range(100)] == [GOAL] * 100
    assert script.navigator.outcomes.trips == []
    assert script.navigator.outcomes.failed == []
    script.begin(goal_links=[2])
    assert script.navigator.route_found


def test_a_goal_without_any_landmark_is_walked_to_directly() -> None:
    script = Script(Planner(draw(0, {}))).begin(goal_links=[])
    assert script.see(None, nearest=None) == GOAL
    assert not script.navigator.route_found


def links_tried(script: Script, decisions: int) -> list[int]:
    """The links at which the goal was sought, in turn; the agent stays most similar to wherever it is sent."""
    tried, at = [], 0
    for _ in range(decisions):
        target = script.see(at)
        assert target is not None
        if target != GOAL:
            at = target
        elif not tried or script.route[-2] != tried[-1]:
            tried.append(script.route[-2])
    return tried


def test_a_link_without_the_goal_is_not_tried_again_before_all_others() -> None:
    script = Script(replan_after=2).begin(goal_links=[2, 0, 5, 3])
    # Nothing leads to 5; when the three others were tried, the best comes first again.
    assert links_tried(script, 40)[:6] == [2, 0, 3, 2, 0, 3]
    script = Script(replan_after=2).begin(goal_links=[2, 0, 3])
    assert links_tried(script, 8) == [2, 0]
    script.begin(goal_links=[2, 0, 3])  # another goal: nothing was tried yet
    assert links_tried(script, 8) == [2, 0]


def test_only_a_link_where_the_goal_was_sought_counts_as_tried() -> None:
    script = Script(replan_after=1).begin(goal_links=[3, 1])
    assert script.see(2) == 3
    assert script.see(None, nearest=2) == 2  # late towards 3, not towards the goal: 3 is still the link to go to
    assert script.route == (2, 3, GOAL)
    assert script.navigator.outcomes.failed == [(2, 3)]
