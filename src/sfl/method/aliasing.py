"""Ours: landmarks that stand for several places (the paper has filters against such aliasing in appendix D instead).

Two places that look the same are one landmark to SFS. What the agent saw shortly before and after a visit tells them
apart: around a landmark that stands for several places, visits disagree. No agent is localized to such a landmark, and
no edge leads there, but it still keeps candidates away.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sfl.api import Array
from sfl.method.config import LandmarkConfig


class Aliasing:
    """Which landmarks are aliased: sums of unit features around the visits to each, and what follows from them."""

    MEMORY = 0.9
    """Weight of the visits so far when more are added: psi moves, and visits move between landmarks."""
    FEWEST = 4.0
    """Visits, weighted so, below which nothing is said of a landmark."""

    def __init__(self, config: LandmarkConfig, device: torch.device) -> None:
        self.config, self._device = config, device
        limit = config.limit if config.trust else 0
        self.aliased: Array = np.zeros(0, bool)  # [L'] of the first landmarks; those that came later are not
        self._mask: Tensor | None = None  # the same on the device
        self._sums = torch.zeros(limit, 0, device=device)  # [limit, F]
        self._weights = torch.zeros(2, limit, device=device)  # sums of the visits' weights, and of their squares

    def flag(self, aliased: Array) -> None:
        """These landmarks [L] bool and no others are aliased."""
        self.aliased, self._mask = aliased, torch.from_numpy(aliased).to(self._device)

    def mask(self, similarity: Tensor) -> Tensor:
        """SFS [..., L] with less than any cosine at aliased landmarks."""
        if self._mask is None:
            return similarity
        more = similarity.shape[-1] - len(self._mask)
        aliased = functional.pad(self._mask, (0, more)) if more else self._mask
        return similarity.masked_fill(aliased, -2.0)

    def examine(self, landmarks: Tensor, surroundings: Tensor, count: int) -> None:
        """Add visits to landmarks [N] and the unit features [N, F] around them, then flag anew the `count` first."""
        self.add(landmarks, surroundings)
        self.flag(self.disagreeing(count, self.config.trust).cpu().numpy())

    def add(self, landmarks: Tensor, surroundings: Tensor) -> None:
        """More visits [N] and the unit features [N, F] around them; all before them weigh less from here on."""
        if not self._sums.numel():
            self._sums = surroundings.new_zeros(len(self._sums), surroundings.shape[1])
        self._sums *= self.MEMORY
        self._weights[0] *= self.MEMORY
        self._weights[1] *= self.MEMORY**2
        self._sums.index_add_(0, landmarks, surroundings)
        self._weights.index_add_(1, landmarks, torch.ones(2, len(landmarks), device=landmarks.device))

    def agreement(self, count: int) -> Tensor:
        """[L] the mean cosine of two visits' surroundings; NaN where there were too few."""
        weights, squares = self._weights[:, :count]
        pairs = weights.square() - squares
        agreed = (self._sums[:count].square().sum(1) - squares) / pairs
        return torch.where(weights >= self.FEWEST, agreed, torch.nan)

    def disagreeing(self, count: int, share: float) -> Tensor:
        """[L] bool: landmarks whose surroundings agree less than this share of the median."""
        agreed = self.agreement(count)
        median = agreed.nanmedian()
        return agreed < torch.minimum(share * median, median)  # a share of less than nothing would be more

    def clear(self, index: int) -> None:
        """Another landmark takes over this index."""
        if self.config.trust:
            self._sums[index] = 0
            self._weights[:, index] = 0
            self.flag(np.where(np.arange(len(self.aliased)) == index, False, self.aliased))

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        if not self.config.trust:
            return {}
        sums, weights = self._sums.cpu().numpy().copy(), self._weights.cpu().numpy().copy()
        return {"trust_sums": sums, "trust_weights": weights, "doubted": self.aliased}

    def load_state(self, state: dict[str, Array]) -> None:
        """Go on with arrays made by `state`."""
        if self.config.trust:
            self._sums = torch.from_numpy(state["trust_sums"].copy()).to(self._device)
            self._weights.copy_(torch.from_numpy(state["trust_weights"]))
            self.flag(state["doubted"])
