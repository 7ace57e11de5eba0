"""SGM's nodes and edges, by worked examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sfl.api import Array
from sfl.baselines.config import SparseConfig
from sfl.baselines.sgm import choose_nodes, sparse_edges, without_failed
from sfl.errors import UsageError
from sfl.method.edges import Edges

CONFIG = SparseConfig(merge_cutoff=0.1, consistency_cutoff=0.5, edge_cutoff=0.4, k_nearest=0)


def on_a_line(places: list[float]) -> Array:
    """Distances along a line, 1 at most."""
    at = np.array(places)
    return np.minimum(1.0, np.abs(at[:, None] - at))


def test_observations_of_one_place_become_one_node() -> None:
    # 0 and 0.3 are neighbours; 0.02 and 0.31 are where nodes are already; 0.6 is new.
    assert choose_nodes(on_a_line([0.0, 0.3, 0.02, 0.31, 0.6]), CONFIG).tolist() == [0, 1, 4]


def test_a_node_without_neighbours_takes_nothing_in() -> None:
    assert choose_nodes(on_a_line([0.0, 0.02]), CONFIG).tolist() == [0, 1]


@pytest.mark.parametrize("way", [(2, 0), (0, 2)])
def test_what_looks_like_a_node_in_one_direction_only_stays_apart(way: tuple[int, int]) -> None:
    distance = on_a_line([0.0, 0.3, 0.02])
    assert choose_nodes(distance, CONFIG).tolist() == [0, 1]
    distance[way] = 0.2  # above the cutoff, though its neighbour lies as it does
    assert choose_nodes(distance, CONFIG).tolist() == [0, 1, 2]


def doubles() -> Array:
    """Places 0, 0.3 and 2, 2.3; the last is seen at 2 and looks like the one at 0, but its neighbours are others."""
    distance = on_a_line([0.0, 0.3, 2.3, 2.0])
    distance[0, 3] = distance[3, 0] = 0.05
    return distance


def test_what_looks_alike_but_has_other_neighbours_stays_apart() -> None:
    assert choose_nodes(doubles(), CONFIG).tolist() == [0, 1, 2, 3]
    # Without two-way consistency the two places become one, and a route would jump between them.
    assert choose_nodes(doubles(), replace(CONFIG, consistency_cutoff=1.0)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("way", ["out", "in"])
def test_consistency_is_asked_for_in_both_directions(way: str) -> None:
    distance = on_a_line([0.0, 0.3, 0.02])
    where = (2, 1) if way == "out" else (1, 2)  # from or to the neighbour it is far
    distance[where] = 1.0
    assert choose_nodes(distance, CONFIG).tolist() == [0, 1, 2]


def test_edges_are_the_nearest_of_each_node() -> None:
    distance = on_a_line([0.0, 0.1, 0.3, 0.6, 2.0])
    every = sparse_edges(distance, CONFIG)
    pairs = list(zip(every.sources.tolist(), every.targets.tolist(), strict=True))
    assert pairs == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 3), (3, 2)]
    nearest = sparse_edges(distance, replace(CONFIG, k_nearest=1))
    pairs = list(zip(nearest.sources.tolist(), nearest.targets.tolist(), strict=True))
    assert pairs == [(0, 1), (1, 0), (2, 1), (3, 2)]
    assert nearest.weights.tolist() == [1.0] * 4
    assert len(sparse_edges(np.zeros((0, 0)), CONFIG).sources) == 0


def test_cleanup_removes_what_failed_and_nothing_else() -> None:
    edges = sparse_edges(on_a_line([0.0, 0.3, 0.6]), CONFIG)
    left = without_failed(edges, {(1, 2), (0, 2)})
    assert list(zip(left.sources.tolist(), left.targets.tolist(), strict=True)) == [(0, 1), (1, 0), (2, 1)]
    assert without_failed(edges, ()) is edges
    assert isinstance(left, Edges)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(UsageError, match=r"sparse.merge-cutoff must lie in \[0, 1\], got 2"):
        SparseConfig(merge_cutoff=2)
    with pytest.raises(UsageError, match=r"sparse.k-nearest must not be negative, got -1"):
        SparseConfig(k_nearest=-1)
