"""Encoders phi(s): observation to feature vector of fixed norm."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfl.api import EncoderKind, encoder_kind


class PatchConvolution(nn.Module):
    """A 3x3 convolution whose weights [9 * inputs, outputs] also serve patches that were cut out beforehand."""

    SIZE = 3

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        fan_in = self.SIZE**2 * inputs
        bound = fan_in**-0.5  # as nn.Conv2d begins
        self.weight = nn.Parameter(torch.empty(fan_in, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))

    def forward(self, pictures: Tensor) -> Tensor:
        """Pictures [B, inputs, W, H] to [B, outputs, w, h]."""
        kernel = self.weight.unflatten(0, (self.SIZE, self.SIZE, -1)).permute(3, 2, 0, 1)
        return functional.conv2d(pictures, kernel, self.bias, self.stride)

    def of_patches(self, patches: Tensor) -> Tensor:
        """ReLU of the convolution of patches [N, 9 * inputs], [N, outputs]."""
        return torch.addmm(self.bias, patches, self.weight).relu_()


class GridEncoder(nn.Module):
    """The paper's MiniGrid encoder (appendix, feature learning) for observations [W, H, C].

    3x3 convolution with stride 2, ReLU, 3x3 convolution with stride 1, ReLU, linear; the output has norm `norm`.
    """

    def __init__(self, shape: tuple[int, ...], dim: int, norm: float, channels: int = 32) -> None:
        super().__init__()
        width, height, depth = shape
        self.norm = norm
        self.conv1 = PatchConvolution(depth, channels, stride=2)
        self.conv2 = PatchConvolution(channels, channels, stride=1)
        cells = ((width - 3) // 2 - 1) * ((height - 3) // 2 - 1)
        self.linear = nn.Linear(cells * channels, dim)

    def forward(self, observations: Tensor) -> Tensor:
        """Observations [B, W, H, C] to features [B, F]."""
        hidden = observations.float().permute(0, 3, 1, 2)
        hidden = functional.relu(self.conv2(functional.relu(self.conv1(hidden))))  # [B, 32, w, h]
        return scale_to_norm(self.linear(hidden.permute(0, 2, 3, 1).flatten(1)), self.norm)


class PictureEncoder(nn.Module):
    """For pictures [H, W, C] larger than a grid: the same idea with strides that keep the cost bounded."""

    def __init__(self, shape: tuple[int, ...], dim: int, norm: float, channels: int = 32) -> None:
        super().__init__()
        self.norm = norm
        self.convolutions = nn.Sequential(
            nn.Conv2d(shape[2], channels, 5, stride=3, padding=2),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
        )
        with torch.no_grad():
            size = self.convolutions(torch.zeros(1, shape[2], shape[0], shape[1])).shape[1]
        self.linear = nn.Linear(size, dim)

    def forward(self, observations: Tensor) -> Tensor:
        """Observations [B, H, W, C] of bytes to features [B, F]."""
        pixels = observations.float().permute(0, 3, 1, 2) / 255.0
        return scale_to_norm(self.linear(self.convolutions(pixels)), self.norm)


class VectorEncoder(nn.Module):
    """For observations that are vectors of numbers."""

    def __init__(self, shape: tuple[int, ...], dim: int, norm: float, hidden: int = 256) -> None:
        super().__init__()
        self.norm = norm
        inputs = 1
        for size in shape:
            inputs *= size
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        )
        self.linear = nn.Linear(hidden, dim)

    def forward(self, observations: Tensor) -> Tensor:
        """Observations [B, ...] to features [B, F]."""
        return scale_to_norm(self.linear(self.layers(observations.float())), self.norm)


Encoder = GridEncoder | PictureEncoder | VectorEncoder


def make_encoder(shape: tuple[int, ...], dim: int, norm: float) -> Encoder:
    """The encoder that fits the shape of the observations."""
    kinds: dict[EncoderKind, type[Encoder]] = {"grid": GridEncoder, "picture": PictureEncoder, "vector": VectorEncoder}
    return kinds[encoder_kind(shape)](shape, dim, norm)


def scale_to_norm(features: Tensor, norm: float) -> Tensor:
    """Each row scaled to the given Euclidean norm."""
    lengths: Tensor = features.norm(dim=1, keepdim=True)
    return features * (norm / lengths.clamp_min(1e-8))
