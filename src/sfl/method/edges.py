"""Which landmarks are joined, and what an edge costs (Algorithm 2, lines 8-12; appendix D.2 and D.3).

First `EdgeStatistics`: transitions between landmarks as they are counted, walks and failures. Then `Edges`, the graph,
and `form_edges`: threshold (fixed, or Eq. 13), temporal filter, failure cleanup, k-nearest filter, costs.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from scipy.sparse import csr_matrix

from sfl.api import Array
from sfl.method.config import EdgeConfig

LARGEST_EXPONENT = 700.0
"""exp(-745) is 0 in double precision, and a weight of 0 is no edge or a free one: counts are clipped before that."""


Pair = tuple[int, int]


def unfiltered(config: EdgeConfig) -> EdgeConfig:
    """The threshold alone, to see what the filters take away."""
    return replace(config, k_nearest=0, temporal=0.0, temporal_floor=0, failure_limit=0)


class EdgeStatistics:
    """What the agent has seen of transitions between landmarks: how many, how long, how often it failed.

    Columns of plain numbers that grow: a transition is booked in a microsecond, and numpy reads all pairs at once. A
    column cannot grow while numpy looks into it, so what is handed out are copies. Pairs go by their `pair_key`.
    """

    def __init__(self) -> None:
        # [P], in any order
        self._keys, self._random, self._traverse, self._steps, self._walked = (array("q") for _ in range(5))
        self._rows: dict[int, int] = {}  # pair -> its place in these columns
        self._failed_keys, self._failed_at = array("q"), array("q")  # [F], in the order of failing

    def record(self, source: int, target: int, steps: int, random: bool) -> None:
        """The agent was localized to `source` and, `steps` decisions later, to `target`."""
        if source == target:
            raise ValueError(f"a transition joins two landmarks, got {source} twice")
        row = self._row(pair_key(source, target))
        (self._random if random else self._traverse)[row] += 1
        self._steps[row] += steps

    def record_walk(self, source: int, target: int) -> None:
        """The agent set out from `source` and arrived at `target`."""
        self._walked[self._row(pair_key(source, target))] += 1

    def record_failure(self, source: int, target: int, step: int) -> None:
        """The agent set out from `source` and did not arrive at `target`."""
        self._failed_keys.append(pair_key(source, target))
        self._failed_at.append(step)

    def forget(self, step: int, after: int) -> None:
        """Drop failures that are more than `after` environment steps old."""
        self._keep_failures(step - np.array(self._failed_at) <= after)

    def clear(self, index: int) -> None:
        """Forget everything about one landmark, in both directions."""
        rows = np.flatnonzero(_touches(np.array(self._keys), index)).tolist()
        for row in reversed(rows):  # the last row of all is then never one that is still to go
            self._remove(row)
        self._keep_failures(~_touches(np.array(self._failed_keys), index))

    def table(self, directed: bool) -> list[Array]:
        """Keys of pairs, random and traverse transitions, their steps, walks, failures: [P] each, sorted by pair.

        Not directed, each direction has the numbers of both together.
        """
        columns, failed = [np.array(column) for column in self._columns], np.array(self._failed_keys)
        if directed:
            keys, *numbers = _sorted_by_key(columns)
            return [keys, *numbers, _occurrences(failed, keys)]
        failed, columns[0] = (np.minimum(keys, _reverse(keys)) for keys in (failed, columns[0]))
        keys, *numbers = _sorted_by_key(columns)
        firsts = np.flatnonzero(np.diff(keys, prepend=-1))
        keys, numbers = keys[firsts], [np.add.reduceat(column, firsts) for column in numbers]
        numbers.append(_occurrences(failed, keys))
        there_and_back = [(keys, _reverse(keys)), *((column, column) for column in numbers)]
        return _sorted_by_key([np.concatenate(columns) for columns in there_and_back])

    def counts(self, with_traverse: bool) -> Counter[Pair]:
        """Transition counts N by pair."""
        return self.random + self.traverse if with_traverse else self.random

    @property
    def random(self) -> Counter[Pair]:
        """Transitions in which the random policy acted, by pair."""
        return self._by_pair(self._random)

    @property
    def traverse(self) -> Counter[Pair]:
        """Transitions of the traverse phase, by pair."""
        return self._by_pair(self._traverse)

    @property
    def steps(self) -> Counter[Pair]:
        """Decisions that all transitions together took, by pair."""
        return self._by_pair(self._steps)

    @property
    def failures(self) -> dict[Pair, list[int]]:
        """Environment steps of the failures that are remembered, by pair."""
        times: defaultdict[Pair, list[int]] = defaultdict(list)
        for key, step in zip(self._failed_keys, self._failed_at, strict=True):
            times[split_key(key)].append(step)
        return dict(times)

    def state(self) -> dict[str, Array]:
        """Plain arrays: one row per pair, one row per failure."""
        keys, *numbers = _sorted_by_key([np.array(column) for column in self._columns])
        failed, at = np.array(self._failed_keys), np.array(self._failed_at)
        order = np.argsort(failed, kind="stable")  # the failures of one pair stay in the order of failing
        return {
            "pairs": np.stack([*split_key(keys), *numbers], axis=1),
            "failures": np.stack([*split_key(failed), at], axis=1)[order],
        }

    def load_state(self, state: dict[str, Array]) -> None:
        """Go on with arrays made by `state`."""
        sources, targets, *numbers = state["pairs"].T
        self._keys = _column(pair_key(sources, targets))
        self._random, self._traverse, self._steps, self._walked = map(_column, numbers)
        self._rows = {key: row for row, key in enumerate(self._keys)}
        sources, targets, at = state["failures"].T
        self._failed_keys, self._failed_at = _column(pair_key(sources, targets)), _column(at)

    @property
    def _columns(self) -> tuple[array[int], ...]:
        return self._keys, self._random, self._traverse, self._steps, self._walked

    def _row(self, key: int) -> int:
        """The place of a pair in the columns, a new one if need be."""
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = len(self._rows)
            for column, number in zip(self._columns, (key, 0, 0, 0, 0), strict=True):
                column.append(number)
        return row

    def _by_pair(self, column: array[int]) -> Counter[Pair]:
        return Counter({split_key(key): column[row] for key, row in self._rows.items() if column[row]})

    def _remove(self, row: int) -> None:
        """Take a pair out of the columns; the last one takes its place."""
        del self._rows[self._keys[row]]
        last = [column.pop() for column in self._columns]
        if row < len(self._keys):
            for column, number in zip(self._columns, last, strict=True):
                column[row] = number
            self._rows[last[0]] = row

    def _keep_failures(self, mask: Array) -> None:
        if not mask.all():
            self._failed_keys = _column(np.array(self._failed_keys)[mask])
            self._failed_at = _column(np.array(self._failed_at)[mask])


Number = TypeVar("Number", int, Array)


def pair_key(source: Number, target: Number) -> Number:
    """One number for a pair, or for each pair of two columns; they sort as pairs do, by source and then target."""
    return source << 32 | target


def split_key(key: Number) -> tuple[Number, Number]:
    """The pair or pairs of a key."""
    return key >> 32, key & (1 << 32) - 1


def _reverse(keys: Array) -> Array:
    sources, targets = split_key(keys)
    return pair_key(targets, sources)


def _touches(keys: Array, index: int) -> Array:
    """Which pairs have the landmark at either end."""
    sources, targets = split_key(keys)
    return np.asarray((sources == index) | (targets == index))


def _occurrences(of: Array, among: Array) -> Array:
    """How often each of the different numbers [E] of a sorted array is found in another."""
    of = np.sort(of)
    first, last = (np.searchsorted(among, of, side=side) for side in ("left", "right"))
    return np.bincount(first[first < last], minlength=len(among))


def _sorted_by_key(columns: list[Array]) -> list[Array]:
    """All columns in the order of the first."""
    order = np.argsort(columns[0])
    return [column[order] for column in columns]


def _column(numbers: Array) -> array[int]:
    return array("q", numbers.astype(np.int64).tobytes())


@dataclass(frozen=True)
class Edges:
    """A graph over `size` landmarks: parallel columns, one row per directed edge, sorted by source and target."""

    size: int
    sources: Array  # [E]
    targets: Array  # [E]
    counts: Array  # [E]
    weights: Array  # [E], all positive

    @staticmethod
    def none(size: int) -> Edges:
        """No edges yet."""
        empty = np.zeros(0, dtype=np.int64)
        return Edges(size, empty, empty, empty, np.zeros(0))

    @classmethod
    def from_state(cls, size: int, state: dict[str, Array]) -> Edges:
        """Go on with arrays made by `state`."""
        return cls(size, *(state[f"edge_{name}"] for name in ("sources", "targets", "counts", "weights")))

    def state(self) -> dict[str, Array]:
        """Plain arrays, under the names by which figures and metrics know edges."""
        columns = {"sources": self.sources, "targets": self.targets, "counts": self.counts, "weights": self.weights}
        return {f"edge_{name}": column for name, column in columns.items()}

    def matrix(self) -> csr_matrix:
        """Weights as a sparse matrix, as scipy's graph routines take them."""
        starts = np.searchsorted(self.sources, np.arange(self.size + 1))
        return csr_matrix((self.weights, self.targets, starts), shape=(self.size, self.size))

    def keep(self, mask: Array) -> Edges:
        """Only the edges of the mask [E]."""
        return Edges(self.size, *(column[mask] for column in (self.sources, self.targets, self.counts, self.weights)))


