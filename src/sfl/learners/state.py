"""Networks as plain arrays, and back."""

from __future__ import annotations

import torch
from torch import nn

from sfl.core.errors import CheckpointError
from sfl.data.types import Array


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
    module.load_state_dict({name: torch.from_numpy(value).to(expected[name].dtype) for name, value in given.items()})
