"""Sparse graphical memory: observations that are perceptually and by their neighbours the same become one node
(Emmons, Jain, Laskin et al., 2020)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from sfl.core.config import require
from sfl.data.types import Array
from sfl.graph.edges import Edges, k_nearest_mask, pair_key


@dataclass(frozen=True)
class SparseConfig:
    """When observations are one node, and when two nodes are joined. Distances lie in [0, 1]."""

    merge_cutoff: float = 0.1
    """Only observations at less than this distance from a node, there and back, may become part of it."""
    consistency_cutoff: float = 0.5
    """Two-way consistency: and only if their distances to and from all neighbours of the node differ from the node's
    by less than this; 1 = whatever the neighbours."""
    edge_cutoff: float = 0.3
    """Nodes at less than this distance are joined."""
    k_nearest: int = 5
    """Keep only each node's k nearest outgoing edges; 0 = all."""

    def __post_init__(self) -> None:
        for name in ("merge_cutoff", "consistency_cutoff", "edge_cutoff"):
            value, option = getattr(self, name), name.replace("_", "-")
            require(0 <= value <= 1, f"sparse.{option} must lie in [0, 1], got {value}.")
        require(self.k_nearest >= 0, f"sparse.k-nearest must not be negative, got {self.k_nearest}.")


def choose_nodes(distance: Array, config: SparseConfig) -> Array:
    """Which observations [K] become nodes, offered one by one, given their distances [N, N] from row to column."""
    joined = distance < config.edge_cutoff
    nodes = np.zeros(0, np.int64)
    for offered in range(len(distance)):
        close = (distance[offered, nodes] < config.merge_cutoff) & (distance[nodes, offered] < config.merge_cutoff)
        if not any(_consistent(distance, joined, offered, node, nodes, config) for node in nodes[close]):
            nodes = np.append(nodes, offered)
    return nodes


def _consistent(distance: Array, joined: Array, offered: int, node: int, nodes: Array, config: SparseConfig) -> bool:
    """The observation lies to all neighbours of the node as the node does, there and back.

    A node without neighbours gives no evidence, and nothing becomes part of it.
    """
    others = nodes[nodes != node]
    out, into = others[joined[node, others]], others[joined[others, node]]
    leaving = distance[offered, out] - distance[node, out]
    arriving = distance[into, offered] - distance[into, node]
    gaps = np.abs(np.concatenate([leaving, arriving]))
    return len(gaps) > 0 and (config.consistency_cutoff == 1 or bool(gaps.max() < config.consistency_cutoff))


def sparse_edges(distance: Array, config: SparseConfig) -> Edges:
    """The edges among nodes with distances [K, K]: near enough, and the nearest of each; each costs 1."""
    near = (distance < config.edge_cutoff) & ~np.eye(len(distance), dtype=bool)
    sources, targets = np.nonzero(near)
    closeness = 1.0 - distance[sources, targets]
    edges = Edges(len(distance), sources, targets, closeness, np.ones(len(sources)))
    return edges.keep(k_nearest_mask(edges, config.k_nearest)) if config.k_nearest else edges


def without_failed(edges: Edges, failed: Collection[tuple[int, int]]) -> Edges:
    """Cleanup: edges that could not be walked are gone."""
    if not failed:
        return edges
    keys = pair_key(*np.array(list(failed), np.int64).T)
    return edges.keep(~np.isin(pair_key(edges.sources, edges.targets), keys))
