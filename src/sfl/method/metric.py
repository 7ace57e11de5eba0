"""How near two states are, by the rows of numbers that they are known by: their keys."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from sfl.baselines.networks import FixedHead
from sfl.method.successor import sfs


class Metric(Protocol):
    """Compares states by their keys. A key begins with the state's unit psi, which is what the local policy follows."""

    extra: int
    """Numbers of a key behind its unit psi."""

    def lay_out(self, rows: Tensor) -> Tensor:
        """Keys [L, K] of landmarks as `table` wants them."""

    def rows(self, laid: Tensor) -> Tensor:
        """The keys [L, K] again."""

    def table(self, keys: Tensor, laid: Tensor) -> Tensor:
        """How near states of keys [B, K] are to the landmarks, [B, L]."""

    def between(self, keys: Tensor, others: Tensor) -> Tensor:
        """The same [B, N] for keys [N, K] that are not laid out."""

    def each(self, keys: Tensor, others: Tensor) -> Tensor:
        """How near each state is to the one in the same row, [B]."""


class Cosine(Metric):
    """SFS: the cosine of psi. The key is unit psi and nothing else."""

    extra = 0

    def lay_out(self, rows: Tensor) -> Tensor:
        """A column for each landmark: the product with few states is then up to twice as fast."""
        return rows.mT.contiguous()

    def rows(self, laid: Tensor) -> Tensor:
        """The keys [L, F] again."""
        return laid.mT

    def table(self, keys: Tensor, laid: Tensor) -> Tensor:
        """SFS [B, L] of unit psi [B, F]."""
        return torch.mm(keys, laid)  # which looks less at its arguments than other products do

    def between(self, keys: Tensor, others: Tensor) -> Tensor:
        """SFS [B, N] of unit psi [B, F] and [N, F]."""
        return sfs(keys, others)

    def each(self, keys: Tensor, others: Tensor) -> Tensor:
        """SFS [B] of the unit psi in the same rows."""
        return (keys * others).sum(1)


class Chance(Metric):
    """R: the chance that the second state is a few decisions from the first.

    Behind unit psi a key has the halves of R's head (`FixedHead.halves`).
    """

    def __init__(self, head: FixedHead) -> None:
        self._head, self.extra = head, 2 * head.size

    def lay_out(self, rows: Tensor) -> Tensor:
        """As they are, each in one piece."""
        return rows.contiguous()

    def rows(self, laid: Tensor) -> Tensor:
        """As they are."""
        return laid

    def table(self, keys: Tensor, laid: Tensor) -> Tensor:
        """Chance [B, L]."""
        return self.between(keys, laid)

    def between(self, keys: Tensor, others: Tensor) -> Tensor:
        """Chance [B, N]."""
        return self._head.table(keys[:, -self.extra :], others[:, -self.extra :])

    def each(self, keys: Tensor, others: Tensor) -> Tensor:
        """Chance [B]."""
        return self._head.each(keys[:, -self.extra :], others[:, -self.extra :])
