"""SFS of the agent's state to every landmark, and its median over the last steps (paper, appendix: aggregating SFS).

In the ablation of the metric it is another nearness than SFS.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sfl.data.types import Array
from sfl.learners.device import to_device
from sfl.learners.metric import Cosine, Metric

UNSEEN = 1e9
"""Stands for a similarity not seen yet: above every cosine, and finite, because it takes part in differences."""


class Localizer:
    """Keys of the landmarks (unit psi), and the last W similarities of every environment."""

    def __init__(self, dim: int, window: int, device: torch.device, metric: Metric | None = None) -> None:
        """`dim`: numbers of a key; without a metric nearness is SFS."""
        self.window, self.device, self.metric = window, device, metric or Cosine()
        self._dim, self._count = dim, 0
        self._laid = self.metric.lay_out(torch.zeros(0, dim, device=device))
        self._doubted: Tensor | None = None  # [L'] bool of the first landmarks
        self._groups: dict[tuple[int, ...], SlidingGroup] = {}  # environments that come together
        self._group_of: dict[int, SlidingGroup] = {}

    def fresh(self) -> Localizer:
        """The same landmarks for other environments."""
        other = Localizer(self._dim, self.window, self.device, self.metric)
        other.set_rows(self.rows, same_landmarks=False)
        other._doubted = self._doubted
        return other

    def doubt(self, landmarks: Tensor) -> None:
        """Nobody is localized to these landmarks, [L] bool, until others are named."""
        self._doubted = landmarks

    def sure(self, similarity: Tensor) -> Tensor:
        """SFS [..., L], below every cosine at landmarks in doubt."""
        if self._doubted is None:
            return similarity
        more = similarity.shape[-1] - len(self._doubted)
        doubted = functional.pad(self._doubted, (0, more)) if more else self._doubted
        return similarity.masked_fill(doubted, -2.0)

    @property
    def rows(self) -> Tensor:
        """Keys of the landmarks, [L, K]."""
        return self.metric.rows(self._laid)

    def set_rows(self, keys: Tensor, same_landmarks: bool) -> None:
        """New keys [L, K] of all landmarks; when some are others than before, the medians start afresh."""
        self._laid, self._count = self.metric.lay_out(keys.to(self.device)), len(keys)
        if not same_landmarks:
            for envs in list(self._groups):
                self._keep(self._unseen(envs))

    def state(self) -> dict[str, Array]:
        """Plain arrays: keys of the landmarks and the history of every environment."""
        everybody = self._gathered(sorted(self._group_of))
        # How many were seen, and the place of the oldest in the history.
        rings = np.array([everybody.seen, [0] * len(everybody.seen)], dtype=np.int64)
        psi, rest = self.rows.cpu().split([self._dim - self.metric.extra, self.metric.extra], dim=1)
        return {
            "psi": psi.numpy().copy(),
            "history": everybody.planes()[0].cpu().numpy(),
            "rings": rings.reshape(2, -1),
            **({"metric_keys": rest.numpy().copy()} if self.metric.extra else {}),
        }

    def load_state(self, state: dict[str, Array]) -> None:
        """Take up arrays made by `state`."""
        parts = [state["psi"], state["metric_keys"]] if self.metric.extra else [state["psi"]]
        self.set_rows(torch.from_numpy(np.concatenate(parts, axis=1)), same_landmarks=False)
        seen, oldest = state["rings"]
        order = (np.arange(self.window)[:, None] + oldest) % self.window  # [W, environments]
        history = torch.from_numpy(state["history"][order, np.arange(len(seen))]).to(self.device)
        self._groups.clear()
        self._group_of.clear()
        if len(seen):
            self._keep(SlidingGroup(range(len(seen)), history, history.sort(dim=0).values, seen.tolist()))

    def reset(self, env_index: int) -> None:
        """An episode of this environment starts: similarities of another place say nothing here."""
        if env_index not in self._group_of:
            self._keep(self._unseen(range(len(self._group_of), env_index + 1)))
        self._group_of[env_index].reset(env_index)

    def similarity(self, keys: Tensor) -> Tensor:
        """Nearness [B, L] of states with keys [B, K] to all landmarks."""
        return self.metric.table(keys, self._laid)

    def smooth(self, similarity: Tensor, env_indices: Array) -> Tensor:
        """Median over the last W similarities [B, L]; the newest alone until W were seen in the episode.

        The similarities are kept as they are, not copied: the caller must not change them afterwards.
        """
        if self.window == 1:
            return similarity
        envs = tuple(env_indices.tolist())
        return (self._groups.get(envs) or self._regroup(envs)).slide(similarity)

    def _regroup(self, envs: tuple[int, ...]) -> SlidingGroup:
        """Those who come together are a group from here on, and so are those whom they leave behind."""
        group, torn = self._gathered(envs), {self._group_of[env].envs for env in envs}
        for old in torn:
            rest = tuple(env for env in old if env not in envs)
            kept = self._gathered(rest) if rest else None
            del self._groups[old]
            if kept is not None:
                self._keep(kept)
        self._keep(group)
        return group

    def _keep(self, group: SlidingGroup) -> None:
        self._groups[group.envs] = group
        self._group_of |= dict.fromkeys(group.envs, group)

    def _gathered(self, envs: Sequence[int]) -> SlidingGroup:
        """A group of these environments with what they have seen in theirs."""
        if not envs:
            return self._unseen(envs)
        groups = list({id(group): group for group in (self._group_of[env] for env in envs)}.values())
        places = {env: place for place, env in enumerate(env for group in groups for env in group.envs)}
        rows = [places[env] for env in envs]
        seen = [count for group in groups for count in group.seen]
        history, ordered = (
            torch.cat(planes, dim=1)[:, rows] for planes in zip(*(group.planes() for group in groups), strict=True)
        )
        return SlidingGroup(envs, history, ordered, [seen[row] for row in rows])

    def _unseen(self, envs: Sequence[int]) -> SlidingGroup:
        """A group that has seen nothing yet."""
        nothing = torch.full((self.window, len(envs), self._count), UNSEEN, device=self.device)
        return SlidingGroup(envs, nothing, nothing.clone(), [0] * len(envs))


class SlidingGroup:
    """Environments that come together: their last W similarities, and the same sorted."""

    def __init__(self, envs: Sequence[int], history: Tensor, ordered: Tensor, seen: list[int]) -> None:
        """`history` [W, environments, L], oldest first; `ordered` the same sorted, which becomes the group's own."""
        self.envs, self.seen = tuple(envs), seen  # seen: of each environment in its episode, counted up to W
        self._ring = list(history.unbind(0))  # an index into a tensor costs as much as the arithmetic on it
        self._oldest = 0
        self._ordered = OrderedWindow(ordered)
        self._all_ripe = min(seen, default=0) >= len(history)
        self._begun: set[int] = set()  # rows of environments whose history is to be forgotten

    def reset(self, env: int) -> None:
        """What this environment has seen does not count any more; done for all such at once when it matters."""
        row = self.envs.index(env)
        self.seen[row] = 0
        self._begun.add(row)
        self._all_ripe = False

    def planes(self) -> tuple[Tensor, Tensor]:
        """Copies of the history [W, environments, L], oldest first, and of the same sorted."""
        self._forget()
        return torch.stack(self._ring[self._oldest :] + self._ring[: self._oldest]), self._ordered.planes.clone()

    def slide(self, similarity: Tensor) -> Tensor:
        """The newest similarities [B, L] come and the oldest go; the medians, or the newest where W were not seen."""
        self._forget()
        self._ordered.remove(self._ring[self._oldest])
        self._ring[self._oldest] = similarity
        self._oldest = (self._oldest + 1) % len(self._ring)
        medians = self._ordered.insert(similarity)
        return medians if self._all_ripe else self._newest_of_young(medians, similarity)

    def _newest_of_young(self, medians: Tensor, newest: Tensor) -> Tensor:
        window = len(self._ring)
        self.seen = [min(count + 1, window) for count in self.seen]
        self._all_ripe = min(self.seen) >= window
        young = to_device(np.array(self.seen) < window, newest.device)
        return torch.where(young.unsqueeze(1), newest, medians)

    def _forget(self) -> None:
        if not self._begun:
            return
        rows = to_device(np.array(sorted(self._begun)), self._ring[0].device)
        for plane in (*self._ring, *self._ordered.planes.unbind(0)):
            plane.index_fill_(0, rows, UNSEEN)
        self._begun.clear()


class OrderedWindow:
    """The last W values of many series, sorted; one goes and one comes in a few operations, without sorting."""

    def __init__(self, planes: Tensor) -> None:
        """`planes` [W, ...], sorted; they are changed in place."""
        window = len(planes)
        self.planes = planes
        self._lower, self._upper = planes[:-1], planes[1:]
        self._low, self._high = planes[(window - 1) // 2], planes[window // 2]
        rest = torch.full((window + 1, *planes.shape[1:]), UNSEEN, device=planes.device)
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
        torch.clamp(value, self._below, self._above, out=self.planes)
        return torch.lerp(self._low, self._high, 0.5)
