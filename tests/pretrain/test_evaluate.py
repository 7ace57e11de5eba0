"""Scores worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from sfl.errors import UsageError
from sfl.pretrain.evaluate import PlaceRow, best_threshold, has_near_view, pair_accuracy, place_cells, place_errors


def test_the_most_similar_view_is_that_of_the_greatest_cosine() -> None:
    views = np.array([[10.0, 1.0], [0.0, 0.1], [-1.0, 0.0]])
    poses = np.array([[0.0, 0.0, 0.0], [30.0, 40.0, 0.0], [500.0, 0.0, 0.0]])
    queries = np.array([[1.0, 0.0], [0.2, 1.0], [-5.0, 0.0]])
    # The first query is most similar to view 0 (not to the nearest by length), the second to view 1, the third to 2.
    at = np.array([[0.0, 7.0, 90.0], [0.0, 0.0, 10.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(place_errors(queries, views, at, poses), [7.0, 50.0, 500.0])


def test_a_near_view_is_within_100_units_and_45_degrees() -> None:
    views = np.array([[0.0, 0.0, 350.0], [1000.0, 0.0, 90.0]])
    queries = np.array(
        [
            [100.0, 0.0, 0.0],  # 100 units and 10 degrees, across north
            [101.0, 0.0, 0.0],
            [0.0, 0.0, 36.0],  # 46 degrees
            [0.0, 0.0, 35.0],
            [1000.0, 60.0, 300.0],
        ]
    )
    assert has_near_view(queries, views).tolist() == [True, False, False, True, False]


def test_the_best_threshold_by_hand() -> None:
    cosines = np.array([0.9, 0.1, 0.5, 0.7, 0.3])
    near = np.array([True, False, True, False, False])
    # From 0.9 on 4 are right (0.5 is missed); from 0.5 on also 4; the lowest of equals is taken, with a margin.
    assert best_threshold(cosines, near) == pytest.approx(0.4)
    assert best_threshold(np.array([0.2, 0.8]), np.array([True, True])) == 0.2


def test_pairs_of_a_walk_that_turns_steadily_are_told_apart() -> None:
    angles = np.linspace(0, np.pi, 60)
    walks = np.stack([np.cos(angles), np.sin(angles)], axis=1)[None].repeat(2, axis=0)
    assert pair_accuracy(walks, 400, np.random.Generator(np.random.PCG64(0))) == 1.0
    noise = np.random.Generator(np.random.PCG64(1)).normal(size=(2, 60, 8))
    assert 0.35 < pair_accuracy(noise, 1_000, np.random.Generator(np.random.PCG64(0))) < 0.65


def test_walks_that_are_too_short_for_far_pairs() -> None:
    with pytest.raises(UsageError, match="at least 53 moments for reachability, got 40"):
        pair_accuracy(np.ones((1, 40, 2)), 10, np.random.Generator(np.random.PCG64(0)))


def test_the_table() -> None:
    row = PlaceRow("office", "maze", 0.875, 0.5, 1.0, 91.6)
    assert place_cells([row]) == [
        ["maze", "unseen", "pairs %", "within 100 %", "possible %", "median error"],
        ["office", "maze", "87.5", "50.0", "100.0", "92"],
    ]
