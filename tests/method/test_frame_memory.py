"""States with memory over frames: traces, surroundings, landmarks in doubt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from sfl.api import Array, Transitions
from sfl.errors import UsageError
from sfl.method.agent import SFLAgent
from sfl.method.config import FrameConfig
from sfl.method.schedule import FrameRepresentation

from .ring import CPU, PLACES, SPEC, with_memory


def test_landmarks_in_doubt_have_no_edges(encoder: str) -> None:
    agent = SFLAgent(with_memory(encoder), SPEC, 0, "cpu")
    for index in range(4):
        agent.landmarks.set.add(index, 0)
    for source, target in ((0, 1), (1, 2), (2, 0), (0, 3)):
        agent.statistics.record(source, target, steps=2, random=True)
    agent._form_edges()
    assert len(agent.edges.weights) == 8  # both ways
    agent.landmarks.aliasing.flag(np.array([False, True, False]))  # the fourth landmark came later
    agent._form_edges()
    pairs = set(zip(agent.edges.sources.tolist(), agent.edges.targets.tolist(), strict=True))
    assert pairs == {(0, 2), (2, 0), (0, 3), (3, 0)}
    assert agent.update()["graph/doubted"] == pytest.approx(1 / 3)


# ---- states with memory


def state_of(features: torch.Tensor, black: torch.Tensor, config: FrameConfig) -> torch.Tensor:
    """The closed form: sum d^k f_{t-k} / sum d^k for each d, then the last frames, of all [T, F] of an episode."""
    ages = torch.arange(len(features) - 1, -1, -1)
    weights = [decay**ages for decay in config.traces]
    traces = [(weight.unsqueeze(1) * features).sum(0) / weight.sum() for weight in weights]
    return torch.cat([*traces, *torch.cat([black.expand(config.stack, -1), features])[-config.stack :]])


def test_traces_are_means_that_fade_and_start_afresh_with_an_episode(encoder: str, views: Array) -> None:
    config = with_memory(encoder)
    source = FrameRepresentation(config, SPEC, 0, CPU)
    features, black = source.stacks.encode(views), source.stacks.fill
    walks = {0: [3, 4, 5, 4, 3, 2], 1: [7, 0]}
    for env, walk in walks.items():
        source.begin_episode(env)
        for time, place in enumerate(walk, start=1):
            state = source.perceive(views[[place]], np.array([env]))[0]
            torch.testing.assert_close(state, state_of(features[walk[:time]], black, config.frames))
    source.begin_episode(0)
    both = source.perceive(views[[6, 1]], np.array([0, 1]))
    torch.testing.assert_close(both[0], state_of(features[[6]], black, config.frames))
    torch.testing.assert_close(both[1], state_of(features[[7, 0, 1]], black, config.frames))
    torch.testing.assert_close(source.goal_state(views[6])[0], features[6].repeat(4))  # two traces, two frames
    assert (source.state_dim, source.dim) == (4 * features.shape[1], features.shape[1])


def test_the_replay_has_the_states_of_the_moment_up_to_the_last_of_an_episode(encoder: str, views: Array) -> None:
    config = replace(with_memory(encoder), replay_size=100)
    source = FrameRepresentation(config, SPEC, 0, CPU)
    rng, envs = np.random.default_rng(0), np.arange(2)
    expected: list[list[torch.Tensor]] = [[], []]
    for _ in range(7):
        places = rng.integers(PLACES, size=(11, 2))
        for env in (0, 1):
            source.begin_episode(env)
        for time, place in enumerate(places):
            states = source.perceive(views[place], envs)
            for env in (0, 1):
                expected[env].append(states[env].clone())
            if time < 10:
                done = np.full(2, time == 9)
                nothing = np.zeros(2, bool)
                source.observe(
                    Transitions(envs, views[place], nothing * 1, np.zeros(2), nothing, done, views[places[time + 1]]),
                    ~nothing,
                )
    assert source._replay._head.tolist() == [77, 77]  # of which the last 50 are kept
    for env in (0, 1):
        at = np.arange(33, 77)  # whole episodes
        entries = source._replay._entries(np.full(len(at), env), at)
        slots = source._replay._states(entries, 0, np.zeros_like(at))[:, 0]
        found = source._store.states(torch.from_numpy(source._store.places(slots)))
        torch.testing.assert_close(found, torch.stack(expected[env][33:]))


def test_psi_tells_two_places_apart_by_what_was_seen_before(encoder: str, views: Array) -> None:
    source = FrameRepresentation(with_memory(encoder), SPEC, 0, CPU)
    for env in (0, 1):
        source.begin_episode(env)
    for places in ([1, 5], [2, 2], [3, 3]):
        states = source.perceive(views[places], np.arange(2))
    size = source.dim
    torch.testing.assert_close(states[0, 2 * size :], states[1, 2 * size :])  # the same frames
    psi = source.psi(states)
    assert psi.shape == (2, 2, size)
    assert (psi[0] - psi[1]).abs().max() > 1e-4


@pytest.mark.parametrize("stack", [1, 3])
def test_surroundings_are_what_was_seen_around_the_middle_of_a_random_walk(
    encoder: str, views: Array, stack: int
) -> None:
    config = with_memory(encoder)
    config = replace(config, frames=replace(config.frames, stack=stack))
    source = FrameRepresentation(config, SPEC, 0, CPU)
    assert source.surroundings(5, 2) is None  # nothing to look up yet
    walk, envs = [0, 1, 2, 3, 4, 5, 6, 7], np.arange(2)
    for env in (0, 1):
        source.begin_episode(env)
    for time, place in enumerate(walk[:-1]):
        here, ahead = (np.repeat(views[[one]], 2, axis=0) for one in (place, walk[time + 1]))
        source.perceive(here, envs)
        none, done = np.zeros(2, bool), np.full(2, time == 6)
        source.observe(Transitions(envs, here, none * 1, np.zeros(2), none, done, ahead), ~none)
    assert source.surroundings(60, 7) is None  # after seven steps the walk is over
    found = source.surroundings(60, 2)
    assert found is not None
    states, around = found
    features, black = source.stacks.encode(views), source.stacks.fill
    middles = {}
    for state, mean in zip(states, around, strict=True):
        place = int((features - state[-source.dim :]).norm(dim=1).argmin())
        torch.testing.assert_close(state, state_of(features[: place + 1], black, config.frames))
        middles[place] = mean
    assert set(middles) == {2, 3, 4, 5, 6}  # two steps after a start; the last view of all is nobody's middle
    white = source.successor.white(features)
    for place, mean in middles.items():
        seen = white[place - 2 : min(place + 2, 7)].sum(0)  # four steps, and no action follows the last view
        torch.testing.assert_close(mean, seen / seen.norm())


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"stack": 0}, "frames.stack must be at least 1, got 0"),
        ({"traces": (0.9, 1.0), "phi": "newest"}, r"frames.traces must lie between 0 and 1, got \(0.9, 1.0\)"),
        ({"traces": (0.0,), "phi": "newest"}, r"frames.traces must lie between 0 and 1, got \(0.0,\)"),
        ({"traces": (0.9,)}, "frames.traces goes with frames.phi newest only"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        FrameConfig(**settings)
