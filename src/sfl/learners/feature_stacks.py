"""What an agent that looks through a camera has seen last, as features on the device."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sfl.data.replay import SequenceReplay
from sfl.data.types import Array, Observation, Transitions
from sfl.learners.device import IndexCache, Replayed
from sfl.learners.eyes import Eyes
from sfl.learners.feature_store import FeatureStore


class FeatureStacks:
    """The features of each environment's last frames, oldest first; before an episode there was a black frame.

    And traces: means over its frames so far, in which the newest weigh most.
    """

    def __init__(self, eyes: Eyes, stack: int, device: torch.device, traces: tuple[float, ...] = ()) -> None:
        self._eyes, self._indices = eyes, IndexCache(device)
        self.fill = self.encode(np.zeros((1, 120, 160, 3), np.uint8))[0].clone()
        self.rows = torch.zeros(0, stack, eyes.dim, device=device)  # [environments, stack, F]
        self._decays = torch.tensor(traces, device=device).unsqueeze(1)  # [D, 1]
        # [environments, D, F + 1]: sums of frames, and of their weights
        self.sums = torch.zeros(0, len(traces), eyes.dim + 1, device=device)
        self._push, self._newest = Replayed(self._pushed, device), Replayed(self._entries, device)

    def encode(self, frames: Array) -> Tensor:
        """Features [B, F] of frames [B, 120, 160, 3]; good until the next call."""
        return self._eyes(frames)

    def take_up(self, rows: Tensor, sums: Tensor) -> None:
        """Go on with these tensors; graphs over the ones before are forgotten."""
        self.rows, self.sums = rows, sums
        self._push.forget()
        self._newest.forget()

    def begin(self, env_index: int) -> None:
        """An episode of this environment starts."""
        more = env_index + 1 - len(self.rows)
        if more > 0:
            grown = (torch.cat([part, part.new_zeros(more, *part.shape[1:])]) for part in (self.rows, self.sums))
            self.take_up(*grown)
        self.rows[env_index] = self.fill
        self.sums[env_index] = 0

    def keep(self, transitions: Transitions, random: Array, store: FeatureStore, replay: SequenceReplay) -> None:
        """Put a step into a replay: the newest frames are on top already, those that ended an episode are not."""
        envs, ended = transitions.env_indices, np.flatnonzero(transitions.ended)
        slots = store.hold_rows(self.newest(envs))
        store.release_rows(replay.append_rows(envs, slots, transitions.actions, random))
        if len(ended):
            last = store.hold_rows(self.after(transitions.next_observations[ended], envs[ended]))
            replay.close_rows(envs[ended], last)

    def push(self, frames: Array, env_indices: Array) -> Tensor:
        """Add the newest frames; returns the states [B, (D + stack) * F], good until the next call."""
        return self._push(self.encode(frames), self._indices(env_indices))[0]

    def _pushed(self, features: Tensor, places: Tensor) -> tuple[Tensor]:
        older = self.rows.index_select(0, places)[:, 1:]
        stacks = torch.cat([older, features.unsqueeze(1)], dim=1)
        self.rows.index_copy_(0, places, stacks)
        if not len(self._decays):
            return (stacks.flatten(1),)
        sums = self._added(places, features)
        self.sums.index_copy_(0, places, sums)
        return (torch.cat([_means(sums), stacks.flatten(1)], dim=1),)

    def _added(self, places: Tensor, features: Tensor) -> Tensor:
        """The sums [B, D, F + 1] of environments with one more frame's features [B, F]."""
        fresh = functional.pad(features, (0, 1), value=1.0).unsqueeze(1)
        return self._decays * self.sums.index_select(0, places) + fresh

    def newest(self, env_indices: Array) -> Tensor:
        """Traces and features [B, (D + 1) * F] of the frames that were pushed last; good until the next call."""
        return self._newest(self._indices(env_indices))[0]

    def _entries(self, places: Tensor) -> tuple[Tensor]:
        return (self._entry(self.sums.index_select(0, places), self.rows[:, -1].index_select(0, places)),)

    def after(self, frames: Array, env_indices: Array) -> Tensor:
        """The same of frames that are not pushed: the last ones of their episodes."""
        features = self.encode(frames)
        return self._entry(self._added(self._indices(env_indices), features), features)

    def _entry(self, sums: Tensor, features: Tensor) -> Tensor:
        return torch.cat([_means(sums), features], dim=1) if len(self._decays) else features

    def still(self, frame: Observation) -> Tensor:
        """The state [1, (D + stack) * F] of standing still before one view."""
        return self.encode(frame[None]).repeat(1, self.rows.shape[1] + len(self._decays))


def _means(sums: Tensor) -> Tensor:
    """Traces [B, D * F] of sums [B, D, F + 1]."""
    return (sums[:, :, :-1] / sums[:, :, -1:]).flatten(1)
