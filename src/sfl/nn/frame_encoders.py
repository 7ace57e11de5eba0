"""Encoders of first-person frames: one frame [120, 160, 3] to one feature vector.

`resnet18` is the paper's network, `place` ours, and `compact` ours for CPUs. While they learn, convolutions are
followed by batch normalization; `FrameEncoder.folded` turns both into plain convolutions, and so they are kept.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_weights

from sfl.errors import UsageError
from sfl.nn import FRAME_SIZE, HALF_SIZE, Kind
from sfl.nn.encoders import make_encoder

RGB = 3
"""Channels of one frame."""


def halve(frames: Tensor) -> Tensor:
    """Frames [B, H, W, C] of bytes at half the size: each pixel the mean of four, as bytes."""
    pixels = frames.permute(0, 3, 1, 2)
    if frames.device.type == "cpu":
        # Half way between four pixels, this is their mean (or 1 off), and six times faster than pooling.
        small = functional.interpolate(pixels, scale_factor=0.5, mode="bilinear", align_corners=False)
    else:
        small = functional.avg_pool2d(pixels.float(), 2).round_().byte()
    return small.permute(0, 2, 3, 1)


class Convolution(nn.Module):
    """A convolution that keeps the middle in place, with batch normalization or, folded, with a bias."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int, normalised: bool) -> None:
        super().__init__()
        # Even sizes: as much less on either side as makes inputs and outputs share their centre.
        padding = size // 2 if size % 2 else (size - stride) // 2
        self.conv = nn.Conv2d(inputs, outputs, size, stride, padding, bias=not normalised)
        self.norm = nn.BatchNorm2d(outputs) if normalised else None

    def forward(self, pixels: Tensor) -> Tensor:
        """[B, inputs, H, W] to [B, outputs, H / stride, W / stride]."""
        hidden: Tensor = self.conv(pixels)
        return hidden if self.norm is None else self.norm(hidden)

    def take(self, source: nn.Module) -> None:
        """Become what another convolution is, without its batch normalization."""
        assert isinstance(source, Convolution)
        if source.norm is None:
            self.load_state_dict(source.state_dict())
            return
        norm = source.norm
        assert norm.running_mean is not None
        assert norm.running_var is not None
        weight, bias = fuse_conv_bn_weights(
            source.conv.weight, None, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
        )
        self.conv.load_state_dict({"weight": weight, "bias": bias})


class Residual(nn.Module):
    """Two 3x3 convolutions beside a shortcut (He et al., 2016), the first one with the stride."""

    def __init__(self, inputs: int, outputs: int, stride: int, normalised: bool) -> None:
        super().__init__()
        self.first = Convolution(inputs, outputs, 3, stride, normalised)
        self.second = Convolution(outputs, outputs, 3, 1, normalised)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else Convolution(inputs, outputs, 1, stride, normalised)

    def forward(self, pixels: Tensor) -> Tensor:
        """[B, inputs, H, W] to [B, outputs, H / stride, W / stride]."""
        hidden = self.second(functional.relu(self.first(pixels)))
        return functional.relu(hidden + self.shortcut(pixels))


def _resnet18(channels: int, dim: int, normalised: bool) -> nn.Sequential:
    """ResNet-18 with linear outputs, as in SPTM's reachability network."""
    widths = ((64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2))
    blocks = [Residual(inputs, outputs, stride, normalised) for inputs, outputs, stride in (*widths, (512, 512, 1))]
    stem = [Convolution(channels, 64, 7, 2, normalised), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, dim))


def _place(channels: int, dim: int, normalised: bool) -> nn.Sequential:
    """Six residual blocks; where in the picture something is stays known to the last layer, unlike in ResNet-18."""
    widths = ((32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1))
    blocks = [Residual(inputs, outputs, stride, normalised) for inputs, outputs, stride in widths]
    stem = [Convolution(channels, 32, 5, 2, normalised), nn.ReLU()]
    squeeze = [Convolution(256, 48, 1, 1, normalised), nn.ReLU()]
    return nn.Sequential(*stem, *blocks, *squeeze, nn.Flatten(), nn.Linear(48 * 8 * 10, dim))


def _compact(channels: int, dim: int, normalised: bool) -> nn.Sequential:
    """Large strides first: most of the time of a small network goes into its large pictures."""
    layers: list[nn.Module] = []
    for inputs, outputs, size, stride in ((channels, 32, 6, 4), (32, 64, 3, 2), (64, 128, 3, 2), (128, 128, 3, 1)):
        layers += [Convolution(inputs, outputs, size, stride, normalised), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 4 * 5, dim))


@dataclass(frozen=True)
class _Plan:
    """What a kind of encoder is made of."""

    body: Callable[[int, int, bool], nn.Sequential]
    """Made of channels, features, and whether it has batch normalization."""
    dim: int
    size: tuple[int, int]
    """Height and width of the frames it looks at."""


