"""Steps over batches of one shape: every row comes to where the step looks for it, whatever the kind of its numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sfl.fast.cuda import Captured
from sfl.fast.graphed import GraphedSteps
from sfl.nn.weights import make_adam

CPU = torch.device("cpu")
SIZE = 4
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_every_step_sees_the_columns_of_its_own_rows() -> None:
    seen: list[tuple[list[object], list[object], list[object]]] = []
    counted: list[int] = []

    def step(places: Tensor, weights: Tensor, actions: Tensor) -> None:
        seen.append((places.tolist(), weights.tolist(), actions.tolist()))

    columns = (((2, 3), torch.int32), ((2,), torch.float32), ((), torch.int32))
    steps = GraphedSteps(step, SIZE, columns, CPU)
    places = np.arange(2 * SIZE * 6).reshape(2 * SIZE, 2, 3)  # two batches
    weights = np.random.default_rng(0).random((2 * SIZE, 2)).astype(np.float32)
    actions = np.arange(2 * SIZE) % 3 == 0
    steps((places, weights, actions), lambda: counted.append(len(seen)))
    for at, (own_places, own_weights, own_actions) in zip((0, SIZE), seen, strict=True):
        rows = slice(at, at + SIZE)
        assert own_places == places[rows].tolist()
        assert own_weights == weights[rows].tolist()
        assert own_actions == actions[rows].astype(int).tolist()
    assert counted == [1, 2]


def test_work_that_is_not_captured_is_done_once_a_call() -> None:
    calls: list[int] = []
    work = Captured(lambda: calls.append(1), CPU)
    for _ in range(10):
        work()
    assert len(calls) == 10
    assert not work.is_captured


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
def test_gradient_steps_are_those_of_plain_torch(device: str) -> None:
    torch.manual_seed(0)
    plain = nn.Linear(3, 1)
    ours = nn.Linear(3, 1).to(device)
    ours.load_state_dict(plain.state_dict())
    optimiser, theirs = make_adam(ours, 1e-2, 1e-8), torch.optim.Adam(plain.parameters(), 1e-2)

    def step(inputs: Tensor) -> None:
        optimiser.zero_grad()
        ours(inputs).square().mean().backward()
        optimiser.step()

    rows = np.random.default_rng(0).normal(size=(8 * SIZE, 3)).astype(np.float32)
    steps = GraphedSteps(step, SIZE, (((3,), torch.float32),), torch.device(device))
    steps((rows,), lambda: None)
    for batch in torch.from_numpy(rows).split(SIZE):
        theirs.zero_grad()
        plain(batch).square().mean().backward()
        theirs.step()
    torch.testing.assert_close(ours.weight.cpu(), plain.weight, rtol=1e-5, atol=1e-5)
    assert steps.is_captured == (device == "cuda")


def test_batches_beyond_what_numbers_count_are_too_large_for_torch() -> None:
    """In torch's own words, which become the line that this does not fit into memory."""
    with pytest.raises(RuntimeError, match="overflow"):
        GraphedSteps(lambda _: None, 2**63 - 1, (((2,), torch.int32),), CPU)
