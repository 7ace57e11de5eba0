"""Gradients written out by hand where autograd's bookkeeping would cost more than the arithmetic.

A `Pull` takes the gradient of a loss by a module's output and sets the gradients of the module's parameters to what
follows from it. The tests hold every one of them against autograd.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

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
