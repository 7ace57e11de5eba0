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
from torch import Tensor

from sfl.core.config import require
from sfl.core.seeding import generator_state, restore_generator, spawn
from sfl.data.types import GOAL, AgentState, Array, EnvSpec, Explanation, Metrics, Observation, Policy, Transitions
from sfl.graph.edges import Edges
from sfl.graph.landmarks import LandmarkSet
from sfl.graph.navigator import Navigator, NavigatorConfig, Sighting
from sfl.graph.planning import Planner
from sfl.graph.sparse import SparseConfig, choose_nodes, sparse_edges, without_failed
from sfl.learners.device import to_device
from sfl.learners.locomotion import ODDS, Chooser, LastViews, Locomotion
from sfl.learners.networks import NetworkConfig, Networks
from sfl.learners.retrieval import ReachabilityField, Retrieval
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
class SGMConfig(NetworkConfig):
    """Networks, memory, and what becomes of it."""

    updates_per_step: float = 0.0
    """Gradient steps of each network per environment step, until the memory is full; 0 = they stay as they are."""
    memory: TrailConfig = TrailConfig(every=10)
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

    observations: Tensor  # [K, ...]
    features: Tensor  # [K, F]
    nodes: LandmarkSet
    planner: Planner

    @classmethod
    def build(cls, trail: Trail, retrieval: Retrieval, config: SparseConfig) -> SparseMemory:
        """The sparse graph of everything remembered so far."""
        seen = trail.remembered()
        observations = to_device(seen.observations, retrieval.device)
        features = retrieval.features(observations)
        distance = 1.0 - retrieval.reachable(features, features).cpu().numpy()
        chosen = choose_nodes(distance, config)
        nodes, places = LandmarkSet(max(1, len(chosen))), to_device(chosen, retrieval.device)
        for origin in seen.origin[chosen].tolist():
            nodes.add(origin, trail.decisions)
        edges = sparse_edges(distance[np.ix_(chosen, chosen)], config)
        return cls(observations[places], features[places], nodes, Planner(edges))

    def clean(self, failed: Iterable[tuple[int, int]]) -> int:
        """Remove edges that failed; returns how many there were."""
        edges = self.planner.edges
        left = without_failed(edges, set(failed))
        if len(left.weights) < len(edges.weights):
            self.planner = Planner(left)
        return len(edges.weights) - len(left.weights)

    def state(self) -> dict[str, Array]:
        """Plain arrays, with all that acting needs."""
        edges = self.planner.edges
        columns = {"sources": edges.sources, "targets": edges.targets, "counts": edges.counts, "weights": edges.weights}
        nodes = {"observations": self.observations.cpu().numpy(), "features": self.features.cpu().numpy()}
        return self.nodes.state() | nodes | {f"edge_{name}": column for name, column in columns.items()}

    @classmethod
    def from_state(cls, state: dict[str, Array], device: torch.device) -> SparseMemory:
        """Take up arrays made by `state`."""
        columns = (state[f"edge_{name}"] for name in ("sources", "targets", "counts", "weights"))
        size = len(state["origin"])
        observations, features = (to_device(state[name], device) for name in ("observations", "features"))
        nodes = LandmarkSet(max(1, size))
        nodes.load_state(state)
        return cls(observations, features, nodes, Planner(Edges(size, *columns)))


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
        self._retrieval, self._chooser = networks[0], Chooser(networks[1], rng)
        self._views = LastViews(spec, self._retrieval.device)
        self._goals: dict[int, tuple[Tensor, Tensor]] = {}  # what the goal looks like, and its features
        self._navigators: dict[int, Navigator] = {}
        self._thoughts: dict[int, Thought] = {}

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """To a goal, or to one random node after the other."""
        navigator = self._navigators.setdefault(env_index, Navigator(self._config.navigator))
        self._views.begin(env_index)
        self._goals.pop(env_index, None)
        self._thoughts.pop(env_index, None)
        if goal is None:
            navigator.begin(None)
            return
        picture = to_device(goal, self._retrieval.device)
        features = self._retrieval.features(picture.unsqueeze(0))
        self._goals[env_index] = (picture, features[0])
        to_goal = self._retrieval.reachable(features, self.memory.features)[0].cpu().numpy()
        navigator.begin(np.argsort(-to_goal, kind="stable")[: self._config.links])

    def act(self, observations: Array, env_indices: Array) -> Array:
        """Actions [B]: where the agent is, which node is next, and by L the way there."""
        self._chooser.forget()
        envs = env_indices.tolist()
        actions = self._rng.integers(self._spec.action_count, size=len(envs))
        views = self._views.push(observations, env_indices)
        near, goal_near = self._near(views[1], envs)
        targets = [self._step(env, near[row], goal_near[row]) for row, env in enumerate(envs)]
        walking = [row for row, target in enumerate(targets) if target is not None]
        if walking:
            wanted = torch.stack([self._picture(envs[row], targets[row]) for row in walking])
            asked = torch.cat([views[:, walking], wanted.unsqueeze(0)])
            actions[walking] = self._chooser.draw(asked, [envs[row] for row in walking])
        return actions

    def _near(self, now: Tensor, envs: list[int]) -> tuple[Array, Array]:
        """R of the agents with all nodes [B, K] and with their goals [B], 0 where there is none."""
        features = self._retrieval.features(now)
        goals = torch.stack([self._goals[env][1] if env in self._goals else features[0] for env in envs])
        chances = self._retrieval.reachable(features, torch.cat([self.memory.features, goals])).cpu().numpy()
        count, has_goal = len(self.memory.features), np.array([env in self._goals for env in envs])
        return chances[:, :count], np.where(has_goal, chances[:, count:].diagonal(), 0.0)

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
        """The nearest node; where a route to a goal is to begin, the first of the nearest that has one."""
        if not len(near):
            return None
        order = np.argsort(-near, kind="stable")[: self._config.links].tolist()
        if navigator.goal_links is not None and navigator.trip is None:
            for node in order:
                if np.isfinite(self.memory.planner.distances(node)[navigator.goal_links]).any():
                    return int(node)
        return int(order[0])

    def _picture(self, env: int, target: int | None) -> Tensor:
        return self._goals[env][0] if target == GOAL else self.memory.observations[target]

    def explain(self, env_index: int) -> Explanation:
        """What the last action of this environment was for."""
        if env_index not in self._thoughts:
            return Explanation()
        navigator, thought = self._navigators[env_index], self._thoughts[env_index]
        route, found = navigator.trip.route if navigator.trip is not None else (), navigator.route_found
        return Explanation(thought.localized, thought.target, route, found, navigator.reached, thought.arrived)

    def weigh(self, env_index: int) -> Explanation:
        """`explain` with the odds of the actions."""
        return replace(self.explain(env_index), values=self._chooser.odds(env_index), values_name=ODDS)

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
        state.replay |= self._views.state()

    def read_state(self, state: AgentState) -> None:
        """Everything that `write_state` wrote."""
        for env, *numbers in state.counters["trips"]:
            self._navigators[env] = Navigator(self._config.navigator)
            self._navigators[env].load_state(numbers)
        self._views.load_state(state.replay)