_PLANS: dict[Kind, _Plan] = {
    "resnet18": _Plan(_resnet18, 512, FRAME_SIZE),
    "place": _Plan(_place, 256, FRAME_SIZE),
    "compact": _Plan(_compact, 128, HALF_SIZE),
}

KINDS: tuple[Kind, ...] = tuple(_PLANS)


class FrameEncoder(nn.Module):
    """Frames [B, 120, 160, 3] of bytes to standardised features [B, dim]; frames already of its own `size` will do.

    `mean` and `std` are those of the features of training frames: over such frames every feature has mean 0 and
    standard deviation 1.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, kind: Kind, normalised: bool = False, channels: int = RGB, outputs: int | None = None) -> None:
        """`normalised`: with batch normalization, to be trained. Several frames side by side have more channels;
        `outputs`: other than the kind's own number of features."""
        super().__init__()
        plan = _PLANS[kind]
        self.name: Kind = kind
        self.dim = plan.dim if outputs is None else outputs
        self.size, self.normalised, self.channels = plan.size, normalised, channels
        body = plan.body(channels, self.dim, normalised)
        self.body = body.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.register_buffer("mean", torch.zeros(self.dim))
        self.register_buffer("std", torch.ones(self.dim))

    def forward(self, frames: Tensor) -> Tensor:
        """Standardised features [B, dim]."""
        return (self.raw(frames) - self.mean) / self.std

    def raw(self, frames: Tensor) -> Tensor:
        """Features [B, dim] before they are standardised."""
        shape = tuple(frames.shape[1:3])
        if shape == FRAME_SIZE != self.size:
            frames = halve(frames)
        elif shape != self.size:
            raise UsageError(f"The encoder {self.name!r} takes frames of {self.size} or {FRAME_SIZE}, got {shape}.")
        # Bytes in the order of a game's frames are channels-last already, and so is what is made of them.
        features: Tensor = self.body(frames.permute(0, 3, 1, 2).to(self.dtype) / 255.0)
        return features.float()

    def digest(self) -> str:
        """SHA-256 of its kind and all its numbers."""
        summed = hashlib.sha256(self.name.encode())
        for name, value in sorted(self.state_dict().items()):
            summed.update(name.encode() + value.cpu().contiguous().numpy().tobytes())
        return summed.hexdigest()

    @property
    def dtype(self) -> torch.dtype:
        """What it computes in; `mean` and `std` are always in full precision."""
        kind: torch.dtype = next(self.body.parameters()).dtype
        return kind

    def to_half(self) -> Self:
        """Compute in bf16 from here on."""
        self.body.to(torch.bfloat16)
        return self

    @torch.no_grad()
    def standardise(self, features: Tensor) -> None:
        """Set `mean` and `std` to those of raw features [N, dim]."""
        self.mean.copy_(features.mean(0))
        self.std.copy_(features.std(0).clamp_min(1e-6))

    @torch.no_grad()
    def folded(self) -> Self:
        """The same encoder without batch normalization, on the same device, to be used and not trained."""
        plain = type(self)(self.name, False, self.channels, self.dim).to(self.mean.device).eval().requires_grad_(False)
        learned = dict(self.named_modules())
        for name, module in plain.named_modules():
            if isinstance(module, Convolution):
                module.take(learned[name])
            elif isinstance(module, nn.Linear):
                module.load_state_dict(learned[name].state_dict())
        plain.mean.copy_(self.mean)
        plain.std.copy_(self.std)
        return plain


# ---- Networks over observations of any kind: frames of a game, grids of symbols, vectors.


def is_frame(shape: tuple[int, ...]) -> bool:
    """Observations of this shape are frames of a game."""
    return shape == (*FRAME_SIZE, RGB)


def feature_network(shape: tuple[int, ...], kind: Kind, dim: int, views: int = 1) -> tuple[nn.Module, int]:
    """A network from observations to features, and their number; `kind` is for frames, `dim` for all else.

    Several `views` of an observation stand side by side in its last axis.
    """
    if is_frame(shape):
        frames = FrameEncoder(kind, normalised=True, channels=RGB * views)
        return frames, frames.dim
    return make_encoder((*shape[:-1], views * shape[-1]), dim, norm=math.sqrt(dim)), dim


def action_network(shape: tuple[int, ...], kind: Kind, dim: int, views: int, action_count: int) -> nn.Module:
    """A network from several views, side by side in the last axis, to a number for each action."""
    if is_frame(shape):
        return FrameEncoder(kind, normalised=True, channels=RGB * views, outputs=action_count)
    features, size = feature_network(shape, kind, dim, views)
    return nn.Sequential(features, nn.ReLU(), nn.Linear(size, action_count))
