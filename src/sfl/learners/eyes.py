"""A fixed encoder at work."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from sfl.data.types import Array
from sfl.learners.device import Captured, to_device
from sfl.nn.frame_encoders import FrameEncoder


class Eyes:
    """Frames to features. On a GPU in bf16, and for batch sizes that come again as a CUDA graph each."""

    GRAPH_LIMIT = 16
    """Batch sizes with a graph; games of an evaluation end one by one, and every number of them comes a few times."""

    def __init__(self, encoder: FrameEncoder, device: torch.device) -> None:
        self.dim, self._device = encoder.dim, device
        self._encoder = encoder if device.type == "cpu" else copy.deepcopy(encoder).to_half()
        self._graphs: dict[int, _Glance] = {}

    @torch.no_grad()
    def __call__(self, frames: Array) -> Tensor:
        """Features [B, F] of frames [B, 120, 160, 3] of bytes."""
        pixels = to_device(frames, self._device)
        if self._device.type == "cpu" or (len(frames) not in self._graphs and len(self._graphs) == self.GRAPH_LIMIT):
            features: Tensor = self._encoder(pixels)
            return features
        if len(frames) not in self._graphs:
            self._graphs[len(frames)] = _Glance(self._encoder, pixels)
        return self._graphs[len(frames)](pixels)


class _Glance:
    """The encoder for one batch size: the same places in memory for frames and features every time."""

    def __init__(self, encoder: FrameEncoder, pixels: Tensor) -> None:
        self._encoder, self._pixels = encoder, pixels.clone()
        self._features = torch.zeros(len(pixels), encoder.dim, device=pixels.device)
        self._look = Captured(self._encode, pixels.device)

    def __call__(self, pixels: Tensor) -> Tensor:
        self._pixels.copy_(pixels)
        self._look()
        return self._features.clone()

    def _encode(self) -> None:
        self._features.copy_(self._encoder(self._pixels))