def form_edges(statistics: EdgeStatistics, config: EdgeConfig, size: int) -> Edges:
    """Threshold, temporal filter, failure cleanup, k-nearest filter; what remains is given its weights."""
    edges, steps, failed = _count_columns(statistics, config, size)
    threshold = edge_threshold(edges.counts, config)
    above = edges.counts >= threshold if config.inclusive else edges.counts > threshold
    mask = above & temporal_mask(edges, config) & failure_mask(failed, config)
    edges, steps = edges.keep(mask), steps[mask]
    if config.k_nearest:
        mask = k_nearest_mask(edges, config.k_nearest)
        edges, steps = edges.keep(mask), steps[mask]
    weights = edge_weights(edges, steps, config.weight) * (1.0 + config.doubt / edges.counts)
    return Edges(edges.size, edges.sources, edges.targets, edges.counts, weights)


def _count_columns(statistics: EdgeStatistics, config: EdgeConfig, size: int) -> tuple[Edges, Array, Array]:
    """All pairs that were counted, with their costs in steps [E] and how often they failed [E]."""
    columns = statistics.table(config.directed)
    counted = columns[1] + columns[2] if config.count_traverse else columns[1]
    keys, random, traverse, steps, walked, failed = (column[counted > 0] for column in columns)
    # Steps are summed over both phases; their mean is taken over both, whatever the threshold counts.
    totals = random + traverse
    means = steps / totals
    means += config.failure_steps * failed / (walked + 1) if config.failure_steps else means * failed / totals
    counts = totals if config.count_traverse else random
    return Edges(size, *split_key(keys), counts, np.ones(len(counts))), means, failed


