"""Adam over one flat vector: for small networks the optimiser's own bookkeeping would cost more than its arithmetic."""

from __future__ import annotations

import torch
from torch import nn

from sfl.data.types import Array
from sfl.nn.pullback import Pull

BETAS = (0.9, 0.999)


class Adam:
    """Adam (Kingma and Ba, 2015). The module's parameters and gradients become views of two flat vectors.

    Weights may decay apart from the gradient (Loshchilov and Hutter, 2019).
    """

    def __init__(self, module: nn.Module, learning_rate: float, epsilon: float, weight_decay: float = 0.0) -> None:
        self.learning_rate, self.epsilon, self.weight_decay = learning_rate, epsilon, weight_decay
        parameters = list(module.parameters())
        self._values = torch.cat([parameter.detach().flatten() for parameter in parameters])
        self._gradient = torch.zeros_like(self._values)
        self._first, self._second = torch.zeros_like(self._values), torch.zeros_like(self._values)
        self._steps = torch.zeros((), device=self._values.device)
        sizes = [parameter.numel() for parameter in parameters]
        views = zip(parameters, self._values.split(sizes), self._gradient.split(sizes), strict=True)
        for parameter, value, gradient in views:
            parameter.data = value.view_as(parameter)
            parameter.grad = gradient.view_as(parameter)

    def step(self, pull: Pull, gradient: torch.Tensor) -> None:
        """One step, given the gradient of the loss by the module's output and the pull to its parameters."""
        pull(gradient)
        self._steps += 1
        if self.weight_decay:
            self._values.mul_(1.0 - self.learning_rate * self.weight_decay)
        # The kernel behind torch's fused Adam: for one vector, what surrounds it costs half as much as itself.
        torch._fused_adam_(
            [self._values],
            [self._gradient],
            [self._first],
            [self._second],
            [],
            [self._steps],
            lr=self.learning_rate,
            beta1=BETAS[0],
            beta2=BETAS[1],
            weight_decay=0.0,
            eps=self.epsilon,
            amsgrad=False,
            maximize=False,
        )

    def state(self, prefix: str) -> dict[str, Array]:
        """Moments and step count."""
        return {
            f"{prefix}.first": self._first.cpu().numpy().copy(),
            f"{prefix}.second": self._second.cpu().numpy().copy(),
            f"{prefix}.steps": self._steps.cpu().numpy().reshape(1).copy(),
        }

    def load_state(self, prefix: str, arrays: dict[str, Array]) -> None:
        """Take up arrays made by `state`."""
        self._first.copy_(torch.from_numpy(arrays[f"{prefix}.first"]))
        self._second.copy_(torch.from_numpy(arrays[f"{prefix}.second"]))
        self._steps.fill_(float(arrays[f"{prefix}.steps"][0]))
