"""Gradient steps of psi over features that lie on the device, of one shape each, so that a GPU can replay them."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from sfl.data.replay import NStepBatch, rows_by_action
from sfl.data.types import Array, Metrics
from sfl.learners.device import Captured, SideStream, tensor_cores, to_device
from sfl.learners.feature_store import FeatureStore
from sfl.learners.successor import SuccessorLearner
from sfl.nn.heads import Draws


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