class SGMAgent:
    """Walks until the memory is full, makes the graph, then cleans it by trying to walk it.

    The networks learn, if they do, until the memory is full.
    """

    def __init__(self, config: SGMConfig, spec: EnvSpec, seed: int, device: str) -> None:
        self.config, self.spec = config, spec
        self.networks = Networks(config, spec, seed, torch.device(device))
        self._rng = spawn(seed, ["act"])["act"]
        self._trail = Trail(config.memory, spec)
        self._cleaner: SGMPolicy | None = None  # made when the trail is full, which is forgotten then
        self._explorer: Policy | None = None
        self._observed = 0
        self._tally = {"decisions": 0, "localized": 0, "trips": 0, "reached": 0, "removed": 0}

    def explore_with(self, policy: Policy) -> None:
        """Let another policy than the random walk fill the memory; its state is no part of this agent's."""
        self._explorer = policy

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """In training all episodes are for the memory; to walk to a goal is a policy's business."""
        if self._cleaner is not None:
            self._cleaner.begin_episode(env_index, None)
        elif self._explorer is not None:
            self._explorer.begin_episode(env_index, None)

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
        if self._explorer is not None:
            return self._explorer.act(observations, env_indices)
        return self._rng.integers(self.spec.action_count, size=len(env_indices))

    def explain(self, env_index: int) -> Explanation:
        """What the last action of this environment was for."""
        return Explanation() if self._cleaner is None else self._cleaner.explain(env_index)

    def observe(self, transitions: Transitions) -> None:
        """Remember, and keep to learn from, until the memory is full."""
        if self._cleaner is None:
            self._observed += len(transitions.env_indices)
            self.networks.observe(transitions)
            self._trail.observe(transitions)

    def update(self) -> Metrics:
        """Learn, make the graph when the memory is full, and clean it afterwards."""
        if self._cleaner is not None:
            failed, finished = self._cleaner.take_outcomes()
            self._tally["removed"] += self._cleaner.memory.clean(failed)
            self._tally["trips"] += len(finished)
            self._tally["reached"] += sum(finished)
            return self._metrics(self._cleaner.memory)
        new, self._observed = self._observed, 0
        metrics = self.networks.update(new)
        if self._trail.is_full:
            self._start_cleaning(self._now())
        return metrics

    def _start_cleaning(self, memory: SparseMemory) -> SGMPolicy:
        """From the next decision on; episodes under way go on."""
        both = self.networks.retrieval, self.networks.locomotion
        cleaner = SGMPolicy(self.config, memory, both, self.spec, self._rng)
        for env in range(self.spec.env_count):
            cleaner.begin_episode(env, None)
        self._cleaner, self._trail = cleaner, Trail(self.config.memory, self.spec)
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
        return SparseMemory.build(self._trail, self.networks.retrieval, self.config.sparse)

    def policy(self, seed: int) -> SGMPolicy:
        """A frozen copy for evaluation, with a generator of its own."""
        frozen = self.networks.retrieval.frozen(), self.networks.locomotion.frozen()
        rng = spawn(seed, ["policy"])["policy"]
        return SGMPolicy(self.config, replace(self._now()), frozen, self.spec, rng)

    def state_dict(self) -> AgentState:
        """Everything that going on exactly needs; in `graph` all that acting needs beside the networks."""
        state = AgentState(generators={"act": generator_state(self._rng)}, graph=self._now().state())
        self.networks.write_state(state)
        state.counters |= {
            "full": self._cleaner is not None,
            "remembered": self._trail.decisions,
            "tally": dict(self._tally),
        }
        if self._cleaner is None:
            state.replay |= self._trail.state()
        else:
            self._cleaner.write_state(state)
        return state

    def load_state_dict(self, state: AgentState) -> None:
        """Take up a state made by `state_dict`; a slim copy, which has no trail, acts by the graph that it has."""
        self.networks.read_state(state)
        restore_generator(self._rng, state.generators["act"])
        self._tally = dict(state.counters["tally"])
        full = state.counters["full"]
        if not full:
            self._trail.load_state(state.replay)
        if full or self._trail.decisions != state.counters["remembered"]:
            cleaner = self._start_cleaning(SparseMemory.from_state(state.graph, self.networks.device))
            if "last_views" in state.replay:
                cleaner.read_state(state)
