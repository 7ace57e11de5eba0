"""Which landmarks are one place: what is seen around a visit should be alike from visit to visit."""

from __future__ import annotations

import torch
from torch import Tensor

from sfl.api import Array


class Trust:
    """Sums of unit features of the surroundings of visits, for each landmark.

    Two places that look the same are one landmark to SFS. What the agent saw shortly before and after tells them
    apart: the surroundings of a landmark that stands for several places disagree.
    """

    MEMORY = 0.9
    """Weight of the visits so far when more are added: psi moves, and visits move between landmarks."""
    FEWEST = 4.0
    """Visits, weighted so, below which nothing is said of a landmark."""

    def __init__(self, limit: int, device: torch.device) -> None:
        self._sums = torch.zeros(limit, 0, device=device)
        self._weights = torch.zeros(2, limit, device=device)  # sums of the visits' weights, and of their squares

    def add(self, landmarks: Tensor, surroundings: Tensor) -> None:
        """More visits [N] and the unit features [N, F] around them; all before them weigh less from here on."""
        if not self._sums.numel():
            self._sums = surroundings.new_zeros(len(self._sums), surroundings.shape[1])
        self._sums *= self.MEMORY
        self._weights[0] *= self.MEMORY
        self._weights[1] *= self.MEMORY**2
        self._sums.index_add_(0, landmarks, surroundings)
        self._weights.index_add_(1, landmarks, torch.ones(2, len(landmarks), device=landmarks.device))

    def clear(self, index: int) -> None:
        """Another landmark takes over this index."""
        self._sums[index] = 0
        self._weights[:, index] = 0

    def agreement(self, count: int) -> Tensor:
        """[L] the mean cosine of two visits' surroundings; NaN where there were too few."""
        weights, squares = self._weights[:, :count]
        pairs = weights.square() - squares
        agreed = (self._sums[:count].square().sum(1) - squares) / pairs
        return torch.where(weights >= self.FEWEST, agreed, torch.nan)

    def doubted(self, count: int, share: float) -> Tensor:
        """[L] bool: landmarks whose surroundings agree less than this share of the median."""
        agreed = self.agreement(count)
        median = agreed.nanmedian()
        return agreed < torch.minimum(share * median, median)  # a share of less than nothing would be more

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        return {"trust_sums": self._sums.cpu().numpy().copy(), "trust_weights": self._weights.cpu().numpy().copy()}

    def load_state(self, state: dict[str, Array]) -> None:
        """Take up arrays made by `state`."""
        self._sums = torch.from_numpy(state["trust_sums"].copy()).to(self._sums.device)
        self._weights.copy_(torch.from_numpy(state["trust_weights"]))
