"""Distinct observations: kept once, counted by reference, slots used again."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sfl.api import Array
from sfl.fast.windows import WindowTable
from sfl.replay.store import ObservationTable, distinct


def number(value: int) -> Array:
    return np.array([value, -value], dtype=np.int64)


def test_equal_observations_share_a_slot() -> None:
    table = ObservationTable((2,), "int64")
    first, second, again = table.hold(number(7)), table.hold(number(8)), table.hold(number(7))
    assert first == again != second
    assert len(table) == 2
    np.testing.assert_array_equal(table.rows(np.array([second, first])), [[8, -8], [7, -7]])
    table.check_valid()


def test_a_slot_is_free_after_its_last_reference_and_is_used_again() -> None:
    table = ObservationTable((2,), "int64")
    slot = table.hold(number(1))
    table.hold(number(1))
    table.release(slot)
    assert len(table) == 1  # one reference is left
    table.release(slot)
    assert len(table) == 0
    assert table.hold(number(2)) == slot
    np.testing.assert_array_equal(table.rows(np.array([slot])), [[2, -2]])
    table.check_valid()


def test_the_table_grows_without_losing_anything() -> None:
    table = ObservationTable((2,), "int64")
    slots = [table.hold(number(value)) for value in range(300)]  # 64 at first, then 128, 256, 512
    assert len(set(slots)) == len(table) == 300
    np.testing.assert_array_equal(table.rows(np.array(slots))[:, 0], np.arange(300))
    table.check_valid()


def test_the_caller_may_write_over_an_observation_it_handed_in() -> None:
    table = ObservationTable((2,), "int64")
    frame = number(3)
    slot = table.hold(frame)
    frame[:] = 9
    np.testing.assert_array_equal(table.rows(np.array([slot])), [[3, -3]])
    table.release(slot)
    assert len(table) == 0


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 90)), max_size=300))
def test_any_order_of_holding_and_releasing_keeps_the_table_valid(orders: list[tuple[bool, int]]) -> None:
    table = ObservationTable((2,), "int64")
    held: Counter[int] = Counter()
    slots: dict[int, int] = {}
    for hold, value in orders:
        if hold:
            slots[value] = table.hold(number(value))
            held[value] += 1
        elif held[value]:
            table.release(slots[value])
            held[value] -= 1
        table.check_valid()
    alive = [value for value, count in held.items() if count]
    assert len(table) == len(alive)
    if alive:
        np.testing.assert_array_equal(table.rows(np.array([slots[value] for value in alive]))[:, 0], alive)


def test_a_loaded_table_keeps_its_slots_and_hands_out_the_same_ones() -> None:
    table, other = ObservationTable((2,), "int64"), ObservationTable((2,), "int64")
    held = [table.hold(number(value % 80)) for value in range(100)]
    for slot in held[:30]:
        table.release(slot)
    held = held[30:]
    other.load_state(table.state(), np.array(held))
    other.check_valid()
    assert len(other) == len(table) == 70  # 20 of the 30 have a second reference left, ten have not
    for value in (75, 200, 201, 202, 25):
        assert other.hold(number(value)) == table.hold(number(value))
    for slot in held:
        other.release(slot)
    other.check_valid()
    assert len(other) == 5


def test_slots_are_told_once_after_they_were_given_an_observation() -> None:
    table = ObservationTable((2,), "int64")
    first, second = table.hold(number(1)), table.hold(number(2))
    table.hold(number(1))  # known: nothing is written
    assert table.take_written() == [first, second]
    assert table.take_written() == []
    table.release(first)
    table.release(first)
    assert table.take_written() == []
    assert table.hold(number(3)) == first
    assert table.take_written() == [first]


def test_slots_nobody_asked_for_are_told_after_loading() -> None:
    table, other = ObservationTable((2,), "int64"), ObservationTable((2,), "int64")
    first = table.hold(number(1))
    table.take_written()
    second = table.hold(number(2))
    other.hold(number(9))  # forgotten by loading
    other.load_state(table.state(), np.array([first, second]))
    assert other.take_written() == table.take_written() == [second]


def test_a_slot_used_again_shows_its_new_windows() -> None:
    windows = WindowTable((7, 7, 1), "uint8")
    table = ObservationTable((7, 7, 1), "uint8", windows)
    slot = table.hold(np.full((7, 7, 1), 5, dtype=np.uint8))
    table.release(slot)
    assert table.hold(np.full((7, 7, 1), 6, dtype=np.uint8)) == slot
    patches = windows.patches_of(windows.windows_of(np.array([slot]))[0])
    assert (windows.patch_values[patches] == 6).all()


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60))
def test_distinct_is_numpys_unique(slots: list[int]) -> None:
    unique, places = distinct(np.array(slots))
    expected, inverse = np.unique(slots, return_inverse=True)
    np.testing.assert_array_equal(unique, expected)
    np.testing.assert_array_equal(places, inverse)