def edge_threshold(counts: Array, config: EdgeConfig) -> float:
    """delta_edge: fixed, or the median of the non-zero counts (Eq. 13)."""
    if config.dynamic_threshold:
        return float(np.median(counts)) if len(counts) else 0.0
    return config.threshold


def temporal_mask(edges: Edges, config: EdgeConfig) -> Array:
    """|u - v| < tau * |L|: landmarks are numbered in the order of adding."""
    if not config.temporal:
        return np.ones(len(edges.counts), dtype=bool)
    apart = np.abs(edges.sources - edges.targets)
    if config.temporal_floor:
        return np.asarray(apart <= max(int(config.temporal * edges.size), config.temporal_floor))
    return np.asarray(apart < config.temporal * edges.size)


def failure_mask(failed: Array, config: EdgeConfig) -> Array:
    """Failure cleanup: False for edges that failed `failure_limit` times, given how often each did in memory [E]."""
    if not config.failure_limit:
        return np.ones(len(failed), dtype=bool)
    return np.asarray(failed < config.failure_limit)


def k_nearest_mask(edges: Edges, k: int) -> Array:
    """True for each landmark's k outgoing edges with most transitions; ties go to the lower index."""
    order = np.lexsort((-edges.counts, edges.sources))  # stable: targets stay sorted where counts are the same
    starts = np.searchsorted(edges.sources, np.arange(edges.size))
    mask = np.zeros(len(order), dtype=bool)
    mask[order] = np.arange(len(order)) - starts[edges.sources] < k
    return mask


def edge_weights(edges: Edges, steps: Array, rule: str) -> Array:
    """Costs [E] of the edges that remain; never 0, which scipy would read as no edge or as a free one."""
    if rule == "exp":
        return np.asarray(np.exp(-np.minimum(edges.counts, LARGEST_EXPONENT)))
    if rule == "log-frequency":
        leaving = np.bincount(edges.sources, weights=edges.counts, minlength=edges.size)
        share = edges.counts / leaving[edges.sources]
        return np.asarray(np.maximum(-np.log(share), 1e-9))
    return np.asarray(np.maximum(steps, 1e-9), dtype=np.float64)
