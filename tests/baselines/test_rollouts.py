"""Columns of decisions that do not grow together."""

from __future__ import annotations

import numpy as np
import torch

from sfl.api import Array
from sfl.baselines.ppo import Decisions, KnownSteps, Rollouts

A, B, BOTH = np.array([0]), np.array([1]), np.array([0, 1])


def rollouts(horizon: int = 2) -> Rollouts:
    return Rollouts(horizon, 2, (1,), "float32", torch.device("cpu"))


def decide(kept: Rollouts, envs: Array, number: float) -> None:
    """A decision that is known again by its number."""
    numbers = torch.full((len(envs),), float(number)) + torch.from_numpy(envs) * 100
    kept.record(envs, Decisions(numbers.unsqueeze(1), numbers.long(), numbers, numbers))


def reward(kept: Rollouts, envs: Array, earned: float) -> None:
    kept.reward(envs, torch.full((len(envs),), float(earned)))


def numbers(taken: KnownSteps) -> list[list[int]]:
    """The decisions of each environment."""
    return [taken.steps.actions[:count, env].tolist() for env, count in enumerate(taken.counts)]


def test_two_halves_take_turns() -> None:
    kept = rollouts()
    decide(kept, A, 0)
    decide(kept, B, 0)
    for step in (1, 2):
        for half in (A, B):
            assert not kept.ready
            assert kept.awaits_reward(half).tolist() == [True]
            reward(kept, half, step)
            decide(kept, half, step)
    assert kept.ready
    taken = kept.take_known()
    assert numbers(taken) == [[0, 1], [100, 101]]
    assert taken.rewards.tolist() == [[1.0, 1.0], [2.0, 2.0]]
    assert taken.next_values.tolist() == [[1.0, 101.0], [2.0, 102.0]]
    assert not taken.ended.any()


def test_decisions_that_wait_for_their_reward_come_first_the_next_time() -> None:
    kept = rollouts()
    for step in range(3):
        decide(kept, BOTH, step)
        if step < 2:
            reward(kept, BOTH, 0.0)
    kept.take_known()
    assert kept.awaits_reward(BOTH).tolist() == [True, True]
    reward(kept, BOTH, 7.0)
    decide(kept, BOTH, 3)
    kept.end(BOTH)
    taken = kept.take_known()
    assert numbers(taken) == [[2, 3], [102, 103]]
    assert taken.rewards.tolist() == [[7.0, 7.0], [0.0, 0.0]]
    assert taken.ended.tolist() == [[False, False], [True, True]]
    assert taken.steps.seen[0].tolist() == [[2.0], [102.0]]
    assert kept.awaits_reward(BOTH).tolist() == [False, False]


def test_the_end_of_an_episode_is_forgotten_with_its_steps() -> None:
    kept = rollouts()
    for _ in range(2):
        decide(kept, BOTH, 0)
        kept.end(BOTH)
    assert kept.take_known().ended.all()
    for _ in range(2):
        decide(kept, BOTH, 0)
        reward(kept, BOTH, 1.0)
    assert not kept.take_known().ended.any()


def test_an_environment_that_lags_far_behind_does_not_stop_the_others() -> None:
    kept = rollouts(horizon=3)
    decide(kept, B, 0)
    decided = 0
    while not kept.ready:
        decide(kept, A, decided)
        reward(kept, A, 1.0)
        decided += 1
    taken = kept.take_known()
    assert decided >= 6
    assert taken.counts.tolist() == [decided, 0]
    assert kept.awaits_reward(BOTH).tolist() == [False, True]


def test_state_comes_back() -> None:
    first, second = rollouts(), rollouts()
    decide(first, BOTH, 5)
    reward(first, BOTH, 1.5)
    decide(first, A, 6)
    second.load_state(first.state())
    for kept in (first, second):
        reward(kept, A, 2.0)
        decide(kept, A, 7)
    one, other = first.take_known(), second.take_known()
    assert numbers(one) == numbers(other) == [[5, 6], [105]]
    assert torch.equal(one.rewards, other.rewards)
