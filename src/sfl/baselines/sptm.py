"""Semi-parametric topological memory (Savinov, Dosovitskiy, Koltun, ICLR 2018).

How alike two observations are: the chance, by the retrieval network R, that they are a few decisions apart. Nodes:
every so many decisions one, of walks made for it; walks that begin with one view share their first. Edges: between
neighbours in time, and shortcuts between the pairs that R, smoothed along both walks, finds nearest.

In this order: shortcuts, the memory that they complete, the way of one environment to its goal, the policy, the agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch

from sfl.api import GOAL, AgentState, Array, Decision, EnvSpec, Metrics, Observation, Transitions
from sfl.baselines.config import GuideConfig, ShortcutConfig, SPTMConfig
from sfl.baselines.networks import PROBABILITY, Locomotion, NodeViews, NodeWalker, ReachabilityField, Retrieval
from sfl.baselines.walks import FillingPhase, RecordedWalks
from sfl.errors import NoRouteError
from sfl.method.edges import Edges, pair_key, split_key
from sfl.method.planner import Planner, Route
from sfl.seeding import spawn


def temporal_pairs(walks: Array) -> Array:
    """[P, 2] nodes and the next ones of the same walk; `walks` [N] is sorted, in a walk nodes lie in time order."""
    first = np.flatnonzero(walks[1:] == walks[:-1])
    return np.stack([first, first + 1], axis=1)


def smoothed(scores: Array, walks: Array, rows: range, window: int) -> Array:
    """Scores of some rows with all columns, [R, N]: the median along both walks at once.

    Of nodes i and j these are the scores of i + k and j + k for k from -window to window, as far as both lie in the
    walks of i and j. Two walks that pass the same places keep a high score; a single view that two places share does
    not. The rows must lie in one walk.
    """
    begin, end = np.searchsorted(walks, walks[rows.start]), np.searchsorted(walks, walks[rows.start], side="right")
    starts, stops = (np.searchsorted(walks, walks, side=side) for side in ("left", "right"))
    nodes, here = np.arange(len(walks)), np.arange(rows.start, rows.stop)
    seen = np.full((2 * window + 1, len(here), len(walks)), np.inf, scores.dtype)
    for place, shift in enumerate(range(-window, window + 1)):
        across = np.flatnonzero((nodes + shift >= starts) & (nodes + shift < stops))
        down = np.flatnonzero((here + shift >= begin) & (here + shift < end))
        if len(down):
            seen[place][np.ix_(down, across)] = scores[np.ix_(here[down] + shift, across + shift)]
    count = np.isfinite(seen).sum(0)
    seen.sort(axis=0)
    low, high = (np.take_along_axis(seen, at[None], axis=0)[0] for at in ((count - 1) // 2, count // 2))
    return np.asarray((low + high) / 2)


def find_shortcuts(scores: Array, walks: Array, window: int, distance: int, count: int) -> Array:
    """[S, 2] the `count` pairs i < j with the highest smoothed scores, of different walks or `distance` nodes apart.

    `scores` [N, N] is made symmetric first. The pairs are sorted. A median of few is no median: where one walk ends as
    the other begins hardly any pair lies in both, and the best of thousands such would beat every sound one.
    """
    even = (scores + scores.T) / 2
    nodes = np.arange(len(walks))
    starts, stops = (np.searchsorted(walks, walks, side=side) for side in ("left", "right"))
    before, after = nodes - starts, stops - 1 - nodes  # nodes of the same walk
    best_scores, best_keys = np.zeros(0, even.dtype), np.zeros(0, np.int64)
    for begin, end in _ranges_of_walks(walks):
        median = smoothed(even, walks, range(begin, end), window)
        apart = nodes - nodes[begin:end, None]
        seen = 1 + sum(np.minimum(np.minimum.outer(ends[begin:end], ends), window) for ends in (before, after))
        enough = np.minimum((np.minimum(stops - starts, end - begin) + 1) // 2, window + 1)
        allowed = (apart > 0) & ((walks != walks[begin]) | (apart >= distance)) & (seen >= enough)
        below, across = np.nonzero(allowed)
        best_scores = np.append(best_scores, median[below, across])
        best_keys = np.append(best_keys, pair_key(below + begin, across))
        order = np.lexsort((best_keys, -best_scores))[:count]  # equal scores: the earlier pair
        best_scores, best_keys = best_scores[order], best_keys[order]
    return np.stack(split_key(np.sort(best_keys)), axis=1)


def _ranges_of_walks(walks: Array) -> list[tuple[int, int]]:
    changes = np.flatnonzero(walks[1:] != walks[:-1]) + 1
    return list(pairwise([0, *changes.tolist(), len(walks)])) if len(walks) else []


def unit_edges(size: int, pairs: Array) -> Edges:
    """Edges of weight 1 in both directions for pairs [P, 2], each once."""
    both = np.concatenate([pairs, pairs[:, ::-1]]).astype(np.int64)
    keys = np.unique(pair_key(both[:, 0], both[:, 1]))
    sources, targets = split_key(keys)
    return Edges(size, sources, targets, np.ones(len(keys), np.int64), np.ones(len(keys)))


@dataclass(frozen=True)
class WalkGraph:
    """The memory: nodes and how they are joined."""

    views: NodeViews
    origin: Array  # [N]
    walks: Array  # [N] number of the walk, sorted
    planner: Planner

    @classmethod
    def build(cls, recorded: RecordedWalks, retrieval: Retrieval, config: ShortcutConfig) -> WalkGraph:
        """The graph of everything remembered so far."""
        seen = recorded.sorted()
        views = NodeViews.of(seen.observations, retrieval)
        scores = retrieval.reachable(views.features, views.features).cpu().numpy()
        shortcuts = find_shortcuts(scores, seen.walks, config.window, config.distance, config.count)
        pairs = np.concatenate([temporal_pairs(seen.walks), shortcuts])
        kept = number = np.arange(len(seen))
        if config.merge_starts:
            kept, number = one_start(seen.observations, seen.walks)
        joined = number[pairs]
        edges = unit_edges(len(kept), joined[joined[:, 0] != joined[:, 1]])
        return cls(views.at(kept), seen.origin[kept], seen.walks[kept], Planner(edges))

    def state(self) -> dict[str, Array]:
        """Plain arrays, with all that acting needs."""
        return {"origin": self.origin, "walks": self.walks, **self.views.state(), **self.planner.edges.state()}

    @classmethod
    def from_state(cls, state: dict[str, Array], device: torch.device) -> WalkGraph:
        """Take up arrays made by `state`."""
        origin, views = state["origin"], NodeViews.from_state(state, device)
        return cls(views, origin, state["walks"], Planner(Edges.from_state(len(origin), state)))


class Guide:
    """One environment on its way to a goal, in numbers of nodes."""

    def __init__(self, config: GuideConfig, planner: Planner, walks: Array, to_goal: Array) -> None:
        """`walks` [N]: the walk of every node; `to_goal` [N]: R of every node with the goal."""
        self._config, self._planner, self._walks = config, planner, walks
        self._goal = median_node(nearest_nodes(to_goal, config.neighbours), walks) if len(to_goal) else None
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
            self.place = self._localize(near, self._goal)
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

    def _localize(self, near: Array, goal: int) -> int | None:
        """On the last route if that looks right; else wherever it does, where there is a route if there is a choice."""
        config = self._config
        ahead = [node for node in self.route[: 1 + config.look_ahead] if node != GOAL]
        if ahead:
            best = max(ahead, key=lambda node: float(near[node]))
            if near[best] >= config.local_threshold:
                return best
        found = nearest_nodes(near, config.neighbours)
        found = found[near[found] >= config.global_threshold]
        if len(found):
            routed = found[np.isfinite(self._planner.distances(goal)[found])]
            return median_node(routed if len(routed) else found, self._walks)
        stays = self.place is not None and not self.route and near[self.place] >= config.local_threshold
        return self.place if stays else None

    def explanation(self) -> Decision:
        """What the last action was for."""
        return Decision(
            localized=self.place,
            target=self.target,
            route=self.route,
            route_found=self.route_found,
            arrived=self.arrived,
        )


def one_start(observations: Array, walks: Array) -> tuple[Array, Array]:
    """The nodes that are kept [K], and for all [N] which of them they are: of walks [N] that begin with the same
    observation, of [N, ...], only the first keeps its start."""
    stands_for, first = np.arange(len(walks)), dict[bytes, int]()
    for node in np.flatnonzero(np.diff(walks, prepend=-1)).tolist():
        stands_for[node] = first.setdefault(observations[node].tobytes(), node)
    return np.unique(stands_for, return_inverse=True)


def nearest_nodes(near: Array, count: int) -> Array:
    """The nodes [count] with the highest R, best first."""
    return np.argsort(-near, kind="stable")[:count]


def median_node(nodes: Array, walks: Array) -> int:
    """The one in the middle: nodes are numbered in the order of walking, so that a stray one does not count.

    Nodes [K], best first, given the walk of every node [N]. The numbers of other walks than the best one's say nothing
    of places: the middle of five walks would be any of them.
    """
    own = np.sort(nodes[walks[nodes] == walks[nodes[0]]])
    return int(own[(len(own) - 1) // 2])


def farthest_waypoint(ahead: Sequence[int], scores: Sequence[float], threshold: float) -> int:
    """The last with at least this score, or else the first."""
    return ahead[max((place for place, score in enumerate(scores) if score >= threshold), default=0)]


class SPTMPolicy(ReachabilityField):
    """A frozen memory and frozen networks, with goals to go to."""

    def __init__(
        self,
        config: GuideConfig,
        memory: WalkGraph,
        networks: tuple[Retrieval, Locomotion],
        spec: EnvSpec,
        rng: np.random.Generator,
    ) -> None:
        self._config, self._memory, self._spec, self._rng = config, memory, spec, rng
        self._retrieval, self._walker = networks[0], NodeWalker(networks, spec, rng)
        self._guides: dict[int, Guide] = {}

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """A new episode to this goal; without one it is a random walk."""
        self._guides.pop(env_index, None)
        to_goal = self._walker.begin(env_index, goal, self._memory.views)
        if to_goal is not None:
            self._guides[env_index] = Guide(self._config, self._memory.planner, self._memory.walks, to_goal)

    def act(self, observations: Array, env_indices: Array) -> Array:
        """Actions [B]: localize, plan, choose a waypoint, ask L for the way there."""
        self._walker.clear()
        actions = self._rng.integers(self._spec.action_count, size=len(env_indices))
        rows = np.array([row for row, env in enumerate(env_indices.tolist()) if env in self._guides], np.int64)
        if not len(rows):
            return actions
        envs, nodes = env_indices[rows], self._memory.views
        views, near, goal_near = self._walker.nearness(observations[rows], envs, nodes)
        targets = [self._guides[env].step(near[row], float(goal_near[row])) for row, env in enumerate(envs.tolist())]
        walking, drawn = self._walker.walk(views, envs, targets, nodes)
        actions[rows[walking]] = drawn
        return actions

    def explain(self, env_index: int) -> Decision:
        """What the last action of this environment was for."""
        return self._guides[env_index].explanation() if env_index in self._guides else Decision()

    def action_values(self, env_index: int) -> Decision:
        """`explain` with the probabilities of the actions."""
        return replace(self.explain(env_index), values=self._walker.probabilities(env_index), values_name=PROBABILITY)


class SPTMAgent:
    """Walks until the memory is full, then makes the graph; the networks learn until then, if they do."""

    def __init__(self, config: SPTMConfig, spec: EnvSpec, seed: int, device: str) -> None:
        self.config, self.spec = config, spec
        self.filling = FillingPhase(config, spec, seed, device)
        self._memory: WalkGraph | None = None  # made when enough is recorded, and the walks are dropped

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """In training every episode is for the memory: goals are for policies."""
        self.filling.begin_episode(env_index)

    def act(self, observations: Array, env_indices: Array) -> Array:
        """At random, or as the explorer does."""
        return self.filling.act(observations, env_indices)

    def explain(self, env_index: int) -> Decision:
        """There is nothing behind a step of exploration."""
        return Decision()

    def observe(self, transitions: Transitions) -> None:
        """Remember, and keep to learn from, until the memory is full."""
        if self._memory is None:
            self.filling.observe(transitions)

    def update(self) -> Metrics:
        """Learn from what was observed, and make the graph when the memory is full."""
        if self._memory is not None:
            return self._counts(len(self._memory.origin))
        metrics = self.filling.learn()
        nodes = len(self.filling.recorded)
        if self.filling.recorded.is_full:
            self._memory = self._now()
            self.filling.clear()
            nodes = len(self._memory.origin)
        return metrics | self._counts(nodes)

    def _counts(self, nodes: int) -> Metrics:
        edges = 0 if self._memory is None else len(self._memory.planner.edges.weights)
        return {"graph/landmark_count": float(nodes), "graph/edge_count": float(edges)}

    def _now(self) -> WalkGraph:
        """The graph, or before the memory is full that of what there is."""
        if self._memory is not None:
            return self._memory
        return WalkGraph.build(self.filling.recorded, self.filling.networks.retrieval, self.config.shortcuts)

    def policy(self, seed: int) -> SPTMPolicy:
        """A frozen copy for evaluation, with a generator of its own."""
        rng = spawn(seed, ["policy"])["policy"]
        return SPTMPolicy(self.config.guide, self._now(), self.filling.snapshot(), self.spec, rng)

    def state_dict(self) -> AgentState:
        """Everything that going on exactly needs; in `graph` all that acting needs beside the networks."""
        state = AgentState(graph=self._now().state())
        self.filling.write_state(state, full=self._memory is not None)
        return state

    def load_state_dict(self, state: AgentState) -> None:
        """Take up a state made by `state_dict`; a slim copy, which has no walks, acts by the graph that it has."""
        by_graph = self.filling.load_state(state)
        self._memory = WalkGraph.from_state(state.graph, self.filling.networks.device) if by_graph else None
