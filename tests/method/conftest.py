"""What is seen on the ring, and what sees it."""

from __future__ import annotations

import numpy as np
import pytest

from sfl.api import Array

from .ring import PLACES, make_encoder


@pytest.fixture(scope="module")
def views() -> Array:
    """What is seen at each of eight places on a ring: stripes of another direction and colour."""
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, size=(PLACES, 6, 8, 3), dtype=np.uint8)
    return coarse.repeat(20, axis=1).repeat(20, axis=2)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An untrained compact encoder in a file."""
    return make_encoder(tmp_path_factory.mktemp("encoders") / "first.safetensors", seed=0)
