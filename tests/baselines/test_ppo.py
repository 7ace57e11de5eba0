"""PPO against numbers worked out another way."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfl.api import AgentState, Array, EnvSpec
from sfl.baselines.config import PPOConfig
from sfl.baselines.ppo import (
    PPO,
    Decisions,
    KnownSteps,
    Minibatch,
    Rollouts,
    advantages,
    decide,
    entropy_of,
    policy_loss,
)
from sfl.errors import UsageError

CPU = torch.device("cpu")
CHAIN = EnvSpec((2,), "float32", 2, 1)


def column(numbers: list[float]) -> torch.Tensor:
    return torch.tensor(numbers).unsqueeze(1)


def experience(
    rewards: torch.Tensor, values: torch.Tensor, ended: torch.Tensor, counts: list[int] | None = None
) -> KnownSteps:
    """Of rewards and ends [T, E] and values [T + 1, E]."""
    length, envs = rewards.shape
    nothing = torch.zeros(length, envs)
    steps = Decisions(nothing.unsqueeze(2), nothing.long(), nothing, values[:-1])
    return KnownSteps(steps, values[1:], rewards, ended, np.array(counts or [length] * envs))


def batch_of(log_probs: list[float], gains: list[float]) -> Minibatch:
    """Action 0, taken with these log probabilities, was worth so much more than expected."""
    steps = Decisions(
        torch.zeros(len(gains), 1),
        torch.zeros(len(gains), dtype=torch.long),
        torch.tensor(log_probs),
        torch.zeros(len(gains)),
    )
    return Minibatch(steps, torch.tensor(gains), torch.zeros(len(gains)))


def test_advantages_of_a_worked_trajectory() -> None:
    taken = experience(column([1.0, 0.0, 2.0]), column([0.5, 1.0, 0.0, 4.0]), torch.zeros(3, 1, dtype=torch.bool))
    # d = 1 + .5 * 1 - .5, 0 + .5 * 0 - 1, 2 + .5 * 4 - 0; then A_2 = 4, A_1 = -1 + .25 * 4, A_0 = 1 + .25 * 0
    assert advantages(taken, 0.5, 0.5).squeeze(1).tolist() == [1.0, 0.0, 4.0]


def test_advantages_do_not_pass_the_end_of_an_episode() -> None:
    ended = column([0.0, 1.0, 0.0]).bool()
    taken = experience(column([1.0, 0.0, 2.0]), column([0.5, 1.0, 9.0, 4.0]), ended)
    # the second step leads nowhere: d_1 = 0 - 1; the third belongs to another episode
    assert advantages(taken, 0.5, 0.5).squeeze(1).tolist() == [0.75, -1.0, -5.0]


def test_advantages_are_the_weighted_sum_of_n_step_errors() -> None:
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=6), rng.normal(size=7)
    gamma, trace = 0.9, 0.7
    tensors = (torch.from_numpy(part).float().unsqueeze(1) for part in (rewards, values))
    found = advantages(experience(*tensors, torch.zeros(6, 1, dtype=torch.bool)), gamma, trace).squeeze(1)
    # (1 - lambda) sum_n lambda^(n-1) G_n with the rest of the weight on the longest one
    returns = [sum(gamma**k * rewards[k] for k in range(n)) + gamma**n * values[n] for n in range(1, 7)]
    weights = [(1 - trace) * trace ** (n - 1) for n in range(1, 6)] + [trace**5]
    assert found[0].item() == pytest.approx(np.dot(weights, returns) - values[0], abs=1e-5)


def test_an_environment_with_fewer_steps_is_bootstrapped_from_its_own_last() -> None:
    rewards, values = torch.ones(3, 2), torch.arange(8.0).reshape(4, 2)
    none_ended = torch.zeros(3, 2, dtype=torch.bool)
    both = advantages(experience(rewards, values, none_ended, [3, 1]), 0.5, 0.5)
    alone = advantages(experience(rewards[:1, 1:], values[:2, 1:], none_ended[:1, 1:]), 0.5, 0.5)
    assert both[:, 1].tolist() == [alone.item(), 0.0, 0.0]


@pytest.mark.parametrize(("gamma", "trace"), [(0.9, 0.0), (0.9, 1.0), (0.5, 0.7)])
def test_what_is_learned_from_has_the_discount_and_the_lambda_of_the_settings(gamma: float, trace: float) -> None:
    taken = experience(column([1.0, 0.0, 2.0]), column([0.5, 1.0, 0.0, 4.0]), torch.zeros(3, 1, dtype=torch.bool))
    ppo = PPO(PPOConfig(gamma=gamma, trace=trace, epochs=1, minibatches=1), CHAIN, 0, CPU)
    (batch,) = ppo._minibatches(taken)
    expected = (advantages(taken, gamma, trace) + taken.steps.values).flatten()
    torch.testing.assert_close(batch.returns.sort().values, expected.sort().values)


@pytest.mark.parametrize(
    ("ratio", "gain", "loss", "follows"),
    [
        (1.05, 1.0, -1.05, True),
        (1.5, 1.0, -1.1, False),  # as likely as it may become
        (0.5, 1.0, -0.5, True),
        (0.5, -1.0, 0.9, False),
        (1.5, -1.0, 1.5, True),
    ],
)
def test_a_gradient_does_not_lead_beyond_the_clip(ratio: float, gain: float, loss: float, follows: bool) -> None:
    logits = torch.tensor([[0.3, -0.2]], requires_grad=True)
    now = torch.log_softmax(logits, 1)[0, 0].item()
    found, clipped = policy_loss(logits, batch_of([now - np.log(ratio)], [gain]), 0.1)
    found.backward()
    assert found.item() == pytest.approx(loss, abs=1e-5)
    assert logits.grad is not None
    assert bool(logits.grad.abs().sum() > 1e-6) == follows
    assert clipped.item() == float(abs(ratio - 1) > 0.1)


def test_entropy_of_known_policies() -> None:
    assert entropy_of(torch.zeros(3, 4)).item() == pytest.approx(np.log(4))
    assert entropy_of(torch.log(torch.tensor([[0.25, 0.75]]))).item() == pytest.approx(0.562335, abs=1e-5)


def test_actions_are_drawn_by_their_probabilities() -> None:
    ppo = PPO(PPOConfig(dim=8), CHAIN, 0, CPU)
    with torch.no_grad():
        ppo.network.policy.weight.zero_()
        ppo.network.policy.bias.copy_(torch.log(torch.tensor([0.25, 0.75])))
        draws = torch.tensor([0.0, 0.2499, 0.2501, 0.999999])
        made = decide(ppo.network, torch.eye(2)[[0, 0, 1, 1]], draws)
    assert made.actions.tolist() == [0, 0, 1, 1]
    np.testing.assert_allclose(made.log_probs.exp(), [0.25, 0.25, 0.75, 0.75], rtol=1e-5)


def play(ppo: PPO, rewards: Array, rounds: int, config: PPOConfig) -> None:
    """A ring of two states in which every action leads to the other one; rewards [state, action]."""
    rollouts, rng = Rollouts(config.horizon, 1, (2,), "float32", CPU), np.random.default_rng(0)
    env, at, earned, improved = np.zeros(1, np.int64), 0, 0.0, 0
    while improved < rounds:
        if rollouts.awaits_reward(env):
            rollouts.reward(env, torch.tensor([earned]))
        with torch.no_grad():
            made = decide(ppo.network, torch.eye(2)[[at]], torch.from_numpy(rng.random(1)))
        rollouts.record(env, made)
        earned, at = float(rewards[at, int(made.actions[0])]), 1 - at
        if rollouts.ready:
            ppo.improve(rollouts.take_known(), 0)
            improved += 1


def test_the_values_of_a_chain_of_two_states() -> None:
    config = PPOConfig(horizon=16, gamma=0.8, learning_rate=1e-3, dim=16, minibatches=1, gradient_norm=10.0)
    ppo = PPO(config, CHAIN, 0, CPU)
    play(ppo, np.array([[0.0, 0.0], [1.0, 1.0]]), 120, config)
    with torch.no_grad():
        values = ppo.network(torch.eye(2))[1]
    # V(1) = 1 + gamma V(0), V(0) = gamma V(1)
    np.testing.assert_allclose(values, [0.8 / 0.36, 1 / 0.36], rtol=0.05)


def test_it_finds_the_better_action_of_each_state() -> None:
    config = PPOConfig(horizon=16, gamma=0.5, learning_rate=1e-2, dim=16, minibatches=1, entropy=0.0)
    ppo = PPO(config, CHAIN, 0, CPU)
    play(ppo, np.array([[0.0, 1.0], [1.0, 0.0]]), 30, config)
    with torch.no_grad():
        likely = ppo.network(torch.eye(2))[0].softmax(1)
    assert likely[0, 1] > 0.9
    assert likely[1, 0] > 0.9


def test_for_the_entropy_a_policy_that_is_paid_nothing_gives_up_its_habit() -> None:
    ppo, views = PPO(PPOConfig(dim=8, entropy=1.0, learning_rate=1e-2), CHAIN, 0, CPU), torch.eye(2)
    with torch.no_grad():
        ppo.network.policy.bias.copy_(torch.tensor([3.0, 0.0]))
        before = entropy_of(ppo.network(views)[0])
    nothing = torch.zeros(2)
    for _ in range(100):
        ppo._step(Minibatch(Decisions(views, nothing.long(), nothing, nothing), nothing, nothing), 0.1)
    assert before < 0.3
    assert entropy_of(ppo.network(views)[0]) > 0.6  # of at most log 2


def test_gradients_are_no_longer_than_their_bound() -> None:
    ppo, nothing = PPO(PPOConfig(dim=8, gradient_norm=0.5), CHAIN, 0, CPU), torch.zeros(2)
    ppo._step(Minibatch(Decisions(torch.eye(2), nothing.long(), nothing, nothing), nothing, nothing + 1_000.0), 0.1)
    gradients = [part.grad.flatten() for part in ppo.network.parameters() if part.grad is not None]
    assert torch.cat(gradients).norm().item() == pytest.approx(0.5, abs=1e-4)


def test_a_small_bonus_counts_as_much_as_a_large_one_and_steps_that_were_not_made_count_nothing() -> None:
    rewards, none_ended = torch.tensor([[1.0, 2.0], [3.0, 99.0], [5.0, 99.0]]), torch.zeros(3, 2, dtype=torch.bool)
    for scale in (1.0, 0.001):
        ppo = PPO(PPOConfig(epochs=1, minibatches=1), CHAIN, 0, CPU)
        (batch,) = ppo._minibatches(experience(scale * rewards, torch.zeros(4, 2), none_ended, [3, 1]))
        assert len(batch.advantages) == 4
        assert batch.advantages.mean().item() == pytest.approx(0.0, abs=1e-5)
        assert batch.advantages.std(correction=0).item() == pytest.approx(1.0, abs=1e-3)


def test_learning_rate_and_clip_fall_to_nothing() -> None:
    ppo = PPO(PPOConfig(decay_steps=1_000), CHAIN, 0, CPU)
    assert [ppo.share_left(steps) for steps in (0, 250, 1_000, 2_000)] == [1.0, 0.75, 0.0, 0.0]
    before = [part.detach().clone() for part in ppo.network.parameters()]
    zeros = torch.zeros(4, 1)
    steps = Decisions(torch.zeros(4, 1, 2), zeros.long(), zeros, zeros)
    ppo.improve(KnownSteps(steps, zeros, zeros + 1.0, zeros.bool(), np.array([4])), 1_000)
    assert all(torch.equal(old, new) for old, new in zip(before, ppo.network.parameters(), strict=True))


def test_pictures_are_looked_at_in_a_small_size() -> None:
    ppo = PPO(PPOConfig(dim=16), EnvSpec((120, 160, 3), "uint8", 7, 2), 0, CPU)
    frames = torch.full((2, 120, 160, 3), 77, dtype=torch.uint8)
    with torch.no_grad():
        made = decide(ppo.network, frames, torch.tensor([0.1, 0.9]))
    assert made.seen.shape == (2, 84, 84, 3)
    assert made.seen.dtype == torch.uint8
    assert (made.seen == 77).all()
    assert made.values[0] == made.values[1]


def test_state_comes_back_exactly() -> None:
    config = PPOConfig(horizon=8, dim=8)
    first, second = PPO(config, CHAIN, 0, CPU), PPO(config, CHAIN, 1, CPU)
    play(first, np.eye(2), 3, config)
    state = AgentState()
    first.write_state(state)
    second.load_state(state)
    for ppo in (first, second):
        play(ppo, np.eye(2), 2, config)
    pairs = zip(first.network.parameters(), second.network.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    assert first.gradient_steps == second.gradient_steps == 5 * 16


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("horizon", 0, "ppo.horizon must be at least 1, got 0"),
        ("gamma", 1.5, r"ppo.gamma must lie in \[0, 1\], got 1.5"),
        ("learning_rate", 0.0, "ppo.learning-rate must be positive, got 0.0"),
        ("decay_steps", -1, "ppo.decay-steps must not be negative, got -1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(name: str, value: float, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        PPOConfig(**{name: value})  # type: ignore[arg-type]
