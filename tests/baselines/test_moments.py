"""Second moments of pairs: as far from the first as asked for, and never outside the walk."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sfl.baselines.networks import draw_offsets


@given(st.integers(3, 60), st.integers(0, 2**32 - 1))
def test_offsets_are_exact_and_stay_inside(length: int, seed: int) -> None:
    rng = np.random.Generator(np.random.PCG64(seed))
    times = rng.integers(length, size=50)
    most = np.maximum(times, length - 1 - times)
    distances = rng.integers(1, most + 1)
    others = draw_offsets(times, distances, length, rng)
    assert (np.abs(others - times) == distances).all()
    assert others.min() >= 0
    assert others.max() < length


def test_both_directions_are_taken_where_both_exist() -> None:
    rng = np.random.Generator(np.random.PCG64(0))
    others = draw_offsets(np.full(4_000, 50), np.full(4_000, 7), 100, rng)
    assert set(others.tolist()) == {43, 57}
    assert abs((others == 43).mean() - 0.5) < 0.05
