"""PLAN of Algorithm 1, line 5: shortest routes over the landmark graph (section 4.4)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components, dijkstra, yen

from sfl.api import Array
from sfl.errors import NoRouteError
from sfl.method.edges import Edges, pair_key

Route = tuple[int, ...]


class Planner:
    """Routes over one set of edges; each source is solved once and kept until the edges change."""

    def __init__(self, edges: Edges, like: csr_matrix | None = None) -> None:
        """`like`: a matrix of the same edges with other weights, which saves making one from nothing."""
        self.edges = edges
        self._matrix = edges.matrix() if like is None else _weighted(like, edges.weights)
        self._solved: dict[int, tuple[Array, Array]] = {}
        self._component: Array | None = None
        self._keys: Array | None = None

    def distances(self, start: int) -> Array:
        """Cost of the shortest route from `start` to every landmark, infinite where there is none."""
        return self._solve(start)[0]

    def route(self, start: int, goal: int) -> Route:
        """Landmarks of the shortest route, both ends included."""
        distances, before = self._solve(start)
        if not np.isfinite(distances[goal]):
            raise NoRouteError(f"The landmark graph holds no route from {start} to {goal}.")
        return _read_back(before, start, goal)

    def shortest_routes(self, start: int, goal: int, count: int) -> list[Route]:
        """Up to `count` routes by increasing cost, none of which passes a landmark twice."""
        shortest = self.route(start, goal)
        if start == goal:
            return [shortest]
        _, before = yen(self._matrix, start, goal, count, return_predecessors=True)
        return [_read_back(row, start, goal) for row in before]

    def without(self, pairs: Collection[tuple[int, int]]) -> Planner:
        """The same graph less some edges: they stay in their columns, at an infinite cost."""
        if not pairs or not len(self.edges.sources):
            return self
        if self._keys is None:  # many episodes leave edges out, each its own
            self._keys = pair_key(self.edges.sources, self.edges.targets)
        removed = pair_key(*np.array(list(pairs), dtype=np.int64).T)
        places = np.searchsorted(self._keys, removed).clip(max=len(self._keys) - 1)
        weights = self.edges.weights.copy()
        weights[places[self._keys[places] == removed]] = np.inf
        return Planner(replace(self.edges, weights=weights), self._matrix)

    def companions(self, start: int) -> Array:
        """Landmarks that can be reached from `start` and from which `start` can be reached, itself included."""
        if self._component is None:
            open_edges = self.edges.keep(np.isfinite(self.edges.weights)).matrix()
            self._component = connected_components(open_edges, directed=True, connection="strong")[1]
        return np.flatnonzero(self._component == self._component[start])

    def reachable(self, start: int) -> Array:
        """Landmarks to which a route exists, `start` included."""
        return np.flatnonzero(np.isfinite(self.distances(start)))

    def _solve(self, start: int) -> tuple[Array, Array]:
        if start not in self._solved:
            self._solved[start] = dijkstra(self._matrix, indices=start, return_predecessors=True)
        return self._solved[start]


def _weighted(matrix: csr_matrix, weights: Array) -> csr_matrix:
    """The same entries with other values."""
    return csr_matrix((weights, matrix.indices, matrix.indptr), shape=matrix.shape)


def _read_back(before: Array, start: int, goal: int) -> Route:
    """The route to a goal, given the landmark before each [L]."""
    route = [goal]
    while route[-1] != start:
        route.append(int(before[route[-1]]))
    return tuple(reversed(route))
