"""What passes between worlds, methods and runs.

First what an agent gets and gives (`Transitions`, `AgentState`, `Decision`), then what a method is (`Policy`,
`Agent`), then episodes and the sessions that carry them out, which only a run sees: they know true poses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Observation = NDArray[Any]
Metrics = dict[str, float]


@dataclass(frozen=True)
class Transitions:
    """One environment step of several environments. It carries no `info`: no agent sees a true pose."""

    env_indices: Array  # [B] int
    observations: Array  # [B, ...]
    actions: Array  # [B] int
    rewards: Array  # [B] float
    terminated: Array  # [B] bool
    truncated: Array  # [B] bool
    next_observations: (
        Array  # [B, ...]: the last observation of the episode where one ended, never the next one's first
    )

    @property
    def ended(self) -> Array:
        """[B] bool: the episode is over, for whatever reason."""
        return np.asarray(self.terminated | self.truncated)


@dataclass
class AgentState:
    """Everything an agent needs to go on exactly; each field becomes one file of a checkpoint."""

    networks: dict[str, Array] = field(default_factory=dict)
    optimisers: dict[str, Array] = field(default_factory=dict)
    replay: dict[str, Array] = field(default_factory=dict)
    graph: dict[str, Array] = field(default_factory=dict)
    generators: dict[str, Any] = field(default_factory=dict)
    counters: dict[str, Any] = field(default_factory=dict)


EncoderKind = Literal["grid", "picture", "vector"]

GRID_SIDES = (7, 40)
"""Sides for which an observation with three axes counts as a grid of symbols."""


def encoder_kind(shape: tuple[int, ...]) -> EncoderKind:
    """The small encoder that observations of a shape are looked at with; frames of a game may have others."""
    if len(shape) == 3 and all(GRID_SIDES[0] <= side <= GRID_SIDES[1] for side in shape[:2]):
        return "grid"
    return "picture" if len(shape) == 3 and min(shape[:2]) > GRID_SIDES[1] else "vector"


@dataclass(frozen=True)
class EnvSpec:
    """What a method may know of its environments before the first step."""

    observation_shape: tuple[int, ...]
    observation_dtype: str
    action_count: int
    env_count: int = 1


@dataclass(kw_only=True)
class Decision:
    """One decision in one environment: what was seen, where to go, and what for; reports, plots and films read it."""

    localized: int | None = None
    """The landmark the agent believes to be at, or None."""
    nearest: int | None = None
    """The most similar landmark, whatever the threshold; None without landmarks."""
    similarity: float = -math.inf
    """The highest similarity to any landmark."""
    ahead: tuple[float, ...] = ()
    """Similarity to the next waypoints of its route, where it was asked for."""
    target: int | None = None
    """The waypoint it walks to now; the goal itself is `GOAL`."""
    heading: int | None = None
    """What its action leads to, for methods with a local policy: the target, or a waypoint beyond it that is near
    already; None: it acts at random."""
    route: tuple[int, ...] = ()
    """The whole planned route, passed landmarks included."""
    route_found: bool = True
    """False when the graph held no route to the goal and the policy walks to it directly."""
    reached: int | None = None
    """The landmark of its route that it took to be reached at this decision, or None."""
    arrived: bool = False
    """It takes what it sees for the goal itself; SFL finds that out only when it is asked for `action_values`."""
    values: tuple[float, ...] = ()
    """What each action seemed worth, the best the highest; empty unless it was asked for `action_values`."""
    values_name: str = ""
    """What these values are."""


GOAL = -1
"""The goal's place in a route: it is no landmark and has no index of its own."""


class Policy(Protocol):
    """A frozen agent: acts, and neither learns nor disturbs the agent it came from."""

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """An episode starts; `goal` is the picture of the goal, or None to explore freely."""

    def act(self, observations: Array, env_indices: Array) -> Array:
        """Actions [B] for a batch of environments."""

    def explain(self, env_index: int) -> Decision:
        """What the last action of this environment was for."""


@runtime_checkable
class ActionValuePolicy(Policy, Protocol):
    """A policy that can say what its actions seemed worth.

    `explain` is called at every step of an evaluation and asks nothing of the device; `action_values` may wait for it.
    """

    def action_values(self, env_index: int) -> Decision:
        """`explain` with the values of the actions; good until the policy acts again."""


