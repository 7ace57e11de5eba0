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
def test_rows_in_training_and_their_gradients_are_autograds_of_copies(batch_norm: bool) -> None:
    torch.manual_seed(0)
    ours = PairNetwork(3, (8, 5), 4, batch_norm).double().train()
    plain = copy.deepcopy(ours)
    states, goals = torch.tensor([0, 1, 1, 4, 0]), torch.tensor([2, 2, 3, 0, 0])
    features = torch.randn(5, 3, dtype=torch.double, requires_grad=True)
    pulled = torch.randn(5, 4, dtype=torch.double)
    expected = plain(features[states], features[goals])
    expected.backward(pulled)
    with torch.no_grad():
        output, pull = ours.train_rows(features, states, goals, None, by_features=True)
        by_features = pull(pulled)
    torch.testing.assert_close(output, expected.detach())
    torch.testing.assert_close(by_features, features.grad)
    for (name, mine), theirs in zip(ours.named_parameters(), plain.parameters(), strict=True):
        assert theirs.grad is not None
        # Batch normalization undoes the bias before it: its gradient is 0 but for rounding.
        assert theirs.grad.abs().max() > 1e-6 or (batch_norm and name.endswith("bias"))
        torch.testing.assert_close(mine.grad, theirs.grad)
    for mine, theirs in zip(ours.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_features_that_do_not_learn_get_no_gradient() -> None:
    network = PairNetwork(3, (8,), 4, batch_norm=False)
    rows = torch.tensor([0, 1])
    with torch.no_grad():
        output, pull = network.train_rows(torch.randn(2, 3), rows, rows, None, by_features=False)
        assert pull(torch.ones_like(output)) is None
    assert network.first.weight.grad is not None


@pytest.mark.parametrize("batch_norm", [False, True])
def test_pairs_of_halves_are_those_of_copies(batch_norm: bool) -> None:
    network = PairNetwork(3, (8, 5), 4, batch_norm).eval()
    states, goals = torch.tensor([0, 1, 1, 4, 0]), torch.tensor([2, 2, 3, 0, 0])
    features = torch.randn(5, 3)
    with torch.no_grad():
        output = network.of_halves(network.halves(features), states, goals)
        torch.testing.assert_close(output, network(features[states], features[goals]))
