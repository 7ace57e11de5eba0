"""Gradient steps of psi over features that lie on the device, of one shape each, so that a GPU can replay them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from sfl.api import Array, Metrics
from sfl.baselines.mss.value import UVFABatch, UVFALearner
from sfl.fast.cuda import Captured, SideStream, tensor_cores, to_device
from sfl.method.successor import Draws, SuccessorLearner
from sfl.replay.replay import NStepBatch, rows_by_action
from sfl.replay.store import FeatureStore


class ResidentSteps:
    """The steps of a successor learner whose states are stacks of a store's features.

    A batch of B rows travels to the device as one row of 32-bit numbers: places in the store [B, n + 1, stack],
    actions [B], whether to go without traces [B], weights [B, n] and bootstrap weights [B]. Several travel together.
    """

    REPORT_EVERY = 100
    """Gradient steps between two looks at the loss, which make this process wait for a GPU."""
    TRACK_EVERY = 8
    """Gradient steps between two looks at the moments of the features, which hardly move from one to the next."""

    def __init__(
        self,
        learner: SuccessorLearner,
        store: FeatureStore,
        stack: int,
        device: torch.device,
        fixed: bool | None = None,
    ) -> None:
        """`fixed`: one shape whatever the actions are; by default on a GPU only, where work for nothing is cheap."""
        config = learner.config
        self._learner, self._store, self._device = learner, store, device
        self._size, self._fixed = config.batch_size, device.type == "cuda" if fixed is None else fixed
        rows = (self._size,)
        shapes = ((*rows, config.n_step + 1, stack), rows, rows, (*rows, config.n_step), rows)
        lengths = [math.prod(shape) for shape in shapes]
        room = (sum(lengths) // self._size, self._size)  # torch itself says of two sizes that are too much
        self._input = torch.zeros(room, dtype=torch.int32, device=device).view(-1)
        parts = [part.view(shape) for part, shape in zip(self._input.split(lengths), shapes, strict=True)]
        self._places, self._actions, self._forgetful = parts[:3]
        self._weights, self._ahead_weights = (part.view(torch.float32) for part in parts[3:])
        actions = torch.arange(learner.network.action_count, device=device)
        self._each_action = actions.unsqueeze(1)  # [A, 1]
        self._each_row = torch.arange(self._size, device=device).repeat(len(actions))  # [A * B]
        self._step, self._side = Captured(self._descend, device), SideStream(device)
        self._loss = torch.zeros((), device=device)  # sum of the losses not yet reported
        self._unreported = 0

    def update(self, batch: NStepBatch, forgetful: Array | None = None) -> Metrics:
        """A gradient step for every B rows of the batch; the mean loss since it was last reported, where that is due.

        `forgetful` says which of all rows go without their traces. A GPU makes the steps in a queue of its own; `join`
        comes before what is to see their result.
        """
        metrics: Metrics = {}
        with torch.no_grad(), tensor_cores(self._device), self._side.queue():
            if self._unreported >= self.REPORT_EVERY:
                metrics = self._report()
            rows = to_device(self._packed(batch, forgetful), self._device)
            if self._learner.config.whiten:
                self._track(rows)
            for row in rows.unbind(0):
                self._input.copy_(row)
                self._step()
                self._learner.count_step()
                self._unreported += 1
        return metrics if self._device.type == "cuda" else self._report()

    def join(self) -> None:
        """Networks and store may be read and written after this: on a GPU such work then waits for the steps."""
        self._side.join()

    def _track(self, rows: Tensor) -> None:
        """Moments of the newest frame of the first state of every row of the batch, where they are due."""
        before, whitening = self._learner.gradient_steps, self._learner.whitening
        due = (before + len(rows)) // self.TRACK_EVERY - before // self.TRACK_EVERY
        if not due and whitening.count:
            return
        places = rows[:, : self._places.numel()].unflatten(1, self._places.shape)[:, :, 0, -1]
        whitening.track(self._store.at(places.flatten()), batches=max(1, due * self.TRACK_EVERY))

    def _report(self) -> Metrics:
        loss = float(self._loss) / self._unreported
        self._loss.zero_()
        self._unreported = 0
        return {"train/sf_loss": loss}

    def _packed(self, batch: NStepBatch, forgetful: Array | None) -> Array:
        """The columns of a batch as 32-bit numbers, a row for each gradient step."""
        columns = (
            self._store.places(batch.slots),
            batch.actions,
            np.zeros(len(batch.actions), np.int32) if forgetful is None else forgetful,
            batch.weights.view(np.int32),
            batch.bootstrap_weights.view(np.int32),
        )
        rows = [column.reshape(len(batch.actions) // self._size, -1) for column in columns]
        return np.concatenate(rows, axis=1, dtype=np.int32, casting="unsafe")

    def _descend(self) -> None:
        """One gradient step on what lies in `_input`."""
        learner, store = self._learner, self._store
        ends = store.states(self._places[:, :: learner.config.n_step], self._forgetful.view(-1, 1, 1))
        states = learner.white(ends)  # [B, 2, S], first and last
        if learner.network.outputs == states.shape[2]:
            phi = learner.white(store.states(self._places[:, :-1]))
        else:  # psi is of the newest frames alone
            phi = learner.white(store.at(self._places[:, :-1, -1]))
        ahead = learner.target(states[:, 1], Draws())
        target = learner.wanted(phi, self._weights, ahead, self._ahead_weights)
        places, counts = self._of_every_action() if self._fixed else self._by_action()
        self._loss += learner.descend(states[:, 0], Draws(places=places), target.index_select(0, places), counts)

    def _of_every_action(self) -> tuple[Tensor, Tensor]:
        """Every row for every action, counting only where the action is its own: places and counts, [A * B]."""
        return self._each_row, (self._actions == self._each_action).to(torch.float32).flatten()

    def _by_action(self) -> tuple[Tensor, Tensor]:
        """The rows of each action, as many places for each as the most frequent one needs: [A * R] both."""
        rows, drawn = rows_by_action(self._actions.numpy(), self._learner.network.action_count)
        return torch.from_numpy(rows), torch.from_numpy(drawn.astype(np.float32))


# ---- Gradient steps of a value function over features that lie on the device, all of one shape: a GPU replays them.

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

    def batch(self) -> tuple[UVFABatch, Tensor]:
        """What lies in `_input`, and which goals are reached, [B] bool."""
        states = self._store.states(self._places)  # [B, 3, S]
        reached = self._told != 0 if self._same is None else self._same(states[:, 1], states[:, 2])
        flat = states.flatten(0, 1)
        wanted = self._learner.wanted(flat, self._rows[:, 1:], reached)
        return UVFABatch(flat, self._pairs, self._in_turn, self._actions.long(), wanted), reached

    def _descend(self) -> None:
        """One gradient step on what lies in `_input`."""
        batch, reached = self.batch()
        self.sums += torch.stack([self._learner.gradient_step(batch)["loss"], reached.float().mean()])
