"""The successor network: its shortcuts equal the plain network."""

from __future__ import annotations

import pytest
import torch

from sfl.method.successor_features import BatchStates, MeanNetwork, SuccessorNetwork


def make_network(batch_norm: bool, seed: int = 0) -> SuccessorNetwork:
    torch.manual_seed(seed)
    return SuccessorNetwork(dim=6, action_count=4, hidden=(16, 8), batch_norm=batch_norm)


# Ten transitions from six states, some of which were drawn several times.
STATES = torch.tensor([3, 1, 1, 0, 5, 5, 1, 2, 3, 4])
ACTIONS = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2, 3])
TIMES = torch.tensor([1, 2, 1, 3, 1, 1, 1, 2, 1, 4])


def drawn(features: torch.Tensor) -> BatchStates:
    distinct, rows = STATES.unique(return_inverse=True)
    counts = torch.zeros(len(distinct), dtype=torch.float64).index_add_(0, rows, TIMES.double())
    return BatchStates(features[distinct], rows, counts)


def features_of(count: int) -> torch.Tensor:
    return torch.randn(count, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("batch_norm", [True, False])
def test_the_mean_over_actions_is_the_mean_of_every_row_as_drawn(batch_norm: bool) -> None:
    fast, plain = make_network(batch_norm).double(), make_network(batch_norm).double().train()
    features = features_of(6)
    everything = plain(features[STATES.repeat_interleave(TIMES)])
    assert everything.shape == (17, 4, 6)
    means = MeanNetwork(fast)(drawn(features))
    torch.testing.assert_close(means.repeat_interleave(TIMES, dim=0), everything.mean(1))


@pytest.mark.parametrize("batch_norm", [True, False])
def test_psi_of_one_action_each_and_its_gradient_are_those_of_every_row_as_drawn(batch_norm: bool) -> None:
    fast, plain = make_network(batch_norm).double().train(), make_network(batch_norm).double().train()
    features = features_of(6)
    rows, actions = STATES.repeat_interleave(TIMES), ACTIONS.repeat_interleave(TIMES)
    expected = plain(features[rows])[torch.arange(17), actions]
    psi = fast.of_actions(drawn(features), ACTIONS)
    assert psi.shape == (10, 6)
    torch.testing.assert_close(psi.repeat_interleave(TIMES, dim=0), expected)
    gradient = torch.linspace(-1, 1, 60, dtype=torch.float64).reshape(10, 6)
    psi.backward(gradient * TIMES.unsqueeze(1))
    expected.backward(gradient.repeat_interleave(TIMES, dim=0))
    for (name, ours), theirs in zip(fast.named_parameters(), plain.parameters(), strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-8, atol=1e-10, msg=name)
    for name, value in plain.state_dict().items():  # running statistics included
        torch.testing.assert_close(fast.state_dict()[name], value)


def test_without_hidden_layers_it_is_linear() -> None:
    network = SuccessorNetwork(dim=3, action_count=2, hidden=(), batch_norm=True)
    zero = network(torch.zeros(1, 3))
    first, second = torch.eye(3)[:1], torch.eye(3)[1:2]
    torch.testing.assert_close(network(first + second) - zero, network(first) + network(second) - 2 * zero)


def test_psi_may_be_of_fewer_numbers_than_a_state() -> None:
    network = SuccessorNetwork(dim=6, action_count=4, hidden=(16,), batch_norm=False, outputs=2)
    assert (network.dim, network.outputs) == (6, 2)
    psi = network(torch.ones(3, 6))
    assert psi.shape == (3, 4, 2)
    torch.testing.assert_close(MeanNetwork(network)(BatchStates(torch.ones(3, 6))), psi.mean(1))
    assert make_network(False).outputs == 6


def test_the_mean_network_follows_by_a_share_or_all_the_way() -> None:
    source, other = make_network(True), make_network(True, seed=1)
    mean, old = MeanNetwork(other), MeanNetwork(other)
    mean.follow(source, 0.25)
    for slow, before, fast in zip(tensors(mean), tensors(old), tensors(MeanNetwork(source)), strict=True):
        torch.testing.assert_close(slow, 0.75 * before + 0.25 * fast)
    mean.follow(source)
    assert all(torch.equal(a, b) for a, b in zip(tensors(mean), tensors(MeanNetwork(source)), strict=True))
    with torch.no_grad():
        source.head_weight.zero_()
    assert mean.head_weight.abs().max() > 0  # a copy, not a view


def tensors(mean: MeanNetwork) -> list[torch.Tensor]:
    return [*mean.trunk.parameters(), mean.head_weight, mean.head_bias]
