"""Semi-parametric topological memory (Savinov, Dosovitskiy, Koltun, ICLR 2018).

How alike are two observations: the chance, by the retrieval network R, that they are a few decisions apart. Which
become nodes: every so many decisions one, of walks made for it. When is there an edge: between neighbours in time, and
between the pairs that R, smoothed along both walks, finds nearest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sfl.core.config import require
from sfl.core.errors import NoRouteError
from sfl.core.seeding import generator_state, restore_generator, spawn
from sfl.data.types import GOAL, AgentState, Array, EnvSpec, Explanation, Metrics, Observation, Policy, Transitions
from sfl.graph.edges import Edges
from sfl.graph.planning import Planner, Route
from sfl.graph.shortcuts import find_shortcuts, temporal_pairs, unit_edges
from sfl.learners.device import to_device
from sfl.learners.locomotion import ODDS, Chooser, LastViews, Locomotion
from sfl.learners.networks import NetworkConfig, Networks
from sfl.learners.retrieval import ReachabilityField, Retrieval
from sfl.learners.trail import Trail, TrailConfig


@dataclass(frozen=True)
class ShortcutConfig:
    """Which nodes are joined beside neighbours in time."""

    count: int = 2_000
    """The best pairs that are joined."""
    window: int = 10
    """The score of a pair is the median over this many nodes before and after, along both walks; 0 = its own."""
    distance: int = 6
    """Nodes of one walk must lie at least this far apart."""

    def __post_init__(self) -> None:
        for name, least in {"count": 0, "window": 0, "distance": 1}.items():
            value = getattr(self, name)
            require(value >= least, f"shortcuts.{name} must be at least {least}, got {value}.")


@dataclass(frozen=True)
class GuideConfig:
    """Where the agent takes itself to be, and what it walks to."""

    neighbours: int = 5
    """Goal and agent are at the median of so many nearest nodes."""
    local_threshold: float = 0.7
    """The agent is at the nearest node ahead on its last route if R is at least this."""
    global_threshold: float = 0.95
    """Else at one of the nearest of all nodes with at least this R; else nowhere."""
    look_ahead: int = 7
    """Nodes ahead on the route that are looked at."""
    waypoint_threshold: float = 0.95
    """The waypoint is the farthest of those with at least this R, or the next node."""
    lost_steps: int = 5
    """Random steps when it is nowhere."""

    def __post_init__(self) -> None:
        for name in ("neighbours", "look_ahead", "lost_steps"):
            value = getattr(self, name)
            require(value >= 1, f"guide.{name.replace('_', '-')} must be at least 1, got {value}.")
        for name in ("local_threshold", "global_threshold", "waypoint_threshold"):
            value, option = getattr(self, name), name.replace("_", "-")
            require(0 <= value <= 1, f"guide.{option} must lie in [0, 1] (R is a chance), got {value}.")


@dataclass(frozen=True)
class SPTMConfig(NetworkConfig):
    """Networks, memory, shortcuts and the way along them."""

    updates_per_step: float = 0.0
    """Gradient steps of each network per environment step, until the memory is full; 0 = they stay as they are."""
    memory: TrailConfig = TrailConfig()
    shortcuts: ShortcutConfig = ShortcutConfig()
    guide: GuideConfig = GuideConfig()


@dataclass(frozen=True)
class Memory:
    """The nodes and how they are joined."""

    observations: Tensor  # [N, ...]
    features: Tensor  # [N, F]
    origin: Array  # [N]
    planner: Planner

    @classmethod
    def build(cls, trail: Trail, retrieval: Retrieval, config: ShortcutConfig) -> Memory:
        """The graph of everything remembered so far."""
        seen = trail.remembered()
        observations = to_device(seen.observations, retrieval.device)
        features = retrieval.features(observations)
        scores = retrieval.reachable(features, features).cpu().numpy()
        shortcuts = find_shortcuts(scores, seen.walks, config.window, config.distance, config.count)
        edges = unit_edges(len(seen), np.concatenate([temporal_pairs(seen.walks), shortcuts]))
        return cls(observations, features, seen.origin, Planner(edges))

    def state(self) -> dict[str, Array]:
        """Plain arrays, with all that acting needs."""
        edges = self.planner.edges
        columns = {"sources": edges.sources, "targets": edges.targets, "counts": edges.counts, "weights": edges.weights}
        nodes = {"observations": self.observations.cpu().numpy(), "features": self.features.cpu().numpy()}
        return {"origin": self.origin, **nodes, **{f"edge_{name}": column for name, column in columns.items()}}

    @classmethod
    def from_state(cls, state: dict[str, Array], device: torch.device) -> Memory:
        """Take up arrays made by `state`."""
        columns = (state[f"edge_{name}"] for name in ("sources", "targets", "counts", "weights"))
        edges = Edges(len(state["origin"]), *columns)
        observations, features = (to_device(state[name], device) for name in ("observations", "features"))
        return cls(observations, features, state["origin"], Planner(edges))


class Guide:
    """One environment on its way to a goal, in numbers of nodes."""

    def __init__(self, config: GuideConfig, planner: Planner, to_goal: Array) -> None:
        """`to_goal` [N]: R of every node with the goal."""
        self._config, self._planner = config, planner
        self._goal = median_node(nearest_nodes(to_goal, config.neighbours)) if len(to_goal) else None
        self._lost = 0
        self.place: int | None = None
        self.target: int | None = None
        self.route: Route = ()
        self.route_found, self.arrived = True, False

    def step(self, near: Array, goal_near: float) -> int | None:
        """The node to walk to, or `GOAL`; None: at random. Given R of all nodes [N] and of the goal with the agent."""
        self.target, self.arrived = self._step(near, goal_near), goal_near >= self._config.local_threshold
        return self.target

    def _step(self, near: Array, goal_near: float) -> int | None:
        if self._goal is None:
            self.route_found = False
            return GOAL
        if self._lost == 0:
            self.place = self._localize(near)
            self._lost = 0 if self.place is not None else self._config.lost_steps
        if self.place is None:
            self._lost -= 1
            return None
        try:
            # Every edge leads both ways: routes from all places to one goal are one search.
            self.route = (*reversed(self._planner.route(self._goal, self.place)), GOAL)
            self.route_found = True
        except NoRouteError:
            self.route, self.route_found = (), False
            return GOAL
        ahead = self.route[1 : 1 + self._config.look_ahead]
        scores = [goal_near if node == GOAL else float(near[node]) for node in ahead]
        return farthest_waypoint(ahead, scores, self._config.waypoint_threshold)

    def _localize(self, near: Array) -> int | None:
        config, ahead = self._config, [node for node in self._ahead() if node != GOAL]
        if ahead:
            best = max(ahead, key=lambda node: float(near[node]))
            if near[best] >= config.local_threshold:
                return best
        found = nearest_nodes(near, config.neighbours)
        found = found[near[found] >= config.global_threshold]
        return median_node(found) if len(found) else None

    def _ahead(self) -> Route:
        """The last place and what comes next on the last route."""
        if self.place is None:
            return ()
        return self.route[: 1 + self._config.look_ahead] or (self.place,)

    def explanation(self) -> Explanation:
        """What the last action was for."""
        return Explanation(self.place, self.target, self.route, self.route_found, arrived=self.arrived)


def nearest_nodes(near: Array, count: int) -> Array:
    """The nodes [count] with the highest R, best first."""
    return np.argsort(-near, kind="stable")[:count]


def median_node(nodes: Array) -> int:
    """The one in the middle: nodes are numbered in the order of walking, so that a stray one does not count."""
    return int(np.sort(nodes)[(len(nodes) - 1) // 2])


def farthest_waypoint(ahead: Sequence[int], scores: Sequence[float], threshold: float) -> int:
    """The last with at least this score, or else the first."""
    return ahead[max((place for place, score in enumerate(scores) if score >= threshold), default=0)]


class SPTMPolicy(ReachabilityField):
    """A frozen memory and frozen networks, with goals to go to."""

    def __init__(
        self,
        config: GuideConfig,
        memory: Memory,
        networks: tuple[Retrieval, Locomotion],
        spec: EnvSpec,
        rng: np.random.Generator,
    ) -> None:
        self._config, self._memory, self._spec, self._rng = config, memory, spec, rng
        self._retrieval, self._chooser = networks[0], Chooser(networks[1], rng)
        self._views = LastViews(spec, self._retrieval.device)
        self._goals: dict[int, tuple[Tensor, Tensor]] = {}  # what the goal looks like, and its features
        self._guides: dict[int, Guide] = {}

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """A new episode to this goal; without one it is a random walk."""
        self._views.begin(env_index)
        self._guides.pop(env_index, None)
        if goal is None:
            return
        picture = to_device(goal, self._retrieval.device)
        features = self._retrieval.features(picture.unsqueeze(0))
        to_goal = self._retrieval.reachable(features, self._memory.features)[0].cpu().numpy()
        self._goals[env_index] = (picture, features[0])
        self._guides[env_index] = Guide(self._config, self._memory.planner, to_goal)

    def act(self, observations: Array, env_indices: Array) -> Array:
        """Actions [B]: localize, plan, choose a waypoint, ask L for the way there."""
        self._chooser.forget()
        actions = self._rng.integers(self._spec.action_count, size=len(env_indices))
        rows = [row for row, env in enumerate(env_indices.tolist()) if env in self._guides]
        if not rows:
            return actions
        envs = env_indices[rows].tolist()
        views = self._views.push(observations[rows], env_indices[rows])
        targets = self._targets(views[1], envs)
        walking = [place for place, target in enumerate(targets) if target is not None]
        if walking:
            wanted = torch.stack([self._picture(envs[place], targets[place]) for place in walking])
            asked = torch.cat([views[:, walking], wanted.unsqueeze(0)])
            actions[np.array(rows)[walking]] = self._chooser.draw(asked, [envs[place] for place in walking])
        return actions

    def _targets(self, now: Tensor, envs: list[int]) -> list[int | None]:
        features = self._retrieval.features(now)
        goals = torch.stack([self._goals[env][1] for env in envs])
        near = self._retrieval.reachable(features, torch.cat([self._memory.features, goals])).cpu().numpy()
        count = len(self._memory.features)
        return [
            self._guides[env].step(near[row, :count], float(near[row, count + row])) for row, env in enumerate(envs)
        ]

    def _picture(self, env: int, target: int | None) -> Tensor:
        return self._goals[env][0] if target == GOAL else self._memory.observations[target]

    def explain(self, env_index: int) -> Explanation:
        """What the last action of this environment was for."""
        return self._guides[env_index].explanation() if env_index in self._guides else Explanation()

    def weigh(self, env_index: int) -> Explanation:
        """`explain` with the odds of the actions."""
        return replace(self.explain(env_index), values=self._chooser.odds(env_index), values_name=ODDS)


class SPTMAgent:
    """Walks until the memory is full, then makes the graph; the networks learn until then, if they do."""

    def __init__(self, config: SPTMConfig, spec: EnvSpec, seed: int, device: str) -> None:
        self.config, self.spec = config, spec
        self.networks = Networks(config, spec, seed, torch.device(device))
        self._rng = spawn(seed, ["act"])["act"]
        self._trail = Trail(config.memory, spec)
        self._memory: Memory | None = None  # made when the trail is full, which is forgotten then
        self._explorer: Policy | None = None
        self._observed = 0

    def explore_with(self, policy: Policy) -> None:
        """Let another policy than the random walk fill the memory; its state is no part of this agent's."""
        self._explorer = policy

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """In training all episodes are for the memory; to walk to a goal is a policy's business."""
        if self._explorer is not None:
            self._explorer.begin_episode(env_index, None)

    def act(self, observations: Array, env_indices: Array) -> Array:
        """At random, or as the explorer does."""
        if self._explorer is not None:
            return self._explorer.act(observations, env_indices)
        return self._rng.integers(self.spec.action_count, size=len(env_indices))

    def explain(self, env_index: int) -> Explanation:
        """There is nothing behind a step of exploration."""
        return Explanation()

    def observe(self, transitions: Transitions) -> None:
        """Remember, and keep to learn from, until the memory is full."""
        if self._memory is None:
            self._observed += len(transitions.env_indices)
            self.networks.observe(transitions)
            self._trail.observe(transitions)

    def update(self) -> Metrics:
        """Learn from what was observed, and make the graph when the memory is full."""
        if self._memory is not None:
            return self._counts(len(self._memory.origin))
        new, self._observed = self._observed, 0
        metrics = self.networks.update(new)
        nodes = len(self._trail)
        if self._trail.is_full:
            self._memory, self._trail = self._now(), Trail(self.config.memory, self.spec)
        return metrics | self._counts(nodes)

    def _counts(self, nodes: int) -> Metrics:
        edges = 0 if self._memory is None else len(self._memory.planner.edges.weights)
        return {"graph/landmark_count": float(nodes), "graph/edge_count": float(edges)}

    def _now(self) -> Memory:
        """The graph, or before the memory is full that of what there is."""
        if self._memory is not None:
            return self._memory
        return Memory.build(self._trail, self.networks.retrieval, self.config.shortcuts)

    def policy(self, seed: int) -> SPTMPolicy:
        """A frozen copy for evaluation, with a generator of its own."""
        frozen = self.networks.retrieval.frozen(), self.networks.locomotion.frozen()
        return SPTMPolicy(self.config.guide, self._now(), frozen, self.spec, spawn(seed, ["policy"])["policy"])

    def state_dict(self) -> AgentState:
        """Everything that going on exactly needs; in `graph` all that acting needs beside the networks."""
        state = AgentState(generators={"act": generator_state(self._rng)}, graph=self._now().state())
        self.networks.write_state(state)
        state.counters |= {"full": self._memory is not None, "remembered": self._trail.decisions}
        if self._memory is None:
            state.replay |= self._trail.state()
        return state

    def load_state_dict(self, state: AgentState) -> None:
        """Take up a state made by `state_dict`; a slim copy, which has no trail, acts by the graph that it has."""
        self.networks.read_state(state)
        restore_generator(self._rng, state.generators["act"])
        full = state.counters["full"]
        if not full:
            self._trail.load_state(state.replay)
        slim = self._trail.decisions != state.counters["remembered"]
        self._memory = Memory.from_state(state.graph, self.networks.device) if full or slim else None
