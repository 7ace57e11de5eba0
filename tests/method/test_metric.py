"""Nearness by SFS and by R: whole tables against pair after pair, and landmarks that are known by more than psi."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from sfl.baselines.networks import FixedHead, ReachabilityHead
from sfl.method.landmarks import Localizer
from sfl.method.metric import Chance, Cosine

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


def test_sfs_is_the_cosine_in_every_form() -> None:
    cosine, some, others = Cosine(), torch.eye(3)[:2], torch.tensor([[0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])
    expected = torch.tensor([[0.6, 0.0], [0.8, 0.0]])
    laid = cosine.lay_out(others)
    torch.testing.assert_close(cosine.table(some, laid), expected)
    torch.testing.assert_close(cosine.between(some, others), expected)
    torch.testing.assert_close(cosine.each(some, others), expected.diagonal())
    assert torch.equal(cosine.rows(laid), others)


def test_landmarks_are_known_by_psi_and_by_what_the_metric_compares() -> None:
    head = make_head(2)
    fixed = FixedHead(head)
    metric = Chance(fixed)
    psi = torch.nn.functional.normalize(codes(4, 5), dim=1)
    places = codes(4, 3)
    keys = torch.cat([psi, fixed.halves(places)], dim=1)
    localizer = Localizer(keys.shape[1], 2, CPU, metric)
    assert localizer.similarity(keys[:2]).shape == (2, 0)
    localizer.set_rows(keys, same_landmarks=False)
    states = codes(3, 4)
    seen = torch.cat([psi[:3], fixed.halves(states)], dim=1)
    expected = one_by_one(head, states, places)
    torch.testing.assert_close(localizer.similarity(seen), expected)
    torch.testing.assert_close(metric.each(seen, keys[:3]), expected.diagonal())
    state = localizer.state()
    np.testing.assert_array_equal(state["psi"], psi.numpy())  # what figures of SFS read
    other = Localizer(keys.shape[1], 2, CPU, metric)
    other.load_state(state)
    assert torch.equal(other.rows, keys)
    assert torch.equal(other.fresh().similarity(seen), localizer.similarity(seen))
    assert "metric_keys" not in Localizer(3, 2, CPU).state()
