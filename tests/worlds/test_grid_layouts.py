"""The maps: cell by cell, and their shortest solutions by search in the real environment."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from sfl.worlds.grids import LAYOUTS

from .worlds import distances, drawing, world

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "environments.md"

# name: free cells, doors, states, actions to the target cell, actions to the exact goal observation, time limit
FIGURES = {
    "FourRoom": (40, 0, 160, 13, 13, 100),
    "MultiRoom-N2": (10, 1, 84, 10, 11, 80),
    "MultiRoom-N3": (24, 2, 400, 15, 16, 120),
    "MultiRoom-N4": (28, 3, 944, 21, 23, 160),
    "MultiRoom-N6": (32, 5, 4416, 31, 33, 240),
    "MultiRoom-N8": (44, 7, 24320, 46, 48, 320),
}


@pytest.mark.parametrize("name", FIGURES)
def test_sizes_and_shortest_solutions(name: str) -> None:
    layout = LAYOUTS[name]
    found = distances(world(name))
    to_cell = min(steps for (cell, _, _), steps in found.items() if cell == layout.target)
    to_picture = found[layout.target, 0, (True,) * len(layout.doors)]
    figures = (len(layout.free_cells), len(layout.doors), len(found), to_cell, to_picture, layout.max_steps)
    assert figures == FIGURES[name]


def test_every_layout_has_its_figures() -> None:
    assert list(LAYOUTS) == list(FIGURES)


def test_four_room_has_the_papers_gaps() -> None:
    layout = LAYOUTS["FourRoom"]
    assert (layout.start, layout.target, layout.tile) == ((1, 1), (6, 7), (7, 7))
    assert {(4, 3), (2, 4), (6, 5), (4, 7)} <= set(layout.free_cells)
    assert {(4, 1), (4, 2), (1, 4), (3, 4), (5, 5), (7, 5), (4, 5), (4, 6)} <= layout.walls


def test_four_rooms_in_a_chain_are_the_released_map() -> None:
    layout = LAYOUTS["MultiRoom-N4"]
    assert (layout.width, layout.height) == (25, 25)
    assert layout.door_cells == ((11, 11), (13, 14), (15, 17))
    assert {color for _, color in layout.doors} == {"red", "blue", "yellow"}
    assert (layout.start, layout.target, layout.tile) == ((11, 9), (14, 18), (14, 19))
    inner = [(10, 8, 3, 3), (11, 12, 2, 3), (14, 14, 3, 3), (14, 18, 2, 2)]
    floor = {(x + i, y + j) for x, y, width, height in inner for i in range(width) for j in range(height)}
    assert set(layout.free_cells) == floor


@pytest.mark.parametrize("name", FIGURES)
def test_neighbouring_doors_differ_in_colour(name: str) -> None:
    colors = [color for _, color in LAYOUTS[name].doors]
    assert all(one != other for one, other in itertools.pairwise(colors))


@pytest.mark.parametrize("name", FIGURES)
def test_the_target_is_floor_next_to_the_green_tile(name: str) -> None:
    layout = LAYOUTS[name]
    assert {layout.start, layout.target, layout.tile} <= set(layout.free_cells)
    assert layout.tile != layout.target
    assert max(abs(a - b) for a, b in zip(layout.tile, layout.target, strict=True)) == 1


def test_walking_distances_go_through_gaps_and_doors() -> None:
    four = LAYOUTS["FourRoom"]
    places = np.array([four.start, four.target, four.start])
    assert four.walking_distances(places).tolist() == [[0, 11, 0], [11, 0, 11], [0, 11, 0]]
    rooms = LAYOUTS["MultiRoom-N2"]
    assert np.isfinite(rooms.walking_distances(np.array([rooms.start, rooms.target]))).all()


@pytest.mark.parametrize("name", FIGURES)
def test_the_documentation_draws_the_map(name: str) -> None:
    assert f"```text\n{drawing(LAYOUTS[name])}\n```" in DOCS.read_text()
