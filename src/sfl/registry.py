"""Every method by its configuration: adding one is an entry here."""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from sfl.api import Agent, EnvSpec
from sfl.baselines.config import ControllerConfig, ECConfig, SGMConfig, SPTMConfig
from sfl.baselines.mss.config import MSSConfig
from sfl.baselines.random import RandomConfig
from sfl.errors import UsageError
from sfl.method.config import SFLConfig

NetworkMethod = TypeVar("NetworkMethod", ControllerConfig, ECConfig, SPTMConfig, SGMConfig)
MemoryMethod = TypeVar("MemoryMethod", SPTMConfig, SGMConfig)

AgentConfig = SFLConfig | RandomConfig | ControllerConfig | SPTMConfig | SGMConfig | MSSConfig | ECConfig


# ---- What the methods are in seconds, with another budget, and one phase after another.


def _tiny_sfl(agent: SFLConfig) -> SFLConfig:
    landmarks = replace(agent.landmarks, start_step=400, add_every=100, update_every=100)
    metric = replace(agent.metric, networks="", retrieval=replace(agent.metric.retrieval, encoder="compact", hidden=32))
    agent = replace(agent, landmarks=landmarks, edges=replace(agent.edges, form_every=100), metric=metric)
    if agent.states == "one-hot":
        return replace(agent, exact=replace(agent.exact, solve_every=200))
    successor = replace(agent.successor, start_step=200, updates_per_step=0.05, batch_size=32)
    agent = replace(agent, successor=successor)
    if agent.states == "frames":  # the paper's encoder is a file that not everyone has made
        return replace(agent, frames=replace(agent.frames, encoder="compact"))
    features = replace(agent.features, start_step=100, stop_step=0, updates_per_step=0.05, batch_size=32)
    return replace(agent, features=features)


def _tiny_networks(agent: NetworkMethod) -> NetworkMethod:
    retrieval = replace(agent.retrieval, encoder="compact", hidden=32, batch_size=16)
    locomotion = replace(agent.locomotion, encoder="compact", batch_size=16)
    extra_negatives = min(agent.extra_negatives, 3)  # a batch has so few observations
    agent = replace(agent, networks="", retrieval=retrieval, locomotion=locomotion, extra_negatives=extra_negatives)
    return replace(agent, updates_per_step=0.02, replay_size=600)


def _tiny_ec(agent: ECConfig) -> ECConfig:
    ppo = replace(agent.ppo, horizon=32, dim=32, epochs=1, minibatches=1, decay_steps=1_200)
    return replace(_tiny_networks(agent), train_every=200, ppo=ppo)


def _tiny_memory(agent: MemoryMethod) -> MemoryMethod:
    return replace(_tiny_networks(agent), memory=replace(agent.memory, steps=500, explorer=""))


def _tiny_mss(agent: MSSConfig) -> MSSConfig:
    uvfa = replace(agent.uvfa, start_step=200, updates_per_step=0.05, batch_size=32)
    landmarks = min(agent.map.landmarks, 20)
    agent = replace(agent, uvfa=uvfa, map=replace(agent.map, landmarks=landmarks, candidates=100, redraw_every=200))
    if agent.states == "frames":
        return replace(agent, encoder="compact", cycle_steps=20, uvfa=replace(agent.uvfa, hidden=(64, 64)))
    return agent


def _scaled_sfl(agent: SFLConfig, factor: float, steps: int) -> SFLConfig:
    if agent.landmarks.formation != "clustered":
        return agent
    every = max(1, round(agent.landmarks.add_every * factor))  # else none would ever be formed
    return replace(agent, landmarks=replace(agent.landmarks, add_every=every))


def _scaled_ec(agent: ECConfig, factor: float, steps: int) -> ECConfig:
    return replace(agent, ppo=replace(agent.ppo, decay_steps=steps))  # its learning rate falls over the run


def _scaled_memory(agent: MemoryMethod, factor: float, steps: int) -> MemoryMethod:
    walked = max(1, round(agent.memory.steps * factor))  # else walks would take the whole run: no graph, no cleanup
    return replace(agent, memory=replace(agent.memory, steps=walked))


def _phases_of_sgm(agent: SGMConfig, steps: int) -> dict[str, int]:
    filled = agent.memory.steps
    return {"filling": filled, "cleanup": steps} if filled < steps else {"filling": steps}


# ---- The methods.


class Method(NamedTuple):
    """All that others ask of a method: an entry here is all that a new one needs."""

    name: str
    """In lower case, for tables and CSV files."""
    home: str
    """module:class of its agent, which is imported when one is made: settings are read without torch."""
    about: str
    """In words."""
    tiny: Callable[[Any], Any] = lambda agent: agent
    """Its settings for runs of seconds, in which every part runs and no file is needed."""
    scaled: Callable[[Any, float, int], Any] = lambda agent, factor, steps: agent
    """Its settings for a part or a multiple of the steps, and for so many."""
    phases: Callable[[Any, int], dict[str, int]] = lambda agent, steps: {"training": steps}
    """What a run of so many environment steps does, and until which of them."""
    networks: str = ""
    """The setting that names a file of networks to start from; empty: it reads none."""
    needs: tuple[str, ...] = ()
    """The networks that must be in that file."""
    explorer: str = ""
    """The setting that names the run whose policy fills its memory."""

    @property
    def agent(self) -> Any:
        """The class."""
        module, _, name = self.home.partition(":")
        return getattr(import_module(module), name)


