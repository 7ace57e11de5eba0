"""Plain torch modules: encoders and heads."""

from typing import Literal

Kind = Literal["resnet18", "place", "compact"]
"""Encoders of frames."""

FRAME_SIZE = (120, 160)
"""Height and width of a game's frames."""
HALF_SIZE = (60, 80)
