"""Statistics and edges on random histories, against books kept in plain dictionaries, pair by pair."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import replace
from statistics import median

import numpy as np
import pytest

from sfl.method.config import EdgeConfig
from sfl.method.edges import Edges, EdgeStatistics, form_edges
from sfl.method.planner import Planner

Pair = tuple[int, int]
SIZE = 9


class Books:
    """The same events as in `EdgeStatistics`, in dictionaries."""

    def __init__(self) -> None:
        self.random: defaultdict[Pair, int] = defaultdict(int)
        self.traverse: defaultdict[Pair, int] = defaultdict(int)
        self.steps: defaultdict[Pair, int] = defaultdict(int)
        self.failures: defaultdict[Pair, list[int]] = defaultdict(list)
        self.walks: defaultdict[Pair, int] = defaultdict(int)

    def clear(self, index: int) -> None:
        for table in (self.random, self.traverse, self.steps, self.failures, self.walks):
            for pair in [pair for pair in table if index in pair]:
                del table[pair]

    def forget(self, step: int, after: int) -> None:
        for pair, times in list(self.failures.items()):
            self.failures[pair] = [at for at in times if step - at <= after]

    def rows(self) -> list[tuple[int, ...]]:
        tables = (self.random, self.traverse, self.steps, self.walks)
        pairs = sorted({pair for table in tables for pair, number in table.items() if number})
        return [(*pair, *(table[pair] for table in tables)) for pair in pairs]

    def failure_rows(self) -> list[tuple[int, ...]]:
        return [(*pair, at) for pair, times in sorted(self.failures.items()) for at in times]

    def edges(self, config: EdgeConfig) -> dict[Pair, tuple[int, float]]:
        """Pair -> count and cost, in the order of pairs."""
        counts = {pair: self._count(pair, config.count_traverse, config.directed) for pair in all_pairs()}
        counts = {pair: count for pair, count in counts.items() if count}
        limit = config.threshold if not config.dynamic_threshold else median(counts.values()) if counts else 0
        kept = {pair: n for pair, n in counts.items() if n > limit or (config.inclusive and n == limit)}
        if config.temporal:
            kept = {(i, j): n for (i, j), n in kept.items() if abs(i - j) < config.temporal * SIZE}
        if config.failure_limit:
            kept = {pair: n for pair, n in kept.items() if self._failed(pair, config.directed) < config.failure_limit}
        if config.k_nearest:
            kept = {pair: n for pair, n in kept.items() if _rank(pair, kept) < config.k_nearest}
        return {pair: (n, self._cost(pair, kept, config) * (1 + config.doubt / n)) for pair, n in kept.items()}

    def _count(self, pair: Pair, with_traverse: bool, directed: bool) -> int:
        ways = [pair] if directed else [pair, pair[::-1]]
        return sum(self.random[way] + (self.traverse[way] if with_traverse else 0) for way in ways)

    def _failed(self, pair: Pair, directed: bool) -> int:
        return len(self.failures[pair]) + (0 if directed else len(self.failures[pair[::-1]]))

    def _cost(self, pair: Pair, kept: dict[Pair, int], config: EdgeConfig) -> float:
        if config.weight == "exp":
            return math.exp(-kept[pair])
        if config.weight == "log-frequency":
            return max(1e-9, -math.log(kept[pair] / sum(n for (i, _), n in kept.items() if i == pair[0])))
        steps = self.steps[pair] + (0 if config.directed else self.steps[pair[::-1]])
        mean, failed = steps / self._count(pair, True, config.directed), self._failed(pair, config.directed)
        if not config.failure_steps:
            return max(1e-9, mean * (1 + failed / self._count(pair, True, config.directed)))
        walked = self.walks[pair] + (0 if config.directed else self.walks[pair[::-1]])
        return max(1e-9, mean + config.failure_steps * failed / (1 + walked))


def _rank(pair: Pair, kept: dict[Pair, int]) -> int:
    """How many edges of the same source come before this one."""
    leaving = sorted((-n, j) for (i, j), n in kept.items() if i == pair[0])
    return leaving.index((-kept[pair], pair[1]))


def all_pairs() -> list[Pair]:
    return list(itertools.permutations(range(SIZE), 2))


def random_history(seed: int, length: int) -> tuple[EdgeStatistics, Books]:
    """Transitions, walks and failures with landmarks cleared and failures forgotten in between."""
    rng, statistics, books = np.random.default_rng(seed), EdgeStatistics(), Books()
    for step in range(length):
        source, target = rng.choice(SIZE, size=2, replace=False).tolist()
        event = rng.random()
        if event < 0.70:
            steps, random = int(rng.integers(1, 9)), bool(rng.random() < 0.5)
            statistics.record(source, target, steps, random)
            (books.random if random else books.traverse)[source, target] += 1
            books.steps[source, target] += steps
        elif event < 0.85:
            statistics.record_walk(source, target)
            books.walks[source, target] += 1
        elif event < 0.97:
            statistics.record_failure(source, target, step)
            books.failures[source, target].append(step)
        elif event < 0.985:
            statistics.clear(source)
            books.clear(source)
        else:
            statistics.forget(step, after=60)
            books.forget(step, after=60)
    return statistics, books


HISTORIES = [(seed, length) for seed in range(8) for length in (3, 40, 400)]


@pytest.mark.parametrize(("seed", "length"), HISTORIES)
def test_statistics_and_their_state_are_those_of_the_books(seed: int, length: int) -> None:
    statistics, books = random_history(seed, length)
    state = statistics.state()
    assert [tuple(row) for row in state["pairs"].tolist()] == books.rows()
    assert [tuple(row) for row in state["failures"].tolist()] == books.failure_rows()
    assert {state[name].dtype for name in ("pairs", "failures")} == {np.dtype(np.int64)}
    other = EdgeStatistics()
    other.load_state(state)
    for index in (2, 5):  # what was loaded can be taken out, and grows again
        other.clear(index)
        books.clear(index)
    other.record(2, 5, steps=4, random=True)
    books.random[2, 5], books.steps[2, 5] = 1, 4
    assert [tuple(row) for row in other.state()["pairs"].tolist()] == books.rows()
    assert {pair: times for pair, times in books.failures.items() if times} == other.failures


def every_choice() -> list[EdgeConfig]:
    configs = [
        EdgeConfig(directed=directed, weight=weight, count_traverse=count_traverse, threshold=0.0)
        for directed, weight, count_traverse in itertools.product(
            (True, False), ("exp", "log-frequency", "steps"), (True, False)
        )
    ]
    filters: list[dict[str, float]] = [
        {},
        {"threshold": 2.0, "inclusive": True},
        {"dynamic_threshold": True, "doubt": 4.0},
        {"temporal": 0.5, "failure_limit": 1},
        {"k_nearest": 2, "doubt": 1.0, "failure_steps": 30.0},
        {"dynamic_threshold": True, "inclusive": True, "temporal": 0.7, "failure_limit": 2, "k_nearest": 3},
    ]
    return [replace(config, **chosen) for config in configs for chosen in filters]  # type: ignore[arg-type]


@pytest.mark.parametrize(("seed", "length"), [(0, 0), *HISTORIES])
def test_edges_are_those_of_the_books(seed: int, length: int) -> None:
    statistics, books = random_history(seed, length)
    for config in every_choice():
        edges, expected = form_edges(statistics, config, SIZE), books.edges(config)
        pairs = list(zip(edges.sources.tolist(), edges.targets.tolist(), strict=True))
        assert pairs == sorted(expected), config
        assert edges.counts.tolist() == [count for count, _ in expected.values()], config
        np.testing.assert_allclose(edges.weights, [cost for _, cost in expected.values()], rtol=1e-12)
        whole_numbers = {column.dtype for column in (edges.sources, edges.targets, edges.counts)}
        assert (whole_numbers, edges.weights.dtype) == ({np.dtype(np.int64)}, np.float64)


@pytest.mark.parametrize("seed", range(5))
def test_a_planner_without_edges_is_one_that_never_had_them(seed: int) -> None:
    edges = form_edges(random_history(seed, 60)[0], EdgeConfig(threshold=0.0, weight="steps"), SIZE)
    pairs = list(zip(edges.sources.tolist(), edges.targets.tolist(), strict=True))
    avoided = {*pairs[::3], (0, SIZE + 5)}  # and one that is no edge
    kept = np.array([pair not in avoided for pair in pairs])
    columns = (column[kept] for column in (edges.sources, edges.targets, edges.counts, edges.weights))
    never, without = Planner(Edges(SIZE, *columns)), Planner(edges).without(avoided)
    assert np.isfinite(without.edges.weights).sum() == kept.sum() < len(pairs)
    for start in range(SIZE):
        np.testing.assert_array_equal(without.distances(start), never.distances(start))
        assert without.companions(start).tolist() == never.companions(start).tolist()
