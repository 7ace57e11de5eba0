"""Every method by its configuration: adding one is a line here."""

from __future__ import annotations

import typing
from typing import Any

from sfl.agents.controller import ControllerAgent, ControllerConfig
from sfl.agents.episodic_curiosity import ECConfig, EpisodicCuriosityAgent
from sfl.agents.mss.agent import MSSAgent
from sfl.agents.mss.config import FrameMSSConfig, MSSConfig
from sfl.agents.random_agent import RandomAgent, RandomConfig
from sfl.agents.sfl.agent import SFLAgent
from sfl.agents.sfl.config import FrameSFLConfig, SFLConfig, TabularConfig
from sfl.agents.sgm import SGMAgent, SGMConfig
from sfl.agents.sptm import SPTMAgent, SPTMConfig
from sfl.data.types import Agent, EnvSpec

AgentConfig = (
    SFLConfig
    | FrameSFLConfig
    | TabularConfig
    | RandomConfig
    | ControllerConfig
    | SPTMConfig
    | SGMConfig
    | MSSConfig
    | FrameMSSConfig
    | ECConfig
)

_METHODS = {
    SFLConfig: ("sfl", SFLAgent),
    FrameSFLConfig: ("sfl", SFLAgent),
    TabularConfig: ("tabular", SFLAgent),
    RandomConfig: ("random", RandomAgent),
    ControllerConfig: ("controller", ControllerAgent),
    ECConfig: ("ec", EpisodicCuriosityAgent),
    SPTMConfig: ("sptm", SPTMAgent),
    SGMConfig: ("sgm", SGMAgent),
    MSSConfig: ("mss", MSSAgent),
    FrameMSSConfig: ("mss", MSSAgent),
}


def agent_name(config: AgentConfig) -> str:
    """The lower-case name that tables and CSV files use; it says who else filled the memory, and who is told poses."""
    name = _METHODS[type(config)][0]
    if isinstance(config, SPTMConfig | SGMConfig) and config.memory.explorer:
        return f"ec-{name}"
    return f"{name}-oracle" if wants_poses(config) else name


def wants_poses(config: AgentConfig) -> bool:
    """Whether the agent is an oracle: training then tells it where it truly is."""
    return bool(getattr(config, "oracle", False))


def field_score(config: AgentConfig) -> str | None:
    """What the policies of a method call their score of two views (`FieldPolicy`); None: they have none.

    Read off the type that the method's `policy` returns: an agent need not be made to ask it.
    """
    method: Any = _METHODS[type(config)][1]
    kind = typing.get_type_hints(method.policy)["return"]
    return getattr(kind, "score", None)


def make_agent(config: AgentConfig, spec: EnvSpec, seed: int, device: str = "cpu") -> Agent:
    """The agent that a configuration describes."""
    agent: Agent = _METHODS[type(config)][1](config, spec, seed, device)
    return agent
