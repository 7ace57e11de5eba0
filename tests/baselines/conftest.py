"""The fixtures of the method's tests."""

from ..method.conftest import encoder, views

__all__ = ["encoder", "views"]
