"""Which landmarks are joined (paper, section 4.2, and the appendices on edge threshold and edge filtering)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse import csr_matrix

from sfl.core.config import require
from sfl.data.types import Array

LARGEST_EXPONENT = 700.0
"""exp(-745) is 0 in double precision, and a weight of 0 is no edge or a free one: counts are clipped before that."""


@dataclass(frozen=True)
class EdgeConfig:
    """When a pair of landmarks is an edge, and what it costs."""

    threshold: float = 1.0
    """delta_edge: more transitions than this make an edge."""
    dynamic_threshold: bool = False
    """Take the median of all transition counts as the threshold instead (ViZDoom)."""
    inclusive: bool = False
    """At the threshold is enough (the released code)."""
    count_traverse: bool = True
    """Count transitions of the traverse phase too (Algorithm 1); the released code counts the random phase only."""
    inherit_transition: bool = False
    """A new landmark starts with one transition from the landmark before it (the released code)."""
    directed: bool = True
    """Keep the two directions apart."""
    weight: Literal["exp", "log-frequency", "steps"] = "exp"
    """Cost of an edge: exp(-N) (paper), -log of its share of the transitions that leave its source (released MiniGrid
    code), or the mean number of steps that its transitions took, times the tries per success."""
    doubt: float = 0.0
    """Multiply costs by 1 + doubt / N: an edge that was seen once may be an error of localization."""
    k_nearest: int = 0
    """Keep only each landmark's k most frequent outgoing edges; 0 = all."""
    temporal: float = 0.0
    """tau: keep only edges between landmarks added within this share of all landmarks of each other; 0 = all."""
    temporal_floor: int = 0
    """The released code's reading of the temporal filter: at most max(L // (1 / tau), this) apart; 0 = the paper's."""
    failure_limit: int = 0
    """Remove an edge that the agent failed to walk this often; 0 = never."""
    forget_after: int = 80_000
    """Environment steps after which a failure is forgotten; 0 = never."""
    form_every: int = 1_000
    """N_form-edges: environment steps between two rebuilds of the edges."""

    def __post_init__(self) -> None:
        require(self.threshold >= 0, f"edges.threshold must not be negative, got {self.threshold}.")
        require(self.doubt >= 0, f"edges.doubt must not be negative, got {self.doubt}.")
        require(self.k_nearest >= 0, f"edges.k-nearest must not be negative, got {self.k_nearest}.")
        require(0 <= self.temporal <= 1, f"edges.temporal must lie in [0, 1], got {self.temporal}.")
        require(self.failure_limit >= 0, f"edges.failure-limit must not be negative, got {self.failure_limit}.")
        require(self.forget_after >= 0, f"edges.forget-after must not be negative, got {self.forget_after}.")
        require(self.form_every >= 1, f"edges.form-every must be at least 1, got {self.form_every}.")


Pair = tuple[int, int]


class EdgeStatistics:
    """What the agent has seen of transitions between landmarks: how many, how long, how often it failed."""

    def __init__(self) -> None:
        self.random: Counter[Pair] = Counter()
        self.traverse: Counter[Pair] = Counter()
        self.steps: Counter[Pair] = Counter()
        self.failures: dict[Pair, list[int]] = {}

    def record(self, source: int, target: int, steps: int, random: bool) -> None:
        """The agent was localized to `source` and, `steps` decisions later, to `target`."""
        if source == target:
            raise ValueError(f"a transition joins two landmarks, got {source} twice")
        (self.random if random else self.traverse)[source, target] += 1
        self.steps[source, target] += steps

    def record_failure(self, source: int, target: int, step: int) -> None:
        """The agent set out from `source` and did not arrive at `target`."""
        self.failures.setdefault((source, target), []).append(step)

    def forget(self, step: int, after: int) -> None:
        """Drop failures that are more than `after` environment steps old."""
        recent = {pair: [at for at in times if step - at <= after] for pair, times in self.failures.items()}
        self.failures = {pair: times for pair, times in recent.items() if times}

    def clear(self, index: int) -> None:
        """Forget everything about one landmark, in both directions."""
        for table in (self.random, self.traverse, self.steps, self.failures):
            for pair in [pair for pair in table if index in pair]:
                del table[pair]

    def counts(self, with_traverse: bool) -> Counter[Pair]:
        """Transition counts N by pair."""
        return self.random + self.traverse if with_traverse else self.random

    def state(self) -> dict[str, Array]:
        """Plain arrays: one row per pair, one row per failure."""
        pairs = sorted(self.random.keys() | self.traverse.keys())
        rows = [(*pair, self.random[pair], self.traverse[pair], self.steps[pair]) for pair in pairs]
        failures = [(*pair, at) for pair, times in sorted(self.failures.items()) for at in times]
        return {
            "transitions": np.array(rows, dtype=np.int64).reshape(-1, 5),
            "failures": np.array(failures, dtype=np.int64).reshape(-1, 3),
        }

    def load_state(self, state: dict[str, Array]) -> None:
        """Take up arrays made by `state`."""
        self.__init__()  # type: ignore[misc]
        for source, target, random, traverse, steps in state["transitions"].tolist():
            for table, value in ((self.random, random), (self.traverse, traverse), (self.steps, steps)):
                if value:
                    table[source, target] = value
        for source, target, at in state["failures"].tolist():
            self.record_failure(source, target, at)


