"""R: the pairs it is taught, all pairs at once against one by one, what it learns, and its state."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from sfl.api import AgentState, Array, EnvSpec
from sfl.baselines.networks import ReachabilityHead, Retrieval
from sfl.errors import UsageError
from sfl.method.config import RetrievalConfig

from .walks import LINE, line_replay, line_views

CONFIG = RetrievalConfig(near=2, far=5, hidden=32, layers=2, dim=16, batch_size=32, learning_rate=3e-3)


def taught(steps: int, seed: int = 0) -> Retrieval:
    retrieval, replay, rng = Retrieval(CONFIG, LINE, seed, "cpu"), line_replay(400), np.random.default_rng(seed)
    for _ in range(steps):
        triplets = replay.triplets(rng, CONFIG.batch_size // 2, CONFIG.near, CONFIG.far)
        assert triplets is not None
        metrics = retrieval.update(triplets)
    assert set(metrics) == {"train/retrieval_loss", "train/retrieval_accuracy"}
    return retrieval


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_all_pairs_at_once_are_what_each_pair_is_alone(layers: int) -> None:
    torch.manual_seed(0)
    head = ReachabilityHead(6, 8, layers)
    head.train()
    for _ in range(5):
        head(torch.randn(40, 12) * 2 + 1)  # statistics other than at first
    head.eval()
    first, second = torch.randn(5, 6), torch.randn(7, 6)
    with torch.no_grad():
        table = head.table(first, second, at_once=14)
        alone = [[head(torch.cat([a, b])[None]).softmax(1)[0, 1] for b in second] for a in first]
        own = head.rows(first, second.expand(5, 7, -1), at_once=14)
    torch.testing.assert_close(table, torch.tensor(alone))
    torch.testing.assert_close(own, table)
    assert head.table(first, second[:0]).shape == (5, 0)
    assert head.table(first[:0], second).shape == (0, 7)


def test_it_learns_which_places_are_near() -> None:
    retrieval = taught(150)
    features = retrieval.features(line_views(np.arange(20)))
    chance = retrieval.reachable(features, features)
    apart = torch.arange(20).unsqueeze(1).sub(torch.arange(20)).abs()
    assert float(chance[apart <= 1].mean()) > 0.65  # walkers turn back: some far in time are near
    assert float(chance[apart > 5].mean()) < 0.35
    assert not features.requires_grad


def twins(rng: np.random.Generator, count: int) -> torch.Tensor:
    """Triplets of walks in one of two corridors of ten places, which look alike but for a mark that both ends have."""
    corridor, place = rng.integers(2, size=count), rng.integers(10, size=count)
    near = np.clip(place + rng.integers(-1, 2, size=count), 0, 9)
    return torch.stack([twin_views(corridor, at) for at in (place, near, (place + 5) % 10)])


def twin_views(corridor: Array, place: Array) -> torch.Tensor:
    return torch.from_numpy(np.eye(20, dtype=np.float32)[place] + 0.5 * np.eye(20, dtype=np.float32)[10 + corridor])


@pytest.mark.parametrize("extra_negatives", [0, 7])
def test_extra_negatives_teach_it_to_tell_places_apart_that_no_walk_joins(extra_negatives: int) -> None:
    retrieval, rng = Retrieval(CONFIG, LINE, 0, "cpu"), np.random.default_rng(0)
    for _ in range(200):
        metrics = retrieval.update(twins(rng, 32), extra_negatives)
    assert set(metrics) == {"train/retrieval_loss", "train/retrieval_accuracy"}
    assert metrics["train/retrieval_accuracy"] > 0.7  # of near and far pairs of one walk, as many of each
    here, there = (retrieval.features(twin_views(np.full(10, corridor), np.arange(10))) for corridor in (0, 1))
    # Of 20 places 3 are near, so that extra negatives are near as well at times: 1/3 against 7/20 for a place itself.
    assert float(retrieval.reachable(here, here).diagonal().mean()) > 0.45
    mistaken = float(retrieval.reachable(here, there).diagonal().mean())
    assert mistaken < 0.15 if extra_negatives else mistaken > 0.6


def test_the_loss_is_the_mean_over_all_pairs_extra_negatives_included() -> None:
    retrieval, views = Retrieval(CONFIG, LINE, 0, "cpu"), twins(np.random.default_rng(0), 8)
    some, near, far = retrieval.network.encoder(views.flatten(0, 1)).chunk(3)
    pairs = [(some, near), (some, far), (some, near.roll(1, 0)), (some, near.roll(2, 0))]
    alone = torch.cat([retrieval.network.head(torch.cat(pair, dim=1)) for pair in pairs])
    torch.testing.assert_close(retrieval.network(views, extra_negatives=2), alone)
    torch.testing.assert_close(retrieval.network(views), alone[:16])


def test_the_state_goes_on_alike_and_a_frozen_copy_stays() -> None:
    retrieval, rng = taught(3), np.random.default_rng(1)
    frozen, view = retrieval.snapshot(), line_views(np.array([3]))
    before = frozen.features(view)
    state = AgentState()
    retrieval.write_state(state)
    other = Retrieval(CONFIG, LINE, 5, "cpu")
    other.load_state(copy.deepcopy(state))
    triplets = line_replay(100).triplets(rng, 8, 2, 5)
    assert triplets is not None
    assert retrieval.update(triplets) == other.update(triplets)
    assert torch.equal(retrieval.features(view), other.features(view))
    assert torch.equal(frozen.features(view), before)
    assert not torch.equal(retrieval.features(view), before)
    assert other.gradient_steps == 4


def test_weights_depend_on_the_seed_and_on_no_global_generator() -> None:
    view = line_views(np.array([3]))
    before = torch.get_rng_state()
    one, same, other = (Retrieval(CONFIG, LINE, seed, "cpu").features(view) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_frames_are_seen_by_the_encoder_of_the_paper() -> None:
    retrieval = Retrieval(RetrievalConfig(), EnvSpec((120, 160, 3), "uint8", 7), 0, "cpu")
    assert retrieval.dim == 512
    assert retrieval.features(np.zeros((2, 120, 160, 3), np.uint8)).shape == (2, 512)
    assert retrieval.features(np.zeros((0, 120, 160, 3), np.uint8)).shape == (0, 512)
    assert sum(isinstance(part, torch.nn.Linear) for part in retrieval.network.head) == 5


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"near": 30}, "1 <= near < far must hold, got 30 and 24"),
        ({"dim": 0}, "retrieval.dim must be at least 1, got 0"),
        ({"learning_rate": 0.0}, "retrieval.learning-rate must be positive, got 0.0"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, float], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        RetrievalConfig(**wrong)  # type: ignore[arg-type]
