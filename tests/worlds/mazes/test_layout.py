"""Drawings become cells, a start, regions and walls; drawings that cannot be played are refused."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from sfl.api import Array
from sfl.errors import UsageError
from sfl.worlds.mazes.free_space import FreeSpace
from sfl.worlds.mazes.layout import read_layout
from sfl.worlds.mazes.load import load_maze, own_mazes

from .drawings import CORNER


def test_the_example_of_the_module() -> None:
    layout = read_layout(CORNER, "file")
    assert (layout.name, layout.cell, layout.start) == ("corner", 64.0, (96.0, 96.0, 90.0))
    assert layout.regions == {"easy": ((224.0, 96.0, 32.0),), "medium": ((416.0, 224.0, 32.0),)}
    assert layout.cells.tolist() == [[mark != "#" for mark in row] for row in CORNER.split("\n\n")[1].split()]


def test_the_header_may_be_left_out() -> None:
    layout = read_layout("###\n#S#\n###\n", "cave")
    assert (layout.name, layout.cell, layout.start) == ("cave", 64.0, (96.0, 96.0, 0.0))
    assert layout.regions == {}


def test_walls_of_one_cell() -> None:
    layout = read_layout("cell: 100\n###\n#S#\n###\n", "cave")
    walls = {tuple(wall) for wall in layout.lines(128).tolist()}
    # North, east, south and west, each with the cell on its right hand.
    assert walls == {(100, 200, 200, 200), (200, 200, 200, 100), (200, 100, 100, 100), (100, 100, 100, 200)}


def test_long_walls_are_cut_into_pieces() -> None:
    layout = read_layout("#######\n#S....#\n#######\n", "hall")
    lengths = np.abs(np.diff(layout.lines(128).reshape(-1, 2, 2), axis=1)).sum((1, 2))
    assert sorted(lengths.tolist()) == [64, 64, 64, 64, 128, 128, 128, 128]


@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=6))
def test_walls_lie_between_free_and_solid_and_nowhere_else(inner: list[list[bool]]) -> None:
    cells = np.pad(np.array(inner), 1)
    cells[1, 1] = True
    marks = np.where(cells, ".", "#")
    marks[1, 1] = "S"
    layout = read_layout("\n".join("".join(row) for row in marks), "any")
    walls = layout.lines(128)
    faces = sum(int((cells & ~np.roll(cells, shift, axis)).sum()) for axis in (0, 1) for shift in (1, -1))
    assert np.abs(walls[:, 2:] - walls[:, :2]).sum() == 64 * faces
    for x1, y1, x2, y2 in walls:
        ahead = np.sign([x2 - x1, y2 - y1])
        right = np.array([ahead[1], -ahead[0]])
        for along in np.arange(32, abs(x2 - x1) + abs(y2 - y1), 64):
            here = np.array([x1, y1]) + along * ahead
            assert _is_free(cells, here + right)
            assert not _is_free(cells, here - right)


def _is_free(cells: Array, place: Array) -> bool:
    x, y = (place // 64).astype(int)
    return bool(cells[len(cells) - 1 - y, x])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("####\n####\n####", r"Layout odd has no free cell; draw some with '\.'\.$"),
        ("name: empty\n", r"Layout odd has no free cell; draw rows of '#' and '\.' below the header\.$"),
        ("", r"Layout odd has no free cell"),
        ("####\n#S..\n####", r"the border is open in row 2, column 4; close it with '#'\.$"),
        ("#.##\n#S.#\n####", r"the border is open in row 1, column 2"),
        ("####\n#..#\n####", r"Layout odd needs exactly one start 'S', it has 0\.$"),
        ("####\n#SS#\n####", r"needs exactly one start 'S', it has 2\.$"),
        ("####\n#SX#\n####", r"unknown character 'X' in row 2, column 3; use '#' wall"),
        ("####\n#S #\n####", r"unknown character ' ' in row 2, column 3"),
        ("####\n#S.#\n###", r"row 3 has 3 cells, row 1 has 4"),
        ("colour: red\n###\n#S#\n###", r"unknown header 'colour'; there are name, cell, heading\.$"),
        ("cell: wide\n###\n#S#\n###", r"cell must be a number, got 'wide'\.$"),
        ("cell: 20\n###\n#S#\n###", r"cell must be 40 to 1024 units, got 20\.$"),
        ("heading: nan\n###\n#S#\n###", r"heading must be a number, got 'nan'\.$"),
        ("cell: 1000\n" + "#" * 40 + "\n#S" + "#" * 38 + "\n" + "#" * 40, r"is 40000 units wide; Doom's maps end at"),
    ],
)
def test_bad_layouts_are_refused_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as caught:
        read_layout(text, "odd")
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def free_spaces() -> Mapping[str, FreeSpace]:
    return {name: FreeSpace.of(load_maze(name)) for name in own_mazes()}


def test_our_mazes_go_from_small_to_as_large_as_the_papers_largest(free_spaces: Mapping[str, FreeSpace]) -> None:
    areas = {name: free.area for name, free in free_spaces.items()}
    assert {"small", "rooms", "corridors", "open", "star", "office", "large"} <= set(areas)
    assert areas["small"] == min(areas.values()) < 0.5e6
    assert areas["large"] == max(areas.values()) > 2.77e6  # the paper's test-2


@pytest.mark.parametrize("name", own_mazes())
def test_our_mazes_are_of_one_piece_with_levels_farther_and_farther(
    name: str, free_spaces: Mapping[str, FreeSpace]
) -> None:
    maze, free = load_maze(name), free_spaces[name]
    assert maze.name == name
    assert ndimage.label(maze.cells)[1] == 1
    field = free.distances_from(np.array(maze.start[:2]))
    nearest, farthest = [], []
    for discs in maze.regions.values():
        distances = free.at(field, np.array([(x, y) for x, y, _ in discs]))
        nearest.append(distances.min())
        farthest.append(distances.max())
    assert list(maze.regions) == ["easy", "medium", "hard", "hardest"]
    assert nearest[0] > 63  # else an episode could begin at its goal
    assert all(far < near for far, near in zip(farthest, nearest[1:], strict=False))
    assert nearest[2] > 450


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("#" * 1_000_000, "is 1,000,000 cells wide; at most 800 fit"),
        ("#.#\n" * 900, "is 900 cells wide"),
        (f"name: {'x' * 201}\n###\n#S#\n###", "name must be 1 to 200 letters"),
        ("name: \x1b[31m\n###\n#S#\n###", "name must be 1 to 200 letters"),
    ],
)
def test_drawings_that_would_blow_up_are_refused(text: str, line: str) -> None:
    with pytest.raises(UsageError, match=line):
        read_layout(text, "cave")
