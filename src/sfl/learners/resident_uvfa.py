"""Gradient steps of a value function over features that lie on the device, all of one shape: a GPU replays them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from sfl.data.types import Array
from sfl.learners.device import Captured, to_device
from sfl.learners.feature_store import FeatureStore
from sfl.learners.uvfa import UVFABatch, UVFALearner

Same = Callable[[Tensor, Tensor], Tensor]
"""[B] bool of states [B, S] and goals [B, S]: which count as their goals."""


class ResidentUVFA:
    """The steps of a learner whose states are stacks of a store's features.

    A batch of B rows travels to the device as one row of 32-bit numbers: places in the store [B, 3, stack] of states,
    of those that follow and of goals, actions [B], and whether what follows counts as the goal [B], which is read only
    where `same` does not say it. Several travel together.
    """

    def __init__(self, learner: UVFALearner, store: FeatureStore, stack: int, same: Same | None) -> None:
        size, device = learner.config.batch_size, learner.device
        self._learner, self._store, self._same, self._size = learner, store, same, size
        lengths = [3 * stack * size, size, size]
        room = (3 * stack + 2, size)  # torch itself says of two sizes that are too much
        self._input = torch.zeros(room, dtype=torch.int32, device=device).view(-1)
        places, self._actions, self._told = self._input.split(lengths)
        self._places = places.view(size, 3, stack)
        self._rows = torch.arange(3 * size, device=device).view(size, 3)
        self._pairs = self._rows[:, [0, 0, 2, 1]].mT.reshape(2, -1)  # (s, g) of all, then (s, s')
        self._in_turn = torch.arange(2 * size, device=device).view(2, size)
        self._step = Captured(self._descend, device)
        self.sums = torch.zeros(2, device=device)
        """Of the losses and of the shares of goals reached, over all steps until whoever reads them sets them to 0."""

    def update(self, slots: Array, actions: Array, told: Array | None) -> None:
        """A gradient step for every B rows of slots [N, 3, stack] and actions [N]; `told` [N] where nobody compares."""
        columns = (self._store.places(slots), actions, np.zeros(len(actions)) if told is None else told)
        rows = [column.reshape(len(actions) // self._size, -1) for column in columns]
        packed = np.concatenate(rows, axis=1, dtype=np.int32, casting="unsafe")
        for row in to_device(packed, self._input.device).unbind(0):
            self._input.copy_(row)
            self._step()
            self._learner.count_step()

    def batch(self) -> UVFABatch:
        """What lies in `_input`."""
        states = self._store.states(self._places)  # [B, 3, S]
        reached = self._told != 0 if self._same is None else self._same(states[:, 1], states[:, 2])
        flat = states.flatten(0, 1)
        halves = self._learner.target.pairs.halves(flat)
        actions = self._actions.long()
        return UVFABatch(None, flat, self._pairs, self._in_turn, None, halves, self._rows[:, 1:], actions, reached)

    @torch.no_grad()
    def _descend(self) -> None:
        """One gradient step on what lies in `_input`."""
        batch = self.batch()
        self.sums += torch.stack([self._learner.descend(batch), batch.reached.float().mean()])
