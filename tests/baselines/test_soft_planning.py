"""MSS's map against worked examples and shortest paths."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.csgraph import shortest_path

from sfl.api import Array
from sfl.baselines.mss.config import MapConfig
from sfl.baselines.mss.map import UNREACHABLE, LandmarkMap, cut, farthest_points, soft_step
from sfl.errors import UsageError

SHARP = MapConfig(clip=-4.0, sharpness=50.0)
LINE = -np.abs(np.subtract.outer(np.arange(0, 15, 3), np.arange(0, 15, 3))).astype(float)
"""Five landmarks in a row; neighbours have values of -3: with the step that arrives they are four steps apart."""


def drawn(map_: LandmarkMap, here: Array, goal: Array, onward: Array, at: int = -1, times: int = 2_000) -> Array:
    """How often each landmark, and last the goal, is drawn; `at` is reached."""
    rng = np.random.default_rng(0)
    many = [np.repeat(part[None], times, axis=0) for part in (here, np.arange(len(here)) == at, goal, onward)]
    return np.bincount(map_.choose(*many, rng)[0], minlength=len(here) + 1) / times


def test_farthest_points_are_taken_in_turn_and_copies_never() -> None:
    points = np.array([0.0, 10.0, 4.0, 10.0, 0.0])
    apart = np.square(np.subtract.outer(points, points))
    assert farthest_points(apart, 2).tolist() == [0, 1]
    assert farthest_points(apart, 3).tolist() == [0, 1, 2]
    assert farthest_points(apart, 5).tolist() == [0, 1, 2]  # the others are copies


def test_the_clip_threshold_leaves_each_column_its_best() -> None:
    values = np.array([[-1.0, -9.0], [-6.0, -8.0]])
    off = UNREACHABLE
    assert cut(values, -5.0).tolist() == [[-1.0, off], [off, off]]
    assert cut(values, -5.0, keep_best=0).tolist() == [[-1.0, off], [off, -8.0]]
    assert cut(values, -5.0, keep_best=1).tolist() == [[-1.0, off], [-6.0, off]]


def test_a_soft_step_is_the_mean_weighted_by_its_exponential() -> None:
    first, second = np.array([[-1.0, -3.0]]), np.array([[-2.0], [-1.0]])
    ways, weights = np.array([-3.0, -4.0]), np.exp(0.9 * np.array([-3.0, -4.0]))
    assert soft_step(first, second, 0.9)[0, 0] == pytest.approx((ways * weights).sum() / weights.sum())


def test_a_soft_step_of_long_ways_does_not_lose_them() -> None:
    """exp(-0.9 * 1,500) is no number; relative to the best way it is one."""
    first, second = np.array([[-700.0, -750.0]]), np.array([[-800.0], [-751.0]])
    ways = np.array([-1500.0, -1501.0])
    weights = np.exp(0.9 * (ways + 1500.0))
    assert soft_step(first, second, 0.9)[0, 0] == pytest.approx((ways * weights).sum() / weights.sum())
    nowhere = np.full((2, 1), UNREACHABLE)
    assert soft_step(first, nowhere, 0.9)[0, 0] == UNREACHABLE


def test_one_landmark_far_from_all_is_planned_with_as_if_every_way_were_weighed_alone() -> None:
    """Some ways are lost to plain weights, some of these to weights relative to rows and columns as well."""
    rng = np.random.default_rng(0)
    first, second = -rng.uniform(0, 9, (6, 5)), -rng.uniform(0, 9, (5, 7))
    first[2] -= 900.0
    second[:, 3] -= 900.0
    first[4, 0], second[0, 5] = 0.0, -2_000.0  # the best of its row, and no way there
    first[4, 1:] -= 1_000.0
    first[1], second[:, 6] = UNREACHABLE, UNREACHABLE
    ways = first[:, :, None] + second[None]
    shares = np.exp(0.9 * (ways - ways.max(1, keepdims=True)))
    expected = (shares * ways).sum(1) / shares.sum(1)
    expected[1], expected[:, 6] = UNREACHABLE, UNREACHABLE
    np.testing.assert_allclose(soft_step(first, second, 0.9), expected, rtol=1e-9)


def test_sharp_value_iteration_finds_the_shortest_paths() -> None:
    rng = np.random.default_rng(0)
    values = -rng.uniform(1, 6, size=(12, 12))
    found = LandmarkMap(values, SHARP)
    lengths = np.where(found.edges > UNREACHABLE / 2, -found.edges, np.inf)
    np.testing.assert_allclose(-found.values, shortest_path(lengths), atol=0.05)


def test_soft_value_iteration_stays_near_the_shortest_paths_where_edges_are_short() -> None:
    """Were staying not free, ways there and back would double the loss with each round."""
    found = LandmarkMap(LINE / 3.0, MapConfig(clip=-1.0))
    np.testing.assert_allclose(np.diag(found.values), 0.0)
    assert (found.values[0] >= [0, -5, -8, -11, -14]).all()
    assert (np.diff(found.values[0]) < 0).all()


def test_value_iteration_is_as_soft_as_it_is_told_to_be() -> None:
    """Two ways lead from 0 to 3, of four steps and of five: the longer one counts as well, unless planning is sharp."""
    values = np.full((4, 4), -99.0)
    values[0, 1] = values[1, 3] = values[0, 2] = -1.0
    values[2, 3] = -2.0
    sharp, soft = (LandmarkMap(values, MapConfig(clip=-3.0, sharpness=much)).values[0, 3] for much in (50.0, 0.9))
    assert sharp == pytest.approx(-4.0)
    assert -5.0 < soft < -4.2


def test_landmarks_beyond_the_threshold_are_joined_to_their_nearest_only() -> None:
    far = LandmarkMap(LINE, MapConfig(clip=-1.0))
    into = (far.edges > UNREACHABLE / 2).sum(0) - 1  # less the diagonal
    assert into.tolist() == [1, 1, 1, 1, 1]
    arrays = far.arrays()
    assert len(arrays["edge_sources"]) == 5
    assert arrays["edge_weights"].tolist() == [4.0] * 5  # with the step that arrives
    assert (arrays["edge_sources"] != arrays["edge_targets"]).all()


def test_ways_to_a_goal_lead_over_landmarks() -> None:
    line = LandmarkMap(LINE, SHARP)
    onward = line.to_goals(-np.abs(np.arange(0, 15, 3) - 14.0)[:, None])  # two steps beyond the last landmark
    np.testing.assert_allclose(onward[:, 0], [-19, -15, -11, -7, -3], atol=0.05)


def test_a_near_goal_is_walked_to_and_a_far_one_over_the_landmark_on_the_way() -> None:
    line = LandmarkMap(LINE, SHARP)
    onward = line.to_goals(-np.abs(np.arange(0, 15, 3) - 14.0)[:, None])[:, 0]
    near = drawn(line, -np.abs(np.arange(0, 15, 3) - 11.0), np.array(-3.0), onward)
    assert near.tolist() == [0, 0, 0, 0, 0, 1]
    far = drawn(line, -np.abs(np.arange(0, 15, 3) - 7.0), np.array(-7.0), onward)
    assert far[3] == 1  # at 9; the goal is beyond the threshold, and 6 lies behind


def test_a_goal_within_the_threshold_but_not_near_is_one_of_the_ways() -> None:
    """Of two equally good ways each is taken half of the time."""
    config = MapConfig(clip=-25.0, direct=-10.0, sharpness=0.9)
    two = LandmarkMap(np.array([[0.0, -99.0], [-99.0, 0.0]]), config)
    shares = drawn(two, np.array([-6.0, -99.0]), np.array(-12.0), np.array([-6.0, -99.0]))
    assert shares[0] == pytest.approx(0.5, abs=0.05)
    assert shares[2] == pytest.approx(0.5, abs=0.05)


def test_a_near_goal_is_walked_to_though_a_way_over_a_landmark_is_as_good() -> None:
    two = LandmarkMap(np.array([[0.0, -99.0], [-99.0, 0.0]]), MapConfig(clip=-25.0, direct=-10.0))
    assert drawn(two, np.array([-3.0, -99.0]), np.array(-6.0), np.array([-3.0, -99.0]))[2] == 1


def test_far_from_all_landmarks_the_nearest_one_is_the_way_unless_it_is_not_kept() -> None:
    here, goal, onward = np.array([-9.0, -7.0, -99.0]), np.array(-30.0), np.array([-5.0, -9.0, -99.0])
    values = np.full((3, 3), -99.0)
    values[2, 0] = values[0, 1] = values[0, 2] = -1.0  # nothing leads on from the nearest one
    kept, not_kept = (LandmarkMap(values, MapConfig(clip=-4.0, keep_nearest=keep)) for keep in (True, False))
    assert drawn(kept, here, goal, onward)[1] == 1
    assert drawn(not_kept, here, goal, onward)[3] > 0.9  # nothing is near: straight to the goal


def test_a_landmark_that_is_reached_is_no_target() -> None:
    line = LandmarkMap(LINE, SHARP)
    onward = line.to_goals(-np.abs(np.arange(0, 15, 3) - 14.0)[:, None])[:, 0]
    assert drawn(line, LINE[1], np.array(-11.0), onward, at=1)[2] == 1


def test_an_edge_that_is_kept_though_it_is_long_can_be_walked() -> None:
    """Two neighbours, a third landmark far from both, and the goal beyond it: each is its best incoming edge's end."""
    cells = np.array([0.0, 1.0, 9.0])
    map_ = LandmarkMap(-np.abs(np.subtract.outer(cells, cells)), MapConfig(clip=-3.0, sharpness=5.0))
    onward = map_.to_goals(-np.abs(cells - 17.0)[:, None])[:, 0]
    for cell, reached, target in ((1.0, 1, 2), (2.0, -1, 2), (9.0, 2, 3), (10.0, -1, 3)):
        shares = drawn(map_, -np.abs(cells - cell), np.array(cell - 17.0), onward, reached)
        assert shares[target] > 0.95, cell
    strict = LandmarkMap(-np.abs(np.subtract.outer(cells, cells)), MapConfig(clip=-3.0, keep_nearest=False))
    assert drawn(strict, -np.abs(cells - 1.0), np.array(-16.0), onward, 1)[2] < 0.5


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"landmarks": 0}, "map.landmarks must be at least 1, got 0"),
        ({"clip": 3.0}, "map.clip is a value and must not be positive, got 3.0"),
        ({"sharpness": 0.0}, "map.sharpness must be positive, got 0.0"),
        ({"redraw_every": 0}, "map.redraw-every must be at least 1, got 0"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, float], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        MapConfig(**wrong)  # type: ignore[arg-type]
