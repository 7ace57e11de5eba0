"""Plain torch modules: encoders and heads."""

from typing import Literal

Kind = Literal["resnet18", "place", "compact"]
"""Encoders of frames."""
