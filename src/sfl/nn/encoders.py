"""Encoders phi(s): observation to feature vector of fixed norm."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfl.api import EncoderKind, encoder_kind
from sfl.fast.layers import Pull, PullThrough, set_gradient, set_gradient_product


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

    def pull(self, gradient: Tensor, output: Tensor, patches: Tensor) -> Tensor:
        """Set the gradients, given that by `output` = of_patches(patches); returns that by the sums before ReLU."""
        by_sum = torch.ops.aten.threshold_backward(gradient, output, 0)
        set_gradient_product(self.weight, patches.mT, by_sum)
        set_gradient(self.bias, by_sum.sum(0))
        return by_sum  # type: ignore[no-any-return]


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

    @torch.inference_mode()
    def forward_windows(
        self, patches: Tensor, patches_of: Tensor, windows_of: Tensor, varying: Tensor | None = None
    ) -> tuple[Tensor, Pull]:
        """The same features from distinct windows (`sfl.fast.windows`), each computed once, and their pull.

        patches [P, 9 * C]; patches_of [M, 9] for each distinct window; windows_of [B, cells]; `varying` [V]: all cells
        that are not the same in every row, where that is known and worth something.
        """
        patch_rows = patches_of.flatten()
        first = self.conv1.of_patches(patches)  # [P, 32]
        inputs = first.index_select(0, patch_rows).view(len(patches_of), -1)  # [M, 9 * 32]
        second = self.conv2.of_patches(inputs)  # [M, 32]
        if varying is None:
            raw, pull_linear = _train_cells(self.linear, second, windows_of)
        else:
            raw, pull_linear = _train_varying_cells(self.linear, second, windows_of, varying)
        stretch = self.norm / raw.norm(dim=1, keepdim=True).clamp_min_(1e-8)
        features = raw * stretch

        @torch.inference_mode()
        def pull(gradient: Tensor) -> None:
            along = (gradient * features).sum(1, keepdim=True) / self.norm**2
            by_raw = (gradient - along * features) * stretch
            by_second = pull_linear(by_raw)
            by_inputs = self.conv2.pull(by_second, second, inputs) @ self.conv2.weight.mT
            by_first = torch.zeros_like(first).index_add_(0, patch_rows, by_inputs.view(-1, first.shape[1]))
            self.conv1.pull(by_first, first, patches)

        return features, pull


def _train_cells(linear: nn.Linear, windows: Tensor, windows_of: Tensor) -> tuple[Tensor, PullThrough]:
    """A linear layer over the windows [M, C] of all cells, given their numbers [B, cells]; output [B, F] and pull."""
    rows = windows_of.flatten()
    cells = windows.index_select(0, rows).view(len(windows_of), -1)  # [B, cells * C]

    def pull(gradient: Tensor) -> Tensor:
        set_gradient_product(linear.weight, gradient.mT, cells)
        set_gradient(linear.bias, gradient.sum(0))
        by_cells = (gradient @ linear.weight).view(-1, windows.shape[1])
        return torch.zeros_like(windows).index_add_(0, rows, by_cells)

    return linear(cells), pull


def _train_varying_cells(
    linear: nn.Linear, windows: Tensor, windows_of: Tensor, varying: Tensor
) -> tuple[Tensor, PullThrough]:
    """The same where only some cells [V] vary: the layer sees one row, and how the others differ from it.

    In a maze that fills a part of its grid, most cells show the same walls in every row.
    """
    channels, size = windows.shape[1], linear.out_features
    rows = windows_of.index_select(1, varying).flatten()
    one = windows.index_select(0, windows_of[0])  # [cells, C]
    apart = windows.index_select(0, rows).view(len(windows_of), -1, channels) - one.index_select(0, varying)
    differences = apart.flatten(1)  # [B, V * C]
    weight = linear.weight.view(size, -1, channels).index_select(1, varying).view(size, -1)  # [F, V * C]

    def pull(gradient: Tensor) -> Tensor:
        total = gradient.sum(0)
        set_gradient_product(linear.weight, total.unsqueeze(1), one.view(1, -1))
        assert linear.weight.grad is not None
        by_weight = linear.weight.grad.view(size, -1, channels)
        by_weight.index_add_(1, varying, (gradient.mT @ differences).view(size, -1, channels))
        set_gradient(linear.bias, total)
        by_one = (total @ linear.weight).view(-1, channels).index_fill_(0, varying, 0.0)  # cells that vary are below
        by_windows = torch.zeros_like(windows).index_add_(0, windows_of[0], by_one)
        return by_windows.index_add_(0, rows, (gradient @ weight).view(-1, channels))

    return linear(one.flatten()) + differences @ weight.mT, pull


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
