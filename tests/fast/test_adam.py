"""Our Adam against torch's, and its state."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from sfl.api import Array
from sfl.fast.layers import Adam, pull_autograd
from sfl.nn.weights import load_module, module_state

ONE = torch.ones(())


def make_network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


def losses(network: nn.Module, seed: int) -> torch.Tensor:
    inputs = torch.randn(8, 3, generator=torch.Generator().manual_seed(seed))
    output: torch.Tensor = network(inputs.to(next(network.parameters()).dtype))
    return output.square().mean()


def train(network: nn.Module, optimiser: Adam, seeds: range) -> None:
    for seed in seeds:
        optimiser.step(pull_autograd(losses(network, seed), network), ONE)


def assert_equal(first: nn.Module, second: nn.Module) -> None:
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name]), name


@pytest.mark.parametrize("epsilon", [1e-8, 1e-2])
def test_it_takes_the_steps_of_torchs_adam(epsilon: float) -> None:
    network = make_network(0).double()  # a bias before batch norm has a gradient of rounding errors alone
    plain = copy.deepcopy(network)
    optimiser = Adam(network, 1e-2, epsilon)
    theirs = torch.optim.Adam(plain.parameters(), lr=1e-2, eps=epsilon)
    for seed in range(50):
        optimiser.step(pull_autograd(losses(network, seed), network), ONE.double())
        theirs.zero_grad()
        losses(plain, seed).backward()  # type: ignore[no-untyped-call]
        theirs.step()
        for mine, other in zip(network.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-7, atol=1e-8)
    assert optimiser.state("net")["net.steps"].tolist() == [50]


def test_the_first_step_is_as_long_as_the_learning_rate() -> None:
    network = nn.Linear(1, 1, bias=False)
    before = float(network.weight.detach())
    # m / (sqrt(v) + eps), both corrected: g / (|g| + eps), here 3 / (3 + 1).
    Adam(network, 0.5, epsilon=1.0).step(pull_autograd((3 * network.weight).sum(), network), ONE)
    assert float(network.weight.detach()) == pytest.approx(before - 0.5 * 3 / 4)


def test_parameters_without_a_part_in_the_loss_rest() -> None:
    network = make_network(0)
    optimiser = Adam(network, 1e-2, 1e-8)
    before = [parameter.detach().clone() for parameter in network.parameters()]
    optimiser.step(pull_autograd(network[0].weight.square().sum(), network), ONE)  # type: ignore[index]
    moved = [not torch.equal(old, new) for old, new in zip(before, network.parameters(), strict=True)]
    assert moved == [True] + [False] * 5


def test_a_loaded_pair_trains_on_alike() -> None:
    network = make_network(0)
    optimiser = Adam(network, 1e-2, 1e-4)
    train(network, optimiser, range(5))
    weights, moments = module_state(network, "net"), optimiser.state("net")
    other = make_network(1)
    other_optimiser = Adam(other, 1e-2, 1e-4)
    train(other, other_optimiser, range(100, 103))  # whatever it did before is forgotten
    load_module(other, "net", weights)
    other_optimiser.load_state("net", moments | {"foreign.first": moments["net.second"]})
    train(network, optimiser, range(5, 10))
    train(other, other_optimiser, range(5, 10))
    assert_equal(network, other)


def test_saved_arrays_do_not_move_with_the_optimiser() -> None:
    network = make_network(0)
    optimiser = Adam(network, 1e-2, 1e-4)
    train(network, optimiser, range(3))
    saved: dict[str, Array] = optimiser.state("net")
    copies = {name: value.copy() for name, value in saved.items()}
    train(network, optimiser, range(3, 6))
    assert all((saved[name] == copies[name]).all() for name in copies)
    assert (optimiser.state("net")["net.first"] != copies["net.first"]).any()


def test_a_copy_of_a_network_in_training_stays() -> None:
    network = make_network(0)
    optimiser = Adam(network, 1e-2, 1e-4)
    train(network, optimiser, range(3))
    frozen = copy.deepcopy(network)
    before = copy.deepcopy(frozen.state_dict())
    train(network, optimiser, range(3, 6))
    assert all(torch.equal(value, before[name]) for name, value in frozen.state_dict().items())
