"""What an agent's observations were taken for, and what looks at them: said once, and refused where it is unsure."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from sfl.baselines.config import NetworkConfig
from sfl.baselines.mss.config import FrameMSSConfig
from sfl.baselines.random import RandomConfig
from sfl.errors import UsageError
from sfl.method.config import FrameSFLConfig, TabularConfig
from sfl.nn.frames import is_frame
from sfl.registry import AgentConfig
from sfl.worlds import DoomConfig, EnvConfig, make_env
from sfl.worlds.doom.workers import FRAME_SHAPE
from sfl.worlds.gym import kind_of_goal_env
from sfl.worlds.observations import ObservationKind, describe_observation

ENCODERS = {
    "grid": "convolutions over cells",
    "picture": "convolutions over pixels",
    "vector": "dense layers over numbers",
}


def kind_in(config: EnvConfig) -> ObservationKind:
    """Of the environment that a configuration makes; no game is started to ask it."""
    if isinstance(config, DoomConfig):
        return describe_observation(spaces.Box(0, 255, FRAME_SHAPE, np.uint8))
    env = make_env(config)
    kind = kind_of_goal_env(env)
    env.close()
    return kind


def look(kind: ObservationKind, agent: AgentConfig) -> str:
    """The line that says what was taken for what; what no encoder is sure of is refused."""
    return f"observations: {kind.words}; encoder: {_encoder(kind, agent)}."


def _encoder(kind: ObservationKind, agent: AgentConfig) -> str:
    if isinstance(agent, RandomConfig | TabularConfig):
        return "none"
    if kind.encoder is None:
        raise UsageError(kind.doubt)
    shape = kind.space.shape
    if isinstance(agent, FrameSFLConfig | FrameMSSConfig):
        if not is_frame(shape):
            raise UsageError(
                f"{type(agent).__name__} looks at RGB pictures of 120x160, these observations are {kind.what}; "
                f"use {type(agent).__name__.removeprefix('Frame')}."
            )
        return agent.frames.encoder if isinstance(agent, FrameSFLConfig) else agent.encoder
    if isinstance(agent, NetworkConfig) and is_frame(shape):
        return agent.retrieval.encoder
    return ENCODERS[kind.encoder]
