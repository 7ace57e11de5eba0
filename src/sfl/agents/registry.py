"""Every method by its configuration: adding one is a line here."""

from __future__ import annotations

from sfl.agents.controller import ControllerAgent, ControllerConfig
from sfl.agents.episodic_curiosity import ECConfig, EpisodicCuriosityAgent
from sfl.agents.random_agent import RandomAgent, RandomConfig
from sfl.agents.sfl.agent import SFLAgent
from sfl.agents.sfl.config import FrameSFLConfig, SFLConfig, TabularConfig
from sfl.agents.sgm import SGMAgent, SGMConfig
from sfl.agents.sptm import SPTMAgent, SPTMConfig
from sfl.data.types import Agent, EnvSpec

AgentConfig = (
    SFLConfig | FrameSFLConfig | TabularConfig | RandomConfig | ControllerConfig | ECConfig | SPTMConfig | SGMConfig
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
}


def agent_name(config: AgentConfig) -> str:
    """The lower-case name that tables and CSV files use; it says who else filled the memory."""
    name = _METHODS[type(config)][0]
    return f"ec-{name}" if isinstance(config, SPTMConfig | SGMConfig) and config.memory.explorer else name


def make_agent(config: AgentConfig, spec: EnvSpec, seed: int, device: str = "cpu") -> Agent:
    """The agent that a configuration describes."""
    agent: Agent = _METHODS[type(config)][1](config, spec, seed, device)
    return agent
