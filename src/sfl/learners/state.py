"""Networks and optimisers as plain arrays, and back."""

from __future__ import annotations

import torch
from torch import nn

from sfl.core.errors import CheckpointError
from sfl.data.types import Array


def make_adam(module: nn.Module, learning_rate: float, batch_size: int) -> torch.optim.Adam:
    """Adam with the released code's epsilon, 0.01 / batch size (the paper names only the optimiser)."""
    return torch.optim.Adam(module.parameters(), lr=learning_rate, eps=0.01 / batch_size, fused=True)


def module_state(module: nn.Module, prefix: str) -> dict[str, Array]:
    """Parameters and buffers by name."""
    return {f"{prefix}.{name}": value.detach().cpu().numpy().copy() for name, value in module.state_dict().items()}


def load_module(module: nn.Module, prefix: str, arrays: dict[str, Array]) -> None:
    """Set a module from arrays; missing names or other shapes are an error that lists them."""
    expected = module.state_dict()
    given = {name: arrays.get(f"{prefix}.{name}") for name in expected}
    wrong = [name for name, value in given.items() if value is None or value.shape != tuple(expected[name].shape)]
    if wrong:
        raise CheckpointError(f"The checkpoint does not fit the network {prefix!r}: missing or misshapen {wrong}.")
    module.load_state_dict({name: torch.from_numpy(value).to(expected[name].dtype) for name, value in given.items()})  # type: ignore[arg-type, union-attr]


def optimiser_state(optimiser: torch.optim.Optimizer, prefix: str) -> dict[str, Array]:
    """Moments and step counts by parameter number."""
    return {
        f"{prefix}.{index}.{name}": value.detach().cpu().numpy().copy()
        for index, entry in optimiser.state_dict()["state"].items()
        for name, value in entry.items()
    }


def load_optimiser(optimiser: torch.optim.Optimizer, prefix: str, arrays: dict[str, Array]) -> None:
    """Set an optimiser from arrays made by `optimiser_state`."""
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in arrays.items():
        if key.startswith(f"{prefix}."):
            index, name = key[len(prefix) + 1 :].split(".")
            state.setdefault(int(index), {})[name] = torch.from_numpy(value.copy())
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
