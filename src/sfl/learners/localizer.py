"""SFS of the agent's state to every landmark, and its median over the last steps (paper, appendix: aggregating SFS)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sfl.data.types import Array

UNSEEN = 1e9
"""Stands for a similarity not seen yet: above every cosine, and finite, because it takes part in differences."""


class Localizer:
    """Unit psi of the landmarks, and the last W similarities of every environment."""

    def __init__(self, dim: int, window: int, device: torch.device) -> None:
        self.window, self.device = window, device
        self._columns = torch.zeros(dim, 0, device=device)
        self._seen: list[int] = []  # of each environment in its episode, counted up to W
        self._places: list[int] = []  # of each environment's oldest similarity, counted from the clock
        self._clock = 0
        self._ordered: OrderedWindow | None = None
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
        """New unit psi [L, F] of all landmarks; when some are others than before, the medians start afresh."""
        # A column for each landmark: the product with few states is then up to twice as fast.
        self._columns = psi.to(self.device).mT.contiguous()
        if not same_landmarks:
            self._forget_all()

    def state(self) -> dict[str, Array]:
        """Plain arrays: psi of the landmarks and the history of every environment."""
        places = [(self._clock + place) % self.window for place in self._places]
        rings = np.array([self._seen, places], dtype=np.int64).reshape(2, -1)
        history = torch.stack(self._planes).cpu().numpy()
        return {"psi": self.rows.cpu().numpy().copy(), "history": history, "rings": rings}

    def load_state(self, state: dict[str, Array]) -> None:
        """Take up arrays made by `state`."""
        self.set_rows(torch.from_numpy(state["psi"].copy()), same_landmarks=False)
        self._clock = 0
        self._seen, self._places = state["rings"].tolist()
        self._keep(torch.from_numpy(state["history"].copy()).to(self.device))

    def reset(self, env_index: int) -> None:
        """An episode of this environment starts: similarities of another place say nothing here."""
        more = env_index + 1 - len(self._seen)
        if more > 0:
            self._seen += [0] * more
            self._places += self._places[:1] * more or [0] * more
            room = torch.full((self.window, more, self._columns.shape[1]), UNSEEN, device=self.device)
            self._keep(torch.cat([torch.stack(self._planes), room], dim=1))
        self._seen[env_index] = 0
        self._all_ripe = False
        for plane in self._planes:
            plane[env_index] = UNSEEN
        self._ordered = None

    def similarity(self, psi: Tensor) -> Tensor:
        """SFS [B, L] of unit psi [B, F], or [L] of [F]."""
        return torch.mm(psi, self._columns) if psi.dim() == 2 else psi @ self._columns  # mm looks less at its arguments

    def smooth(self, similarity: Tensor, env_indices: Array) -> Tensor:
        """Median over the last W similarities [B, L]; the newest alone until W were seen in the episode.

        The similarities are kept as they are, not copied: the caller must not change them afterwards.
        """
        if self.window == 1:
            return similarity
        envs = env_indices.tolist()
        if self._in_step and envs == self._everybody:
            medians = self._slide_all(similarity)
        else:
            medians = self._slide_some(similarity, envs)
        return medians if self._all_ripe else self._newest_of_young(medians, similarity, envs)

    def _slide_all(self, similarity: Tensor) -> Tensor:
        """All environments, in order and in step: only what leaves and what comes moves in the sorted history."""
        if self._ordered is None:
            self._ordered = OrderedWindow(torch.stack(self._planes))
        place = (self._clock + self._places[0]) % self.window
        self._clock += 1
        self._ordered.remove(self._planes[place])
        self._planes[place] = similarity
        return self._ordered.insert(similarity)

    def _slide_some(self, similarity: Tensor, envs: list[int]) -> Tensor:
        """Some environments, in any order."""
        places = [(self._clock + self._places[env]) % self.window for env in envs]
        history = torch.stack(self._planes)
        history[places, envs] = similarity
        for env in envs:
            self._places[env] += 1
        self._keep(history)
        return median(history[:, envs])

    def _newest_of_young(self, medians: Tensor, newest: Tensor, envs: list[int]) -> Tensor:
        """The newest instead of the median where fewer than W were seen."""
        for env in envs:
            self._seen[env] += 1
        young = [row for row, env in enumerate(envs) if self._seen[env] < self.window]
        medians[young] = newest[young]
        self._all_ripe = min(self._seen) >= self.window
        return medians

    def _forget_all(self) -> None:
        self._seen = [0] * len(self._seen)
        self._all_ripe = False
        landmarks = self._columns.shape[1]
        self._keep(torch.full((self.window, len(self._seen), landmarks), UNSEEN, device=self.device))

    def _keep(self, history: Tensor) -> None:
        """Take up similarities [W, environments, L]."""
        self._planes = list(history.unbind(0))  # a ring; an index into a tensor costs as much as the arithmetic on it
        self._everybody = list(range(history.shape[1]))
        self._in_step, self._ordered = len(set(self._places)) <= 1, None


class OrderedWindow:
    """The last W values of many series, sorted; one goes and one comes in a few operations, without sorting."""

    def __init__(self, history: Tensor) -> None:
        window = len(history)
        self._planes = history.sort(dim=0).values  # [W, ...]
        self._lower, self._upper = self._planes[:-1], self._planes[1:]
        self._low, self._high = self._planes[(window - 1) // 2], self._planes[window // 2]
        rest = torch.full((window + 1, *history.shape[1:]), UNSEEN, device=history.device)
        rest[0] = -UNSEEN
        self._rest, self._below, self._above = rest[1:-1], rest[:-1], rest[1:]

    def remove(self, value: Tensor) -> None:
        """Take out a value that is among them; `insert` must follow."""
        # What lies above it moves down one place. Weights of exactly 0 and 1 select as a mask does, but faster; they go
        # where the result will, because memory that the product has driven from the cache is dear.
        torch.gt(self._upper, value, out=self._rest)
        torch.lerp(self._lower, self._upper, self._rest, out=self._rest)

    def insert(self, value: Tensor) -> Tensor:
        """Put in a value; returns the mean of the two in the middle, or of an odd number the one."""
        # Each place takes the value if it lies between the two neighbours there, and else the nearer one.
        torch.clamp(value, self._below, self._above, out=self._planes)
        return torch.lerp(self._low, self._high, 0.5)


def median(values: Tensor) -> Tensor:
    """Median over the first axis of [W, ...]; of an even number, the mean of the two in the middle."""
    ordered = values.sort(dim=0).values
    low, high = (len(values) - 1) // 2, len(values) // 2
    return torch.lerp(ordered[low], ordered[high], 0.5)
