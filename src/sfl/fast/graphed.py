"""Gradient steps over batches of one shape, which a GPU replays as a graph; on the CPU they are plain calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from sfl.api import Array
from sfl.fast.cuda import Captured, to_device

Column = tuple[tuple[int, ...], torch.dtype]
"""What a row of a batch has in a column: its shape, and int32 or float32."""


class GraphedSteps:
    """`step(*columns)` for batches of B rows, whose columns [B, ...] lie where they are on the device.

    The columns of a batch travel as one row of 32-bit numbers, and several batches travel together.
    """

    def __init__(self, step: Callable[..., None], size: int, columns: Sequence[Column], device: torch.device) -> None:
        self._size, self._types = size, [kind for _, kind in columns]
        shapes = [(size, *shape) for shape, _ in columns]
        lengths = [math.prod(shape) for shape in shapes]
        room = (sum(math.prod(shape) for shape, _ in columns), size)  # torch itself says of two sizes that are too much
        self._input = torch.zeros(room, dtype=torch.int32, device=device).view(-1)
        parts = zip(self._input.split(lengths), shapes, self._types, strict=True)
        batch = [part.view(kind).view(shape) for part, shape, kind in parts]
        self._step = Captured(lambda: step(*batch), device)

    @property
    def is_captured(self) -> bool:
        """Whether calls replay a graph."""
        return self._step.is_captured

    def __call__(self, columns: Sequence[Array], count: Callable[[], None]) -> None:
        """A step for every B rows of columns [N, ...], and a call of `count` after each."""
        steps = len(columns[0]) // self._size
        numbers = [
            (column.view(np.int32) if kind == torch.float32 else column).reshape(steps, -1)
            for column, kind in zip(columns, self._types, strict=True)
        ]
        packed = np.concatenate(numbers, axis=1, dtype=np.int32, casting="unsafe")
        for row in to_device(packed, self._input.device).unbind(0):
            self._input.copy_(row)
            self._step()
            count()
