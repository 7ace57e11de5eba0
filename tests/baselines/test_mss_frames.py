"""MSS over frames: stacks of features, phases in turn, goals by cosine, and an encoder that is fixed."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sfl.api import Array
from sfl.baselines.mss.agent import MSSAgent
from sfl.baselines.mss.config import MapConfig, MSSConfig, UVFAConfig, over_frames
from sfl.baselines.mss.states import FrameExperience
from sfl.baselines.mss.value import UVFABatch
from sfl.config import from_json, to_json
from sfl.errors import CheckpointError
from sfl.registry import AgentConfig

from ..contract.worlds import assert_same_state
from ..method.ring import PLACES, SPEC, Ring, goes_on, make_encoder


def config_of(encoder: str, stack: int = 2) -> MSSConfig:
    return over_frames(
        encoder=encoder,
        stack=stack,
        uvfa=UVFAConfig(
            (32, 16),
            batch_norm=True,
            gamma=0.8,
            learning_rate=3e-3,
            batch_size=32,
            target_every=10,
            future=6,
            start_step=60,
            updates_per_step=0.5,
        ),
        map=MapConfig(landmarks=5, candidates=40, clip=-3.0, redraw_every=40),
        replay_size=200,
        cycle_steps=4,
        reach=0.999,
    )


def test_it_learns_draws_a_map_and_takes_turns(encoder: str, views: Array) -> None:
    agent = MSSAgent(config_of(encoder), SPEC, 0, "cpu")
    ring = Ring(views, agent)
    ring.go(75)
    assert agent.learner.gradient_steps == 45  # half of 150 less 60 decisions
    assert agent.drawn_map is not None
    assert len(agent.drawn_map.landmarks) == 5
    led = []
    for _ in range(15):
        ring.go(1)
        led.append(agent.explain(0).target is not None)
    assert led == [True] * 4 + [False] * 4 + [True] * 4 + [False] * 3
    assert agent.update()["explore/frontier_trips"] > 0
    policy = agent.policy(seed=1)
    policy.begin_episode(0, views[3])
    assert policy.act(views[[0]], np.array([0])).shape == (1,)
    assert policy.explain(0).target is not None


def test_goals_count_as_reached_by_the_cosine_of_their_stacks(encoder: str, views: Array) -> None:
    agent = MSSAgent(config_of(encoder), SPEC, 0, "cpu")
    Ring(views, agent).go(40)
    source = agent.experience
    assert isinstance(source, FrameExperience)
    reached = []
    for _ in range(3):
        batch, found = drawn_batch(source, agent)
        _, following, goals = batch.features.view(32, 3, -1).unbind(1)
        cosine = torch.nn.functional.cosine_similarity(following, goals)
        assert torch.equal(found, cosine > 0.999)
        reached += found.tolist()
    assert 0.05 < np.mean(reached) < 0.9


def drawn_batch(source: FrameExperience, agent: MSSAgent) -> tuple[UVFABatch, torch.Tensor]:
    """What a gradient step learns from."""
    drawn = source._sample(32)
    assert drawn is not None
    places = torch.from_numpy(source._store.places(drawn.slots)).view(32, 3, -1)
    told = source._near(drawn) if source.config.oracle else np.zeros(32, bool)
    return source.batch(agent.learner, places, torch.from_numpy(drawn.actions), torch.from_numpy(told))


def test_an_oracle_learns_from_where_it_was_and_not_from_what_it_saw(encoder: str, views: Array) -> None:
    agent = MSSAgent(replace(config_of(encoder), oracle=True), SPEC, 0, "cpu")
    ring, still = Ring(views, agent), np.zeros((2, 3))
    for _ in range(40):
        agent.observe_poses(still, still)  # it is told that it never leaves its place
        ring.go(1)
    source = agent.experience
    assert isinstance(source, FrameExperience)
    batch, reached = drawn_batch(source, agent)
    _, following, goals = batch.features.view(32, 3, -1).unbind(1)
    assert reached.all()
    assert not source.perception.same(following, goals).all()


@pytest.mark.parametrize("stack", [1, 2])
@pytest.mark.parametrize("steps", [105, 112])  # past the replay's capacity, at an episode's end and in an episode
def test_a_loaded_agent_goes_on_alike(encoder: str, views: Array, steps: int, stack: int) -> None:
    agent, other = (MSSAgent(config_of(encoder, stack), SPEC, seed, "cpu") for seed in (0, 1))
    ring = Ring(views, agent)
    ring.go(steps)
    other.load_state_dict(copy.deepcopy(agent.state_dict()))
    twin = Ring(views, other)
    twin.time, twin.at = ring.time, ring.at.copy()
    assert twin.go(40) == ring.go(40)
    assert_same_state(agent.state_dict(), other.state_dict())


def test_a_policy_neither_disturbs_nor_follows_training(encoder: str, views: Array) -> None:
    alone, watched = (Ring(views, MSSAgent(config_of(encoder), SPEC, 0, "cpu")) for _ in range(2))
    alone.go(60)
    watched.go(60)
    now, later = (watched.agent.policy(seed=3) for _ in range(2))

    def walk(policy: object) -> list[int]:
        policy.begin_episode(0, views[4])  # type: ignore[attr-defined]
        return [int(policy.act(views[[step % PLACES]], np.array([0]))[0]) for step in range(12)]  # type: ignore[attr-defined]

    before = walk(now)
    assert watched.go(30) == alone.go(30)
    assert walk(later) == before


def test_another_encoder_is_refused(encoder: str, tmp_path: Path) -> None:
    agent = MSSAgent(config_of(encoder), SPEC, 0, "cpu")
    foreign = make_encoder(tmp_path / "other.safetensors", seed=5)
    with pytest.raises(CheckpointError, match=r"another encoder; .*--agent\.encoder"):
        MSSAgent(config_of(foreign), SPEC, 0, "cpu").load_state_dict(agent.state_dict())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_it_learns_saves_and_goes_on(encoder: str, views: Array) -> None:
    agent = MSSAgent(config_of(encoder), SPEC, 0, "cuda")
    Ring(views, agent).go(150)
    assert agent.learner.gradient_steps == 120
    goes_on(agent, MSSAgent(config_of(encoder), SPEC, 1, "cuda"), views)


def test_settings_of_older_runs_are_read() -> None:
    """They had a class for each kind of states, with the settings of that kind only."""
    grid, frames = to_json(MSSConfig(dim=32, plan_share=0.5)), to_json(over_frames(stack=3, cycle_steps=100))
    for name in ("states", "encoder", "stack", "cycle_steps", "reach"):
        del grid[name]
    for name in ("states", "dim", "norm", "plan_share"):
        del frames[name]
    frames["kind"] = "FrameMSSConfig"
    assert from_json(AgentConfig, grid) == MSSConfig(dim=32, plan_share=0.5)
    assert from_json(AgentConfig, frames) == over_frames(stack=3, cycle_steps=100)
