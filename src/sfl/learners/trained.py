"""A network with its optimiser: what learners of one loss by autograd have in common."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Generic, Self, TypeVar

import torch
from torch import Tensor, nn

from sfl.core.seeding import draw_seed, spawn
from sfl.data.types import AgentState, Array, Metrics
from sfl.learners.adam import Adam
from sfl.learners.device import to_device
from sfl.learners.state import load_module, module_state
from sfl.nn.pullback import pull_autograd

EPSILON = 1e-8
"""Adam's usual one; SPTM's library has 1e-7, which comes to the same."""
REPORT_EVERY = 50
"""Gradient steps between two looks at the loss on a GPU: one would have to wait for it."""

Network = TypeVar("Network", bound=nn.Module)


class Trained(Generic[Network]):
    """A network in evaluation mode, but for its gradient steps."""

    def __init__(
        self, name: str, make: Callable[[], Network], learning_rate: float, seed: int, device: torch.device | str
    ) -> None:
        """`name` stands before everything of it in a checkpoint; its first weights depend on it and the seed alone."""
        self.name, self.device = name, torch.device(device)
        stream = f"init/{name}"
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(draw_seed(spawn(seed, [stream])[stream]))
            # Outside of `descend` batch normalization goes by its running statistics: answers depend on nobody else's.
            self.network = make().to(self.device).eval()
        self._optimiser = Adam(self.network, learning_rate, EPSILON)
        self.gradient_steps = 0

    def frozen(self) -> Self:
        """A copy that later learning does not change."""
        other = copy.copy(self)
        other.network = copy.deepcopy(self.network).requires_grad_(False)
        return other

    def on_device(self, observations: Array | Tensor) -> Tensor:
        """Observations where the network is."""
        if isinstance(observations, Tensor):
            return observations.to(self.device)
        return to_device(observations, self.device)

    def precision(self) -> torch.autocast:
        """On a GPU in bf16, with weights and sums in full."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")

    def descend(self, loss_of: Callable[[], tuple[Tensor, dict[str, Tensor]]]) -> Metrics:
        """One gradient step on a loss; its metrics, on a GPU now and then."""
        self.network.train()
        with self.precision():
            loss, metrics = loss_of()
        self._optimiser.step(pull_autograd(loss, self.network), torch.ones_like(loss))
        self.network.eval()  # as everywhere but in this step
        self.gradient_steps += 1
        if self.device.type == "cuda" and self.gradient_steps % REPORT_EVERY:
            return {}
        return {f"train/{self.name}_{what}": float(value) for what, value in metrics.items()}

    def take(self, arrays: dict[str, Array]) -> None:
        """Become the network of this name among arrays."""
        load_module(self.network, self.name, arrays)

    def write_state(self, state: AgentState) -> None:
        """Network, optimiser and the number of steps."""
        state.networks |= module_state(self.network, self.name)
        state.optimisers |= self._optimiser.state(self.name)
        state.counters[f"{self.name}_gradient_steps"] = self.gradient_steps

    def read_state(self, state: AgentState) -> None:
        """Everything that `write_state` wrote."""
        self.take(state.networks)
        self._optimiser.load_state(self.name, state.optimisers)
        self.gradient_steps = int(state.counters[f"{self.name}_gradient_steps"])
