"""SFL over frames: stacks of features, a replay of features, and an encoder that is fixed."""

from __future__ import annotations

import copy
import itertools
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from sfl.api import Array
from sfl.errors import CheckpointError
from sfl.method.agent import SFLAgent
from sfl.method.config import SFLConfig
from sfl.method.schedule import FrameRepresentation
from sfl.nn.frame_encoders import FrameEncoder

from ..contract.worlds import assert_same_state
from .ring import CPU, PLACES, SPEC, Ring, config_of, goes_on, make_encoder, released, with_memory


def test_a_state_is_the_stack_of_the_last_frames_and_begins_with_black_ones(encoder: str, views: Array) -> None:
    source = FrameRepresentation(config_of(encoder), SPEC, 0, CPU)
    source.begin_episode(0)
    source.begin_episode(1)
    features, black = source.stacks.encode(views), source.stacks.fill
    first = source.perceive(views[[2]], np.array([1]))
    torch.testing.assert_close(first[0], torch.cat([black, black, features[2]]))
    second = source.perceive(views[[3, 5]], np.array([0, 1]))
    torch.testing.assert_close(second[0], torch.cat([black, black, features[3]]))
    torch.testing.assert_close(second[1], torch.cat([black, features[2], features[5]]))
    source.begin_episode(1)
    again = source.perceive(views[[5]], np.array([1]))
    torch.testing.assert_close(again[0], torch.cat([black, black, features[5]]))
    torch.testing.assert_close(source.goal_state(views[6])[0], features[6].repeat(3))


def test_the_replay_gives_back_the_states_that_were_seen(encoder: str, views: Array) -> None:
    agent = SFLAgent(config_of(encoder), SPEC, 0, "cpu")
    Ring(views, agent).go(30)
    source = agent.representation
    assert isinstance(source, FrameRepresentation)
    batch = source._replay.sample_n_step(np.random.default_rng(0), 40, 2, 0.8)
    assert batch is not None
    states = source._store.at(torch.from_numpy(source._store.places(batch.steps[:, 0])))  # [B, stack, F]
    features = source.stacks.encode(views)
    for state in states:
        places = [int((features - frame).norm(dim=1).argmin()) for frame in state]
        seen = [place for place, frame in zip(places, state, strict=True) if not torch.equal(frame, source.stacks.fill)]
        assert seen[-1] in range(PLACES)
        assert all((b - a) % PLACES in (1, PLACES - 1) for a, b in itertools.pairwise(seen))


@pytest.mark.usefixtures("uncollected")
def test_a_policy_goes_when_it_is_let_go(encoder: str, views: Array) -> None:
    agent = SFLAgent(config_of(encoder), SPEC, 0, "cpu")
    Ring(views, agent).go(100)
    reference = weakref.ref(agent.policy(0))
    assert reference() is None


def test_it_learns_and_builds_a_graph(encoder: str, views: Array) -> None:
    agent = SFLAgent(config_of(encoder), SPEC, 0, "cpu")
    Ring(views, agent).go(200)
    assert agent.representation.successor.gradient_steps > 50  # type: ignore[attr-defined]
    assert agent.landmarks.set.count >= 3
    policy = agent.policy(seed=1)
    policy.begin_episode(0, views[3])
    assert policy.act(views[[0]], np.array([0])).shape == (1,)


def test_as_released_random_steps_count_both_ways_and_an_episode_has_one_trip(encoder: str, views: Array) -> None:
    agent = SFLAgent(released(encoder), SPEC, 0, "cpu")
    ring = Ring(views, agent)
    ring.go(300)
    agent.statistics.record(0, 2, steps=1, random=False)  # of a trip: it does not count
    agent._form_edges()
    edges, random = agent.edges, agent.statistics.random
    pairs = list(zip(edges.sources.tolist(), edges.targets.tolist(), strict=True))
    assert any(random[source, target] != random[target, source] for source, target in pairs)  # or nothing was tested
    assert (0, 2) in pairs
    together = [random[source, target] + random[target, source] for source, target in pairs]
    assert edges.counts.tolist() == together
    for _ in range(10):  # episodes of fifteen steps
        before = agent.update()["explore/frontier_trips"]
        ring.go(15)
        assert agent.update()["explore/frontier_trips"] - before <= 2  # one for each of the two walkers


