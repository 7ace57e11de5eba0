"""Pairs of states: the quick ways give what the plain one gives."""

from __future__ import annotations

import pytest
import torch

from sfl.nn.pairs import PairNetwork


@pytest.mark.parametrize("batch_norm", [False, True])
def test_all_pairs_are_those_of_one_at_a_time(batch_norm: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PairNetwork, "CHUNK", 6)  # several chunks
    network = PairNetwork(3, (8, 5), 4, batch_norm).eval()
    states, goals = torch.randn(7, 3), torch.randn(4, 3)
    output = network.of_all(states, goals)
    assert output.shape == (7, 4, 4)
    for row, state in enumerate(states):
        torch.testing.assert_close(output[row], network(state.expand(4, 3), goals))


@pytest.mark.parametrize("batch_norm", [False, True])
def test_pairs_of_rows_and_their_gradients_are_those_of_copies(batch_norm: bool) -> None:
    network = PairNetwork(3, (8, 5), 4, batch_norm).train()
    states, goals = torch.tensor([0, 1, 1, 4, 0]), torch.tensor([2, 2, 3, 0, 0])
    features = torch.randn(5, 3, requires_grad=True)
    pulled = torch.randn(5, 4)
    gradients = []
    for output in (network.of_rows(features, states, goals), network(features[states], features[goals])):
        leaves = [features, *network.parameters()]
        gradients.append([output.detach(), *torch.autograd.grad(output, leaves, pulled)])
    for ours, plain in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, plain, atol=1e-5, rtol=1e-4)
