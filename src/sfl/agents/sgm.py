"""Sparse graphical memory (Emmons, Jain, Laskin et al., NeurIPS 2020).

How alike are two observations: the chance, by the retrieval network R, that they are a few decisions apart; their
distance is 1 less that. Which become nodes: those of some walks that are not the same, by R and by two-way consistency,
as a node there is. When is there an edge: between nodes at a small distance, to the nearest of each, until an attempt
to walk it fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch

from sfl.core.config import require
from sfl.core.seeding import spawn
from sfl.data.types import GOAL, AgentState, Array, EnvSpec, Explanation, Metrics, Observation, Transitions
from sfl.graph.edges import Edges
from sfl.graph.landmarks import LandmarkSet
from sfl.graph.navigator import Navigator, NavigatorConfig, Sighting
from sfl.graph.planning import Planner
from sfl.graph.sparse import SparseConfig, choose_nodes, sparse_edges, without_failed
from sfl.learners.gathering import Gathering, GatheringConfig
from sfl.learners.locomotion import ODDS, Locomotion
from sfl.learners.retrieval import ReachabilityField, Retrieval
from sfl.learners.sights import NodeViews, Sights
from sfl.learners.trail import Trail, TrailConfig

ATTEMPTS = NavigatorConfig(
    frontier_steps=1_000,
    steps_per_landmark=30,
    explore_steps=1,
    frontier="uniform",
    frontier_among="component",
    reached="similar",
    reach_threshold=0.9,
    replan_off_route=False,
    replan_after=30,
    avoid_failed=True,
)
"""Cleanup: to a random node, one waypoint after the other, 30 decisions for each; then another."""


@dataclass(frozen=True)
class SGMConfig(GatheringConfig):
    """Networks, memory, and what becomes of it."""

    memory: TrailConfig = TrailConfig(every=5)  # farther apart R, which calls 5 decisions near, joins too few in time
    sparse: SparseConfig = SparseConfig()
    navigator: NavigatorConfig = ATTEMPTS
    localize_threshold: float = 0.9
    """The agent is at its nearest node if R is at least this."""
    links: int = 5
    """Start and goal are joined to the first of so many nearest nodes between which there is a route."""

    def __post_init__(self) -> None:
        super().__post_init__()
        threshold = self.localize_threshold
        require(0 <= threshold <= 1, f"localize-threshold must lie in [0, 1] (R is a chance), got {threshold}.")
        require(self.links >= 1, f"links must be at least 1, got {self.links}.")


@dataclass
class SparseMemory:
    """The nodes, and the edges that have not failed."""

    views: NodeViews
    nodes: LandmarkSet
    planner: Planner

    @classmethod
    def build(cls, trail: Trail, retrieval: Retrieval, config: SparseConfig) -> SparseMemory:
        """The sparse graph of everything remembered so far."""
        seen = trail.remembered()
        views = NodeViews.of(seen.observations, retrieval)
        distance = 1.0 - retrieval.reachable(views.features, views.features).cpu().numpy()
        chosen = choose_nodes(distance, config)
        nodes = LandmarkSet(max(1, len(chosen)))
        for origin in seen.origin[chosen].tolist():
            nodes.add(origin, trail.decisions)
        edges = sparse_edges(distance[np.ix_(chosen, chosen)], config)
        return cls(views.at(chosen), nodes, Planner(edges))

    def clean(self, failed: Iterable[tuple[int, int]]) -> int:
        """Remove edges that failed; returns how many there were."""
        edges = self.planner.edges
        left = without_failed(edges, set(failed))
        if len(left.weights) < len(edges.weights):
            self.planner = Planner(left)
        return len(edges.weights) - len(left.weights)

    def state(self) -> dict[str, Array]:
        """Plain arrays, with all that acting needs."""
        return self.nodes.state() | self.views.state() | self.planner.edges.state()

    @classmethod
    def from_state(cls, state: dict[str, Array], device: torch.device) -> SparseMemory:
        """Take up arrays made by `state`."""
        size = len(state["origin"])
        nodes = LandmarkSet(max(1, size))
        nodes.load_state(state)
        return cls(NodeViews.from_state(state, device), nodes, Planner(Edges.from_state(size, state)))


@dataclass(frozen=True)
class Thought:
    """What an environment makes of its place."""

    localized: int | None
    target: int | None
    arrived: bool


class SGMPolicy(ReachabilityField):
    """Several environments, each with a navigator over the nodes; L walks between them."""

    def __init__(
        self,
        config: SGMConfig,
        memory: SparseMemory,
        networks: tuple[Retrieval, Locomotion],
        spec: EnvSpec,
        rng: np.random.Generator,
    ) -> None:
        self.memory = memory
        self._config, self._spec, self._rng = config, spec, rng
        self._retrieval, self._sights = networks[0], Sights(networks, spec, rng)
        self._navigators: dict[int, Navigator] = {}
        self._thoughts: dict[int, Thought] = {}

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """To a goal, or to one random node after the other."""
        navigator = self._navigators.setdefault(env_index, Navigator(self._config.navigator))
        self._thoughts.pop(env_index, None)
        to_goal = self._sights.begin(env_index, goal, self.memory.views)
        navigator.begin(None if to_goal is None else np.argsort(-to_goal, kind="stable")[: self._config.links])

    def act(self, observations: Array, env_indices: Array) -> Array:
        """Actions [B]: where the agent is, which node is next, and by L the way there."""
        self._sights.forget()
        actions, nodes = self._rng.integers(self._spec.action_count, size=len(env_indices)), self.memory.views
        views, near, goal_near = self._sights.look(observations, env_indices, nodes)
        targets = [self._step(env, near[row], goal_near[row]) for row, env in enumerate(env_indices.tolist())]
        walking, drawn = self._sights.walk(views, env_indices, targets, nodes)
        actions[walking] = drawn
        return actions

    def _step(self, env: int, near: Array, goal_near: float) -> int | None:
        navigator = self._navigators[env]
        nearest = self._nearest(navigator, near)
        localized = nearest if nearest is not None and near[nearest] >= self._config.localize_threshold else None
        ahead = [goal_near if node == GOAL else float(near[node]) for node in navigator.ahead()]
        target = navigator.step(
            Sighting(localized, nearest, 0, ahead), self.memory.planner, self.memory.nodes, self._rng
        )
        self._thoughts[env] = Thought(localized, navigator.waypoint, bool(goal_near >= self._config.localize_threshold))
        return target

    def _nearest(self, navigator: Navigator, near: Array) -> int | None:
        """The nearest node; on the way to a goal the first of the nearest that has a route to it."""
        if not len(near):
            return None
        order = np.argsort(-near, kind="stable")[: self._config.links].tolist()
        if navigator.goal_links is not None:
            for node in order:
                if np.isfinite(self.memory.planner.distances(node)[navigator.goal_links]).any():
                    return int(node)
        return int(order[0])

    def explain(self, env_index: int) -> Explanation:
        """What the last action of this environment was for."""
        if env_index not in self._thoughts:
            return Explanation()
        navigator, thought = self._navigators[env_index], self._thoughts[env_index]
        route, found = navigator.trip.route if navigator.trip is not None else (), navigator.route_found
        return Explanation(thought.localized, thought.target, route, found, navigator.reached, thought.arrived)

    def weigh(self, env_index: int) -> Explanation:
        """`explain` with the odds of the actions."""
        return replace(self.explain(env_index), values=self._sights.odds(env_index), values_name=ODDS)

    def localized(self, env_indices: Array) -> list[int]:
        """The nodes at which environments took themselves to be at their last decision."""
        places = (self._thoughts[env].localized for env in env_indices.tolist())
        return [place for place in places if place is not None]

    def take_outcomes(self) -> tuple[list[tuple[int, int]], list[bool]]:
        """Edges that failed, and trips that ended, by whether they came to their end, since this was last asked."""
        failed: list[tuple[int, int]] = []
        finished: list[bool] = []
        for navigator in self._navigators.values():
            failed += navigator.failures
            finished += navigator.finished
            for outcome in (navigator.failures, navigator.walks, navigator.finished):
                outcome.clear()
        return failed, finished

    def write_state(self, state: AgentState) -> None:
        """Trips under way and what was seen last."""
        state.counters["trips"] = [[env, *navigator.state()] for env, navigator in sorted(self._navigators.items())]
        self._sights.write_state(state)

    def read_state(self, state: AgentState) -> None:
        """Everything that `write_state` wrote."""
        for env, *numbers in state.counters["trips"]:
            self._navigators[env] = Navigator(self._config.navigator)
            self._navigators[env].load_state(numbers)
        self._sights.read_state(state)


class SGMAgent:
    """Walks until the memory is full, makes the graph, then cleans it by trying to walk it.

    The networks learn, if they do, until the memory is full.
    """

    def __init__(self, config: SGMConfig, spec: EnvSpec, seed: int, device: str) -> None:
        self.config, self.spec = config, spec
        self.gathering = Gathering(config, spec, seed, device)
        self._cleaner: SGMPolicy | None = None  # made when the trail is full, which is forgotten then
        self._tally = {"decisions": 0, "localized": 0, "trips": 0, "reached": 0, "removed": 0}

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """In training all episodes are for the memory; to walk to a goal is a policy's business."""
        if self._cleaner is not None:
            self._cleaner.begin_episode(env_index, None)
        else:
            self.gathering.begin_episode(env_index)

    def act(self, observations: Array, env_indices: Array) -> Array:
        """At random, or as the explorer does, until the memory is full; then to random nodes."""
        if self._cleaner is not None:
            actions = self._cleaner.act(observations, env_indices)
            places = self._cleaner.localized(env_indices)
            for node in places:
                self._cleaner.memory.nodes.visit(node)
            self._tally["decisions"] += len(env_indices)
            self._tally["localized"] += len(places)
            return actions
        return self.gathering.act(observations, env_indices)

    def explain(self, env_index: int) -> Explanation:
        """What the last action of this environment was for."""
        return Explanation() if self._cleaner is None else self._cleaner.explain(env_index)

    def observe(self, transitions: Transitions) -> None:
        """Remember, and keep to learn from, until the memory is full."""
        if self._cleaner is None:
            self.gathering.observe(transitions)

    def update(self) -> Metrics:
        """Learn, make the graph when the memory is full, and clean it afterwards."""
        if self._cleaner is not None:
            failed, finished = self._cleaner.take_outcomes()
            self._tally["removed"] += self._cleaner.memory.clean(failed)
            self._tally["trips"] += len(finished)
            self._tally["reached"] += sum(finished)
            return self._metrics(self._cleaner.memory)
        metrics = self.gathering.learn()
        if self.gathering.trail.is_full:
            self._start_cleaning(self._now())
        return metrics

    def _start_cleaning(self, memory: SparseMemory) -> SGMPolicy:
        """From the next decision on; episodes under way go on."""
        both = self.gathering.networks.retrieval, self.gathering.networks.locomotion
        cleaner = SGMPolicy(self.config, memory, both, self.spec, self.gathering.rng)
        for env in range(self.spec.env_count):
            cleaner.begin_episode(env, None)
        self._cleaner = cleaner
        self.gathering.forget()
        return cleaner

    def _metrics(self, memory: SparseMemory) -> Metrics:
        tally = self._tally
        return {
            "graph/landmark_count": float(memory.nodes.count),
            "graph/edge_count": float(len(memory.planner.edges.weights)),
            "graph/edges_removed": float(tally["removed"]),
            "graph/localized": tally["localized"] / max(1, tally["decisions"]),
            "explore/frontier_trips": float(tally["trips"]),
            "explore/waypoint_reached": tally["reached"] / max(1, tally["trips"]),
        }

    def _now(self) -> SparseMemory:
        """The graph, or before the memory is full that of what there is."""
        if self._cleaner is not None:
            return self._cleaner.memory
        return SparseMemory.build(self.gathering.trail, self.gathering.networks.retrieval, self.config.sparse)

    def policy(self, seed: int) -> SGMPolicy:
        """A frozen copy for evaluation, with a generator of its own."""
        rng = spawn(seed, ["policy"])["policy"]
        return SGMPolicy(self.config, replace(self._now()), self.gathering.frozen(), self.spec, rng)

    def state_dict(self) -> AgentState:
        """Everything that going on exactly needs; in `graph` all that acting needs beside the networks."""
        state = AgentState(graph=self._now().state())
        self.gathering.write_state(state, full=self._cleaner is not None)
        state.counters["tally"] = dict(self._tally)
        if self._cleaner is not None:
            self._cleaner.write_state(state)
        return state

    def load_state_dict(self, state: AgentState) -> None:
        """Take up a state made by `state_dict`; a slim copy, which has no trail, acts by the graph that it has."""
        self._tally = dict(state.counters["tally"])
        if self.gathering.read_state(state):
            cleaner = self._start_cleaning(SparseMemory.from_state(state.graph, self.gathering.networks.device))
            if "last_views" in state.replay:
                cleaner.read_state(state)
