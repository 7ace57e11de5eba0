"""Graphs drawn by hand."""

from __future__ import annotations

import numpy as np

from sfl.method.edges import Edges


def draw(size: int, weights: dict[tuple[int, int], float]) -> Edges:
    """Directed edges with these costs; counts do not matter."""
    pairs = np.array(sorted(weights), dtype=np.int64).reshape(-1, 2)
    costs = np.array([weights[i, j] for i, j in pairs.tolist()], dtype=np.float64)
    return Edges(size, pairs[:, 0], pairs[:, 1], np.ones(len(pairs), dtype=np.int64), costs)


def both_ways(weights: dict[tuple[int, int], float]) -> dict[tuple[int, int], float]:
    """The same edges and their reverses."""
    return weights | {(j, i): cost for (i, j), cost in weights.items()}
