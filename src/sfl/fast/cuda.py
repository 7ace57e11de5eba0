"""Keeping a GPU busy: copies that do not wait, work captured once and replayed, products on tensor cores.

On the CPU everything here is the plain call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from weakref import WeakMethod

import numpy as np
import torch
from torch import Tensor

from sfl.api import Array


def to_device(array: Array, device: torch.device) -> Tensor:
    """An array as a tensor on the device; the copy to a GPU does not wait for what was asked of it before.

    On the CPU the tensor may share the array's memory.
    """
    plain = torch.from_numpy(np.ascontiguousarray(array))
    if device.type == "cpu":
        return plain
    return plain.pin_memory().to(device, non_blocking=True)  # torch keeps the page-locked copy until it is done with


class Fetched:
    """Numbers on their way to the host; waiting for them sleeps, as games need the core that spinning would take."""

    def __init__(self, tensor: Tensor) -> None:
        """Ask for the numbers; work that is asked of the device later does not hold them up."""
        self._numbers, self._arrived = tensor, None
        if tensor.is_cuda:
            self._numbers = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            self._numbers.copy_(tensor, non_blocking=True)
            self._arrived = torch.cuda.Event(blocking=True)
            self._arrived.record()

    def wait(self) -> Tensor:
        """The numbers, once they have arrived."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._numbers


class IndexCache:
    """Lists of numbers on the device; environments come in the same few groups again and again."""

    LIMIT = 256

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._known: dict[bytes, Tensor] = {}

    def __call__(self, numbers: Array) -> Tensor:
        """The same numbers as a tensor, which is not to be changed."""
        if self._device.type == "cpu":
            return torch.from_numpy(numbers)
        key = numbers.tobytes()
        if key not in self._known:
            if len(self._known) == self.LIMIT:
                self._known.clear()
            self._known[key] = to_device(numbers, self._device)
        return self._known[key]


@contextmanager
def tensor_cores(device: torch.device) -> Iterator[None]:
    """On a GPU, products of matrices in TF32: factors are rounded to 10 bits, sums are not.

    bf16 would need the weights in both precisions. Whether shorter products make up for that was not measured.
    """
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class SideStream:
    """A second queue of work on a GPU; on the CPU there is none, and everything is done at once."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    @contextmanager
    def queue(self) -> Iterator[None]:
        """What is asked for in here begins when all that was asked for before is done."""
        if self._stream is None:
            yield
            return
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            yield

    def join(self) -> None:
        """What is asked for from here on begins when this queue is done; this process does not wait."""
        if self._stream is not None:
            torch.cuda.current_stream().wait_stream(self._stream)


class Captured:
    """Work over tensors that stay where they are, without arguments or result; on a GPU it becomes a CUDA graph.

    The first calls are made plainly, so that libraries have settled on their algorithms; all calls do the work once.
    """

    WARM_UP = 3

    def __init__(self, work: Callable[[], None], device: torch.device) -> None:
        self._work, self._on_gpu = work, device.type == "cuda"
        self._graph: torch.cuda.CUDAGraph | None = None
        self._calls = 0

    @property
    def is_captured(self) -> bool:
        """Whether calls replay a graph."""
        return self._graph is not None

    def __call__(self) -> None:
        """Do the work, or on a GPU ask for it to be done."""
        if self._graph is None and self._on_gpu and self._calls >= self.WARM_UP:
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._work()
        self._calls += 1
        if self._graph is not None:
            self._graph.replay()
        elif self._on_gpu:
            self._on_side_stream()
        else:
            self._work()

    def _on_side_stream(self) -> None:
        """As capturing will: workspaces of libraries belong to a stream."""
        side, main = torch.cuda.Stream(), torch.cuda.current_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            self._work()
        main.wait_stream(side)


Work = Callable[[], Callable[..., tuple[Tensor, ...]] | None]
"""Gives a function of tensors; None when the object whose method it was has gone."""


class Replayed:
    """A function of tensors that come in the same few shapes again and again; on a GPU each of these becomes a graph.

    Each shape goes with one type of numbers. A result is good until the next call. Other tensors that the function
    reads or writes must stay where they are; when they do not, `forget`. A method does not keep its object alive: an
    object that has this as a part would else refer to itself, and stay until Python looks for such circles.
    """

    PLAIN_CALLS = 20
    """Calls with the same shapes before a graph is worth its making: episodes of an evaluation end one by one, and each
    number of them comes a few times."""
    GRAPH_LIMIT = 16

    def __init__(self, work: Callable[..., tuple[Tensor, ...]], device: torch.device) -> None:
        self._work: Work = WeakMethod(work) if isinstance(work, MethodType) else lambda: work
        self._device = device
        self._calls: dict[tuple[torch.Size, ...], int] = {}
        self._recordings: dict[tuple[torch.Size, ...], _Recording] = {}

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """What the function returns."""
        work = self._work()
        assert work is not None  # its object makes this call
        if self._device.type == "cpu":
            return work(*inputs)
        shapes = tuple(tensor.shape for tensor in inputs)
        recording = self._recordings.get(shapes)
        if recording is None:
            calls = self._calls[shapes] = self._calls.get(shapes, 0) + 1
            if calls <= self.PLAIN_CALLS or len(self._recordings) == self.GRAPH_LIMIT:
                return work(*inputs)
            recording = self._recordings[shapes] = _Recording(self._work, inputs)
        return recording(inputs)

    def forget(self) -> None:
        """Make all graphs anew."""
        self._calls.clear()
        self._recordings.clear()


class _Recording:
    """A function of tensors of certain shapes: the same places in memory for inputs and results every time."""

    def __init__(self, work: Work, inputs: tuple[Tensor, ...]) -> None:
        self._work, self._inputs = work, tuple(tensor.clone() for tensor in inputs)
        self._results: tuple[Tensor, ...] = ()
        self._run = Captured(self._remember, inputs[0].device)

    def __call__(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        for place, tensor in zip(self._inputs, inputs, strict=True):
            place.copy_(tensor)
        self._run()
        return self._results

    def _remember(self) -> None:
        work = self._work()
        assert work is not None
        self._results = work(*self._inputs)
