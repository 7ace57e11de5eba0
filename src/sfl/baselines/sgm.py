"""Sparse graphical memory (Emmons, Jain, Laskin et al., NeurIPS 2020).

How alike two observations are: the chance, by the retrieval network R, that they are a few decisions apart; their
distance is 1 less that. Nodes: observations of some walks that are not the same, by R and by two-way consistency, as a
node there is. Edges: between nodes at a small distance, to the nearest of each, until an attempt to walk one fails.

In this order: which observations merge, edges and their cleanup, the memory, the policy, the agent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch

from sfl.api import GOAL, AgentState, Array, Decision, EnvSpec, Metrics, Observation, Transitions
from sfl.baselines.config import SGMConfig, SparseConfig
from sfl.baselines.networks import PROBABILITY, Locomotion, NodeViews, NodeWalker, ReachabilityField, Retrieval
from sfl.baselines.walks import FillingPhase, RecordedWalks
from sfl.method.edges import Edges, k_nearest_mask, pair_key
from sfl.method.landmarks import LandmarkSet
from sfl.method.navigator import Navigator, Outcomes
from sfl.method.planner import Planner
from sfl.seeding import spawn


def choose_nodes(distance: Array, config: SparseConfig) -> Array:
    """Which observations [K] become nodes, offered one by one, given their distances [N, N] from row to column."""
    joined = distance < config.edge_cutoff
    nodes = np.zeros(0, np.int64)
    for offered in range(len(distance)):
        close = (distance[offered, nodes] < config.merge_cutoff) & (distance[nodes, offered] < config.merge_cutoff)
        if not any(_consistent(distance, joined, offered, node, nodes, config) for node in nodes[close]):
            nodes = np.append(nodes, offered)
    return nodes


def _consistent(distance: Array, joined: Array, offered: int, node: int, nodes: Array, config: SparseConfig) -> bool:
    """The observation lies to all neighbours of the node as the node does, there and back.

    A node without neighbours gives no evidence, and nothing becomes part of it.
    """
    others = nodes[nodes != node]
    out, into = others[joined[node, others]], others[joined[others, node]]
    leaving = distance[offered, out] - distance[node, out]
    arriving = distance[into, offered] - distance[into, node]
    gaps = np.abs(np.concatenate([leaving, arriving]))
    return len(gaps) > 0 and (config.consistency_cutoff == 1 or bool(gaps.max() < config.consistency_cutoff))


def sparse_edges(distance: Array, config: SparseConfig) -> Edges:
    """The edges among nodes with distances [K, K]: near enough, and the nearest of each; each costs 1."""
    near = (distance < config.edge_cutoff) & ~np.eye(len(distance), dtype=bool)
    sources, targets = np.nonzero(near)
    closeness = 1.0 - distance[sources, targets]
    edges = Edges(len(distance), sources, targets, closeness, np.ones(len(sources)))
    return edges.keep(k_nearest_mask(edges, config.k_nearest)) if config.k_nearest else edges


def without_failed(edges: Edges, failed: Collection[tuple[int, int]]) -> Edges:
    """Cleanup: edges that could not be walked are gone."""
    if not failed:
        return edges
    keys = pair_key(*np.array(list(failed), np.int64).T)
    return edges.keep(~np.isin(pair_key(edges.sources, edges.targets), keys))


@dataclass
class SparseMemory:
    """The nodes, and the edges that have not failed."""

    views: NodeViews
    nodes: LandmarkSet
    planner: Planner

    @classmethod
    def build(cls, recorded: RecordedWalks, retrieval: Retrieval, config: SparseConfig) -> SparseMemory:
        """The sparse graph of everything remembered so far."""
        seen = recorded.sorted()
        views = NodeViews.of(seen.observations, retrieval)
        distance = 1.0 - retrieval.reachable(views.features, views.features).cpu().numpy()
        chosen = choose_nodes(distance, config)
        nodes = LandmarkSet(max(1, len(chosen)))
        for origin in seen.origin[chosen].tolist():
            nodes.add(origin, recorded.decisions)
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
        self._retrieval, self._walker = networks[0], NodeWalker(networks, spec, rng)
        self._navigators: dict[int, Navigator] = {}
        self.outcomes = Outcomes()
        self._decisions: dict[int, Decision] = {}

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """To a goal, or to one random node after the other."""
        navigator = self._navigators.setdefault(env_index, Navigator(self._config.navigator, self.outcomes))
        self._decisions.pop(env_index, None)
        to_goal = self._walker.begin(env_index, goal, self.memory.views)
        navigator.begin(None if to_goal is None else np.argsort(-to_goal, kind="stable")[: self._config.links])

    def act(self, observations: Array, env_indices: Array) -> Array:
        """Actions [B]: where the agent is, which node is next, and by L the way there."""
        self._walker.clear()
        actions, nodes = self._rng.integers(self._spec.action_count, size=len(env_indices)), self.memory.views
        views, near, goal_near = self._walker.nearness(observations, env_indices, nodes)
        targets = [self._step(env, near[row], goal_near[row]) for row, env in enumerate(env_indices.tolist())]
        walking, drawn = self._walker.walk(views, env_indices, targets, nodes)
        actions[walking] = drawn
        return actions

    def _step(self, env: int, near: Array, goal_near: float) -> int | None:
        navigator = self._navigators[env]
        nearest = self._nearest(navigator, near)
        sure = nearest is not None and near[nearest] >= self._config.localize_threshold
        decision = Decision(
            localized=nearest if sure else None,
            nearest=nearest,
            ahead=tuple(goal_near if node == GOAL else float(near[node]) for node in navigator.waypoints()),
            arrived=bool(goal_near >= self._config.localize_threshold),
        )
        navigator.decide(decision, self.memory.planner, self.memory.nodes, self._rng)
        self._decisions[env] = decision
        return decision.heading

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

    def explain(self, env_index: int) -> Decision:
        """What the last action of this environment was for."""
        return self._decisions.get(env_index, Decision())

    def action_values(self, env_index: int) -> Decision:
        """`explain` with the probabilities of the actions."""
        return replace(self.explain(env_index), values=self._walker.probabilities(env_index), values_name=PROBABILITY)

    def localized(self, env_indices: Array) -> list[int]:
        """The nodes at which environments took themselves to be at their last decision."""
        places = (self._decisions[env].localized for env in env_indices.tolist())
        return [place for place in places if place is not None]

    def write_state(self, state: AgentState) -> None:
        """Trips under way and what was seen last."""
        state.counters["trips"] = [[env, *navigator.state()] for env, navigator in sorted(self._navigators.items())]
        self._walker.write_state(state)

    def load_state(self, state: AgentState) -> None:
        """Everything that `write_state` wrote."""
        for env, *numbers in state.counters["trips"]:
            self._navigators[env] = Navigator(self._config.navigator, self.outcomes)
            self._navigators[env].load_state(numbers)
        self._walker.load_state(state)


class SGMAgent:
    """Walks until the memory is full, makes the graph, then cleans it by trying to walk it.

    The networks learn, if they do, until the memory is full.
    """

    def __init__(self, config: SGMConfig, spec: EnvSpec, seed: int, device: str) -> None:
        self.config, self.spec = config, spec
        self.filling = FillingPhase(config, spec, seed, device)
        self._cleaner: SGMPolicy | None = None  # made when enough is recorded, and the walks are dropped
        self._tally = {"decisions": 0, "localized": 0, "trips": 0, "reached": 0, "removed": 0}

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """In training every episode is for the memory: goals are for policies."""
        if self._cleaner is not None:
            self._cleaner.begin_episode(env_index, None)
        else:
            self.filling.begin_episode(env_index)

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
        return self.filling.act(observations, env_indices)

    def explain(self, env_index: int) -> Decision:
        """What the last action of this environment was for."""
        return Decision() if self._cleaner is None else self._cleaner.explain(env_index)

    def observe(self, transitions: Transitions) -> None:
        """Remember, and keep to learn from, until the memory is full."""
        if self._cleaner is None:
            self.filling.observe(transitions)

    def update(self) -> Metrics:
        """Learn, make the graph when the memory is full, and clean it afterwards."""
        if self._cleaner is not None:
            outcomes = self._cleaner.outcomes
            self._tally["removed"] += self._cleaner.memory.clean(outcomes.failed)
            self._tally["trips"] += len(outcomes.trips)
            self._tally["reached"] += sum(outcomes.trips)
            outcomes.clear()
            return self._metrics(self._cleaner.memory)
        metrics = self.filling.learn()
        if self.filling.recorded.is_full:
            self._start_cleaning(self._now())
        return metrics

    def _start_cleaning(self, memory: SparseMemory) -> SGMPolicy:
        """From the next decision on; episodes under way go on."""
        both = self.filling.networks.retrieval, self.filling.networks.locomotion
        cleaner = SGMPolicy(self.config, memory, both, self.spec, self.filling.rng)
        for env in range(self.spec.env_count):
            cleaner.begin_episode(env, None)
        self._cleaner = cleaner
        self.filling.clear()
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
        return SparseMemory.build(self.filling.recorded, self.filling.networks.retrieval, self.config.sparse)

    def policy(self, seed: int) -> SGMPolicy:
        """A frozen copy for evaluation, with a generator of its own."""
        rng = spawn(seed, ["policy"])["policy"]
        return SGMPolicy(self.config, replace(self._now()), self.filling.snapshot(), self.spec, rng)

    def state_dict(self) -> AgentState:
        """Everything that going on exactly needs; in `graph` all that acting needs beside the networks."""
        state = AgentState(graph=self._now().state())
        self.filling.write_state(state, full=self._cleaner is not None)
        state.counters["tally"] = dict(self._tally)
        if self._cleaner is not None:
            self._cleaner.write_state(state)
        return state

    def load_state_dict(self, state: AgentState) -> None:
        """Take up a state made by `state_dict`; a slim copy, which has no walks, acts by the graph that it has."""
        self._tally = dict(state.counters["tally"])
        if self.filling.load_state(state):
            cleaner = self._start_cleaning(SparseMemory.from_state(state.graph, self.filling.networks.device))
            if "last_views" in state.replay:
                cleaner.load_state(state)
