"""Transition counts, thresholds, filters and costs, each by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sfl.errors import UsageError
from sfl.method.config import EdgeConfig
from sfl.method.edges import Edges, EdgeStatistics, form_edges
from sfl.method.planner import Planner

Pair = tuple[int, int]


def counted(counts: dict[Pair, int], steps: int = 1) -> EdgeStatistics:
    """Statistics of so many random transitions, each of `steps` decisions."""
    statistics = EdgeStatistics()
    for (source, target), count in counts.items():
        for _ in range(count):
            statistics.record(source, target, steps, random=True)
    return statistics


def pairs(edges: Edges) -> set[Pair]:
    return set(zip(edges.sources.tolist(), edges.targets.tolist(), strict=True))


def costs(edges: Edges) -> dict[Pair, float]:
    return dict(zip(zip(edges.sources.tolist(), edges.targets.tolist(), strict=True), edges.weights, strict=True))


def formed(counts: dict[Pair, int], size: int, **settings: Any) -> set[Pair]:
    return pairs(form_edges(counted(counts), EdgeConfig(**settings), size))


# ---- statistics


def test_counts_of_the_two_phases_are_kept_apart_and_steps_are_summed() -> None:
    statistics = EdgeStatistics()
    statistics.record(0, 1, steps=3, random=True)
    statistics.record(0, 1, steps=5, random=False)
    statistics.record(0, 1, steps=4, random=True)
    statistics.record(1, 0, steps=2, random=False)
    assert statistics.counts(with_traverse=True) == {(0, 1): 3, (1, 0): 1}
    assert statistics.counts(with_traverse=False) == {(0, 1): 2}
    assert statistics.steps == {(0, 1): 12, (1, 0): 2}
    with pytest.raises(ValueError, match="joins two landmarks, got 4 twice"):
        statistics.record(4, 4, steps=1, random=True)


def test_a_cleared_landmark_leaves_nothing_in_either_direction() -> None:
    statistics = EdgeStatistics()
    for source, target in ((0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0)):
        statistics.record(source, target, steps=2, random=True)
        statistics.record(source, target, steps=3, random=False)
        statistics.record_failure(source, target, step=7)
        statistics.record_walk(source, target)
    statistics.clear(1)
    assert statistics.random == statistics.traverse == {(0, 2): 1, (2, 0): 1}
    assert statistics.steps == {(0, 2): 5, (2, 0): 5}
    assert set(statistics.failures) == {(0, 2), (2, 0)}
    assert statistics.state()["pairs"].tolist() == [[0, 2, 1, 1, 5, 1], [2, 0, 1, 1, 5, 1]]
    assert pairs(form_edges(statistics, EdgeConfig(threshold=0), 3)) == {(0, 2), (2, 0)}


def test_failures_are_forgotten_when_they_are_more_than_80k_steps_old() -> None:
    statistics = EdgeStatistics()
    statistics.record_failure(0, 1, step=1_000)
    statistics.record_failure(0, 1, step=1_001)
    statistics.forget(step=81_000, after=80_000)
    assert statistics.failures == {(0, 1): [1_000, 1_001]}  # "over 80K steps ago": 80,000 are not over
    statistics.forget(step=81_001, after=80_000)
    assert statistics.failures == {(0, 1): [1_001]}
    statistics.forget(step=81_002, after=80_000)
    assert statistics.failures == {}


def test_loaded_statistics_are_the_same_statistics() -> None:
    statistics = counted({(0, 1): 3, (2, 0): 1}, steps=4)
    statistics.record(1, 2, steps=6, random=False)
    statistics.record_failure(1, 2, step=50)
    statistics.record_failure(1, 2, step=60)
    statistics.record_failure(5, 6, step=70)
    other = counted({(7, 8): 2})
    other.load_state(statistics.state())
    assert (other.random, other.traverse, other.steps) == (statistics.random, statistics.traverse, statistics.steps)
    assert other.failures == {(1, 2): [50, 60], (5, 6): [70]}
    empty = EdgeStatistics()
    other.load_state(empty.state())
    assert (other.random, other.traverse, other.failures) == ({}, {}, {})


# ---- threshold


def test_the_fixed_threshold_asks_for_more_or_for_as_much() -> None:
    counts = {(0, 1): 1, (1, 2): 2, (2, 0): 3}
    assert formed(counts, 3) == {(1, 2), (2, 0)}  # N > 1
    assert formed(counts, 3, inclusive=True) == {(0, 1), (1, 2), (2, 0)}  # N >= 1
    assert formed(counts, 3, threshold=2.0) == {(2, 0)}
    assert formed({}, 3) == set()


def test_the_dynamic_threshold_is_the_median_of_the_counts() -> None:
    odd = {(0, 1): 1, (1, 2): 4, (2, 3): 9}  # median 4
    assert formed(odd, 4, dynamic_threshold=True) == {(2, 3)}
    assert formed(odd, 4, dynamic_threshold=True, inclusive=True) == {(1, 2), (2, 3)}
    even = odd | {(3, 0): 6}  # median 5, between 4 and 6
    assert formed(even, 4, dynamic_threshold=True) == {(2, 3), (3, 0)}
    assert formed({}, 4, dynamic_threshold=True) == set()


def test_transitions_of_the_traverse_phase_count_if_told_to() -> None:
    statistics = counted({(0, 1): 1})
    statistics.record(0, 1, steps=1, random=False)
    statistics.record(1, 0, steps=1, random=False)
    statistics.record(1, 0, steps=1, random=False)
    assert pairs(form_edges(statistics, EdgeConfig(), 2)) == {(0, 1), (1, 0)}
    assert pairs(form_edges(statistics, EdgeConfig(count_traverse=False, inclusive=True), 2)) == {(0, 1)}


def test_undirected_edges_sum_both_directions() -> None:
    counts = {(0, 1): 1, (1, 0): 1, (1, 2): 1, (2, 3): 2}
    assert formed(counts, 4) == {(2, 3)}
    edges = form_edges(counted(counts, steps=6), EdgeConfig(directed=False, weight="steps"), 4)
    assert pairs(edges) == {(0, 1), (1, 0), (2, 3), (3, 2)}
    assert dict(zip(zip(edges.sources, edges.targets, strict=True), edges.counts, strict=True))[3, 2] == 2
    # The mean duration of both directions together: (6 + 6) / 2 and 12 / 2.
    assert costs(edges) == pytest.approx({(0, 1): 6.0, (1, 0): 6.0, (2, 3): 6.0, (3, 2): 6.0})


# ---- filters


def test_a_failure_costs_what_it_is_said_to_for_each_time_that_the_edge_was_walked_as_planned() -> None:
    statistics = counted({(0, 1): 3, (1, 0): 1, (1, 2): 2}, steps=6)
    for source, target in ((0, 1), (1, 0), (2, 1)):
        statistics.record_failure(source, target, step=1)
    for source, target in ((0, 1), (0, 1), (1, 0), (1, 2)):
        statistics.record_walk(source, target)

    def cost(**settings: Any) -> dict[Pair, float]:
        return costs(form_edges(statistics, EdgeConfig(weight="steps", threshold=0, **settings), 3))

    assert cost(failure_steps=30) == pytest.approx({(0, 1): 6 + 30 / 3, (1, 0): 6 + 30 / 2, (1, 2): 6})
    assert cost(failure_steps=30, directed=False) == pytest.approx(
        {(0, 1): 6 + 60 / 4, (1, 0): 6 + 60 / 4, (1, 2): 6 + 30 / 2, (2, 1): 6 + 30 / 2}
    )
    assert cost() == pytest.approx({(0, 1): 6 + 6 / 3, (1, 0): 6 + 6, (1, 2): 6})  # as long as a success


def test_being_carried_over_an_edge_by_chance_does_not_make_its_failures_cheaper() -> None:
    statistics = counted({(0, 1): 2}, steps=2)
    statistics.record_failure(0, 1, step=1)
    config = EdgeConfig(weight="steps", failure_steps=30)
    before = costs(form_edges(statistics, config, 2))
    for _ in range(50):  # what two places that look alike do all the time
        statistics.record(0, 1, steps=2, random=True)
    assert costs(form_edges(statistics, config, 2)) == before == {(0, 1): 32.0}
    statistics.record_walk(0, 1)
    assert costs(form_edges(statistics, config, 2)) == {(0, 1): 17.0}


def test_k_nearest_keeps_the_most_frequent_outgoing_edges_and_ties_go_to_the_lower_index() -> None:
    counts = {(0, 1): 3, (0, 2): 5, (0, 3): 3, (0, 4): 2, (1, 0): 2, (4, 0): 9, (4, 1): 9, (4, 2): 9}
    assert formed(counts, 5, k_nearest=2) == {(0, 2), (0, 1), (1, 0), (4, 0), (4, 1)}
    assert formed(counts, 5, k_nearest=1) == {(0, 2), (1, 0), (4, 0)}
    assert formed(counts, 5, k_nearest=9) == set(counts)


def test_the_temporal_filter_is_strict_and_the_released_one_has_a_floor() -> None:
    counts = {(0, 1): 5, (0, 2): 5, (7, 10): 5, (11, 0): 5}
    # |u - v| < 0.1 * 20 = 2
    assert formed(counts, 20, temporal=0.1) == {(0, 1)}
    assert formed(counts, 21, temporal=0.1) == {(0, 1), (0, 2)}  # < 2.1
    # |u - v| <= max(20 // 10, floor)
    assert formed(counts, 20, temporal=0.1, temporal_floor=1) == {(0, 1), (0, 2)}
    assert formed(counts, 20, temporal=0.1, temporal_floor=10) == {(0, 1), (0, 2), (7, 10)}
    assert formed(counts, 20, temporal=0.1, temporal_floor=11) == set(counts)
    assert formed(counts, 20) == set(counts)


def test_an_edge_that_failed_too_often_is_removed_until_that_is_forgotten() -> None:
    statistics = counted({(0, 1): 5, (1, 0): 5, (1, 2): 5})
    statistics.record_failure(0, 1, step=10)
    statistics.record_failure(0, 1, step=20)
    statistics.record_failure(1, 0, step=20)
    assert pairs(form_edges(statistics, EdgeConfig(failure_limit=2), 3)) == {(1, 0), (1, 2)}
    assert pairs(form_edges(statistics, EdgeConfig(failure_limit=1), 3)) == {(1, 2)}
    assert pairs(form_edges(statistics, EdgeConfig(failure_limit=0), 3)) == {(0, 1), (1, 0), (1, 2)}
    statistics.forget(step=80_011, after=80_000)
    assert pairs(form_edges(statistics, EdgeConfig(failure_limit=2), 3)) == {(0, 1), (1, 0), (1, 2)}


# ---- costs


def test_the_papers_cost_is_exp_of_minus_n() -> None:
    edges = form_edges(counted({(0, 1): 2, (1, 0): 5}), EdgeConfig(), 2)
    assert costs(edges) == pytest.approx({(0, 1): math.exp(-2), (1, 0): math.exp(-5)})


def test_a_count_of_800_costs_more_than_nothing_and_is_still_preferred() -> None:
    edges = form_edges(counted({(0, 1): 800, (1, 2): 800, (0, 2): 600}), EdgeConfig(), 3)
    assert (edges.weights > 0).all()  # exp(-800) is 0 in double precision
    assert Planner(edges).route(0, 2) == (0, 1, 2)


def test_log_frequency_is_over_the_edges_that_remain_and_never_zero() -> None:
    edges = form_edges(
        counted({(0, 1): 3, (0, 2): 1, (1, 0): 4}), EdgeConfig(inclusive=True, weight="log-frequency"), 3
    )
    assert costs(edges) == pytest.approx({(0, 1): -math.log(3 / 4), (0, 2): -math.log(1 / 4), (1, 0): 1e-9})
    assert Planner(edges).route(1, 2) == (1, 0, 2)  # an only edge has probability 1, cost 0: it must not vanish


def test_the_cost_in_steps_is_the_mean_duration() -> None:
    statistics = EdgeStatistics()
    for steps in (4, 7):
        statistics.record(0, 1, steps, random=True)
    statistics.record(0, 1, 10, random=False)
    statistics.record(1, 0, 2, random=True)
    edges = form_edges(statistics, EdgeConfig(threshold=0, weight="steps"), 2)
    assert costs(edges) == pytest.approx({(0, 1): 7.0, (1, 0): 2.0})  # (4 + 7 + 10) / 3
    edges = form_edges(statistics, EdgeConfig(threshold=0, weight="steps", count_traverse=False), 2)
    assert costs(edges) == pytest.approx({(0, 1): 7.0, (1, 0): 2.0})


@pytest.mark.parametrize("weight", ["exp", "log-frequency", "steps"])
def test_doubt_multiplies_costs_by_one_plus_doubt_over_n(weight: str) -> None:
    statistics = counted({(0, 1): 1, (1, 0): 4, (0, 2): 8}, steps=3)
    sure, unsure = (
        costs(form_edges(statistics, EdgeConfig(threshold=0, weight=weight, doubt=doubt), 3))  # type: ignore[arg-type]
        for doubt in (0.0, 4.0)
    )
    assert unsure == pytest.approx({(0, 1): 5 * sure[0, 1], (1, 0): 2 * sure[1, 0], (0, 2): 1.5 * sure[0, 2]})


def test_doubt_goes_by_the_transitions_that_count() -> None:
    statistics = counted({(0, 1): 1, (1, 0): 3}, steps=6)
    statistics.record(0, 1, 6, random=False)
    settings: dict[str, Any] = {"threshold": 0, "weight": "steps", "doubt": 2.0}
    assert costs(form_edges(statistics, EdgeConfig(**settings), 2))[0, 1] == pytest.approx(6 * (1 + 2 / 2))
    edges = form_edges(statistics, EdgeConfig(**settings, count_traverse=False), 2)
    assert costs(edges)[0, 1] == pytest.approx(6 * (1 + 2 / 1))
    edges = form_edges(statistics, EdgeConfig(**settings, directed=False), 2)
    assert costs(edges) == pytest.approx({(0, 1): 6 * (1 + 2 / 5), (1, 0): 6 * (1 + 2 / 5)})


def test_with_doubt_a_detour_over_frequent_edges_is_shorter_than_one_lucky_jump() -> None:
    statistics = counted({(0, 1): 20, (1, 2): 20}, steps=5)
    statistics.record(0, 2, 6, random=True)
    for doubt, route in ((0.0, (0, 2)), (4.0, (0, 1, 2))):
        edges = form_edges(statistics, EdgeConfig(threshold=0, weight="steps", doubt=doubt), 3)
        assert Planner(edges).route(0, 2) == route


def test_the_matrix_has_a_row_for_landmarks_without_edges() -> None:
    matrix = form_edges(counted({(0, 1): 2}), EdgeConfig(), 4).matrix()
    assert matrix.shape == (4, 4)
    np.testing.assert_allclose(matrix.toarray()[0], [0, math.exp(-2), 0, 0])
    assert len(Edges.none(3).weights) == 0
    assert Edges.none(3).matrix().shape == (3, 3)


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("threshold", -1.0, "edges.threshold must not be negative, got -1"),
        ("doubt", -0.5, "edges.doubt must not be negative, got -0.5"),
        ("k_nearest", -1, "edges.k-nearest must not be negative"),
        ("temporal", 1.1, r"edges.temporal must lie in \[0, 1\], got 1.1"),
        ("failure_limit", -1, "edges.failure-limit must not be negative"),
        ("forget_after", -1, "edges.forget-after must not be negative"),
        ("form_every", 0, "edges.form-every must be at least 1, got 0"),
    ],
)
def test_wrong_settings_are_named(field: str, value: float, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        EdgeConfig(**{field: value})  # type: ignore[arg-type]
