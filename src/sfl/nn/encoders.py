"""Encoders phi(s): observation to feature vector of fixed norm."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfl.nn.pullback import Pull, accumulate, accumulate_product


class GridEncoder(nn.Module):
    """The paper's MiniGrid encoder (appendix, feature learning) for observations [W, H, C].

    3x3 convolution with stride 2, ReLU, 3x3 convolution with stride 1, ReLU, linear; the output has norm `norm`.
    """

    def __init__(self, shape: tuple[int, ...], dim: int, norm: float, channels: int = 32) -> None:
        super().__init__()
        width, height, depth = shape
        self.norm = norm
        self.conv1 = nn.Conv2d(depth, channels, 3, stride=2)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride=1)
        cells = ((width - 3) // 2 - 1) * ((height - 3) // 2 - 1)
        self.linear = nn.Linear(cells * channels, dim)

    def forward(self, observations: Tensor) -> Tensor:
        """Observations [B, W, H, C] to features [B, F]."""
        hidden = observations.float().permute(0, 3, 1, 2)
        hidden = functional.relu(self.conv2(functional.relu(self.conv1(hidden))))  # [B, 32, w, h]
        return self._head(hidden.permute(0, 2, 3, 1))

    @torch.no_grad()
    def forward_windows(self, patches: Tensor, patches_of: Tensor, windows_of: Tensor) -> tuple[Tensor, Pull]:
        """The same features from distinct windows (`sfl.data.windows`), each computed once, and their pull.

        patches [P, 9 * C]; patches_of [M, 9] for each distinct window; windows_of [B, cells].
        """
        patch_rows, window_rows = patches_of.flatten(), windows_of.flatten()
        weight1, weight2 = (conv.weight.permute(0, 2, 3, 1).flatten(1) for conv in (self.conv1, self.conv2))
        first = functional.linear(patches, weight1, self.conv1.bias).relu_()  # [P, 32]
        inputs = first.index_select(0, patch_rows).view(len(patches_of), -1)  # [M, 9 * 32]
        second = functional.linear(inputs, weight2, self.conv2.bias).relu_()  # [M, 32]
        cells = second.index_select(0, window_rows).view(len(windows_of), -1)  # [B, cells * 32]
        raw = self.linear(cells)
        stretch = self.norm / raw.norm(dim=1, keepdim=True).clamp_min(1e-8)
        features = raw * stretch

        @torch.no_grad()
        def pull(gradient: Tensor) -> None:
            along = (gradient * features).sum(1, keepdim=True) / self.norm**2
            by_raw = (gradient - along * features) * stretch
            accumulate_product(self.linear.weight, by_raw.mT, cells)
            accumulate(self.linear.bias, by_raw.sum(0))
            by_cells = (by_raw @ self.linear.weight).view(-1, second.shape[1])
            by_second = torch.zeros_like(second).index_add_(0, window_rows, by_cells).mul_(second > 0)
            self._pull_convolution(self.conv2, by_second, inputs)
            by_inputs = (by_second @ weight2).view(-1, first.shape[1])
            by_first = torch.zeros_like(first).index_add_(0, patch_rows, by_inputs).mul_(first > 0)
            self._pull_convolution(self.conv1, by_first, patches)

        return features, pull

    @staticmethod
    def _pull_convolution(convolution: nn.Conv2d, by_output: Tensor, inputs: Tensor) -> None:
        channels, depth, height, width = convolution.weight.shape
        by_weight = (by_output.mT @ inputs).view(channels, height, width, depth).permute(0, 3, 1, 2)
        accumulate(convolution.weight, by_weight)
        assert convolution.bias is not None
        accumulate(convolution.bias, by_output.sum(0))

    def _head(self, cells: Tensor) -> Tensor:
        return scale_to_norm(self.linear(cells.flatten(1)), self.norm)


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

GRID_SIDES = (7, 40)
"""Sides for which an observation with three axes counts as a grid of symbols."""


def make_encoder(shape: tuple[int, ...], dim: int, norm: float) -> Encoder:
    """The encoder that fits the shape of the observations."""
    if len(shape) == 3 and all(GRID_SIDES[0] <= side <= GRID_SIDES[1] for side in shape[:2]):
        return GridEncoder(shape, dim, norm)
    if len(shape) == 3 and min(shape[:2]) > GRID_SIDES[1]:
        return PictureEncoder(shape, dim, norm)
    return VectorEncoder(shape, dim, norm)


def scale_to_norm(features: Tensor, norm: float) -> Tensor:
    """Each row scaled to the given Euclidean norm."""
    lengths: Tensor = features.norm(dim=1, keepdim=True)
    return features * (norm / lengths.clamp_min(1e-8))
