"""A fixed encoder at work."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from sfl.data.types import Array
from sfl.learners.device import Replayed, to_device
from sfl.nn.frame_encoders import FrameEncoder


class Eyes:
    """Frames to features; on a GPU in bf16."""

    def __init__(self, encoder: FrameEncoder, device: torch.device) -> None:
        self.dim, self._device = encoder.dim, device
        self._encoder = encoder if device.type == "cpu" else copy.deepcopy(encoder).to_half()
        self._encode = Replayed(lambda pixels: (self._encoder(pixels).float(),), device)

    @torch.no_grad()
    def __call__(self, frames: Array | Tensor) -> Tensor:
        """Features [B, F] of frames [B, 120, 160, 3] of bytes; good until the next call."""
        return self._encode(frames if isinstance(frames, Tensor) else to_device(frames, self._device))[0]
