"""Features under numbers: what goes in comes out, and slots are used again."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfl.replay.store import FeatureStore


def rows_of(store: FeatureStore, slots: list[int] | list[list[int]]) -> list[object]:
    found: list[object] = store.at(torch.from_numpy(store.places(np.array(slots)))).tolist()
    return found


def test_rows_come_out_by_slot_and_minus_one_is_the_fill() -> None:
    store = FeatureStore(3, torch.tensor([7.0, 8.0]))
    slots = store.add(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    found = rows_of(store, [[slots[1], -1], [slots[0], slots[0]]])
    assert found == [[[3, 4], [7, 8]], [[1, 2], [1, 2]]]


def test_a_released_slot_is_used_again_and_more_than_there_is_room_for_is_refused() -> None:
    store = FeatureStore(2, torch.zeros(1))
    first, second = store.add(torch.tensor([[1.0], [2.0]]))
    with pytest.raises(IndexError):
        store.add(np.array([[3.0]], np.float32))
    store.free(np.array([first]))
    assert store.add(np.array([[3.0]], np.float32)).tolist() == [first]
    assert rows_of(store, [first, second]) == [[3.0], [2.0]]


def states_of(store: FeatureStore, slots: list[list[int]]) -> list[object]:
    found: list[object] = store.states(torch.from_numpy(store.places(np.array(slots)))).tolist()
    return found


def test_a_state_is_the_traces_of_its_newest_frame_and_then_the_frames() -> None:
    store = FeatureStore(3, torch.tensor([7.0]), traces=2)
    first, second = store.add(torch.tensor([[10.0, 11.0, 1.0], [20.0, 21.0, 2.0]])).tolist()
    assert rows_of(store, [first, second, -1]) == [[1], [2], [7]]  # traces are not features
    assert states_of(store, [[-1, first], [first, second]]) == [[10, 11, 7, 1], [20, 21, 1, 2]]
    other = FeatureStore(3, torch.tensor([0.0]), traces=2)
    other.load_state(store.state(), np.array([first, second]))
    assert states_of(other, [[first, second]]) == [[20, 21, 1, 2]]
    store.free(np.array([first]))
    assert store.add(torch.tensor([[30.0, 31.0, 3.0]])).tolist() == [first]  # with traces of its own
    assert states_of(store, [[second, first]]) == [[30, 31, 2, 3]]


def test_without_traces_a_state_is_its_frames() -> None:
    store = FeatureStore(2, torch.tensor([7.0, 8.0]))
    (slot,) = store.add(torch.tensor([[1.0, 2.0]])).tolist()
    assert states_of(store, [[-1, slot]]) == [[7, 8, 1, 2]]


def test_state_round_trip() -> None:
    store = FeatureStore(3, torch.tensor([9.0]))
    slots = store.add(torch.tensor([[1.0], [2.0]]))
    other = FeatureStore(3, torch.tensor([0.0]))
    other.load_state(store.state(), np.array(slots))
    assert rows_of(other, [*slots, -1]) == [[1.0], [2.0], [9.0]]
    assert other.add(torch.tensor([[5.0]])).tolist() == store.add(torch.tensor([[5.0]])).tolist()
