"""Every method by its configuration: adding one is a line here."""

from __future__ import annotations

import typing
from importlib import import_module
from typing import Any, NamedTuple

from sfl.api import Agent, EnvSpec
from sfl.baselines.config import ControllerConfig, ECConfig, SGMConfig, SPTMConfig
from sfl.baselines.mss.config import MSSConfig
from sfl.baselines.random import RandomConfig
from sfl.errors import UsageError
from sfl.method.config import FrameSFLConfig, SFLConfig, TabularConfig

AgentConfig = (
    SFLConfig
    | FrameSFLConfig
    | TabularConfig
    | RandomConfig
    | ControllerConfig
    | SPTMConfig
    | SGMConfig
    | MSSConfig
    | ECConfig
)


class Method(NamedTuple):
    """What a configuration makes."""

    name: str
    """In lower case, for tables and CSV files."""
    home: str
    """module:class of its agent, which is imported when one is made: settings are read without torch."""
    about: str
    """In words, for `sfl list`."""

    @property
    def agent(self) -> Any:
        """The class."""
        module, _, name = self.home.partition(":")
        return getattr(import_module(module), name)


_METHODS = {
    SFLConfig: Method("sfl", "sfl.method.agent:SFLAgent", "Successor Feature Landmarks"),
    FrameSFLConfig: Method("sfl", "sfl.method.agent:SFLAgent", "Successor Feature Landmarks"),
    TabularConfig: Method("tabular", "sfl.method.agent:SFLAgent", "SFL with one-hot phi and exact psi"),
    RandomConfig: Method("random", "sfl.baselines.random:RandomAgent", "the uniform random policy"),
    ControllerConfig: Method("controller", "sfl.baselines.controller:ControllerAgent", "the visual controller"),
    ECConfig: Method("ec", "sfl.baselines.ec:EpisodicCuriosityAgent", "Episodic Curiosity"),
    SPTMConfig: Method("sptm", "sfl.baselines.sptm:SPTMAgent", "semi-parametric topological memory"),
    SGMConfig: Method("sgm", "sfl.baselines.sgm:SGMAgent", "sparse graphical memory"),
    MSSConfig: Method("mss", "sfl.baselines.mss.agent:MSSAgent", "Mapping State Space"),
}


def agent_name(config: AgentConfig) -> str:
    """The lower-case name that tables and CSV files use; it says who else filled the memory, and who is told poses."""
    name = _METHODS[type(config)].name
    if has_explorer(config):
        return f"ec-{name}"
    return f"{name}-oracle" if wants_poses(config) else name


def agent_about(config: AgentConfig) -> str:
    """The method in words."""
    about = _METHODS[type(config)].about
    if has_explorer(config):
        return f"{about} over walks of Episodic Curiosity"
    return f"{about} rewarded by true positions" if wants_poses(config) else about


def has_explorer(config: AgentConfig) -> bool:
    """Whether another run fills the memory."""
    return isinstance(config, SPTMConfig | SGMConfig) and bool(config.memory.explorer)


def wants_poses(config: AgentConfig) -> bool:
    """Whether the agent is an oracle: training then tells it where it truly is."""
    return bool(getattr(config, "oracle", False))


def field_score(config: AgentConfig) -> str | None:
    """What the policies of a method call their score of two views (`FieldPolicy`); None: they have none.

    Read off the type that the method's `policy` returns: an agent need not be made to ask it.
    """
    kind = typing.get_type_hints(_METHODS[type(config)].agent.policy)["return"]
    return getattr(kind, "score", None)


def require_settings(config: Any) -> AgentConfig:
    """Settings of one of the methods; anything else is refused."""
    if type(config) in _METHODS:
        return config  # type: ignore[no-any-return]
    known = ", ".join(kind.__name__ for kind in _METHODS)
    if isinstance(config, type):
        raise UsageError(f"config is the class {config.__name__}; give an object of it, {config.__name__}().")
    raise UsageError(f"config must be the settings of a method, one of {known}; got {type(config).__name__}.")


def make_agent(config: AgentConfig, spec: EnvSpec, seed: int, device: str = "cpu") -> Agent:
    """The agent that a configuration describes."""
    agent: Agent = _METHODS[type(require_settings(config))].agent(config, spec, seed, device)
    return agent
