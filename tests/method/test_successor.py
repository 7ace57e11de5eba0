"""Successor features: the loss by hand, and psi of a random walk against the inverse of a matrix."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from sfl.api import EnvSpec
from sfl.errors import UsageError
from sfl.method.config import SuccessorConfig
from sfl.method.successor_features import (
    BatchStates,
    MeanNetwork,
    StepBatch,
    SuccessorLearner,
    Whitening,
    sfs,
    sfs_of_actions,
    td_loss,
    td_target,
    unit,
)

CPU = torch.device("cpu")
STATES = 6
GAMMA = 0.8
STEPS = 700


def test_the_loss_by_hand() -> None:
    psi, target = torch.tensor([[1.5, 7.0]], requires_grad=True), torch.tensor([[2.0, 4.0]])
    # Errors 0.5 and 3; Huber with delta 1: 0.5 * 0.25 and 1 * (3 - 0.5).
    loss, metrics = td_loss(psi, target, None, delta=1.0)
    assert float(metrics["train/sf_loss"]) == pytest.approx((0.125 + 2.5) / 2)
    (gradient,) = torch.autograd.grad(loss, psi)
    assert gradient.tolist() == [[-0.25, 0.5]]  # the error, at most 1, halved by the mean
    # With delta 5 both are squared: 0.125 and 4.5.
    assert float(td_loss(psi.detach(), target, torch.ones(1), delta=5.0)[0]) == pytest.approx((0.125 + 4.5) / 2)


def test_the_target_by_hand() -> None:
    phi = torch.tensor([[[1.0], [3.0], [4.0]], [[1.0], [1.0], [9.0]]])
    none, ahead = torch.zeros(2), torch.tensor([[8.0], [16.0]])
    # Row 0: 1 + 0.5 * 3 + 0.25 * 4. Row 1 ends after two steps: 1 + 0.5 * 1.
    weights = torch.tensor([[1.0, 0.5, 0.25], [1.0, 0.5, 0.0]])
    assert td_target(phi, weights, ahead, none).tolist() == [[3.5], [1.5]]
    assert td_target(phi, weights, ahead, torch.tensor([0.125, 0.25])).tolist() == [[4.5], [5.5]]
    assert td_target(phi[:, :1], torch.tensor([[1.0], [0.5]]), ahead, none).tolist() == [[1.0], [0.5]]


def test_a_row_drawn_three_times_counts_three_times() -> None:
    psi, target = torch.tensor([[1.0], [0.0]]), torch.tensor([[0.0], [0.5]])
    # Errors 1 and 0.5: 0.5 three times, 0.125 once.
    loss, _ = td_loss(psi, target, torch.tensor([3.0, 1.0]), delta=2.0)
    assert float(loss) == pytest.approx((3 * 0.5 + 0.125) / 4)


def test_sfs_is_the_cosine() -> None:
    first, second = torch.tensor([[3.0, 4.0], [0.0, 2.0]]), torch.tensor([[1.0, 0.0], [-3.0, -4.0]])
    torch.testing.assert_close(sfs(unit(first), unit(second)), torch.tensor([[0.6, -1.0], [0.0, -0.8]]))
    # Eq. 8: the two actions of one state, to the target of its row.
    actions = sfs_of_actions(unit(first).unsqueeze(0), unit(second[1:]))
    torch.testing.assert_close(actions, torch.tensor([[-1.0, -0.8]]))


# ---- the random walk on a ring of six states


def ring_batch(learner: SuccessorLearner, n: int = 1) -> StepBatch:
    """Every state, both first actions (0 back, 1 ahead) and every random continuation of n - 1 steps."""
    rows = [
        (state, action, rest) for action in (0, 1) for state in range(STATES) for rest in np.ndindex(*(2,) * (n - 1))
    ]
    moves = np.array([np.cumsum([0] + [2 * step - 1 for step in (action, *rest)]) for _, action, rest in rows])
    places = torch.from_numpy((np.array([state for state, _, _ in rows])[:, None] + moves) % STATES)  # [B, n + 1]
    learner.whitening.track(torch.eye(STATES))
    features, counts = learner.white(torch.eye(STATES)), torch.full((STATES,), len(rows) / STATES)
    return StepBatch(
        phi=features[places[:, :-1]],
        weights=(GAMMA ** torch.arange(n)).expand(len(rows), n),
        first=BatchStates(features, places[:, 0], counts),
        actions=torch.tensor([action for _, action, _ in rows]),
        last=BatchStates(features, places[:, -1], counts),
        last_weights=torch.full((len(rows),), GAMMA**n),
        multiplicity=torch.ones(len(rows)),
    )


def update(learner: SuccessorLearner, n: int = 1) -> float:
    loss = learner.step(ring_batch(learner, n))["train/sf_loss"]
    learner.count_step()
    return float(loss)


def ring_psi(gamma: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """psi(s, a) = e_s + gamma M(s') with M = inv(I - gamma P), P the random walk, [S, A, S]."""
    eye = np.eye(STATES)
    P = (np.roll(eye, 1, axis=1) + np.roll(eye, -1, axis=1)) / 2
    M = np.linalg.inv(eye - gamma * P)
    np.testing.assert_allclose(M.sum(1), 1 / (1 - gamma))
    return np.stack([eye + gamma * np.roll(M, 1, axis=0), eye + gamma * np.roll(M, -1, axis=0)], axis=1)


def learned(steps: int, n: int = 1, **settings: object) -> SuccessorLearner:
    torch.manual_seed(0)
    defaults: dict[str, object] = {"hidden": (64,), "batch_norm": False, "target_every": 5, "learning_rate": 3e-3}
    # The batch size sets only Adam's epsilon here: 1e-6, far below the gradients of a small world.
    config = SuccessorConfig(gamma=GAMMA, n_step=n, batch_size=10_000, **(defaults | settings))  # type: ignore[arg-type]
    learner = SuccessorLearner(config, STATES, EnvSpec((STATES,), "float32", 2), CPU)
    for _ in range(steps):
        update(learner, n)
    return learner


def check_ring(psi: torch.Tensor, gamma: float, scale: float = 1.0, error: float = 0.02) -> None:
    expected = scale * ring_psi(gamma)
    found = psi.numpy().astype(np.float64)
    cosine = (found * expected).sum(2) / np.linalg.norm(found, axis=2) / np.linalg.norm(expected, axis=2)
    assert cosine.min() > 0.999
    assert np.abs(found - expected).max() < error * expected.max()


@pytest.mark.parametrize(
    ("n", "settings"),
    [
        (1, {}),
        (3, {}),
        (1, {"target_rate": 0.05}),
        (1, {"hidden": (), "learning_rate": 1e-2}),
        (1, {"huber_delta": 0.3}),
    ],
)
def test_psi_of_a_random_walk_is_the_inverse_of_a_matrix(n: int, settings: dict[str, object]) -> None:
    learner = learned(STEPS, n, **settings)
    check_ring(learner.psi(torch.eye(STATES)), gamma=GAMMA)


def test_unit_scale_learns_psi_times_one_minus_gamma() -> None:
    learner = learned(STEPS, unit_scale=True)
    check_ring(learner.psi(torch.eye(STATES)), gamma=GAMMA, scale=1 - GAMMA)


def test_with_batch_norm_it_still_converges_and_judges_each_state_alone() -> None:
    learner = learned(STEPS, batch_norm=True)
    psi = learner.psi(torch.eye(STATES))
    # Running variances are those of a sample, 12/11 of the batch's own: psi comes out a few percent smaller.
    check_ring(psi, gamma=GAMMA, error=0.06)
    before = {name: value.clone() for name, value in learner.network.state_dict().items()}
    torch.testing.assert_close(learner.psi(torch.eye(STATES)[2:3]), psi[2:3])
    for name, value in learner.network.state_dict().items():  # looking moves no running statistics
        torch.testing.assert_close(value, before[name])


def test_whitened_features_give_psi_of_the_whitened_features() -> None:
    learner = learned(STEPS, whiten=True, hidden=(64,))
    # psi is linear in phi: psi of white(phi) is the ring's psi times the white features of its states.
    white = learner.whitening(torch.eye(STATES)).double().numpy()
    expected = ring_psi(GAMMA) @ white
    found = learner.psi(torch.eye(STATES)).numpy()
    assert np.abs(found - expected).max() < 0.03 * np.abs(expected).max()


# ---- the target network


def same(first: torch.nn.Module, second: torch.nn.Module) -> bool:
    ours, theirs = first.state_dict(), second.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in ours.items() if "running" not in name)


