"""Observations of a table through an encoder that learns, each distinct one once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from sfl.api import Array
from sfl.fast.layers import Pull, pull_autograd
from sfl.nn.encoders import Encoder, GridEncoder
from sfl.replay.store import DistinctStore, distinct


def encode_slots(
    encoder: Encoder, table: DistinctStore, slots: Array, device: torch.device, by_difference: bool = False
) -> tuple[Tensor, Pull]:
    """Features [U, F] of distinct observations in the table, and their pull for a gradient step.

    `by_difference` skips what all of them show alike, where that is most of a grid: the same sums in another order.
    """
    windows = table.windows
    if windows is None or windows.full or not isinstance(encoder, GridEncoder):
        features: Tensor = encoder(torch.from_numpy(table.rows(slots)).to(device))
        return features.detach(), pull_autograd(features, encoder)
    numbers = windows.windows_of(slots)
    used, places = distinct(numbers)
    varying = np.flatnonzero((numbers != numbers[0]).any(0))
    few = by_difference and 2 * len(varying) < numbers.shape[1]
    return encoder.forward_windows(
        torch.from_numpy(windows.patch_values).to(device),
        torch.from_numpy(windows.patches_of(used)).to(device),
        torch.from_numpy(places).to(device),
        torch.from_numpy(varying).to(device) if few else None,
    )


# ---- phi of the replay's observations, kept while the encoder stands still.


class FeatureCache:
    """One row per slot of an observation table; what is missing is encoded when it is asked for."""

    def __init__(self, dim: int, device: torch.device) -> None:
        self._rows = torch.zeros(64, dim, device=device)
        self._known = np.zeros(64, dtype=bool)

    def clear(self) -> None:
        """The encoder has changed."""
        self._known[:] = False

    def rows(self, table: DistinctStore, slots: Array, encode: Callable[[Array], Tensor]) -> Tensor:
        """Features [U, F] of distinct slots."""
        self._forget(table.take_written())
        self._make_room(int(slots.max()) + 1)
        missing = slots[~self._known[slots]]
        if len(missing):
            self._rows[torch.from_numpy(missing)] = encode(missing)
            self._known[missing] = True
        return self._rows.index_select(0, torch.from_numpy(slots).to(self._rows.device))

    def state(self) -> dict[str, Array]:
        """Plain arrays. They are kept because encoding again, in other company, may move the last bit."""
        return {"phi_rows": self._rows.cpu().numpy().copy(), "phi_known": self._known.copy()}

    def load_state(self, state: dict[str, Array]) -> None:
        """Take up arrays made by `state`."""
        self._rows = torch.from_numpy(state["phi_rows"].copy()).to(self._rows.device)
        self._known = state["phi_known"].copy()

    def _forget(self, slots: list[int]) -> None:
        inside = [slot for slot in slots if slot < len(self._known)]
        self._known[inside] = False

    def _make_room(self, size: int) -> None:
        while size > len(self._known):
            self._rows = torch.cat([self._rows, torch.zeros_like(self._rows)])
            self._known = np.concatenate([self._known, np.zeros_like(self._known)])
