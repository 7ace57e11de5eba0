"""Grids through an encoder that learns: each distinct observation, and each distinct window of the grid, once.

The plain twin of `encode_distinct` is the encoder itself, of all rows of a batch. First the windows that two stacked
convolutions see, then the encoding of what a store has in some of its slots, then features that are kept while the
encoder stands still.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor

from sfl.api import Array
from sfl.nn.encoders import Encoder, GridEncoder, scale_to_norm
from sfl.replay.store import DistinctStore, distinct

# ---- Distinct windows of grid observations.
#
# The paper's MiniGrid encoder is a 3x3 convolution with stride 2 followed by a 3x3 convolution with stride 1, so each
# of its output cells sees a 7x7 window of the grid, made of nine 3x3 patches. Between two observations only the agent
# and a door change: nearly all windows are shared. Computing each once is exact and several times cheaper.

STRIDE = 2
PATCH = 3
WINDOW = PATCH + 2 * STRIDE  # 3 patches side by side, each 2 cells further
CAPACITY = 100_000


class WindowTable:
    """For each observation slot the numbers of its windows; for each window the numbers of its nine patches."""

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self._shape, self._dtype = (WINDOW, WINDOW, shape[2]), dtype
        self.columns = (shape[0] - WINDOW) // STRIDE + 1
        self.rows = (shape[1] - WINDOW) // STRIDE + 1
        self.full = False
        self._of_slot = np.zeros((64, self.columns * self.rows), dtype=np.int64)
        self._windows: dict[bytes, int] = {}
        self._patches: dict[bytes, int] = {}
        self._patches_of = np.zeros((64, PATCH * PATCH), dtype=np.int64)
        self._patch_values = np.zeros((64, PATCH * PATCH * shape[2]), dtype=np.float32)

    def set(self, slot: int, grid: Array) -> None:
        """Note the windows of the observation [W, H, C] that a slot now holds."""
        if self.full:
            return
        while slot >= len(self._of_slot):
            self._of_slot = np.concatenate([self._of_slot, np.zeros_like(self._of_slot)])
        views = sliding_window_view(grid, (WINDOW, WINDOW), axis=(0, 1))[::STRIDE, ::STRIDE]
        windows = np.moveaxis(views, 2, -1).reshape(self.columns * self.rows, WINDOW, WINDOW, -1)
        for position, window in enumerate(windows):
            self._of_slot[slot, position] = self._number(window)
        # A world without repetition would grow the table for ever: the caller encodes plainly from here on.
        self.full = len(self._windows) > CAPACITY

    def state(self) -> dict[str, Array]:
        """Every distinct window in the order of its number."""
        return {"windows": np.frombuffer(b"".join(self._windows), self._dtype)}

    def load_state(self, state: dict[str, Array]) -> None:
        """Number the windows as they were."""
        for window in state["windows"].reshape(-1, *self._shape):
            self._number(window)

    def windows_of(self, slots: Array) -> Array:
        """Window numbers [N, columns * rows]."""
        return np.asarray(self._of_slot[slots])

    def patches_of(self, windows: Array) -> Array:
        """Patch numbers [M, 9] of window numbers [M]."""
        return np.asarray(self._patches_of[windows])

    @property
    def patch_values(self) -> Array:
        """Every distinct patch, [P, 3 * 3 * C], as numbers for the first convolution."""
        return self._patch_values[: len(self._patches)]

    def _number(self, window: Array) -> int:
        key = window.tobytes()
        number = self._windows.get(key)
        if number is None:
            number = self._windows[key] = len(self._windows)
            if number == len(self._patches_of):
                self._patches_of = np.concatenate([self._patches_of, np.zeros_like(self._patches_of)])
            corners = [(x * STRIDE, y * STRIDE) for x in range(PATCH) for y in range(PATCH)]
            self._patches_of[number] = [self._patch_number(window[x : x + PATCH, y : y + PATCH]) for x, y in corners]
        return number

    def _patch_number(self, patch: Array) -> int:
        key = patch.tobytes()
        number = self._patches.get(key)
        if number is None:
            number = self._patches[key] = len(self._patches)
            if number == len(self._patch_values):
                self._patch_values = np.concatenate([self._patch_values, np.zeros_like(self._patch_values)])
            self._patch_values[number] = patch.reshape(-1)
        return number


def encode_distinct(encoder: Encoder, store: DistinctStore, slots: Array, device: torch.device) -> Tensor:
    """Features [U, F] of the observations in distinct slots [U], as the encoder gives them; autograd goes through."""
    windows = store.windows
    if not isinstance(windows, WindowTable) or windows.full or not isinstance(encoder, GridEncoder):
        features: Tensor = encoder(torch.from_numpy(store.rows(slots)).to(device))
        return features
    used, places = distinct(windows.windows_of(slots))
    values, patches_of = windows.patch_values, windows.patches_of(used)
    return encode_windows(encoder, *(torch.from_numpy(part).to(device) for part in (values, patches_of, places)))


def encode_windows(encoder: GridEncoder, patches: Tensor, patches_of: Tensor, windows_of: Tensor) -> Tensor:
    """Features [U, F] of grids, given their distinct patches [P, 9 * C], numbers of the nine patches of each distinct
    window [M, 9], and the numbers of the windows of each grid [U, cells]."""
    first = encoder.conv1.of_patches(patches)  # [P, 32]
    inputs = first.index_select(0, patches_of.flatten()).view(len(patches_of), -1)  # [M, 9 * 32]
    second = encoder.conv2.of_patches(inputs)  # [M, 32]
    cells = second.index_select(0, windows_of.flatten()).view(len(windows_of), -1)  # [U, cells * 32]
    return scale_to_norm(encoder.linear(cells), encoder.norm)


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