@dataclass(frozen=True)
class Edges:
    """A graph over `size` landmarks: parallel columns, one row per directed edge."""

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

    def matrix(self) -> csr_matrix:
        """Weights as a sparse matrix, as scipy's graph routines take them."""
        return csr_matrix((self.weights, (self.sources, self.targets)), shape=(self.size, self.size))

    def keep(self, mask: Array) -> Edges:
        """Only the edges of the mask [E]."""
        return Edges(self.size, *(column[mask] for column in (self.sources, self.targets, self.counts, self.weights)))


def form_edges(statistics: EdgeStatistics, config: EdgeConfig, size: int) -> Edges:
    """Threshold, temporal filter, failure cleanup, k-nearest filter; what remains is given its weights."""
    edges, steps = _count_columns(statistics, config, size)
    threshold = edge_threshold(edges.counts, config)
    above = edges.counts >= threshold if config.inclusive else edges.counts > threshold
    mask = above & temporal_mask(edges, config) & failure_mask(edges, statistics, config)
    edges, steps = edges.keep(mask), steps[mask]
    if config.k_nearest:
        mask = k_nearest_mask(edges, config.k_nearest)
        edges, steps = edges.keep(mask), steps[mask]
    weights = edge_weights(edges, steps, config.weight) * (1.0 + config.doubt / edges.counts)
    return Edges(edges.size, edges.sources, edges.targets, edges.counts, weights)


def _count_columns(statistics: EdgeStatistics, config: EdgeConfig, size: int) -> tuple[Edges, Array]:
    counts, steps = statistics.counts(config.count_traverse), statistics.steps
    if not config.directed:
        counts = Counter(counts) + Counter({(j, i): n for (i, j), n in counts.items()})
        steps = Counter(steps) + Counter({(j, i): n for (i, j), n in steps.items()})
    pairs = np.array(sorted(counts), dtype=np.int64).reshape(-1, 2)
    numbers = np.array([counts[i, j] for i, j in pairs.tolist()], dtype=np.int64)
    # Steps are summed over both phases; their mean is taken over both, whatever the threshold counts.
    seen = statistics.counts(True)
    totals = [max(1, seen[i, j] + (0 if config.directed else seen[j, i])) for i, j in pairs.tolist()]
    tries = [
        total + len(statistics.failures.get((i, j), ())) for (i, j), total in zip(pairs.tolist(), totals, strict=True)
    ]
    per_success = np.array(tries) / np.array(totals) if totals else np.zeros(0)
    means = np.array([steps[i, j] for i, j in pairs.tolist()]) / np.maximum(totals, 1) * per_success
    return Edges(size, pairs[:, 0], pairs[:, 1], numbers, np.ones(len(pairs))), means


def edge_threshold(counts: Array, config: EdgeConfig) -> float:
    """delta_edge: fixed, or the median of the non-zero counts."""
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


def failure_mask(edges: Edges, statistics: EdgeStatistics, config: EdgeConfig) -> Array:
    """False for edges that failed `failure_limit` times within memory."""
    if not config.failure_limit:
        return np.ones(len(edges.counts), dtype=bool)
    pairs = zip(edges.sources.tolist(), edges.targets.tolist(), strict=True)
    failed = [len(statistics.failures.get(pair, ())) >= config.failure_limit for pair in pairs]
    return ~np.array(failed, dtype=bool)


def k_nearest_mask(edges: Edges, k: int) -> Array:
    """True for each landmark's k outgoing edges with most transitions; ties go to the lower index."""
    order = np.lexsort((edges.targets, -edges.counts, edges.sources))
    starts = np.searchsorted(edges.sources[order], edges.sources[order], side="left")
    mask = np.zeros(len(order), dtype=bool)
    mask[order] = np.arange(len(order)) - starts < k
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
