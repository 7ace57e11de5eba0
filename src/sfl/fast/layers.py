"""Gradients written out by hand where autograd's bookkeeping would cost more than the arithmetic.

A `Pull` takes the gradient of a loss by a module's output and sets the gradients of the module's parameters to what
follows from it. The tests hold every one of them against autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfl.api import Array

Pull = Callable[[Tensor], None]

PullThrough = Callable[[Tensor], Tensor]
"""A pull that returns the gradient by the module's inputs."""


def set_gradient(parameter: Tensor, gradient: Tensor) -> None:
    """Write a parameter's gradient, in place where there is one."""
    if parameter.grad is None:
        parameter.grad = gradient.clone()
    else:
        parameter.grad.copy_(gradient)


def set_gradient_product(parameter: Tensor, left: Tensor, right: Tensor) -> None:
    """Write left @ right (matrices, or a stack of them) as a parameter's gradient, in place where there is one."""
    if parameter.grad is None:
        parameter.grad = left @ right
    else:
        torch.matmul(left, right, out=parameter.grad)


def pull_autograd(output: Tensor, module: nn.Module) -> Pull:
    """The pull of any module that was run with autograd on."""

    def pull(gradient: Tensor) -> None:
        module.zero_grad(set_to_none=False)
        output.backward(gradient.clone())  # a copy that autograd may keep

    return pull


# ---- Layers one after the other in training, and the gradients that come back through them.


def train_layers(
    layers: nn.Sequential, inputs: Tensor, counts: Tensor | None = None, track: bool = True, by_inputs: bool = True
) -> tuple[Tensor, PullThrough]:
    """Output of linear layers, batch normalization and ReLU for inputs [S, F], and its pull. Autograd must be off.

    `counts` [S]: how often a row counts, None: once; `track` moves running statistics. Without `by_inputs` a first
    layer that is linear does not compute the gradient by its inputs, and what the pull returns means nothing.
    ReLU works in place, also on inputs that begin with it and on the gradient that the pull is given.
    """
    pulls: list[PullThrough] = []
    pull: PullThrough
    hidden = inputs
    for layer in layers:
        if isinstance(layer, nn.Linear):
            pull = partial(_pull_linear, layer, hidden, by_inputs or layer is not layers[0])
            hidden = functional.linear(hidden, layer.weight, layer.bias)
        elif isinstance(layer, nn.BatchNorm1d):
            hidden, pull = _train_batch_norm(layer, hidden, counts, track)
        else:
            hidden = hidden.relu_()
            pull = partial(_pull_relu, hidden)
        pulls.append(pull)

    def pull_all(gradient: Tensor) -> Tensor:
        for pull in reversed(pulls):
            gradient = pull(gradient)
        return gradient

    return hidden, pull_all


def _pull_relu(output: Tensor, gradient: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward.grad_input(gradient, output, 0, grad_input=gradient)  # type: ignore[no-any-return]


def _pull_linear(layer: nn.Linear, inputs: Tensor, by_inputs: bool, gradient: Tensor) -> Tensor:
    set_gradient_product(layer.weight, gradient.mT, inputs)
    set_gradient(layer.bias, gradient.sum(0))
    return gradient @ layer.weight if by_inputs else gradient


def _train_batch_norm(
    layer: nn.BatchNorm1d, inputs: Tensor, counts: Tensor | None, track: bool
) -> tuple[Tensor, PullThrough]:
    """Batch normalization over the batch as it was drawn: a state drawn twice weighs twice in mean and variance."""
    if counts is None:
        return _train_even_batch_norm(layer, inputs, track)
    drawn = counts.sum()
    shares = counts / drawn
    mean = shares @ inputs
    centred = inputs - mean
    variance = shares @ centred.square()
    inverse = (variance + layer.eps).rsqrt()
    white = centred.mul_(inverse)
    if track:
        _track_statistics(layer, mean, variance * (drawn / (drawn - 1)))

    def pull(gradient: Tensor) -> Tensor:
        by_bias, by_weight = gradient.sum(0), (gradient * white).sum(0)
        set_gradient(layer.weight, by_weight)
        set_gradient(layer.bias, by_bias)
        through_statistics = shares.unsqueeze(1) * torch.addcmul(by_bias, white, by_weight)
        return (gradient - through_statistics) * (layer.weight * inverse)

    return torch.addcmul(layer.bias, white, layer.weight), pull


def _train_even_batch_norm(layer: nn.BatchNorm1d, inputs: Tensor, track: bool) -> tuple[Tensor, PullThrough]:
    """The same where each row counts once: torch's own, a tenth of the operations."""
    running = (layer.running_mean, layer.running_var) if track else (None, None)
    momentum = layer.momentum or 0.1
    output, mean, inverse = torch.native_batch_norm(
        inputs, layer.weight, layer.bias, *running, True, momentum, layer.eps
    )
    if track:
        assert layer.num_batches_tracked is not None
        layer.num_batches_tracked += 1

    def pull(gradient: Tensor) -> Tensor:
        by_inputs, by_weight, by_bias = torch.ops.aten.native_batch_norm_backward(
            gradient, inputs, layer.weight, None, None, mean, inverse, True, layer.eps, [True, True, True]
        )
        set_gradient(layer.weight, by_weight)
        set_gradient(layer.bias, by_bias)
        return by_inputs  # type: ignore[no-any-return]

    return output, pull


def _track_statistics(layer: nn.BatchNorm1d, mean: Tensor, variance: Tensor) -> None:
    assert layer.running_mean is not None
    assert layer.running_var is not None
    assert layer.num_batches_tracked is not None
    layer.running_mean.lerp_(mean, layer.momentum or 0.1)
    layer.running_var.lerp_(variance, layer.momentum or 0.1)
    layer.num_batches_tracked += 1


# ---- Adam over one flat vector: for small networks the optimiser's own bookkeeping would cost more than its
# arithmetic.

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
