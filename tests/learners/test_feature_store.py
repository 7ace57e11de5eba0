"""Features under numbers: what goes in comes out, and slots are used again."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfl.learners.feature_store import FeatureStore


def test_rows_come_out_by_slot_and_minus_one_is_the_fill() -> None:
    store = FeatureStore(3, torch.tensor([7.0, 8.0]))
    slots = store.hold_rows(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    found = store.rows(np.array([[slots[1], -1], [slots[0], slots[0]]]))
    assert found.tolist() == [[[3, 4], [7, 8]], [[1, 2], [1, 2]]]


def test_a_released_slot_is_used_again_and_more_than_there_is_room_for_is_refused() -> None:
    store = FeatureStore(2, torch.zeros(1))
    first, second = store.hold_rows(torch.tensor([[1.0], [2.0]]))
    with pytest.raises(IndexError):
        store.hold(np.array([3.0], np.float32))
    store.release(first)
    assert store.hold(np.array([3.0], np.float32)) == first
    assert store.rows(np.array([first, second])).tolist() == [[3.0], [2.0]]


def test_state_round_trip() -> None:
    store = FeatureStore(3, torch.tensor([9.0]))
    slots = store.hold_rows(torch.tensor([[1.0], [2.0]]))
    other = FeatureStore(3, torch.tensor([0.0]))
    other.load_state(store.state(), np.array(slots))
    assert other.rows(np.array([*slots, -1])).tolist() == [[1.0], [2.0], [9.0]]
    assert other.hold_rows(torch.tensor([[5.0]])) == store.hold_rows(torch.tensor([[5.0]]))
