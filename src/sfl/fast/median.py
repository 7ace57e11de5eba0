"""Medians over the last W steps of many series (Eq. 12), without sorting them anew at every step.

`plain_median` says what is computed. `SlidingMedian` computes the same for the series of several environments, which
may come in any order and number: it keeps the last W rows of each sorted, takes the oldest out and puts the newest in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sfl.api import Array
from sfl.fast.cuda import to_device

UNSEEN = 1e9
"""Stands for a value not seen yet: above every cosine, and finite, because it takes part in differences."""


def plain_median(episode: Sequence[Tensor], window: int) -> Tensor:
    """The median over the last `window` rows [L] of an episode; the newest row until there are so many.

    Of an even number of rows it is the mean of the two in the middle.
    """
    if len(episode) < window:
        return episode[-1]
    ordered = torch.stack(list(episode[-window:])).sort(dim=0).values
    return (ordered[(window - 1) // 2] + ordered[window // 2]) / 2


class SlidingMedian:
    """`plain_median` for several environments at once, each with its own last W rows."""

    def __init__(self, window: int, device: torch.device) -> None:
        self.window, self._device = window, device
        self._length = 0  # L, the series of each environment
        self._groups: dict[tuple[int, ...], _Group] = {}  # environments that come together
        self._group_of: dict[int, _Group] = {}

    def begin_episode(self, env_index: int) -> None:
        """Rows of this environment's last episode count no more."""
        if env_index not in self._group_of:
            self._keep(self._unseen(range(len(self._group_of), env_index + 1)))
        self._group_of[env_index].forget(env_index)

    def restart(self, length: int) -> None:
        """Rows of other series come from here on, [L] each: nothing has been seen of them."""
        self._length = length
        for envs in list(self._groups):
            self._keep(self._unseen(envs))

    def slide(self, rows: Tensor, env_indices: Array) -> Tensor:
        """Medians [B, L] over the last W rows of environments, given their newest [B, L].

        The rows are kept as they are, not copied: the caller must not change them afterwards.
        """
        if self.window == 1:
            return rows
        envs = tuple(env_indices.tolist())
        return (self._groups.get(envs) or self._regroup(envs)).slide(rows)

    def state(self) -> dict[str, Array]:
        """Plain arrays: the last W rows of every environment."""
        everybody = self._gathered(sorted(self._group_of))
        # How many were seen, and the place of the oldest in the history.
        rings = np.array([everybody.seen, [0] * len(everybody.seen)], dtype=np.int64)
        return {"history": everybody.planes()[0].cpu().numpy(), "rings": rings.reshape(2, -1)}

    def load_state(self, state: dict[str, Array], length: int) -> None:
        """Go on with arrays made by `state`, of series of this length."""
        self._length = length
        seen, oldest = state["rings"]
        order = (np.arange(self.window)[:, None] + oldest) % self.window  # [W, environments]
        history = torch.from_numpy(state["history"][order, np.arange(len(seen))]).to(self._device)
        self._groups.clear()
        self._group_of.clear()
        if len(seen):
            self._keep(_Group(range(len(seen)), history, history.sort(dim=0).values, seen.tolist()))

    def _regroup(self, envs: tuple[int, ...]) -> _Group:
        """Environments that come together become a group; those left behind in their old groups become others."""
        group, torn = self._gathered(envs), {self._group_of[env].envs for env in envs}
        for old in torn:
            rest = tuple(env for env in old if env not in envs)
            kept = self._gathered(rest) if rest else None
            del self._groups[old]
            if kept is not None:
                self._keep(kept)
        self._keep(group)
        return group

    def _keep(self, group: _Group) -> None:
        self._groups[group.envs] = group
        self._group_of |= dict.fromkeys(group.envs, group)

    def _gathered(self, envs: Sequence[int]) -> _Group:
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
        return _Group(envs, history, ordered, [seen[row] for row in rows])

    def _unseen(self, envs: Sequence[int]) -> _Group:
        """A group that has seen nothing yet."""
        nothing = torch.full((self.window, len(envs), self._length), UNSEEN, device=self._device)
        return _Group(envs, nothing, nothing.clone(), [0] * len(envs))


class _Group:
    """Environments that come together: their last W rows in the order of time, and the same sorted."""

    def __init__(self, envs: Sequence[int], history: Tensor, ordered: Tensor, seen: list[int]) -> None:
        """`history` [W, environments, L], oldest first; `ordered` the same sorted, which becomes the group's own."""
        self.envs, self.seen = tuple(envs), seen  # seen: rows of each environment in its episode, counted up to W
        self._ring = list(history.unbind(0))  # an index into a tensor costs as much as the arithmetic on it
        self._oldest = 0
        self._ordered = _OrderedWindow(ordered)
        self._all_full = min(seen, default=0) >= len(history)
        self._to_forget: set[int] = set()  # places in the group of environments that have begun an episode since

    def forget(self, env: int) -> None:
        """Rows of this environment count no more; done for all such at once when the next rows come."""
        place = self.envs.index(env)
        self.seen[place] = 0
        self._to_forget.add(place)
        self._all_full = False

    def planes(self) -> tuple[Tensor, Tensor]:
        """Copies of the history [W, environments, L], oldest first, and of the same sorted."""
        self._forget_begun()
        return torch.stack(self._ring[self._oldest :] + self._ring[: self._oldest]), self._ordered.planes.clone()

    def slide(self, rows: Tensor) -> Tensor:
        """The newest rows [B, L] come and the oldest go; medians, or the newest where fewer than W were seen."""
        self._forget_begun()
        self._ordered.remove(self._ring[self._oldest])
        self._ring[self._oldest] = rows
        self._oldest = (self._oldest + 1) % len(self._ring)
        medians = self._ordered.insert(rows)
        if self._all_full:
            return medians
        window = len(self._ring)
        self.seen = [min(count + 1, window) for count in self.seen]
        self._all_full = min(self.seen) >= window
        too_few = to_device(np.array(self.seen) < window, rows.device)
        return torch.where(too_few.unsqueeze(1), rows, medians)

    def _forget_begun(self) -> None:
        if not self._to_forget:
            return
        places = to_device(np.array(sorted(self._to_forget)), self._ring[0].device)
        for plane in (*self._ring, *self._ordered.planes.unbind(0)):
            plane.index_fill_(0, places, UNSEEN)
        self._to_forget.clear()


class _OrderedWindow:
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
