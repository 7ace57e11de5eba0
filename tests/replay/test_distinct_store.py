"""Distinct observations: kept once, counted by reference, slots used again."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sfl.api import Array
from sfl.fast.grid import WindowTable
from sfl.replay.store import DistinctStore, distinct


def numbers(*values: int) -> Array:
    return np.array([[value, -value] for value in values], dtype=np.int64)


def add(store: DistinctStore, value: int) -> int:
    return int(store.add(numbers(value))[0])


def free(store: DistinctStore, slot: int) -> None:
    store.free(np.array([slot]))


def test_equal_observations_share_a_slot() -> None:
    store = DistinctStore((2,), "int64")
    first, second, again = add(store, 7), add(store, 8), add(store, 7)
    assert first == again != second
    assert len(store) == 2
    np.testing.assert_array_equal(store.rows(np.array([second, first])), [[8, -8], [7, -7]])
    store.check_valid()


def test_a_slot_is_free_after_its_last_reference_and_is_used_again() -> None:
    store = DistinctStore((2,), "int64")
    slot = add(store, 1)
    add(store, 1)
    free(store, slot)
    assert len(store) == 1  # one reference is left
    free(store, slot)
    assert len(store) == 0
    assert add(store, 2) == slot
    np.testing.assert_array_equal(store.rows(np.array([slot])), [[2, -2]])
    store.check_valid()


def test_the_table_grows_without_losing_anything() -> None:
    store = DistinctStore((2,), "int64")
    slots = [add(store, value) for value in range(300)]  # 64 at first, then 128, 256, 512
    assert len(set(slots)) == len(store) == 300
    np.testing.assert_array_equal(store.rows(np.array(slots))[:, 0], np.arange(300))
    store.check_valid()


def test_the_caller_may_write_over_an_observation_it_handed_in() -> None:
    store = DistinctStore((2,), "int64")
    frame = numbers(3)
    slot = int(store.add(frame)[0])
    frame[:] = 9
    np.testing.assert_array_equal(store.rows(np.array([slot])), [[3, -3]])
    free(store, slot)
    assert len(store) == 0


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 90)), max_size=300))
def test_any_order_of_holding_and_releasing_keeps_the_table_valid(orders: list[tuple[bool, int]]) -> None:
    store = DistinctStore((2,), "int64")
    held: Counter[int] = Counter()
    slots: dict[int, int] = {}
    for hold, value in orders:
        if hold:
            slots[value] = add(store, value)
            held[value] += 1
        elif held[value]:
            free(store, slots[value])
            held[value] -= 1
        store.check_valid()
    alive = [value for value, count in held.items() if count]
    assert len(store) == len(alive)
    if alive:
        np.testing.assert_array_equal(store.rows(np.array([slots[value] for value in alive]))[:, 0], alive)


def test_a_loaded_table_keeps_its_slots_and_hands_out_the_same_ones() -> None:
    store, other = DistinctStore((2,), "int64"), DistinctStore((2,), "int64")
    held = [add(store, value % 80) for value in range(100)]
    for slot in held[:30]:
        free(store, slot)
    held = held[30:]
    other.load_state(store.state(), np.array(held))
    other.check_valid()
    assert len(other) == len(store) == 70  # 20 of the 30 have a second reference left, ten have not
    for value in (75, 200, 201, 202, 25):
        assert add(other, value) == add(store, value)
    for slot in held:
        free(other, slot)
    other.check_valid()
    assert len(other) == 5


def test_slots_are_told_once_after_they_were_given_an_observation() -> None:
    store = DistinctStore((2,), "int64")
    first, second = add(store, 1), add(store, 2)
    add(store, 1)  # known: nothing is written
    assert store.take_written() == [first, second]
    assert store.take_written() == []
    free(store, first)
    free(store, first)
    assert store.take_written() == []
    assert add(store, 3) == first
    assert store.take_written() == [first]


def test_slots_nobody_asked_for_are_told_after_loading() -> None:
    store, other = DistinctStore((2,), "int64"), DistinctStore((2,), "int64")
    first = add(store, 1)
    store.take_written()
    second = add(store, 2)
    add(other, 9)  # forgotten by loading
    other.load_state(store.state(), np.array([first, second]))
    assert other.take_written() == store.take_written() == [second]


def test_a_slot_used_again_shows_its_new_windows() -> None:
    windows = WindowTable((7, 7, 1), "uint8")
    store = DistinctStore((7, 7, 1), "uint8", windows)
    (slot,) = store.add(np.full((1, 7, 7, 1), 5, dtype=np.uint8))
    free(store, slot)
    assert store.add(np.full((1, 7, 7, 1), 6, dtype=np.uint8)).tolist() == [slot]
    patches = windows.patches_of(windows.windows_of(np.array([slot]))[0])
    assert (windows.patch_values[patches] == 6).all()


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60))
def test_distinct_is_numpys_unique(slots: list[int]) -> None:
    unique, places = distinct(np.array(slots))
    expected, inverse = np.unique(slots, return_inverse=True)
    np.testing.assert_array_equal(unique, expected)
    np.testing.assert_array_equal(places, inverse)