def test_the_target_is_copied_at_its_interval_and_rests_in_between() -> None:
    learner = learned(0, target_every=3)
    equal = []
    for _ in range(7):
        update(learner)
        equal.append(same(MeanNetwork(learner.network), learner.target))
    assert equal == [False, False, True, False, False, True, False]
    assert learner.gradient_steps == 7


def test_the_target_may_follow_at_a_rate() -> None:
    learner = learned(0, target_rate=0.25, target_every=1)
    before = copy.deepcopy(learner.target)
    update(learner)
    fast = MeanNetwork(learner.network)
    torch.testing.assert_close(learner.target.head_weight, 0.75 * before.head_weight + 0.25 * fast.head_weight)


def test_what_lies_ahead_is_taken_from_the_target() -> None:
    learner = learned(0, target_every=1_000)
    with torch.no_grad():
        for parameter in (*learner.network.parameters(), *learner.target.parameters()):
            parameter.zero_()
        learner.target.head_weight.zero_()
        learner.target.head_bias.fill_(1.0)
    # psi is 0, its target 0.8 in five entries and 1.8 in one; Huber: 0.32 and 1.8 - 0.5.
    assert update(learner) == pytest.approx((5 * 0.32 + 1.3) / 6)


def test_the_target_is_not_trained() -> None:
    learner = learned(5, target_every=1_000)
    fresh = learned(0, target_every=1_000)
    assert same(learner.target, fresh.target)
    assert not same(learner.network, fresh.network)


