"""Features kept while the encoder stands still: encoded once, and again only when their slot or the encoder changed."""

from __future__ import annotations

import numpy as np
import torch

from sfl.api import Array
from sfl.fast.grid import FeatureCache
from sfl.replay.store import DistinctStore

CPU = torch.device("cpu")


class World:
    """A table of one-number observations, an encoder that multiplies, and a list of what it was asked to encode."""

    def __init__(self) -> None:
        self.table, self.cache = DistinctStore((1,), "int64"), FeatureCache(2, CPU)
        self.factor = 10.0
        self.encoded: list[list[int]] = []

    def add(self, *values: int) -> list[int]:
        return self.table.add(np.array(values)[:, None]).tolist()  # type: ignore[no-any-return]

    def encode(self, slots: Array) -> torch.Tensor:
        self.encoded.append(slots.tolist())
        values = torch.from_numpy(self.table.rows(slots)).float()
        return torch.cat([values, self.factor * values], dim=1)

    def rows(self, *slots: int) -> list[list[float]]:
        found: list[list[float]] = self.cache.rows(self.table, np.array(slots), self.encode).tolist()
        return found


def test_each_slot_is_encoded_when_it_is_first_asked_for() -> None:
    world = World()
    one, two, three = world.add(1, 2, 3)
    assert world.rows(two, one) == [[2, 20], [1, 10]]
    assert world.rows(one, three, two) == [[1, 10], [3, 30], [2, 20]]
    assert world.encoded == [[two, one], [three]]


def test_after_the_encoder_has_changed_all_are_encoded_again() -> None:
    world = World()
    slots = world.add(1, 2)
    world.rows(*slots)
    world.factor = 3.0
    assert world.rows(*slots) == [[1, 10], [2, 20]]  # not told
    world.cache.clear()
    assert world.rows(*slots) == [[1, 3], [2, 6]]


def test_a_slot_with_another_observation_is_encoded_again_and_the_others_are_not() -> None:
    world = World()
    one, two = world.add(1, 2)
    world.rows(one, two)
    world.table.free(np.array([one]))
    assert world.add(7) == [one]
    assert world.rows(one, two) == [[7, 70], [2, 20]]
    assert world.encoded == [[one, two], [one]]


def test_it_grows_with_the_table() -> None:
    world = World()
    early = world.add(5)
    world.rows(*early)
    slots = world.add(*range(100, 400))
    assert world.rows(*slots) == [[value, 10 * value] for value in range(100, 400)]
    assert world.rows(*early) == [[5, 50]]
    assert len(world.encoded) == 2


def test_a_loaded_cache_holds_the_same_rows_and_stays_when_the_saved_one_goes_on() -> None:
    world, other = World(), World()
    slots = world.add(*range(80))
    world.rows(*slots[:70])
    state = {name: array.copy() for name, array in world.cache.state().items()}
    saved = world.cache.state()
    world.cache.clear()
    world.factor = 0.0
    world.rows(*slots)
    np.testing.assert_array_equal(saved["phi_rows"], state["phi_rows"])
    other.add(*range(80))
    other.table.take_written()
    other.cache.load_state(state)
    assert other.rows(*slots[:70]) == [[value, 10 * value] for value in range(70)]
    assert other.encoded == []
    assert other.rows(slots[75]) == [[75, 750]]


def test_a_slot_written_just_before_saving_is_not_taken_for_the_old_one_after_loading() -> None:
    world, other = World(), World()
    one, two = world.add(1, 2)
    world.rows(one, two)
    world.table.free(np.array([one]))
    world.add(7)  # the cache has not been asked since
    other.table.load_state(world.table.state(), np.array([one, two]))
    other.cache.load_state(world.cache.state())
    assert other.rows(one, two) == world.rows(one, two) == [[7, 70], [2, 20]]
