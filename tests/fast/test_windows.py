"""Distinct 7x7 windows and their 3x3 patches, against plain slicing."""

from __future__ import annotations

import numpy as np
import pytest

from sfl.api import Array
from sfl.fast import grid as module
from sfl.fast.grid import WindowTable


def grid(side: int, rng: np.random.Generator) -> Array:
    """A 3x3 block repeated all over, with one odd cell: nearly all windows are alike."""
    block = rng.integers(3, size=(2, 2, 3), dtype=np.uint8)
    cells = np.tile(block, (side, side, 1))[:side, :side].copy()
    cells[tuple(rng.integers(side, size=2))] = 9
    return cells


@pytest.mark.parametrize(("side", "cells"), [(7, 1), (8, 1), (9, 2), (25, 10)])
def test_windows_and_patches_are_the_slices_of_the_grid(side: int, cells: int) -> None:
    rng = np.random.default_rng(0)
    table = WindowTable((side, side, 3), "uint8")
    assert (table.columns, table.rows) == (cells, cells)  # of a 9x9 grid: windows from 0 and from 2
    grids = [grid(side, rng) for _ in range(5)]
    for slot, cells_of_slot in enumerate(grids):
        table.set(slot, cells_of_slot)
    for slot, cells_of_slot in enumerate(grids):
        numbers = table.windows_of(np.array([slot]))[0]
        for position, patches in enumerate(table.patches_of(numbers)):
            x, y = (2 * place for place in divmod(position, table.rows))
            for place, patch in enumerate(table.patch_values[patches]):
                left, top = x + 2 * (place // 3), y + 2 * (place % 3)
                expected = cells_of_slot[left : left + 3, top : top + 3]
                np.testing.assert_array_equal(patch.reshape(3, 3, 3), expected)


def test_equal_windows_have_one_number() -> None:
    table = WindowTable((9, 9, 1), "uint8")
    table.set(0, np.zeros((9, 9, 1), dtype=np.uint8))
    assert table.windows_of(np.array([0])).tolist() == [[0, 0, 0, 0]]
    corner = np.zeros((9, 9, 1), dtype=np.uint8)
    corner[8, 8] = 1  # seen by the last window only
    table.set(1, corner)
    assert table.windows_of(np.array([1])).tolist() == [[0, 0, 0, 1]]
    assert len(table.patch_values) == 2  # nothing but floor, and floor with the corner


def test_slots_and_windows_beyond_the_first_rooms() -> None:
    table = WindowTable((7, 7, 1), "uint8")
    for slot in range(200):
        table.set(slot, np.full((7, 7, 1), slot, dtype=np.uint8))
    patches = table.patches_of(table.windows_of(np.arange(200))[:, 0])
    assert (table.patch_values[patches][:, 0, 0] == np.arange(200)).all()


def test_loaded_windows_keep_their_numbers() -> None:
    rng = np.random.default_rng(1)
    grids = [grid(9, rng) for _ in range(30)]
    table, other = WindowTable((9, 9, 3), "uint8"), WindowTable((9, 9, 3), "uint8")
    for slot, cells in enumerate(grids):
        table.set(slot, cells)
    other.load_state(table.state())
    np.testing.assert_array_equal(other.patch_values, table.patch_values)
    for slot in reversed(range(30)):  # in another order than they were met
        other.set(slot, grids[slot])
    np.testing.assert_array_equal(other.windows_of(np.arange(30)), table.windows_of(np.arange(30)))
    np.testing.assert_array_equal(other.patch_values, table.patch_values)


def test_a_world_without_repetition_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CAPACITY", 3)
    table = WindowTable((7, 7, 1), "uint8")
    for value in range(4):
        assert not table.full
        table.set(value, np.full((7, 7, 1), value, dtype=np.uint8))
    assert table.full  # four windows are more than three
    table.set(4, np.full((7, 7, 1), 99, dtype=np.uint8))
    assert 99 not in table.patch_values
