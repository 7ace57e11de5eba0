"""What a policy did since it was last improved: decisions of all environments, on the device, in the order of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sfl.data.types import Array
from sfl.learners.device import to_device


@dataclass(frozen=True)
class Decisions:
    """What one batch of environments saw, and what the policy made of it."""

    seen: Tensor  # [B, ...]
    actions: Tensor  # [B] int64
    log_probs: Tensor  # [B] of the actions that were taken
    values: Tensor  # [B]


@dataclass(frozen=True)
class Experience:
    """Steps whose reward is known, environments side by side; beyond `counts` an environment has none."""

    steps: Decisions  # each [T, E, ...]
    next_values: Tensor  # [T, E] of the states that the steps led to; of no meaning after an episode's end
    rewards: Tensor  # [T, E]
    ended: Tensor  # [T, E] bool
    counts: Array  # [E]


class Rollouts:
    """One column per environment.

    Columns need not grow together: halves take turns, and a game that was started again lags behind. What a decision
    earned is known at the next one of its environment, or when its episode ends.
    """

    def __init__(self, horizon: int, env_count: int, shape: tuple[int, ...], dtype: str, device: torch.device) -> None:
        self._wanted, self._device = horizon * env_count, device
        rows = 2 * horizon + 2  # none may get farther ahead of the others than once more the horizon
        kind = torch.from_numpy(np.zeros(0, dtype)).dtype
        self._seen = torch.zeros(rows, env_count, *shape, dtype=kind, device=device)
        self._actions = torch.zeros(rows, env_count, dtype=torch.int64, device=device)
        self._log_probs, self._values, self._rewards = torch.zeros(3, rows, env_count, device=device).unbind()
        self._ended = torch.zeros(rows, env_count, dtype=torch.bool, device=device)
        self._decided = np.zeros(env_count, np.int64)  # decisions in each column
        self._known = np.zeros(env_count, np.int64)  # of them, those whose reward is known

    @property
    def ready(self) -> bool:
        """There is enough to learn from, or some column is full."""
        return int(self._known.sum()) >= self._wanted or int(self._decided.max()) == len(self._seen) - 1

    def awaits_reward(self, env_indices: Array) -> Array:
        """[B] bool: the environment's last decision has no reward yet."""
        return np.asarray(self._decided[env_indices] > self._known[env_indices])

    def reward(self, env_indices: Array, rewards: Tensor) -> None:
        """What the last decisions of these environments earned, [B]; their episodes go on."""
        self._settle(env_indices, rewards, False)

    def end(self, env_indices: Array) -> None:
        """The episodes of these environments are over; the last decision earns nothing."""
        self._settle(env_indices, torch.zeros(len(env_indices), device=self._device), True)

    def _settle(self, env_indices: Array, rewards: Tensor, ended: bool) -> None:
        at = self._places(self._known, env_indices)
        self._rewards.index_put_(at, rewards)
        self._ended.index_put_(at, torch.full((), ended, device=self._device))
        self._known[env_indices] += 1

    def record(self, env_indices: Array, decisions: Decisions) -> None:
        """The newest decisions of these environments."""
        at = self._places(self._decided, env_indices)
        self._seen.index_put_(at, decisions.seen)
        self._actions.index_put_(at, decisions.actions)
        self._log_probs.index_put_(at, decisions.log_probs)
        self._values.index_put_(at, decisions.values)
        self._decided[env_indices] += 1

    def _places(self, rows: Array, env_indices: Array) -> tuple[Tensor, Tensor]:
        at = to_device(np.stack([rows[env_indices], env_indices]), self._device)
        return at[0], at[1]

    def take(self) -> Experience:
        """All steps whose reward is known; decisions that wait for theirs stay."""
        counts, length = self._known.copy(), int(self._known.max())
        steps = Decisions(
            self._seen[:length].clone(),
            self._actions[:length].clone(),
            self._log_probs[:length].clone(),
            self._values[:length].clone(),
        )
        next_values, ended = self._values[1 : length + 1].clone(), self._ended[:length].clone()
        taken = Experience(steps, next_values, self._rewards[:length].clone(), ended, counts)
        waiting = np.flatnonzero(self._decided > self._known)
        row, env = self._places(self._known, waiting)
        for part in (self._seen, self._actions, self._log_probs, self._values):
            part[0].index_copy_(0, env, part[row, env])
        self._decided, self._known = self._decided - self._known, np.zeros_like(self._known)
        return taken

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        parts = {name: part.cpu().numpy().copy() for name, part in self._parts().items()}
        return parts | {"rollouts.decided": self._decided.copy(), "rollouts.known": self._known.copy()}

    def load_state(self, arrays: dict[str, Array]) -> None:
        """Take up arrays made by `state`."""
        for name, part in self._parts().items():
            part.copy_(torch.from_numpy(arrays[name]))
        self._decided, self._known = arrays["rollouts.decided"].copy(), arrays["rollouts.known"].copy()

    def _parts(self) -> dict[str, Tensor]:
        return {
            "rollouts.seen": self._seen,
            "rollouts.actions": self._actions,
            "rollouts.log_probs": self._log_probs,
            "rollouts.values": self._values,
            "rollouts.rewards": self._rewards,
            "rollouts.ended": self._ended,
        }
