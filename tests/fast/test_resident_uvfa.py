"""Steps over features on the device are the learner's own steps, one for each batch, told or compared."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor

from sfl.api import Array
from sfl.baselines.mss.config import UVFAConfig
from sfl.baselines.mss.value import UVFA, UVFABatch, UVFALearner, every_pair
from sfl.fast.graphed import ResidentUVFA, Same
from sfl.nn.mlp import PairNetwork
from sfl.replay.store import FeatureStore

FEATURES, STACK, SIZE, SLOTS, ACTIONS, STEPS = 3, 2, 8, 20, 4, 6
"""Steps enough for a GPU to replay a graph, and for the target network to change in between."""

on_both_devices = pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))],
)


def make(device: str) -> tuple[UVFALearner, FeatureStore]:
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        pairs = PairNetwork(STACK * FEATURES, (16, 8), ACTIONS, batch_norm=False)
    config = UVFAConfig((16, 8), gamma=0.9, learning_rate=1e-2, batch_size=SIZE, target_every=2)
    store = FeatureStore(SLOTS, torch.zeros(FEATURES, device=device))
    store.add(torch.randn(SLOTS, FEATURES, generator=generator))
    return UVFALearner(config, UVFA(None, pairs), torch.device(device)), store


def drawn() -> tuple[Array, Array, Array]:
    """Slots [N, 3, stack], some of which stand for what was before an episode, actions [N], and a word on each [N]."""
    rng, count = np.random.default_rng(0), STEPS * SIZE
    return rng.integers(-1, SLOTS, (count, 3, STACK)), rng.integers(ACTIONS, size=count), rng.random(count) < 0.3


def close(states: Tensor, goals: Tensor) -> Tensor:
    return (states - goals).square().sum(1) < 6.0


def by_hand(learner: UVFALearner, store: FeatureStore, same: Same | None) -> list[tuple[float, float]]:
    """The loss and the share of goals reached of each step, with every state by itself."""
    slots, actions, told = drawn()
    steps = []
    for at in range(0, STEPS * SIZE, SIZE):
        part = slice(at, at + SIZE)
        states = store.states(torch.from_numpy(store.places(slots[part])))
        reached = torch.from_numpy(told[part]) if same is None else same(states[:, 1], states[:, 2])
        flat, numbers = states.flatten(0, 1), torch.arange(3 * SIZE).view(SIZE, 3)
        pairs, places = (torch.from_numpy(part) for part in every_pair(numbers.numpy()))
        wanted = learner.wanted(flat, numbers[:, 1:], reached)
        metrics = learner.update(UVFABatch(flat, pairs, places, torch.from_numpy(actions[part]), wanted))
        steps.append((float(metrics["loss"]), float(reached.float().mean())))
    return steps


@on_both_devices
@pytest.mark.parametrize("same", [close, None])
def test_steps_are_the_learners_own(same: Same | None, device: str) -> None:
    plain, plain_store = make("cpu")
    wanted = by_hand(plain, plain_store, same)
    learner, store = make(device)
    before = copy.deepcopy(learner.network.state_dict())
    resident = ResidentUVFA(learner, store, STACK, same)
    slots, actions, told = drawn()
    split = 4 * SIZE  # in two calls, as the agent does
    for part in (slice(0, split), slice(split, None)):
        resident.update(slots[part], actions[part], told[part] if same is None else None)
    assert learner.gradient_steps == STEPS
    torch.testing.assert_close(resident.sums.cpu(), torch.tensor(wanted).sum(0), rtol=1e-3, atol=1e-4)
    for name, value in plain.network.state_dict().items():
        assert not torch.equal(before[name].cpu(), value), name
        torch.testing.assert_close(learner.network.state_dict()[name].cpu(), value, rtol=1e-2, atol=1e-3, msg=name)
    for name, value in plain.target.state_dict().items():
        torch.testing.assert_close(learner.target.state_dict()[name].cpu(), value, rtol=1e-2, atol=1e-3, msg=name)


def test_the_share_of_goals_reached_is_of_those_that_compare_alike() -> None:
    learner, store = make("cpu")
    shares = {same: sum(share for _, share in by_hand(*make("cpu"), same)) for same in (close, None)}
    assert shares[close] != shares[None]
    resident = ResidentUVFA(learner, store, STACK, close)
    slots, actions, told = drawn()
    resident.update(slots, actions, told)  # what is told does not count beside a comparison
    assert float(resident.sums[1]) == pytest.approx(shares[close], abs=1e-5)