# ---- whitening


def random_features(states: int, *scales: float) -> torch.Tensor:
    """Correlated features [N, F] with a mean, each direction of its own size."""
    generator = torch.Generator().manual_seed(0)
    dim = len(scales)
    turned = torch.linalg.qr(torch.randn(dim, dim, generator=generator))[0]
    return (torch.randn(states, dim, generator=generator) + 2.0) * torch.tensor(scales) @ turned


def test_the_whitening_matrix_makes_the_second_moment_the_identity() -> None:
    phi = random_features(400, 1.0, 5.0, 0.1, 2.0, 1.0)
    weights = torch.rand(400, generator=torch.Generator().manual_seed(1)) + 0.1
    whitening = Whitening(5)
    whitening.track(phi, weights)
    white = (phi @ whitening.matrix).double().numpy()
    share = (weights / weights.sum()).double().numpy()
    np.testing.assert_allclose((white * share[:, None]).T @ white, np.eye(5), atol=1e-3)  # the mean is left in
    torch.testing.assert_close(whitening.matrix, whitening.matrix.mT)  # the symmetric root


def test_white_features_point_as_the_matrix_says_and_have_norm_root_dim() -> None:
    phi = random_features(50, 1.0, 5.0, 0.1, 2.0).unflatten(0, (25, 2))  # [..., F]
    whitening = Whitening(4)
    whitening.track(phi.flatten(0, 1), torch.ones(50))
    white = whitening(phi)
    torch.testing.assert_close(white.norm(dim=-1), torch.full((25, 2), 2.0))
    cosine = torch.nn.functional.cosine_similarity(white, phi @ whitening.matrix, dim=-1)
    torch.testing.assert_close(cosine, torch.ones(25, 2))


def test_directions_without_variance_are_not_blown_up() -> None:
    generator = torch.Generator().manual_seed(0)
    phi = torch.randn(100, 3, generator=generator) * torch.tensor([1.0, 1.0, 1e-9])
    whitening = Whitening(3)
    whitening.track(phi, torch.ones(100))
    assert float(whitening.matrix[2, 2]) == pytest.approx(Whitening.FLOOR**-0.5, rel=0.3)
    assert (phi @ whitening.matrix)[:, 2].abs().max() < 1e-5


