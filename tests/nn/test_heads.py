"""The successor network: its shortcuts equal the plain network."""

from __future__ import annotations

import pytest
import torch

from sfl.nn.heads import SuccessorNetwork, copy_weights


def make_network(batch_norm: bool, seed: int = 0) -> SuccessorNetwork:
    torch.manual_seed(seed)
    return SuccessorNetwork(dim=6, action_count=4, hidden=(16, 8), batch_norm=batch_norm)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("batch_norm", [True, False])
def test_shortcuts_equal_the_full_network(batch_norm: bool, training: bool) -> None:
    network = make_network(batch_norm).train(training)
    features = torch.randn(10, 6, generator=torch.Generator().manual_seed(1))
    actions = torch.tensor([0, 0, 0, 1, 3, 3, 3, 3, 3, 3])  # none for action 2
    everything = network(features)
    assert everything.shape == (10, 4, 6)
    torch.testing.assert_close(network.mean_over_actions(features), everything.mean(1))
    chosen = network.of_actions(features, [3, 1, 0, 6])
    torch.testing.assert_close(chosen, everything[torch.arange(10), actions])


def test_the_shortcut_for_one_action_has_the_same_gradient() -> None:
    network = make_network(batch_norm=False)
    features = torch.randn(5, 6, generator=torch.Generator().manual_seed(1))
    results = []
    for shortcut in (True, False):
        network.zero_grad()
        rows = torch.arange(5), torch.tensor([0, 1, 1, 2, 3])
        psi = network.of_actions(features, [1, 2, 1, 1]) if shortcut else network(features)[rows]
        psi.square().sum().backward()
        results.append([parameter.grad.clone() for parameter in network.parameters() if parameter.grad is not None])
    assert len(results[0]) == len(results[1]) == 6
    for fast, plain in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain)


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
