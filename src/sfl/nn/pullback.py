"""Gradients written out by hand where autograd's bookkeeping would cost more than the arithmetic.

A `Pull` takes the gradient of a loss by a module's output and adds what follows from it to the parameters' gradients.
The tests hold every one of them against autograd.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

Pull = Callable[[Tensor], None]


def accumulate(parameter: Tensor, gradient: Tensor) -> None:
    """Add to a parameter's gradient, in place where there is one."""
    if parameter.grad is None:
        parameter.grad = gradient.clone()
    else:
        parameter.grad += gradient


def accumulate_product(parameter: Tensor, left: Tensor, right: Tensor) -> None:
    """Add left @ right to a parameter's gradient, without a copy where there is one."""
    if parameter.grad is None:
        parameter.grad = left @ right
    else:
        parameter.grad.addmm_(left, right)


def pull_autograd(output: Tensor) -> Pull:
    """The pull of any module that was run with autograd on."""

    def pull(gradient: Tensor) -> None:
        output.backward(gradient)

    return pull
