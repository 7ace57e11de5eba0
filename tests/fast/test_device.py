"""Functions of tensors that are recorded once and replayed."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch import Tensor

from sfl.fast.cuda import Fetched, Replayed, _Recording

CPU = torch.device("cpu")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_on_the_cpu_it_is_the_plain_call() -> None:
    double = Replayed(lambda x, y: (2 * x, x + y), CPU)
    x, y = torch.arange(3.0), torch.ones(3)
    assert [part.tolist() for part in double(x, y)] == [[0, 2, 4], [1, 2, 3]]


def test_a_recording_reads_its_own_copies_of_what_it_is_called_with() -> None:
    first = torch.zeros(3)
    double = _Recording(lambda: lambda x: (2 * x,), (first,))
    first += 5
    assert double((torch.ones(3),))[0].tolist() == [2, 2, 2]
    assert double((first,))[0].tolist() == [10, 10, 10]


@pytest.mark.usefixtures("uncollected")
def test_an_object_with_a_replayed_method_goes_when_it_is_let_go() -> None:
    class Doubler:
        def __init__(self) -> None:
            self.double = Replayed(self._double, CPU)

        def _double(self, x: Tensor) -> tuple[Tensor]:
            return (2 * x,)

    doubler = Doubler()
    assert doubler.double(torch.ones(2))[0].tolist() == [2, 2]
    reference = weakref.ref(doubler)
    del doubler
    assert reference() is None


@needs_gpu
def test_on_a_gpu_every_call_does_the_work_once_whatever_the_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replayed, "PLAIN_CALLS", 2)
    monkeypatch.setattr(Replayed, "GRAPH_LIMIT", 1)
    device = torch.device("cuda")
    total = torch.zeros((), device=device)

    def add(x: Tensor) -> tuple[Tensor]:
        total.add_(x.sum())
        return (2 * x,)

    work = Replayed(add, device)
    for turn in range(10):
        for size in (1, 3):
            (result,) = work(torch.full((size,), float(turn), device=device))
            assert result.tolist() == [2.0 * turn] * size
    assert float(total) == 4 * sum(range(10))
    assert len(work._recordings) == 1
    work.forget()
    assert work(torch.ones(3, device=device))[0].tolist() == [2.0] * 3


def test_on_the_cpu_nothing_is_fetched() -> None:
    numbers = torch.arange(3.0)
    assert Fetched(numbers).wait() is numbers


@needs_gpu
def test_numbers_are_fetched_as_they_were_when_asked_for() -> None:
    numbers = torch.arange(1_000, device="cuda", dtype=torch.float32)
    fetched = Fetched(numbers)
    for _ in range(50):  # later work neither changes nor delays them
        numbers.add_(1)
    arrived = fetched.wait()
    assert (arrived.device.type, arrived.tolist()) == ("cpu", list(range(1_000)))
