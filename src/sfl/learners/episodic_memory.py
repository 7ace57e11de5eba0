"""What an episode has shown so far, and how new the next observation is beside it (Savinov et al., 2019)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sfl.core.config import require
from sfl.data.types import Array
from sfl.learners.device import to_device

Compare = Callable[[Tensor, Tensor], Tensor]
"""Chance [B, N] that observations with features [B, F] are a few decisions from others with [B, N, F]."""


@dataclass(frozen=True)
class BonusConfig:
    """What novelty is worth."""

    scale: float = 0.03
    """alpha: the reward is this times (shift - similarity)."""
    shift: float = 0.5
    """beta: at this similarity nothing is earned, above it the reward is negative."""
    capacity: int = 400
    """Observations of an episode that are remembered; then the oldest goes."""
    novelty_threshold: float = 0.1
    """b_novelty: an observation is remembered when shift - similarity is above this."""
    percentile: float = 90.0
    """F: the similarity to the memory is this percentile of those to its members."""

    def __post_init__(self) -> None:
        require(self.scale >= 0, f"bonus.scale must not be negative, got {self.scale}.")
        require(0 <= self.shift <= 1, f"bonus.shift must lie in [0, 1] (similarity does), got {self.shift}.")
        require(self.capacity >= 1, f"bonus.capacity must be at least 1, got {self.capacity}.")
        threshold = self.novelty_threshold
        require(
            threshold < self.shift, f"bonus.novelty-threshold must be below the shift, {self.shift}; got {threshold}."
        )
        require(0 <= self.percentile <= 100, f"bonus.percentile must lie in [0, 100], got {self.percentile}.")


class EpisodicMemory:
    """The memories of all environments side by side on the device, so that a decision of all is one call."""

    def __init__(self, config: BonusConfig, env_count: int, dim: int, device: torch.device) -> None:
        self.config, self._device = config, device
        self._rows = torch.zeros(env_count, config.capacity, dim, device=device)
        self._counts = torch.zeros(env_count, dtype=torch.int64, device=device)  # ever added in the episode
        self._added = np.zeros(env_count, np.int64)  # the same as far as the host knows

    def clear(self, env_index: int) -> None:
        """An episode of this environment starts."""
        self._counts[env_index] = 0
        self._added[env_index] = 0

    def visit(self, env_indices: Array, features: Tensor, compare: Compare) -> tuple[Tensor, Tensor]:
        """See observations with features [B, F]: what they earn before scaling, [B], and how many were added, [B].

        What is new enough is remembered. The counts are for `heard`, with which they come back to the host.
        """
        config, places = self.config, to_device(env_indices, self._device)
        # Only as wide as the fullest memory: most are far from full, and each member costs a pass of the head.
        width = max(1, int(min(self._added[env_indices].max(), config.capacity)))
        counts = self._counts[places]
        similarities = compare(features, self._rows[places, :width])
        earned = config.shift - percentile(similarities, counts.clamp_max(config.capacity), config.percentile)
        novel = earned > config.novelty_threshold
        slots = counts % config.capacity
        kept = torch.where(novel.unsqueeze(1), features, self._rows[places, slots])
        self._rows.index_put_((places, slots), kept)
        counts = counts + novel
        self._counts.index_copy_(0, places, counts)
        return earned, counts

    def heard(self, env_indices: Array, counts: Array) -> None:
        """The counts [B] of the last visit have arrived on the host."""
        self._added[env_indices] = counts

    @property
    def sizes(self) -> Array:
        """[E] how many observations each memory holds."""
        return np.minimum(self._added, self.config.capacity)

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        return {"memory.rows": self._rows.cpu().numpy().copy(), "memory.counts": self._counts.cpu().numpy().copy()}

    def load_state(self, arrays: dict[str, Array]) -> None:
        """Take up arrays made by `state`."""
        self._rows.copy_(torch.from_numpy(arrays["memory.rows"]))
        self._counts.copy_(torch.from_numpy(arrays["memory.counts"]))
        self._added = arrays["memory.counts"].copy()


def percentile(values: Tensor, counts: Tensor, share: float) -> Tensor:
    """The percentile [B] of the first `counts` [B] of values [B, N], with linear interpolation; 0 of none."""
    outside = torch.arange(values.shape[1], device=values.device) >= counts.unsqueeze(1)
    ordered = values.masked_fill(outside, torch.inf).sort(1).values
    place = (share / 100.0) * (counts - 1).clamp_min(0)
    low, high = place.floor().long(), place.ceil().long()
    below, above = (ordered.gather(1, rank.unsqueeze(1)).squeeze(1) for rank in (low, high))
    # Equal ranks are told apart: the difference of two infinities would be no number.
    between = torch.where(low == high, below, below + (place - low) * (above - below))
    return torch.where(counts > 0, between, 0.0)
