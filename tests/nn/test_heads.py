"""The successor network: its shortcuts equal the plain network."""

from __future__ import annotations

import pytest
import torch

from sfl.nn.heads import SuccessorNetwork, copy_weights


def make_network(batch_norm: bool, seed: int = 0) -> SuccessorNetwork:
    torch.manual_seed(seed)
    return SuccessorNetwork(dim=6, action_count=4, hidden=(16, 8), batch_norm=batch_norm)


ACTIONS = torch.tensor([0, 0, 0, 1, 3, 3, 3, 3, 3, 3])  # none for action 2
COUNTS = [3, 1, 0, 6]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("batch_norm", [True, False])
def test_the_mean_over_actions_is_the_mean(batch_norm: bool, training: bool) -> None:
    network = make_network(batch_norm).train(training)
    features = torch.randn(10, 6, generator=torch.Generator().manual_seed(1))
    everything = network(features)
    assert everything.shape == (10, 4, 6)
    torch.testing.assert_close(network.mean_over_actions(features), everything.mean(1))


@pytest.mark.parametrize("batch_norm", [True, False])
def test_psi_of_one_action_each_and_its_gradient_are_those_of_the_full_network(batch_norm: bool) -> None:
    fast, plain = make_network(batch_norm).double().train(), make_network(batch_norm).double().train()
    features = torch.randn(10, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = plain(features)[torch.arange(10), ACTIONS]
    psi, pull = fast.of_actions(features, COUNTS)
    torch.testing.assert_close(psi, expected)
    gradient = torch.linspace(-1, 1, psi.numel(), dtype=psi.dtype).reshape(psi.shape)
    for _ in range(2):  # a second pull adds to the first
        pull(gradient)
    expected.backward(2 * gradient)
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


def test_copied_weights_are_equal_and_independent() -> None:
    source, target = make_network(True), make_network(True, seed=1)
    source.train()(torch.randn(20, 6) + 3.0)  # moves the running statistics
    copy_weights(source, target)
    for name, value in source.state_dict().items():
        torch.testing.assert_close(target.state_dict()[name], value)
    with torch.no_grad():
        source.head.bias.add_(1)
    assert not torch.equal(source.head.bias, target.head.bias)
