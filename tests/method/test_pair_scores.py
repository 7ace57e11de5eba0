"""The chance by R: whole tables against pair after pair, and landmarks that are known by more than psi."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from sfl.api import EnvSpec
from sfl.baselines.networks import FixedHead, ReachabilityHead, Retrieval
from sfl.method.config import LandmarkConfig, RetrievalConfig
from sfl.method.landmarks import Landmarks
from sfl.method.reachability import Reachability

CPU = torch.device("cpu")


def make_head(layers: int) -> ReachabilityHead:
    """A head with statistics other than at first."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        head = ReachabilityHead(6, 8, layers).train()
        for _ in range(5):
            head(torch.randn(40, 12) * 2 + 1)
    return head.eval()


def codes(count: int, seed: int) -> Tensor:
    return torch.randn(count, 6, generator=torch.Generator().manual_seed(seed))


def one_by_one(head: ReachabilityHead, first: Tensor, second: Tensor) -> Tensor:
    """The head as it was taught, on one pair after the other."""
    with torch.no_grad():
        return torch.tensor([[head(torch.cat([a, b])[None]).softmax(1)[0, 1] for b in second] for a in first])


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_a_fixed_head_says_of_all_pairs_what_the_head_says_of_each(layers: int) -> None:
    head, some, others = make_head(layers), codes(5, 1), codes(7, 2)
    fixed, expected = FixedHead(head), one_by_one(head, some, others)
    first, second = fixed.halves(some), fixed.halves(others)
    assert first.shape == (5, 2 * fixed.size)
    torch.testing.assert_close(fixed.table(first, second, at_once=14), expected)
    torch.testing.assert_close(fixed.table(first, second), expected)
    torch.testing.assert_close(fixed.each(first, second[:5]), expected.diagonal())
    assert (expected - one_by_one(head, others, some).T).abs().max() > 0.01  # which comes first does matter
    assert fixed.table(first, second[:0]).shape == (5, 0)
    assert fixed.table(first[:0], second).shape == (0, 7)
    rounded = FixedHead(head, torch.bfloat16).table(first, second)  # as on a GPU
    assert rounded.dtype == torch.float32
    torch.testing.assert_close(rounded, expected, atol=0.02, rtol=0)


def test_halves_are_not_changed_by_comparing_them() -> None:
    fixed = FixedHead(make_head(2))
    first, second = fixed.halves(codes(3, 1)), fixed.halves(codes(4, 2))
    kept = first.clone(), second.clone()
    fixed.table(first, second)
    fixed.each(first, second[:3])
    assert torch.equal(first, kept[0])
    assert torch.equal(second, kept[1])


def test_landmarks_are_known_by_psi_and_by_what_the_metric_compares() -> None:
    retrieval = Retrieval(RetrievalConfig(hidden=8, layers=2, dim=6), EnvSpec((6,), "float32", 2), 0, "cpu").snapshot()
    retrieval.network.head = make_head(2)
    r = Reachability(retrieval)
    psi, places, states = torch.nn.functional.normalize(codes(4, 5), dim=1), codes(4, 3), codes(3, 4)
    keys, seen = torch.cat([psi, r.halves(places)], dim=1), torch.cat([psi[:3], r.halves(states)], dim=1)
    landmarks = Landmarks(LandmarkConfig(window=2), keys.shape[1], CPU, r)
    assert landmarks.similarity(keys[:2]).shape == (2, 0)
    landmarks.set_keys(keys, same_landmarks=False)
    expected = one_by_one(retrieval.network.head, states, places)
    torch.testing.assert_close(landmarks.similarity(seen), expected)
    torch.testing.assert_close(landmarks.compare_rows(seen, keys[:3]), expected.diagonal())
    state = landmarks.state()
    np.testing.assert_array_equal(state["psi"], psi.numpy())  # what figures of SFS read
    other = Landmarks(LandmarkConfig(window=2), keys.shape[1], CPU, r)
    other.load_state(state)
    assert torch.equal(other.keys, keys)
    assert torch.equal(other.snapshot().similarity(seen), landmarks.similarity(seen))
    assert "metric_keys" not in Landmarks(LandmarkConfig(), 3, CPU).state()
