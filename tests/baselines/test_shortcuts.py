"""SPTM's edges, worked out by hand and by a slow loop."""

from __future__ import annotations

import numpy as np
import pytest

from sfl.api import Array
from sfl.baselines.sptm import find_shortcuts, smoothed, temporal_pairs, unit_edges
from sfl.method.planner import Planner


def slow_median(scores: Array, walks: Array, i: int, j: int, window: int) -> float:
    seen = []
    for k in range(-window, window + 1):
        inside = 0 <= i + k < len(walks) and 0 <= j + k < len(walks)
        if inside and walks[i + k] == walks[i] and walks[j + k] == walks[j]:
            seen.append(scores[i + k, j + k])
    return float(np.median(seen))


@pytest.mark.parametrize("window", [0, 1, 3])
def test_the_median_runs_along_both_walks_and_stays_in_them(window: int) -> None:
    rng = np.random.default_rng(0)
    walks = np.array([2, 2, 2, 2, 5, 6, 6, 6, 6, 6, 9, 9])
    scores = rng.random((12, 12))
    for rows in (range(4), range(4, 5), range(5, 10), range(10, 12)):
        found = smoothed(scores, walks, rows, window)
        expected = [[slow_median(scores, walks, i, j, window) for j in range(12)] for i in rows]
        np.testing.assert_allclose(found, expected)


def test_neighbours_in_time_are_joined_within_their_walk() -> None:
    assert temporal_pairs(np.array([0, 0, 0, 3, 4, 4])).tolist() == [[0, 1], [1, 2], [4, 5]]
    assert temporal_pairs(np.zeros(0, int)).shape == (0, 2)


def two_walks_with_a_double() -> tuple[Array, Array]:
    """Nodes 0 to 5 and 6 to 11 are two walks along the same places; 2 and 9 (places 2 and 3) happen to look alike."""
    walks = np.repeat([0, 1], 6)
    places = np.tile(np.arange(6), 2)
    scores = np.where(np.abs(places[:, None] - places) == 0, 0.8, 0.1)
    scores[2, 9] = scores[9, 2] = 1.0
    return scores, walks


def test_shortcuts_join_walks_where_they_run_together_and_not_where_one_view_is_shared() -> None:
    scores, walks = two_walks_with_a_double()
    together = [[node, node + 6] for node in range(6)]
    assert find_shortcuts(scores, walks, 1, 3, 6).tolist() == together
    # Without the filter the one deceptive pair is the best of all.
    assert [2, 9] in find_shortcuts(scores, walks, 0, 3, 6).tolist()


def test_a_median_of_few_is_not_believed() -> None:
    """Where one walk ends as the other begins, a window holds one pair: a chance likeness would pass for a median."""
    scores, walks = two_walks_with_a_double()
    scores[0, 11] = scores[11, 0] = 1.0
    together = [[node, node + 6] for node in range(6)]
    assert find_shortcuts(scores, walks, 2, 3, 6).tolist() == together
    assert [0, 11] in find_shortcuts(scores, walks, 0, 3, 6).tolist()
    # Walks shorter than the window are not shut out: half of what they have is enough.
    assert find_shortcuts(scores, walks, 10, 3, 6).tolist()[0] == [0, 6]


def test_shortcuts_keep_their_distance_and_their_number() -> None:
    walks, scores = np.zeros(6, int), np.ones((6, 6))
    found = find_shortcuts(scores, walks, 0, 3, 100)
    assert found.tolist() == [[i, j] for i in range(6) for j in range(i + 3, 6)]
    assert len(find_shortcuts(scores, walks, 0, 3, 4)) == 4
    assert find_shortcuts(scores, walks, 0, 3, 0).shape == (0, 2)
    assert find_shortcuts(np.zeros((0, 0)), np.zeros(0, int), 2, 3, 5).shape == (0, 2)


def test_a_score_counts_in_both_directions() -> None:
    walks, scores = np.arange(3), np.zeros((3, 3))
    scores[0, 1], scores[1, 0] = 1.0, 0.0
    scores[1, 2] = scores[2, 1] = 0.6
    assert find_shortcuts(scores, walks, 0, 1, 1).tolist() == [[1, 2]]


def test_edges_lead_both_ways_at_the_cost_of_one() -> None:
    edges = unit_edges(4, np.array([[0, 1], [1, 2], [0, 1], [2, 0]]))
    pairs = list(zip(edges.sources.tolist(), edges.targets.tolist(), strict=True))
    assert pairs == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    assert Planner(edges).route(1, 2) == (1, 2)
    assert edges.weights.tolist() == [1.0] * 6
