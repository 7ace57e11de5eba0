"""SFS of the agent's state to every landmark, and its median over the last steps (paper, appendix on aggregating SFS)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from sfl.data.types import Array


class Localizer:
    """Unit psi of the landmarks, and the last W similarities of every environment."""

    def __init__(self, dim: int, window: int, device: torch.device) -> None:
        self.window, self.device = window, device
        self._rows = torch.zeros(0, dim, device=device)
        self._history = torch.zeros(window, 0, 0, device=device)
        self._seen: list[int] = []

    def fresh(self) -> Localizer:
        """The same landmarks for other environments."""
        other = Localizer(self._rows.shape[1], self.window, self.device)
        other.set_rows(self._rows, same_landmarks=False)
        return other

    @property
    def rows(self) -> Tensor:
        """Unit psi of the landmarks, [L, F]."""
        return self._rows

    def set_rows(self, psi: Tensor, same_landmarks: bool) -> None:
        """New psi [L, F] of all landmarks; when some are other landmarks than before, the medians start afresh."""
        self._rows = functional.normalize(psi, dim=1).to(self.device)
        if not same_landmarks:
            self._seen = [0] * len(self._seen)
            self._history = torch.zeros(self.window, len(self._seen), len(psi), device=self.device)

    def reset(self, env_index: int) -> None:
        """An episode of this environment starts: similarities of another place say nothing here."""
        more = env_index + 1 - len(self._seen)
        if more > 0:
            self._seen += [0] * more
            room = torch.zeros(self.window, more, len(self._rows), device=self.device)
            self._history = torch.cat([self._history, room], dim=1)
        self._seen[env_index] = 0

    def similarity(self, psi: Tensor) -> Tensor:
        """SFS [B, L] of unit psi [B, F]."""
        return psi @ self._rows.mT

    def smooth(self, similarity: Tensor, env_indices: Array) -> Tensor:
        """Median over the last W similarities [B, L]; the newest alone until W were seen in the episode."""
        if self.window == 1:
            return similarity
        envs = env_indices.tolist()
        places = [self._seen[env] % self.window for env in envs]
        self._history[places, envs] = similarity
        for env in envs:
            self._seen[env] += 1
        ripe = [row for row, env in enumerate(envs) if self._seen[env] >= self.window]
        if len(ripe) == len(envs):
            return median(self._history[:, envs])
        result = similarity.clone()
        if ripe:
            result[ripe] = median(self._history[:, [envs[row] for row in ripe]])
        return result


def median(values: Tensor) -> Tensor:
    """Median over the first axis of [W, ...]; of an even number, the mean of the two in the middle."""
    ordered = values.sort(dim=0).values
    low, high = (len(values) - 1) // 2, len(values) // 2
    return (ordered[low] + ordered[high]) / 2
