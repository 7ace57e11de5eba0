"""What observing costs: the arithmetic with a clock of our own, then one real run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from benchmarks.bench import observation as cost
from minigrid.wrappers import FullyObsWrapper


def test_a_cost_is_a_step_with_it_minus_a_step_without(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: Iterator[float] = iter([1.0, 1.5, 1.2, 2.0, 1.1])

    def seconds(env: gym.Env[Any, Any], actions: list[int]) -> float:
        if isinstance(env, FullyObsWrapper):
            return 41e-3
        blind = not env.reset()[0]
        return 1e-3 * next(rounds) if blind else 3e-3

    monkeypatch.setattr(cost, "_seconds", seconds)
    figures = cost.observation_cost("sfl/FourRoom-v0", steps=100)
    assert figures == pytest.approx({"step_us": 30, "ours_us": 20, "fully_obs_wrapper_us": 400, "ratio": 20})


def test_the_real_clock_gives_finite_figures() -> None:
    figures = cost.observation_cost("sfl/MultiRoom-N2-v0", steps=50)
    assert np.isfinite(list(figures.values())).all()
    assert figures["step_us"] > 0