BOTH = ("retrieval", "locomotion")

_METHODS = {
    SFLConfig: Method(
        *("sfl", "sfl.method.agent:SFLAgent", "Successor Feature Landmarks"),
        tiny=_tiny_sfl,
        scaled=_scaled_sfl,
        networks="metric.networks",
        needs=("retrieval",),
    ),
    RandomConfig: Method("random", "sfl.baselines.random:RandomAgent", "the uniform random policy"),
    ControllerConfig: Method(
        *("controller", "sfl.baselines.controller:ControllerAgent", "the visual controller"),
        tiny=_tiny_networks,
        phases=lambda agent, steps: {"tuning": steps},
        networks="networks",
        needs=BOTH,
    ),
    ECConfig: Method(
        *("ec", "sfl.baselines.ec:EpisodicCuriosityAgent", "Episodic Curiosity"),
        tiny=_tiny_ec,
        scaled=_scaled_ec,
        phases=lambda agent, steps: {"exploration": steps},
        networks="networks",
        needs=BOTH,
    ),
    SPTMConfig: Method(
        *("sptm", "sfl.baselines.sptm:SPTMAgent", "semi-parametric topological memory"),
        tiny=_tiny_memory,
        scaled=_scaled_memory,
        phases=lambda agent, steps: {"filling": steps},
        networks="networks",
        needs=BOTH,
        explorer="memory.explorer",
    ),
    SGMConfig: Method(
        *("sgm", "sfl.baselines.sgm:SGMAgent", "sparse graphical memory"),
        tiny=_tiny_memory,
        scaled=_scaled_memory,
        phases=_phases_of_sgm,
        networks="networks",
        needs=BOTH,
        explorer="memory.explorer",
    ),
    MSSConfig: Method("mss", "sfl.baselines.mss.agent:MSSAgent", "Mapping State Space", tiny=_tiny_mss),
}


def method_of(config: AgentConfig) -> Method:
    """The entry of a configuration."""
    return _METHODS[type(config)]


def setting(config: Any, path: str) -> Any:
    """A setting by its path, such as memory.explorer; an empty text where the path is empty."""
    for part in path.split(".") if path else ():
        config = getattr(config, part)
    return config if path else ""


def with_setting(config: Any, path: str, value: Any) -> Any:
    """The same configuration with another value at a path; as it is where the path is empty."""
    if not path:
        return config
    first, _, rest = path.partition(".")
    return replace(config, **{first: with_setting(getattr(config, first), rest, value) if rest else value})


def agent_name(config: AgentConfig) -> str:
    """The lower-case name that tables and CSV files use; it says who else filled the memory, and who is told poses."""
    name = "tabular" if is_exact(config) else _METHODS[type(config)].name
    if has_explorer(config):
        return f"ec-{name}"
    return f"{name}-oracle" if wants_poses(config) else name


def agent_about(config: AgentConfig) -> str:
    """The method in words."""
    about = "SFL with one-hot phi and exact psi" if is_exact(config) else _METHODS[type(config)].about
    if has_explorer(config):
        return f"{about} over walks of Episodic Curiosity"
    return f"{about} rewarded by true positions" if wants_poses(config) else about


def has_explorer(config: AgentConfig) -> bool:
    """Whether another run fills the memory."""
    return bool(setting(config, method_of(config).explorer))


def wants_poses(config: AgentConfig) -> bool:
    """Whether the agent is an oracle: training then tells it where it truly is."""
    return bool(getattr(config, "oracle", False))


def is_exact(config: AgentConfig) -> bool:
    """SFL that looks at nothing: every distinct observation is a state of its own."""
    return isinstance(config, SFLConfig) and config.states == "one-hot"


def frame_encoder(config: AgentConfig) -> tuple[str, str]:
    """The setting that names a fixed encoder of frames, and what it says; empty words: the method has none."""
    if isinstance(config, SFLConfig) and config.states == "frames":
        return "agent.frames.encoder", config.frames.encoder
    if isinstance(config, MSSConfig) and config.states == "frames":
        return "agent.encoder", config.encoder
    return "", ""


def with_frame_encoder(config: AgentConfig, path: str) -> AgentConfig:
    """The same with another file of the encoder, for methods that have one."""
    if isinstance(config, MSSConfig) and config.states == "frames":
        return replace(config, encoder=path)
    if isinstance(config, SFLConfig) and config.states == "frames":
        return replace(config, frames=replace(config.frames, encoder=path))
    return config


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
