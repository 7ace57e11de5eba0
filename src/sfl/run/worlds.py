"""Worlds as a run meets them: opened with lines for the user, and what a method looks at them with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sfl.baselines.config import NetworkConfig
from sfl.baselines.mss.config import FrameMSSConfig
from sfl.baselines.random import RandomConfig
from sfl.errors import UsageError
from sfl.method.config import FrameSFLConfig, TabularConfig
from sfl.nn.frames import is_frame
from sfl.registry import AgentConfig
from sfl.run.log import note
from sfl.worlds.config import EnvConfig
from sfl.worlds.observations import ObservationKind

if TYPE_CHECKING:
    from sfl.worlds.doom.world import MazeWorld
    from sfl.worlds.world import EnvironmentWorld

ENCODERS = {
    "grid": "convolutions over cells",
    "picture": "convolutions over pixels",
    "vector": "dense layers over numbers",
}


def open_world(config: EnvConfig, run: Path | None = None) -> EnvironmentWorld | MazeWorld:
    """The world of a configuration; a maze that cannot be read is refused here.

    `run` is the folder in which a run wrote its tasks down; without one, or where they are not there, they are found
    anew.
    """
    return config.open(run, note)


def describe_input(kind: ObservationKind, agent: AgentConfig) -> str:
    """The line that says what was taken for what; what no encoder is sure of is refused."""
    return f"observations: {kind.words}; encoder: {_encoder_of(kind, agent)}."


def _encoder_of(kind: ObservationKind, agent: AgentConfig) -> str:
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
