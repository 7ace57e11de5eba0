"""A world of frames: eight places on a ring, and agents with settings for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from sfl.api import Agent, Array, EnvSpec, Transitions
from sfl.method.config import EdgeConfig, FrameConfig, LandmarkConfig, NavigatorConfig, SFLConfig, SuccessorConfig
from sfl.method.presets import ours_frames, paper_frames
from sfl.nn.frame_encoders import FrameEncoder
from sfl.nn.weights import save_encoder

PLACES = 8
SPEC = EnvSpec((120, 160, 3), "uint8", 2, 2)
CPU = torch.device("cpu")


def make_encoder(path: Path, seed: int) -> str:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        save_encoder(FrameEncoder("compact"), path, {})
    return str(path)


def config_of(encoder: str) -> SFLConfig:
    return paper_frames(
        frames=FrameConfig(encoder, stack=3),
        successor=SuccessorConfig((32,), gamma=0.8, n_step=2, batch_size=16, start_step=40, updates_per_step=0.25),
        landmarks=LandmarkConfig(
            limit=6, add_threshold=0.99, localize_threshold=0.995, window=2, start_step=80, add_every=20
        ),
        edges=EdgeConfig(form_every=20),
        navigator=NavigatorConfig(frontier_steps=12, explore_steps=12),
        replay_size=200,
    )


def with_memory(encoder: str) -> SFLConfig:
    """States with traces, landmarks in doubt, routes looked ahead on: all that differs in our own settings."""
    config, ours = config_of(encoder), ours_frames(encoder)
    return replace(
        config,
        frames=replace(ours.frames, stack=2),
        successor=replace(config.successor, whiten=True, whiten_mean=True, whiten_ridge=0.1, whiten_every=3),
        landmarks=replace(
            config.landmarks,
            localize_threshold=0.8,
            add_threshold=0.9,
            update_every=20,
            trust=0.99,
            trust_reach=2,
            trust_samples=24,
        ),
        edges=replace(ours.edges, form_every=20),
        navigator=replace(ours.navigator, frontier_steps=12, explore_steps=12, replan_after=4),
    )


def released(encoder: str) -> SFLConfig:
    """The released code's settings, with short walks: an episode would have time for several trips."""
    config = config_of(encoder)
    return replace(
        config,
        landmarks=replace(config.landmarks, add_threshold=0.999),
        navigator=replace(config.navigator, explore_steps=1),
        as_released=True,
    )


class Ring:
    """Two walkers on the ring, action 0 back and 1 ahead, in episodes of fifteen steps."""

    def __init__(self, views: Array, agent: Agent) -> None:
        self.views, self.agent = views, agent
        self.at, self.time = np.array([0, 4]), 0

    def go(self, steps: int) -> list[list[int]]:
        taken = []
        for _ in range(steps):
            if self.time % 15 == 0:
                self.at = np.array([0, 4])
                for env in (0, 1):
                    self.agent.begin_episode(env, None)
            self.time += 1
            envs, before = np.arange(2), self.views[self.at]
            actions = self.agent.act(before, envs)
            taken.append(actions.tolist())
            self.at = (self.at + 2 * actions - 1) % PLACES
            done = np.full(2, self.time % 15 == 0)
            step = Transitions(envs, before, actions, np.zeros(2), np.zeros(2, bool), done, self.views[self.at])
            self.agent.observe(step)
            self.agent.update()
        return taken


def goes_on(agent: Agent, other: Agent, views: Array) -> None:
    """Another agent takes up the state of one, learns on, and the one's policy still acts."""
    saved = agent.state_dict()
    other.load_state_dict(saved)
    for name, value in other.state_dict().networks.items():
        np.testing.assert_array_equal(value, saved.networks[name])
    Ring(views, other).go(30)
    assert all(np.isfinite(value).all() for value in other.state_dict().networks.values())
    policy = agent.policy(seed=1)
    policy.begin_episode(0, views[3])
    assert policy.act(views[[0]], np.array([0])).shape == (1,)
