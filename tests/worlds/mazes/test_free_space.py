"""Where a player can be and how far places are apart, against distances worked out by hand."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfl.api import Array
from sfl.errors import UsageError
from sfl.worlds.mazes.free_space import FreeSpace
from sfl.worlds.mazes.layout import Disc, Maze, Spot

PAPER_MAZES = Path(os.environ.get("SFL_MAZES", "no folder"))
Line = tuple[float, float, float, float]


def box(left: float, bottom: float, right: float, top: float) -> list[Line]:
    """The four lines of a rectangle."""
    return [
        (left, bottom, right, bottom),
        (right, bottom, right, top),
        (right, top, left, top),
        (left, top, left, bottom),
    ]


def hand_made(
    walls: Sequence[Line],
    start: Spot,
    spots: tuple[Spot, ...] = (),
    regions: Mapping[str, tuple[Disc, ...]] | None = None,
) -> Maze:
    """A maze that is never played."""
    return Maze("hand-made", b"", "MAP01", np.array(walls, float), (*start, 90.0), spots, regions or {}, None)


def hall(width: float, height: float, *more: Line) -> FreeSpace:
    """A room from (0, 0), with further lines in it; the start is 20 units from its lower left corner."""
    return FreeSpace.of(hand_made([*box(0, 0, width, height), *more], (20, 20)))


def walk(free: FreeSpace, start: Spot, goal: Spot) -> float:
    return float(free.at(free.distances_from(np.array(start)), np.array(goal))[0])


def box_meets(line: Line, centre: Array, half: float) -> bool:
    """Whether a line meets an open square, by clipping the line at the four sides (another way than the source's)."""
    first, last = 0.0, 1.0
    for axis in (0, 1):
        begin, run = line[axis] - centre[axis], line[axis + 2] - line[axis]
        if run == 0:
            if abs(begin) >= half:
                return False
            continue
        times = sorted(((-half - begin) / run, (half - begin) / run))
        first, last = max(first, times[0]), min(last, times[1])
    return first < last


def test_the_player_keeps_16_units_from_every_side_of_a_room() -> None:
    free = hall(160, 96)
    assert free.area == (160 - 32) * (96 - 32)
    edge = np.array([(16, 16), (144, 80), (15.9, 48), (80, 80.1), (144.1, 80), (80, 48)])
    assert free.contains(edge).tolist() == [True, True, False, False, False, True]


def test_a_goal_may_lie_closer_to_a_wall_than_a_player_but_not_behind_it() -> None:
    free = hall(160, 96)
    places = np.array([(1, 1), (159, 48), (-5, 48), (80, 101), (80, 48)])
    assert free.covers(places).tolist() == [True, True, False, False, True]
    assert free.contains(places).tolist() == [False, False, False, False, True]


def test_walls_off_the_lattice_and_slanted_ones_are_exact() -> None:
    free = hall(403, 301, (203, 0, 203, 301))
    assert free.area == pytest.approx((203 - 32) * (301 - 32), rel=0.03)
    assert free.contains(np.array([(186.9, 150), (187.1, 150), (300, 150)])).tolist() == [True, False, False]
    slanted = hall(320, 320, (0, 160, 160, 320))  # the square's corner touches the line at y - x = 160 - 32
    assert slanted.contains(np.array([(80, 207.9), (80, 208.1), (20, 300)])).tolist() == [True, False, False]


def test_what_the_start_cannot_reach_is_not_free() -> None:
    free = hall(320, 160, (160, 0, 160, 160))
    assert free.area == 128 * 128
    assert walk(free, (40, 40), (300, 40)) == math.inf
    assert walk(free, (300, 40), (40, 40)) == math.inf
    assert free.sample(np.random.default_rng(0), 500)[:, 0].max() <= 144


def test_a_gap_wider_than_the_player_lets_it_through_and_a_narrower_one_does_not() -> None:
    wide = hall(320, 160, (160, 0, 160, 60), (160, 100, 160, 160))
    narrow = hall(320, 160, (160, 0, 160, 65), (160, 95, 160, 160))
    assert walk(wide, (40, 80), (280, 80)) == pytest.approx(240, rel=0.01)
    assert walk(narrow, (40, 80), (280, 80)) == math.inf


def test_distance_around_a_u() -> None:
    """A U of lines open to the top around the start; the shortest way out passes two corners, 16 units off each."""
    cup = ((160, 320, 160, 160), (160, 160, 320, 160), (320, 160, 320, 320))
    free = FreeSpace.of(hand_made([*box(0, 0, 480, 480), *cup], (240, 200)))
    up = math.dist((240, 200), (304, 336))
    assert walk(free, (240, 200), (400, 100)) == pytest.approx(up + 32 + math.dist((336, 336), (400, 100)), rel=0.015)
    assert walk(free, (240, 200), (240, 100)) == pytest.approx(
        up + 32 + 192 + math.dist((336, 144), (240, 100)), rel=0.015
    )


def test_distance_around_the_corner_of_an_l() -> None:
    corridor = [
        (0, 0, 400, 0),
        (400, 0, 400, 64),
        (400, 64, 64, 64),
        (64, 64, 64, 400),
        (64, 400, 0, 400),
        (0, 400, 0, 0),
    ]
    free = FreeSpace.of(hand_made(corridor, (32, 360)))
    corner = (48, 48)  # 16 units from the inner corner (64, 64)
    expected = math.dist((32, 360), corner) + math.dist(corner, (360, 32))
    assert walk(free, (32, 360), (360, 32)) == pytest.approx(expected, rel=0.015)


coordinate = st.floats(17, 783)
place = st.tuples(coordinate, coordinate)
OPEN = hall(800, 800)


@given(place, place)
@settings(max_examples=100)
def test_open_space_is_crossed_in_straight_lines_both_ways(start: Spot, goal: Spot) -> None:
    straight = math.dist(start, goal)
    there, back = walk(OPEN, start, goal), walk(OPEN, goal, start)
    assert straight - 1e-9 <= there <= 1.03 * straight + 1e-9
    assert there == pytest.approx(back, abs=1e-6)


# A run in the same process may have switched subnormal numbers off.
anywhere = st.tuples(*[st.floats(0, 300, allow_subnormal=False)] * 2)
line = st.tuples(*[st.integers(0, 300).map(float)] * 4).filter(lambda ends: ends[:2] != ends[2:])


@given(st.lists(line, max_size=6), st.lists(anywhere, min_size=30, max_size=30))
@settings(max_examples=40)
def test_free_places_are_those_whose_square_meets_no_wall(lines: list[Line], spots: list[Spot]) -> None:
    walls = [*box(-100, -100, 300, 300), *lines]
    free = FreeSpace.of(hand_made(walls, (-60, -60)))
    places = np.array(spots)
    inside = free.contains(places)
    for spot, is_free in zip(places, inside, strict=True):
        if is_free:
            assert not any(box_meets(wall, spot, 15.98) for wall in walls)
    around = np.concatenate([places + shift for shift in ((-8, -8), (-8, 8), (8, -8), (8, 8))]).reshape(4, -1, 2)
    clear = free.contains(around.reshape(-1, 2)).reshape(4, -1).all(0)
    for spot, is_free in zip(places[clear], inside[clear], strict=True):
        assert is_free or any(box_meets(wall, spot, 16) for wall in walls)


@given(st.lists(line, max_size=6), st.integers(0, 2**16))
@settings(max_examples=25)
def test_distances_are_a_metric_and_never_shorter_than_the_straight_line(lines: list[Line], seed: int) -> None:
    free = FreeSpace.of(hand_made([*box(-100, -100, 300, 300), *lines], (-60, -60)))
    places = free.sample(np.random.default_rng(seed), 6)
    assert free.contains(places).all()
    table = np.array([free.at(free.distances_from(one), places) for one in places])
    straight = np.linalg.norm(places[:, None] - places[None], axis=2)
    assert np.isfinite(table).all()
    assert (table >= straight - 1e-9).all()
    np.testing.assert_allclose(table, table.T, atol=1e-6)
    slack = 0.03 * table + 8  # places between lattice points are joined to those within two cells
    assert (table <= (table[:, :, None] + table[None]).min(1) + slack).all()


def test_a_limit_leaves_near_distances_as_they_are_and_cuts_far_ones() -> None:
    whole, cut = OPEN.distances_from(np.array((100, 100))), OPEN.distances_from(np.array((100, 100)), limit=300)
    near, far = np.array([(250, 180), (100, 390)]), np.array([(500, 500)])
    np.testing.assert_array_equal(OPEN.at(whole, near), OPEN.at(cut, near))
    assert OPEN.at(cut, far)[0] == math.inf


def test_samples_are_uniform_over_free_space_and_repeat() -> None:
    free = hall(480, 160, (160, 0, 160, 60), (160, 100, 160, 160))
    places = free.sample(np.random.default_rng(3), 8000)
    assert places.shape == (8000, 2)
    assert free.contains(places).all()
    share = (places[:, 0] < 144).mean()  # left room: 128 x 128; right room: 288 x 128; door: 32 wide, 8 high
    assert share == pytest.approx(128 * 128 / (128 * 128 + 288 * 128 + 32 * 8), abs=0.02)
    right = places[(places[:, 0] > 176)]
    assert right.mean(0) == pytest.approx((320, 80), abs=4)
    np.testing.assert_array_equal(places, free.sample(np.random.default_rng(3), 8000))


def test_wrong_mazes_are_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match=r"'hand-made': its start \(10, 50\) lies in a wall; move it"):
        FreeSpace.of(hand_made(box(0, 0, 100, 100), (10, 50)))
    with pytest.raises(UsageError, match="'hand-made' has no walls; give a map that is closed"):
        FreeSpace.of(hand_made([], (0, 0)))
    with pytest.raises(UsageError, match=r"cell must lie in \(0, radius\], got 20 with radius 16"):
        FreeSpace.of(hand_made(box(0, 0, 100, 100), (50, 50)), cell=20)


def test_a_map_that_would_take_gigabytes_is_refused() -> None:
    with pytest.raises(UsageError, match=r"has 67,\d+,\d+ places on a lattice of 8,\d+ x 8,\d+, at most 4,000,000 fit"):
        hall(65_535, 65_535)
    with pytest.raises(
        UsageError, match=r"at most 500,000 fit; make it smaller, and look whether its walls are closed"
    ):
        hall(6_400, 6_400)