@runtime_checkable
class FieldPolicy(Policy, Protocol):
    """A policy that has a number for how alike, or how near, any two views are; a frame stands for standing still."""

    score: str
    """What the number is called: `SFS`, `reachability`, `value`."""
    score_range: tuple[float, float]
    """The lowest and the highest that it can be; infinite where there is no limit."""

    def embed(self, observations: Array) -> Array:
        """All that comparing needs of observations [N, ...], float32 [N, F]."""

    def compare(self, embedded: Array, references: Array) -> Array:
        """The number of each view [N, F] with each reference [R, F], both embedded: [N, R]."""


class Agent(Policy, Protocol):
    """What a run asks of a method. Environments are told apart by their index.

    The order is `begin_episode`, then `act`, `observe`, `update` in turn. Where environments play in two halves, a half
    acts before what the other did is observed: act A, act B, observe A, update, act A, observe B, ...
    """

    def observe(self, transitions: Transitions) -> None:
        """See what the last actions did."""

    def update(self) -> Metrics:
        """Learn from what was observed, as many gradient steps as the configuration counts."""

    def policy(self, seed: int) -> Policy:
        """A frozen copy for evaluation with a generator of its own, so that evaluating leaves training unchanged."""

    def state_dict(self) -> AgentState:
        """Everything that going on exactly needs."""

    def load_state_dict(self, state: AgentState) -> None:
        """Take up a state made by `state_dict`."""


class OracleAgent(Agent, Protocol):
    """An agent that is told true poses, because its configuration says `oracle`. Tables call it so."""

    def observe_poses(self, poses: Array, next_poses: Array) -> None:
        """Where the step that `observe` gets next truly began and ended, [B, 3] each."""


@dataclass(frozen=True)
class Episode:
    """How to start one episode; together with the actions that follow, enough to repeat it."""

    number: int
    reset_seed: int
    options: dict[str, Any]
    budget: int | None = None
    """Steps after which the episode is cut off; None leaves that to the environment."""

    @property
    def has_goal(self) -> bool:
        """An explicit goal of None means free exploration; no mention of it means the environment's own goal."""
        return self.options.get("goal", ...) is not None


EpisodeSource = Callable[[], Episode | None]
"""Gives the next episode to whichever environment is free, or None when there are no more."""


@dataclass(frozen=True)
class Step:
    """One decision of environments that step together, and what came of it."""

    transitions: Transitions
    poses: Array  # [B, 3] where `transitions.observations` were seen; NaN where the environment does not say
    next_poses: Array  # [B, 3]
    succeeded: Array  # [B] bool
    lengths: Array  # [B] int: steps of the episode, this one included
    episodes: tuple[Episode, ...]
    ended: tuple[int, ...]
    """Rows whose episode is over; their environments are reset when the next step is asked for."""
    broken: tuple[int, ...] = ()
    """Those of them whose world broke down: how the episode would have gone on is not known."""
    infos: tuple[dict[str, Any], ...] = ()
    """What the environments said beside `transitions.observations`; empty where they say nothing but poses."""
    next_infos: tuple[dict[str, Any], ...] = ()
    metrics: Metrics = field(default_factory=dict)
    """What the learner reported of its update."""


class Session(Protocol):
    """Environments with their running episodes, as `rollout` and checkpoints see them."""

    def begin_episodes(self, policy: Policy) -> list[int] | None:
        """Tell the policy what has begun; the indices of the environments that wait for an action, None: all is over.

        An empty list: nothing to decide now, but `step` brings on environments that are under way.
        """

    def observations(self, indices: Sequence[int]) -> Array:
        """What those environments show, [B, ...]."""

    def step(self, indices: Sequence[int], observations: Array, actions: Array) -> Step | None:
        """Carry out actions; returns what came of these or of earlier ones, None: nothing yet."""

    def metrics(self) -> Metrics:
        """What went wrong in the worlds so far."""

    def state(self) -> Any:
        """How to come back to this moment, as JSON."""

    def restore(self, state: Any) -> list[int]:
        """Come back to it; the indices of environments that do not show the same again."""

    def close(self) -> None:
        """Close every environment."""
