"""Indicators of scripted evaluations: a corridor of cells 0, 1, 2, ... and a policy that says what it is told."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sfl.api import GOAL, Array, Decision
from sfl.run.evaluate import evaluate, open_world
from sfl.run.indicators import Indicators, Leg, Waypoints, crossing, edge_metrics
from sfl.run.metrics import columns
from sfl.worlds import DoomConfig, GymConfig, MiniGridConfig, Task

from .worlds import Corridor, Walk

GRID = open_world(GymConfig("FrozenLake-v1"))  # cells, but nothing known of walls
LANDMARKS = np.array([[9.0, 0, 0], [2.0, 0, 270.0], [4.0, 0, 0]])


class Thinker(Walk):
    """Walks right; its thoughts at each decision are given."""

    def __init__(self, thoughts: Sequence[Decision]) -> None:
        super().__init__()
        self._thoughts, self._count = thoughts, -1

    def act(self, observations: Array, env_indices: Array) -> Array:
        self._count += 1
        return super().act(observations, env_indices)

    def explain(self, env_index: int) -> Decision:
        return self._thoughts[self._count]


def indicators(thoughts: Sequence[Decision], goal: int = 50, landmarks: Array = LANDMARKS) -> dict[str, float]:
    """Of an episode that starts in cell 0 and has as many decisions as there are thoughts."""
    watch = Indicators({}, landmarks, GRID)
    tasks = [Task("any", 0, None, goal, len(thoughts))]  # type: ignore[arg-type]
    evaluate(Thinker(thoughts), [Corridor(limit=99)], tasks, watch=watch)
    return watch.metrics()


def test_localization_over_the_localized_decisions_and_over_all() -> None:
    at = [None, 1, 1, 1, 0]  # in cells 0 to 4
    metrics = indicators([Decision(localized=landmark) for landmark in at])
    assert metrics == {
        "graph/localized_in_evaluation": 0.8,
        "graph/localization_within_1": 0.75,  # distances 1, 0, 1, 5
        "graph/localization_within_1_of_all": 0.6,
        "graph/localization_distance_median": 1.0,
        "graph/localization_angle_median": 90.0,  # 270 degrees apart is 90; three of four
    }
    assert set(metrics) <= set(columns("eval"))


def test_never_localized_is_a_share_of_zero_and_no_landmarks_say_nothing() -> None:
    silent = [Decision()] * 3
    shares = {"graph/localized_in_evaluation": 0.0, "graph/localization_within_1_of_all": 0.0}
    assert indicators(silent) == shares
    assert indicators(silent, landmarks=np.zeros((0, 3))) == {}


def test_landmarks_at_unknown_places_count_nowhere() -> None:
    landmarks = np.array([[np.nan] * 3, [1.0, 0, 0]])
    metrics = indicators([Decision(localized=landmark) for landmark in (0, 1)], landmarks=landmarks)
    assert metrics["graph/localized_in_evaluation"] == 1.0
    assert metrics["graph/localization_within_1"] == 1.0


def going(target: int | None, reached: int | None = None) -> Decision:
    return Decision(target=target, reached=reached)


@pytest.mark.parametrize(
    ("thoughts", "believed", "true", "given_up", "met", "afar"),
    [
        ([going(1), going(1), going(2, reached=1), going(2), going(GOAL, reached=2)], 2, 2, 0, 2, (2, 2)),
        # In cell 2 it is not near landmark 0.
        ([going(1), going(0, reached=1), going(GOAL, reached=0)], 2, 1, 0, 1, (1, 2)),
        # Landmark 2 lies further along the route.
        ([going(1), going(1), going(1), going(0, reached=2), going(GOAL)], 1, 1, 1, 1, (1, 2)),
        ([going(1), going(2), going(2)], 0, 0, 2, 2, (2, 2)),  # another target; the end of the budget
        ([going(1), going(None), going(1), going(GOAL, reached=1)], 1, 1, 0, 1, (1, 1)),  # random steps on the way
        ([going(1), going(None), going(2)], 0, 0, 2, 2, (2, 2)),  # random steps, then another target
        ([going(0), going(1), going(GOAL)], 0, 0, 2, 1, (0, 1)),  # it sets out for landmark 1 from the cell beside it
    ],
)
def test_waypoints_end_by_belief_or_are_given_up(
    thoughts: list[Decision], believed: int, true: int, given_up: int, met: int, afar: tuple[int, int]
) -> None:
    metrics = indicators(thoughts)
    count = believed + given_up
    assert metrics["eval/waypoint_count"] == count
    assert metrics["eval/waypoint_given_up"] == pytest.approx(given_up / count)
    assert metrics["eval/waypoint_truly_reached"] == met / count
    assert metrics["eval/waypoint_truly_reached_from_afar"] == afar[0] / afar[1]
    assert metrics.get("eval/waypoint_belief_true") == (true / believed if believed else None)
    assert set(metrics) <= set(columns("eval"))


def test_waypoints_at_unknown_places_count_nowhere() -> None:
    landmarks = LANDMARKS.copy()
    landmarks[2] = np.nan
    thoughts = [going(1), going(1), going(2, reached=1), going(2), going(2)]
    metrics = indicators(thoughts, landmarks=landmarks)
    assert (metrics["eval/waypoint_count"], metrics["eval/waypoint_truly_reached"]) == (1, 1)


def test_a_waypoint_that_is_open_when_the_goal_is_reached_does_not_count() -> None:
    thoughts = [going(1), going(2, reached=1), going(2)]
    assert indicators(thoughts, goal=3)["eval/waypoint_count"] == 1
    assert indicators(thoughts, goal=50)["eval/waypoint_count"] == 2


def test_a_leg_knows_its_edge_and_how_long_it_took() -> None:
    watch = Waypoints(LANDMARKS, radius=1)
    route = (1, 2, 0)
    thoughts = [
        Decision(target=1, route=route),  # the route begins with it
        Decision(target=1, route=route),
        Decision(target=2, route=route, reached=1),
        Decision(target=None, route=route),
        Decision(target=0, route=route, reached=2),
        Decision(target=0, route=route),
    ]
    tasks = [Task("any", 0, None, 50, len(thoughts))]  # type: ignore[arg-type]
    policy = Thinker(thoughts)
    evaluate(policy, [Corridor(99)], tasks, watch=lambda step, policy: watch.add(step, [policy.explain(0)]))
    assert watch.legs == [
        Leg(None, 1, False, 2, 1, True, afar=True, met=True),
        Leg(1, 2, True, 2, 2, True, afar=True, met=True),
        Leg(2, 0, True, 2, afar=True),
    ]


def test_landmarks_lie_apart_as_far_as_one_walks() -> None:
    landmarks = np.array([[1.0, 1, 0], [3.0, 1, 90], [5.0, 1, 0], [np.nan] * 3])  # a wall, gap at (4, 3)
    watch = Indicators({}, landmarks, open_world(MiniGridConfig("sfl/FourRoom-v0")))
    assert watch.metrics() == {"graph/landmark_distance": (2 + 6 + 8) / 3}
    assert "graph/landmark_distance" in columns("eval")
    alone = Indicators({}, landmarks[:1], open_world(MiniGridConfig("sfl/FourRoom-v0")))
    assert alone.metrics() == {}


def test_edges_have_a_length_everywhere_and_cross_walls_in_mazes() -> None:
    ends = np.array([[0.0, 0, 3, 4], [0, 0, 0, 1], [0, 0, 1, 0], [np.nan, 0, 1, 0]])
    assert edge_metrics(ends, None) == {"graph/edge_length_median": 1.0}
    wall = np.array([[-1.0, 0.5, 1, 0.5]])
    assert edge_metrics(ends, wall) == {"graph/edge_length_median": 1.0, "graph/edges_across_walls": 2 / 3}
    assert edge_metrics(ends[3:], wall) == {}


def test_edges_of_the_maze_small_through_its_walls() -> None:
    world = open_world(DoomConfig("small"))
    walls = world.walls()
    assert walls is not None
    corridor, across = [96.0, 100, 96, 400], [96.0, 300, 480, 160]
    assert crossing(np.array([corridor, across]), walls).tolist() == [False, True]


def test_crossing_is_what_solving_for_the_point_of_intersection_says() -> None:
    rng = np.random.default_rng(0)
    lines, walls = rng.uniform(0, 2000, (300, 4)), rng.uniform(0, 2000, (40, 4))
    walls[:, 2:] = walls[:, :2] + rng.uniform(-200, 200, (40, 2))
    found = crossing(lines, walls)
    assert found.tolist() == [any(meet(line, wall) for wall in walls) for line in lines]
    assert 0.2 < found.mean() < 0.9
    assert crossing(lines[:0], walls).shape == (0,)
    assert not crossing(lines, walls[:0]).any()


def meet(line: Array, wall: Array) -> bool:
    """Both lines pass their common point between their ends."""
    directions = np.stack([line[2:] - line[:2], wall[:2] - wall[2:]], axis=1)
    shares = np.linalg.solve(directions, wall[:2] - line[:2])
    return bool(((shares >= 0) & (shares <= 1)).all())


def test_a_line_through_the_corner_of_two_walls_crosses() -> None:
    walls = np.array([[0.0, -1, 0, 0], [0, 0, 0, 1]])
    assert crossing(np.array([[-1.0, 0, 1, 0]]), walls).tolist() == [True]
