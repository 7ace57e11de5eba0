"""Walks: whole, repeated when cut, the same for any number of games, and taken from as asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from sfl.baselines.networks import MomentPairs
from sfl.errors import UsageError
from sfl.nn.frame_encoders import halve
from sfl.pretrain.config import ContrastConfig, WalkConfig
from sfl.pretrain.objectives import PlaceDraw
from sfl.pretrain.walks import Walks, collect, random_walks
from sfl.worlds.doom.pool import GameEpisode, GameStep
from sfl.worlds.mazes.layout import Maze

from .made import made_walks


class FakePool:
    """A pool of two, without games: a frame shows game, episode and time. Episode 1 of game 1 is cut at time 2."""

    def __init__(self) -> None:
        self.count, self.halves = 2, (slice(0, 1), slice(1, 2))
        self.samplers = [SimpleNamespace(draw_goal=lambda rng: (float(rng.integers(9)), 0.0, 0.0))] * 2
        self.episodes, self.times, self.budgets = [-1, -1], [0, 0], [0, 0]
        self.fresh, self.resting = [True, True], [False, False]
        self.actions: list[tuple[int, int, int]] = []
        self.waiting = [False, False]

    def restart(self, source: Any) -> None:
        self.source = source

    def send(self, game: int, actions: Any = None) -> None:
        assert not self.waiting[game]
        self.waiting[game] = True
        if self.fresh[game]:
            episode: GameEpisode | None = self.source(game)
            self.resting[game] = episode is None
            if episode is not None:
                assert episode.budget is not None
                self.episodes[game], self.times[game], self.budgets[game] = self.episodes[game] + 1, 0, episode.budget
        else:
            self.times[game] += 1
            self.actions.append((game, self.episodes[game], int(actions[0])))

    def receive(self, game: int) -> GameStep:
        assert self.waiting[game]
        self.waiting[game] = False
        started, running = self.fresh[game] and not self.resting[game], not self.resting[game]
        cut = (game, self.episodes[game], self.times[game]) == (1, 1, 2)
        ended = running and not started and (cut or self.times[game] == self.budgets[game])
        self.fresh[game] = ended or not running
        frame = np.zeros((1, 120, 160, 3), np.uint8)
        frame[0, 0, 0] = game, self.episodes[game], self.times[game] % 256
        flags = {"running": running, "started": started, "succeeded": False, "ended": ended, "truncated": ended}
        return GameStep(
            frames=frame,
            poses=np.zeros((1, 3)),
            restarts=np.zeros(1, np.int64),
            **{name: np.array([flag]) for name, flag in flags.items()},
        )


def rngs(count: int) -> list[np.random.Generator]:
    return [np.random.Generator(np.random.PCG64(number)) for number in range(count)]


def test_a_walk_that_was_cut_is_walked_again() -> None:
    pool: Any = FakePool()
    shown: dict[tuple[int, int, int], tuple[int, int]] = {}
    for moments in random_walks(pool, count=3, length=5, rngs=rngs(2)):
        for game, walk, time, frame in zip(moments.games, moments.walks, moments.times, moments.frames, strict=True):
            assert frame[0, 0, 0] == game
            shown[int(game), int(walk), int(time)] = (int(frame[0, 0, 1]), int(frame[0, 0, 2]))
    assert set(shown) == {(game, walk, time) for game in range(2) for walk in range(3) for time in range(5)}
    assert all(seen == time for (_, _, time), (_, seen) in shown.items())
    assert [shown[0, walk, 4][0] for walk in range(3)] == [0, 1, 2]
    assert [shown[1, walk, time][0] for walk in range(3) for time in (0, 4)] == [0, 0, 2, 2, 3, 3]
    assert pool.waiting == [False, False]  # all answers were taken


def test_actions_are_uniform() -> None:
    pool: Any = FakePool()
    for _ in random_walks(pool, count=2, length=2_000, rngs=rngs(2)):
        pass
    counts = np.bincount([action for _, _, action in pool.actions], minlength=7)
    assert len(counts) == 7
    np.testing.assert_allclose(counts / counts.sum(), 1 / 7, atol=0.02)


def test_moments_tell_the_action_that_is_taken_next() -> None:
    pool: Any = FakePool()
    told: dict[tuple[int, int], list[int]] = {}
    for moments in random_walks(pool, count=3, length=5, rngs=rngs(2)):
        for game, frame, action in zip(moments.games, moments.frames, moments.actions, strict=True):
            told.setdefault((int(game), int(frame[0, 0, 1])), []).append(int(action))
    sent: dict[tuple[int, int], list[int]] = {}
    for game, episode, action in pool.actions:
        sent.setdefault((game, episode), []).append(action)
    assert {key: actions[:-1] for key, actions in told.items()} == sent  # nothing follows the last moment


TINY = {"frames": 96, "walk_length": 12, "walks_per_maze": 2, "mazes": ("small",)}


@pytest.fixture(scope="module")
def collected() -> Walks:
    return collect(WalkConfig(**TINY, games=4), seed=3, device="cpu", seconds=None)  # type: ignore[arg-type]


def test_collecting_gives_whole_walks_of_as_many_frames(collected: Walks) -> None:
    assert collected.frames.shape == (8, 12, 120, 160, 3)
    assert collected.mazes.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert collected.names == ("small",) * 4
    means = collected.frames.float().mean((2, 3, 4))
    assert float(means.min()) > 5  # no black frame
    starts = {collected.frames[walk, 0].numpy().tobytes() for walk in range(8)}
    assert len(starts) == 8
    # One decision changes a picture less than a dozen walks of other places and textures differ.
    changes = (collected.frames[:, 1:].float() - collected.frames[:, :-1].float()).abs().mean()
    differences = (collected.frames[1:].float() - collected.frames[:-1].float()).abs().mean()
    assert float(changes) < 0.7 * float(differences)


def test_frames_depend_on_the_seed_and_not_on_the_number_of_games(collected: Walks) -> None:
    config = WalkConfig(**TINY, games=3, workers=1, half_size=True)  # type: ignore[arg-type]
    other = collect(config, seed=3, device="cpu", seconds=None)
    assert torch.equal(other.frames, halve(collected.frames.flatten(0, 1)).view_as(other.frames))


def test_collecting_stops_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def walk_round(config: WalkConfig, mazes: list[Maze], frames: torch.Tensor, *rest: Any) -> None:
        frames[: 2 * len(mazes)] = len(mazes)
        clock[0] += 10.0

    clock = [0.0]
    monkeypatch.setattr("sfl.pretrain.walks.walk_round", walk_round)
    monkeypatch.setattr("sfl.pretrain.walks.time.monotonic", lambda: clock[0])
    walks = collect(WalkConfig(**TINY, games=1), 0, "cpu", seconds=25.0)  # type: ignore[arg-type]
    assert walks.frames.shape[0] == 4  # a third round would have ended after 30 seconds
    assert walks.mazes.tolist() == [0, 0, 1, 1]
    assert bool((walks.frames == 1).all())


def test_more_frames_than_memory_are_refused_at_once() -> None:
    config = WalkConfig(frames=1_000_000_000)
    with pytest.raises(UsageError, match=r"1,000,000,000 frames of 160x120 take 57,600.0 GB, .* --frames"):
        collect(config, 0, "cpu", seconds=None)


def test_pairs_are_taken_where_they_say() -> None:
    walks = made_walks()
    pairs = MomentPairs(np.array([0, 2]), np.array([1, 4]), np.array([[3, 5], [7, 9]]), np.array([True, True]))
    taken = walks.take(pairs)
    assert taken.shape == (2, 2, 60, 80, 3)
    assert torch.equal(taken[0, 0], walks.frames[1, 3])
    assert torch.equal(taken[1, 0], walks.frames[1, 7])
    assert torch.equal(taken[0, 1], walks.frames[4, 5])
    assert torch.equal(taken[1, 1], walks.frames[4, 9])


def test_no_pair_crosses_walks_or_mazes() -> None:
    walks = made_walks()
    marked = walks.frames.clone()
    marked[:, :, 0, 0, 0] = torch.arange(6, dtype=torch.uint8).view(6, 1)
    marked[:, :, 0, 0, 1] = torch.arange(60, dtype=torch.uint8)
    draw = PlaceDraw(ContrastConfig(mazes=3, moments=50), walks.mazes, walks.length)
    pairs = draw(np.random.Generator(np.random.PCG64(0)))
    corner = Walks(marked, walks.mazes, walks.names, walks.actions).take(pairs)[:, :, 0, 0].int()
    assert torch.equal(corner[0, :, 0], corner[1, :, 0])
    assert (walks.mazes[corner[0, :, 0].numpy()] == pairs.mazes).all()
    assert int((corner[0, :, 1] - corner[1, :, 1]).abs().max()) <= 5


def test_samples_come_from_everywhere() -> None:
    walks = made_walks(length=11)
    sample = walks.sample(300, np.random.Generator(np.random.PCG64(0)))
    known = {frame.numpy().tobytes() for frame in walks.frames.flatten(0, 1)}
    found = {frame.numpy().tobytes() for frame in sample}
    assert found <= known
    assert len(found) > 0.95 * len(known)
