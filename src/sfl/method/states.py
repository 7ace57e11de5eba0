"""What a state is: the observation itself where it shows everything, else a stack of features of the last frames.

First what the agent asks of psi and of learning it (`PsiSource`, `Representation`), then states of grids, then states
of frames: the encoder that makes features, the stacks of each environment's last ones, and psi of them.
"""

from __future__ import annotations

import copy
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sfl.api import AgentState, Array, Metrics, Observation, Transitions
from sfl.fast.cuda import IndexCache, Replayed, tensor_cores, to_device
from sfl.method.successor_features import SuccessorLearner, unit
from sfl.nn.frame_encoders import FrameEncoder
from sfl.replay.replay import SequenceReplay


class PsiSource(Protocol):
    """Turns observations into states, and states into psi."""

    dim: int
    """Numbers of a key."""
    device: torch.device

    def begin_episode(self, env_index: int) -> None:
        """An episode of this environment starts: earlier observations do not count any more."""

    def perceive(self, observations: Array, env_indices: Array) -> Array | Tensor:
        """States [B, ...] of environments after their newest observations [B, ...]; good until the next call."""

    def goal_state(self, goal: Observation) -> Array | Tensor:
        """The state [1, ...] that a picture of the goal shows."""

    def psi(self, states: Array | Tensor) -> Tensor:
        """psi(s, a) of every action, [B, A, F]; psi(s) is its mean over the actions."""

    def directions(self, states: Array | Tensor) -> tuple[Tensor, Tensor]:
        """Unit psi(s, a) [B, A, F] and the keys [B, K]; good until the next call."""
        return directions(self.psi(states))

    def keys(self, states: Array | Tensor) -> Tensor:
        """What states are compared by, [B, K]: unit psi(s), behind which another metric than SFS has its numbers."""
        return unit(self.psi(states).mean(1))


class Representation(PsiSource, Protocol):
    """What SFL asks of phi and psi in training."""

    def learn_due(self) -> None:
        """Make the gradient steps that `update` has put off until there is time for them."""

    def observe(self, transitions: Transitions, random: Array) -> None:
        """Keep a step of experience; `random` [B] says which actions the random policy drew."""

    def update(self, env_steps: int, new_steps: int) -> Metrics:
        """Learn as much as `new_steps` environment steps call for."""

    def surroundings(self, count: int, reach: int) -> tuple[Tensor, Tensor] | None:
        """States [N, ...] met by the random policy, about `count` of them, and the unit features [N, F] of what was
        seen up to `reach` decisions before and after; None where there is nothing to look up."""

    def snapshot(self) -> PsiSource:
        """A copy that later learning does not change."""

    def write_state(self, state: AgentState) -> None:
        """Write into a checkpoint."""

    def load_state(self, state: AgentState) -> None:
        """Read from a checkpoint."""


def directions(psi: Tensor) -> tuple[Tensor, Tensor]:
    """Unit psi(s, a) [B, A, F] and unit psi(s) [B, F] of psi(s, a) [B, A, F]."""
    return unit(psi), unit(psi.mean(1))


class GridStates(PsiSource):
    """States of environments whose observations show everything: the observations themselves."""

    def learn_due(self) -> None:
        """Nothing is put off."""

    def begin_episode(self, env_index: int) -> None:
        """Nothing is carried over."""

    def perceive(self, observations: Array, env_indices: Array) -> Array:
        """The observations themselves."""
        return observations

    def goal_state(self, goal: Observation) -> Array:
        """The picture itself."""
        return np.asarray(goal[None])

    def surroundings(self, count: int, reach: int) -> tuple[Tensor, Tensor] | None:
        """Whole observations tell places apart by themselves."""
        return None


# ---- States of frames: features of the last ones, by a fixed encoder.


