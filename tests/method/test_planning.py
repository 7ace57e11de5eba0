"""Routes on drawn graphs, and the k shortest against trying all of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfl.errors import NoRouteError
from sfl.method.planner import Planner, Route

from .drawing import both_ways, draw

# 0 -> 1 -> 2 -> 0 is a ring, 3 can only be reached, 4 only left, 5 stands alone.
DRAWN = {(0, 1): 1.0, (1, 2): 1.0, (2, 0): 1.0, (0, 2): 5.0, (2, 3): 2.0, (4, 0): 1.0}


def test_routes_by_hand() -> None:
    planner = Planner(draw(6, DRAWN))
    assert planner.route(0, 2) == (0, 1, 2)  # 2 instead of 5
    assert planner.route(4, 3) == (4, 0, 1, 2, 3)
    assert planner.route(5, 5) == (5,)
    assert planner.route(1, 0) == (1, 2, 0)
    np.testing.assert_allclose(planner.distances(4), [1, 2, 3, 5, 0, np.inf])
    assert planner.reachable(0).tolist() == [0, 1, 2, 3]


def test_no_route_says_between_which() -> None:
    planner = Planner(draw(6, DRAWN))
    with pytest.raises(NoRouteError, match="no route from 3 to 0"):
        planner.route(3, 0)
    with pytest.raises(NoRouteError, match="no route from 0 to 5"):
        Planner(draw(6, DRAWN)).shortest_routes(0, 5, 3)


def test_companions_can_be_reached_and_left() -> None:
    planner = Planner(draw(6, DRAWN))
    assert planner.companions(1).tolist() == [0, 1, 2]
    assert planner.companions(3).tolist() == [3]
    assert planner.companions(4).tolist() == [4]
    assert planner.companions(5).tolist() == [5]


def test_the_next_shortest_routes_in_order() -> None:
    square = both_ways({(0, 1): 1.0, (1, 3): 1.0, (0, 2): 1.5, (2, 3): 1.0, (0, 3): 4.0, (1, 2): 0.75})
    routes = Planner(draw(4, square)).shortest_routes(0, 3, 10)
    # 2; 2.5; 1 + 0.75 + 1 = 2.75; 1.5 + 0.75 + 1 = 3.25; 4: there are no others
    assert routes == [(0, 1, 3), (0, 2, 3), (0, 1, 2, 3), (0, 2, 1, 3), (0, 3)]
    assert Planner(draw(4, square)).shortest_routes(0, 3, 2) == routes[:2]
    assert Planner(draw(4, square)).shortest_routes(2, 2, 3) == [(2,)]


def test_a_graph_less_some_edges_leaves_the_whole_one_alone() -> None:
    planner = Planner(draw(3, {(0, 1): 1.0, (1, 2): 1.0, (0, 2): 5.0}))
    assert planner.without({(1, 2), (2, 0)}).route(0, 2) == (0, 2)  # the second is no edge
    with pytest.raises(NoRouteError, match="no route from 0 to 2"):
        planner.without({(1, 2), (0, 2)}).route(0, 2)
    assert planner.without(set()).route(0, 2) == planner.route(0, 2) == (0, 1, 2)


def simple_routes(weights: dict[tuple[int, int], float], size: int, start: int, goal: int) -> list[Route]:
    """Every route without a repeated landmark, cheapest first."""
    others = [node for node in range(size) if node not in (start, goal)]
    middles = itertools.chain.from_iterable(itertools.permutations(others, count) for count in range(len(others) + 1))
    routes = [(start, *middle, goal) for middle in middles]
    there = [route for route in routes if all(pair in weights for pair in itertools.pairwise(route))]
    return sorted(there, key=lambda route: sum(weights[pair] for pair in itertools.pairwise(route)))


@given(st.data())
def test_the_k_shortest_routes_are_those_of_trying_all(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 6))
    pairs = [(i, j) for i in range(size) for j in range(size) if i != j]
    chosen = data.draw(st.lists(st.sampled_from(pairs), unique=True))
    # Powers of two: no two sets of edges cost the same, so the order is never a matter of taste.
    ranks = data.draw(st.permutations(range(len(chosen))))
    weights = {pair: 2.0**rank for pair, rank in zip(chosen, ranks, strict=True)}
    count = data.draw(st.integers(1, 8))
    expected = simple_routes(weights, size, 0, size - 1)
    if not expected:
        with pytest.raises(NoRouteError):
            Planner(draw(size, weights)).shortest_routes(0, size - 1, count)
        return
    assert Planner(draw(size, weights)).shortest_routes(0, size - 1, count) == expected[:count]
    assert Planner(draw(size, weights)).route(0, size - 1) == expected[0]
