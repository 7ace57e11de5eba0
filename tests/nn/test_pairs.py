"""Pairs of states: the quick ways give what the plain one gives."""

from __future__ import annotations

import copy

import pytest
import torch

from sfl.nn.mlp import PairNetwork


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
def test_pairs_of_rows_are_those_of_copies(batch_norm: bool) -> None:
    """In value, in gradients and in what batch normalization makes of them."""
    torch.manual_seed(0)
    ours = PairNetwork(3, (8, 5), 4, batch_norm).double().train()
    plain = copy.deepcopy(ours)
    states, goals = torch.tensor([0, 1, 1, 4, 0]), torch.tensor([2, 2, 3, 0, 0])
    features = torch.randn(5, 3, dtype=torch.double)
    by_features = []
    for network in (ours, plain):
        inputs = features.clone().requires_grad_()
        rows = network is ours
        output = network.of_rows(inputs, states, goals) if rows else network(inputs[states], inputs[goals])
        output.square().sum().backward()  # type: ignore[no-untyped-call]
        by_features.append(inputs.grad)
    torch.testing.assert_close(*by_features)
    for (name, mine), theirs in zip(ours.named_parameters(), plain.parameters(), strict=True):
        assert theirs.grad is not None
        # Batch normalization undoes the bias before it: its gradient is 0 but for rounding.
        assert theirs.grad.abs().max() > 1e-6 or (batch_norm and name.endswith("bias"))
        torch.testing.assert_close(mine.grad, theirs.grad)
    for mine, theirs in zip(ours.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs)
