"""Distinct windows of grid observations: what two stacked convolutions see, each kept once.

The paper's MiniGrid encoder is a 3x3 convolution with stride 2 followed by a 3x3 convolution with stride 1, so each of
its output cells sees a 7x7 window of the grid, made of nine 3x3 patches. Between two observations only the agent and a
door change: nearly all windows are shared. Computing each distinct window once is exact and several times cheaper.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from sfl.api import Array

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
