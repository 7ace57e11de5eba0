"""Networks as arrays and back."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sfl.api import Array
from sfl.errors import CheckpointError
from sfl.nn.weights import load_module, module_state


def make_network(seed: int) -> nn.Module:
    """A network with moved running statistics."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
    network(torch.randn(10, 3) + seed)
    return network


def test_a_loaded_network_is_the_same_network() -> None:
    network, other = make_network(0), make_network(1)
    load_module(other, "net", module_state(network, "net") | module_state(other, "other"))
    for name, value in network.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name


def test_saved_arrays_do_not_move_with_the_network() -> None:
    network = make_network(0)
    arrays = module_state(network, "net")
    before = {name: value.copy() for name, value in arrays.items()}
    network(torch.randn(10, 3))
    with torch.no_grad():
        network[0].weight.add_(1.0)  # type: ignore[index]
    assert all((arrays[name] == before[name]).all() for name in before)


def test_what_does_not_fit_is_listed() -> None:
    network = make_network(0)
    arrays: dict[str, Array] = module_state(network, "net")
    del arrays["net.0.bias"]
    arrays["net.3.weight"] = arrays["net.3.weight"][:, :2]
    with pytest.raises(CheckpointError, match=r"'net': missing or misshapen \['0.bias', '3.weight'\]"):
        load_module(network, "net", arrays)
