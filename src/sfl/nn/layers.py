"""Layers one after the other in training, and the gradients that come back through them."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfl.nn.pullback import PullThrough, set_gradient, set_gradient_product


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