def test_batches_tracked_together_count_as_if_they_came_one_by_one() -> None:
    phi = random_features(60, 1.0, 5.0, 2.0)
    together, apart = Whitening(3, centred=True, refresh_every=3), Whitening(3, centred=True, refresh_every=3)
    for first in (0, 20, 40):
        apart.track(phi[first : first + 20])
    together.track(phi[:40], batches=2)
    matrix = together.matrix.clone()
    together.track(phi[40:])
    assert torch.equal(together.matrix, matrix)  # of batches 0 to 3 only the first calls for a new root
    assert together.count == apart.count == 3
    torch.testing.assert_close(together.moment, apart.moment)
    torch.testing.assert_close(together.mean, apart.mean)
    together.track(phi[:40], batches=2)
    assert not torch.equal(together.matrix, matrix)


def test_whitening_can_take_the_mean_out_and_spare_small_directions() -> None:
    generator = torch.Generator().manual_seed(0)
    phi = torch.randn(4_000, 2, generator=generator) * torch.tensor([2.0, 0.1]) + torch.tensor([5.0, -3.0])
    whitening = Whitening(2, centred=True, ridge=0.5)
    older = torch.randn(4_000, 2, generator=generator)  # of a stack the newest frame is what counts
    whitening.track(torch.cat([older, phi], dim=1), torch.ones(4_000))
    moved = (phi - whitening.shift) @ whitening.matrix
    assert moved.mean(0).tolist() == pytest.approx([0.0, 0.0], abs=1e-4)
    # The moments are 4 and 0.01, and half of their mean is added to both.
    assert moved.std(0).tolist() == pytest.approx([(4 / 5.0) ** 0.5, (0.01 / 1.01) ** 0.5], rel=0.1)
    assert whitening(torch.cat([phi, phi], dim=1)).shape == (4_000, 4)


def test_whitening_averages_over_batches() -> None:
    whitening = Whitening(1, refresh_every=1)
    for size in (1.0, 5.0, 2.0):
        whitening.track(torch.tensor([[-size], [size]]), torch.ones(2))
    # The mean of the squares is (1 + 25 + 4) / 3 = 10.
    assert float(whitening.matrix) == pytest.approx(10**-0.5)


def test_the_roots_are_taken_anew_at_their_interval() -> None:
    whitening = Whitening(1, refresh_every=3)
    found = []
    for size in (1.0, 5.0, 2.0, 6.0):
        whitening.track(torch.tensor([[-size], [size]]), torch.ones(2))
        found.append(float(whitening.matrix))
    # The first batch alone, until the fourth: (1 + 25 + 4 + 36) / 4.
    assert found == pytest.approx([1.0, 1.0, 1.0, 16.5**-0.5])


def test_parts_of_a_state_are_whitened_each_for_itself() -> None:
    phi = random_features(60, 1.0, 5.0, 0.1)
    whitening = Whitening(3, centred=True, ridge=0.1)
    whitening.track(phi, torch.ones(60))
    stacks = torch.cat([phi[:20], phi[20:40], phi[40:]], dim=1)
    expected = torch.cat([whitening(phi[:20]), whitening(phi[20:40]), whitening(phi[40:])], dim=1)
    torch.testing.assert_close(whitening(stacks), expected)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"hidden": (64, 0)}, r"successor.hidden must be positive, got \(64, 0\)"),
        ({"gamma": 1.0}, r"successor.gamma must lie in \[0, 1\), got 1.0"),
        ({"n_step": 0}, "successor.n-step must be at least 1"),
        ({"learning_rate": 0.0}, "successor.learning-rate must be positive"),
        ({"batch_size": 1}, "successor.batch-size must be at least 2"),
        ({"target_every": 0}, "successor.target-every must be at least 1"),
        ({"huber_delta": 0.0}, "successor.huber-delta must be positive"),
        ({"target_rate": 1.5}, r"successor.target-rate must lie in \[0, 1\]"),
        ({"whiten_every": 0}, "successor.whiten-every must be at least 1, got 0"),
        ({"whiten_ridge": -0.1}, "successor.whiten-ridge must not be negative, got -0.1"),
        ({"updates_per_step": -1.0}, "successor.updates-per-step must be >= 0"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        SuccessorConfig(**settings)  # type: ignore[arg-type]