@pytest.mark.parametrize("make_config", [config_of, with_memory, released])
@pytest.mark.parametrize("steps", [105, 112])  # past the replay's capacity, at an episode's end and in an episode
def test_a_loaded_agent_goes_on_alike(
    encoder: str, views: Array, make_config: Callable[[str], SFLConfig], steps: int
) -> None:
    agent, other = (SFLAgent(make_config(encoder), SPEC, seed, "cpu") for seed in (0, 1))
    ring = Ring(views, agent)
    ring.go(steps)
    other.load_state_dict(copy.deepcopy(agent.state_dict()))
    twin = Ring(views, other)
    twin.time, twin.at = ring.time, ring.at.copy()
    assert twin.go(60) == ring.go(60)
    assert_same_state(agent.state_dict(), other.state_dict())
    if make_config is with_memory:
        assert agent.landmarks.aliasing.aliased.any()  # or nothing was tested


def test_another_encoder_is_refused(encoder: str, views: Array, tmp_path: Path) -> None:
    agent = SFLAgent(config_of(encoder), SPEC, 0, "cpu")
    foreign = make_encoder(tmp_path / "other.safetensors", seed=5)
    with pytest.raises(CheckpointError, match=r"another encoder than .*other.*--agent\.frames\.encoder"):
        SFLAgent(config_of(foreign), SPEC, 0, "cpu").load_state_dict(agent.state_dict())


def test_gradient_steps_are_those_of_the_configuration(encoder: str, views: Array) -> None:
    agent = SFLAgent(config_of(encoder), SPEC, 0, "cpu")
    Ring(views, agent).go(100)
    # 200 decisions, of which those up to the 40th do not count, and a quarter of a step for each of the others.
    assert agent.representation.successor.gradient_steps == 40  # type: ignore[attr-defined]


def test_gradient_steps_that_are_put_off_are_made_at_the_next_act_and_none_is_left_in_a_checkpoint(
    encoder: str, views: Array
) -> None:
    agent = SFLAgent(config_of(encoder), SPEC, 0, "cpu")
    source = agent.representation
    assert isinstance(source, FrameRepresentation)
    source._puts_off = True  # as on a GPU
    ring = Ring(views, agent)
    counts = []
    for _ in range(100):
        ring.go(1)
        counts.append(source.successor.gradient_steps)
    # Two decisions a turn, half a step: the step that turns 22, 24, ... (44, 48, ... decisions) call for is made by the
    # next turn's act, before landmarks are collected as well as after.
    assert counts == [max(0, (turn - 1) // 2 - 10) for turn in range(1, 101)]
    state = agent.state_dict()
    assert source.successor.gradient_steps == state.counters["representation"]["gradient_steps"] == 40
    assert state.counters["representation"]["due"] < 1
    agent.policy(seed=0)
    assert source.successor.gradient_steps == 40


def test_weights_that_differ_in_one_number_are_another_encoder() -> None:
    first, second = FrameEncoder("compact"), FrameEncoder("compact")
    second.load_state_dict(first.state_dict())
    assert first.digest() == second.digest()
    with torch.no_grad():
        second.std[7] += 1e-3
    assert first.digest() != second.digest()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_it_learns_saves_and_goes_on(encoder: str, views: Array) -> None:
    agent = SFLAgent(config_of(encoder), SPEC, 0, "cuda")
    Ring(views, agent).go(210)
    source = agent.representation
    assert isinstance(source, FrameRepresentation)
    assert source.successor.gradient_steps == 95  # 420 decisions less 40, a quarter of a step each
    assert source._steps.is_captured
    assert agent.landmarks.set.count >= 3
    goes_on(agent, SFLAgent(config_of(encoder), SPEC, 1, "cuda"), views)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_and_the_cpu_see_the_same_psi(encoder: str, views: Array) -> None:
    agent = SFLAgent(config_of(encoder), SPEC, 0, "cuda")
    Ring(views, agent).go(100)
    other = SFLAgent(config_of(encoder), SPEC, 0, "cpu")
    other.load_state_dict(agent.state_dict())
    states = np.random.default_rng(0).normal(size=(5, 3 * 128)).astype(np.float32)
    ours, theirs = (one.representation.psi(states).flatten(1).cpu() for one in (agent, other))
    assert float(torch.cosine_similarity(ours, theirs).min()) > 0.999


def test_similarity_of_frames_is_that_of_standing_still_before_them(encoder: str, views: Array) -> None:
    agent = SFLAgent(config_of(encoder), SPEC, 0, "cpu")
    Ring(views, agent).go(60)
    policy, source = agent.policy(seed=1), agent.representation
    similarity = policy.sfs(views[:3], views[2:])
    assert similarity.shape == (3, PLACES - 2)
    assert similarity[2, 0] == pytest.approx(1.0, abs=1e-5)
    psi = [source.psi(source.goal_state(view)).mean(1)[0] for view in views]
    expected = torch.nn.functional.cosine_similarity(psi[1], psi[5], dim=0)
    assert similarity[1, 3] == pytest.approx(float(expected), abs=1e-5)
