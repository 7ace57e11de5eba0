"""Networks and optimisers as arrays and back: training goes on to the last bit."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sfl.core.errors import CheckpointError
from sfl.data.types import Array
from sfl.learners.state import load_module, load_optimiser, make_adam, module_state, optimiser_state


def make_pair(seed: int) -> tuple[nn.Module, torch.optim.Adam]:
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
    return module, make_adam(module, learning_rate=1e-2, batch_size=100)


def train(module: nn.Module, optimiser: torch.optim.Adam, steps: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        loss = module(torch.randn(8, 3, generator=generator)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def test_a_loaded_pair_trains_on_alike() -> None:
    module, optimiser = make_pair(0)
    train(module, optimiser, 5, seed=1)
    arrays = module_state(module, "net") | {"other.weight": module_state(module, "x")["x.0.weight"]}
    moments = optimiser_state(optimiser, "net")
    other, other_optimiser = make_pair(1)
    load_module(other, "net", arrays)
    load_optimiser(other_optimiser, "net", moments)
    train(module, optimiser, 5, seed=2)
    train(other, other_optimiser, 5, seed=2)
    for name, value in module.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name


def test_saved_arrays_do_not_move_with_the_network() -> None:
    module, optimiser = make_pair(0)
    train(module, optimiser, 2, seed=1)
    arrays, moments = module_state(module, "net"), optimiser_state(optimiser, "net")
    copies = [{name: value.copy() for name, value in part.items()} for part in (arrays, moments)]
    train(module, optimiser, 2, seed=2)
    for part, copy in zip((arrays, moments), copies, strict=True):
        assert part.keys() == copy.keys()
        assert all((part[name] == copy[name]).all() for name in part)


def test_adam_has_the_released_codes_epsilon() -> None:
    assert make_adam(nn.Linear(1, 1), 5e-4, batch_size=128).param_groups[0]["eps"] == pytest.approx(7.8125e-5)


def test_an_optimiser_that_has_not_stepped_can_be_loaded() -> None:
    module, optimiser = make_pair(0)
    assert optimiser_state(optimiser, "net") == {}
    load_optimiser(optimiser, "net", {})
    train(module, optimiser, 1, seed=0)


def test_what_does_not_fit_is_listed() -> None:
    module, _ = make_pair(0)
    arrays: dict[str, Array] = module_state(module, "net")
    del arrays["net.0.bias"]
    arrays["net.3.weight"] = arrays["net.3.weight"][:, :2]
    with pytest.raises(CheckpointError, match=r"'net': missing or misshapen \['0.bias', '3.weight'\]"):
        load_module(module, "net", arrays)
