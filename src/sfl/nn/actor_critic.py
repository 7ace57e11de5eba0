"""A policy and its value over one shared trunk."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from sfl.data.types import encoder_kind
from sfl.nn.encoders import make_encoder

SMALL_SIDE = 84
"""Pictures are looked at in this size, as in the networks that this trunk comes from (Mnih et al., 2015)."""


class PixelTrunk(nn.Module):
    """Three convolutions and a layer: pictures [B, 84, 84, C] of bytes to features [B, F]."""

    def __init__(self, channels: int, dim: int) -> None:
        super().__init__()
        convolutions = (nn.Conv2d(channels, 32, 8, 4), nn.Conv2d(32, 64, 4, 2), nn.Conv2d(64, 64, 3, 1))
        parts = [part for convolution in convolutions for part in (convolution, nn.ReLU())]
        self.layers = nn.Sequential(*parts, nn.Flatten(), nn.Linear(64 * 7 * 7, dim), nn.ReLU())
        for name, value in self.layers.named_parameters():
            if name.endswith("weight"):
                nn.init.orthogonal_(value, 2**0.5)
            else:
                nn.init.zeros_(value)

    def forward(self, pictures: Tensor) -> Tensor:
        """Features [B, F]."""
        features: Tensor = self.layers(pictures.permute(0, 3, 1, 2).float() / 255.0)
        return features


class ActorCritic(nn.Module):
    """Logits of the actions and the value of a state.

    A grid or a vector is read by the encoder of its shape, a picture by `PixelTrunk` at 84 x 84.
    """

    def __init__(self, shape: tuple[int, ...], action_count: int, dim: int) -> None:
        super().__init__()
        self._is_picture = encoder_kind(shape) == "picture"
        self.seen_shape = (SMALL_SIDE, SMALL_SIDE, shape[2]) if self._is_picture else shape
        # A norm of sqrt(F) makes each feature about 1 in size, as the heads' first weights expect.
        self.trunk = PixelTrunk(shape[2], dim) if self._is_picture else make_encoder(shape, dim, dim**0.5)
        self.policy, self.value = nn.Linear(dim, action_count), nn.Linear(dim, 1)
        for head, gain in ((self.policy, 0.01), (self.value, 1.0)):  # it begins nearly uniform
            nn.init.orthogonal_(head.weight, gain)
            nn.init.zeros_(head.bias)

    def see(self, observations: Tensor) -> Tensor:
        """What is kept of observations [B, ...] to learn from: pictures become small."""
        if not self._is_picture:
            return observations
        pixels = observations.permute(0, 3, 1, 2).float()
        small = functional.adaptive_avg_pool2d(pixels, SMALL_SIDE)
        return small.round_().byte().permute(0, 2, 3, 1).contiguous()

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [B, A] and values [B] of what `see` made of observations."""
        features = self.trunk(seen)
        return self.policy(features), self.value(features).squeeze(1)