class FrozenEncoder:
    """Frames to features; on a GPU in bf16."""

    def __init__(self, encoder: FrameEncoder, device: torch.device) -> None:
        self.dim, self._device = encoder.dim, device
        self._encoder = encoder if device.type == "cpu" else copy.deepcopy(encoder).to_half()
        self._encode = Replayed(lambda pixels: (self._encoder(pixels).float(),), device)

    @torch.no_grad()
    def __call__(self, frames: Array | Tensor) -> Tensor:
        """Features [B, F] of frames [B, 120, 160, 3] of bytes; good until the next call."""
        return self._encode(frames if isinstance(frames, Tensor) else to_device(frames, self._device))[0]


class FeatureStacks:
    """The features of each environment's last frames, oldest first; before an episode there was a black frame.

    And traces: means over its frames so far, in which the newest weigh most.
    """

    def __init__(
        self, encoder: FrozenEncoder, stack: int, device: torch.device, traces: tuple[float, ...] = ()
    ) -> None:
        self._encoder, self._indices = encoder, IndexCache(device)
        self.fill = self.encode(np.zeros((1, 120, 160, 3), np.uint8))[0].clone()
        self.rows = torch.zeros(0, stack, encoder.dim, device=device)  # [environments, stack, F]
        self._decays = torch.tensor(traces, device=device).unsqueeze(1)  # [D, 1]
        # [environments, D, F + 1]: sums of frames, and of their weights
        self.sums = torch.zeros(0, len(traces), encoder.dim + 1, device=device)
        self._push, self._newest = Replayed(self._pushed, device), Replayed(self._entries, device)

    def encode(self, frames: Array) -> Tensor:
        """Features [B, F] of frames [B, 120, 160, 3]; good until the next call."""
        return self._encoder(frames)

    def load(self, rows: Tensor, sums: Tensor) -> None:
        """Go on with these tensors; graphs over the ones before are forgotten."""
        self.rows, self.sums = rows, sums
        self._push.forget()
        self._newest.forget()

    def begin(self, env_index: int) -> None:
        """An episode of this environment starts."""
        more = env_index + 1 - len(self.rows)
        if more > 0:
            grown = (torch.cat([part, part.new_zeros(more, *part.shape[1:])]) for part in (self.rows, self.sums))
            self.load(*grown)
        self.rows[env_index] = self.fill
        self.sums[env_index] = 0

    def keep(self, transitions: Transitions, random: Array, replay: SequenceReplay) -> None:
        """Put a step into a replay: the newest frames are on top already, those that ended an episode are not."""
        envs, ended = transitions.env_indices, np.flatnonzero(transitions.ended)
        replay.add(envs, self.newest(envs), transitions.actions, random)
        if len(ended):
            replay.end(envs[ended], self.after(transitions.next_observations[ended], envs[ended]))

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


class FrameStates(PsiSource):
    """Frames become states; shared by the agent and its frozen copies, each with stacks of its own."""

    def __init__(self, stacks: FeatureStacks, successor: SuccessorLearner, device: torch.device) -> None:
        self.stacks, self.successor, self.device = stacks, successor, device
        self.dim, self.state_dim = successor.network.outputs, successor.network.dim
        self._directions = Replayed(lambda states: directions(successor.psi(states)), device)

    def begin_episode(self, env_index: int) -> None:
        """The frames before belong to another episode."""
        self.stacks.begin(env_index)

    def perceive(self, observations: Array, env_indices: Array) -> Tensor:
        """States [B, S] after the newest frames [B, 120, 160, 3]; good until the next call."""
        return self.stacks.push(observations, env_indices)

    def goal_state(self, goal: Observation) -> Tensor:
        """The state of standing still before the goal's picture."""
        return self.stacks.still(goal)

    def psi(self, states: Array | Tensor) -> Tensor:
        """psi(s, a) of every action, [B, A, F]."""
        rows = states if isinstance(states, Tensor) else to_device(states, self.device)
        with tensor_cores(self.device):
            return self.successor.psi(rows)

    def directions(self, states: Array | Tensor) -> tuple[Tensor, Tensor]:
        """Unit psi(s, a) [B, A, F] and unit psi(s) [B, F]; good until the next call."""
        rows = states if isinstance(states, Tensor) else to_device(states, self.device)
        with tensor_cores(self.device):
            units, mean = self._directions(rows)
        return units, mean
