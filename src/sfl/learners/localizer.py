"""SFS of the agent's state to every landmark, and its median over the last steps (paper, appendix on aggregating SFS)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from sfl.data.types import Array

UNSEEN = 1e9
"""Stands for a similarity not seen yet: above every cosine, and finite, because it takes part in differences."""


class Localizer:
    """Unit psi of the landmarks, and the last W similarities of every environment."""

    def __init__(self, dim: int, window: int, device: torch.device) -> None:
        self.window, self.device = window, device
        self._columns = torch.zeros(dim, 0, device=device)
        self._seen: list[int] = []
        self._places: list[int] = []  # of each environment's oldest similarity in the history
        self._forget_all()

    def fresh(self) -> Localizer:
        """The same landmarks for other environments."""
        other = Localizer(self._columns.shape[0], self.window, self.device)
        other.set_rows(self.rows, same_landmarks=False)
        return other

    @property
    def rows(self) -> Tensor:
        """Unit psi of the landmarks, [L, F]."""
        return self._columns.mT

    def set_rows(self, psi: Tensor, same_landmarks: bool) -> None:
        """New psi [L, F] of all landmarks; when some are other landmarks than before, the medians start afresh."""
        # A column for each landmark: the product with few states is then up to twice as fast.
        self._columns = functional.normalize(psi, dim=1).to(self.device).mT.contiguous()
        if not same_landmarks:
            self._forget_all()

    def reset(self, env_index: int) -> None:
        """An episode of this environment starts: similarities of another place say nothing here."""
        more = env_index + 1 - len(self._seen)
        if more > 0:
            self._seen += [0] * more
            self._places += self._places[:1] * more or [0] * more
            room = torch.full((self.window, more, self._columns.shape[1]), UNSEEN, device=self.device)
            self._keep(torch.cat([self._history, room], dim=1))
        self._seen[env_index] = 0
        self._history[:, env_index] = UNSEEN
        if self._ordered is not None:
            self._ordered.planes[:, env_index] = UNSEEN

    def similarity(self, psi: Tensor) -> Tensor:
        """SFS [B, L] of unit psi [B, F]."""
        return psi @ self._columns

    def smooth(self, similarity: Tensor, env_indices: Array) -> Tensor:
        """Median over the last W similarities [B, L]; the newest alone until W were seen in the episode."""
        if self.window == 1:
            return similarity
        envs = env_indices.tolist()
        in_step = envs == self._everybody and self._places.count(self._places[0]) == len(envs)
        result = self._slide(similarity) if in_step else self._slide_some(similarity, envs)
        for env in envs:
            self._seen[env] += 1
            self._places[env] = (self._places[env] + 1) % self.window
        young = [row for row, env in enumerate(envs) if self._seen[env] < self.window]
        if young:
            result[young] = similarity[young]
        return result

    def _slide(self, similarity: Tensor) -> Tensor:
        """All environments, in order and in step: only what leaves and what comes is moved in the sorted history."""
        if self._ordered is None:
            self._ordered = OrderedWindow(self._history)
        oldest = self._planes[self._places[0]]
        self._ordered.replace(oldest, similarity)
        oldest.copy_(similarity)
        return self._ordered.median()

    def _slide_some(self, similarity: Tensor, envs: list[int]) -> Tensor:
        """Some environments, in any order."""
        self._ordered = None
        self._history[[self._places[env] for env in envs], envs] = similarity
        return median(self._history[:, envs])

    def _forget_all(self) -> None:
        self._seen = [0] * len(self._seen)
        landmarks = self._columns.shape[1]
        self._keep(torch.full((self.window, len(self._seen), landmarks), UNSEEN, device=self.device))

    def _keep(self, history: Tensor) -> None:
        self._history = history  # [W, environments, L], a ring
        self._planes = history.unbind(0)  # an index into a tensor costs as much as the arithmetic on it
        self._everybody = list(range(history.shape[1]))
        self._ordered: OrderedWindow | None = None


class OrderedWindow:
    """The last W values of many series, sorted; one comes and one goes in three operations, without sorting."""

    def __init__(self, history: Tensor) -> None:
        window = len(history)
        self.planes = history.sort(dim=0).values  # [W, ...]
        self._lower, self._upper = self.planes[:-1], self.planes[1:]
        self._middle = self.planes[(window - 1) // 2], self.planes[window // 2]
        self._stays_up = torch.empty_like(self._upper)
        rest = torch.full_like(history[:1], UNSEEN).expand(window + 1, *history.shape[1:]).clone()
        rest[0] = -UNSEEN
        self._rest, self._below, self._above = rest[1:-1], rest[:-1], rest[1:]

    def replace(self, oldest: Tensor, newest: Tensor) -> None:
        """Take `oldest`, which must be among the values, out and put `newest` in."""
        # Without the oldest, each place above it takes the next value and each place below keeps its own; weights of
        # exactly 0 and 1 select, and do so several times faster than a mask.
        torch.gt(self._upper, oldest, out=self._stays_up)
        torch.lerp(self._lower, self._upper, self._stays_up, out=self._rest)
        # The newest goes between its neighbours; everything else is bounded by itself.
        torch.clamp(newest, self._below, self._above, out=self.planes)

    def median(self) -> Tensor:
        """Of an even number, the mean of the two in the middle."""
        return torch.add(*self._middle).mul_(0.5)


def median(values: Tensor) -> Tensor:
    """Median over the first axis of [W, ...]; of an even number, the mean of the two in the middle."""
    ordered = values.sort(dim=0).values
    low, high = (len(values) - 1) // 2, len(values) // 2
    return (ordered[low] + ordered[high]) / 2
