"""Networks over observations of any kind: frames of a game, grids of symbols, vectors."""

from __future__ import annotations

import math

from torch import nn

from sfl.nn.encoders import make_encoder
from sfl.nn.frame_encoders import FRAME_SIZE, RGB, FrameEncoder, Kind


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
