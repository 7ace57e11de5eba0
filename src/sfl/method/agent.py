"""SFL in training: Algorithm 1 over Algorithm 2, for one environment or several at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from sfl.api import AgentState, Array, EnvSpec, Explanation, Metrics, Observation, Transitions
from sfl.method.config import AnySFLConfig, FrameSFLConfig, SFLConfig, in_force
from sfl.method.edges import Edges, EdgeStatistics, form_edges
from sfl.method.landmarks import Candidate, LandmarkMemory, Sight, as_array
from sfl.method.learning import FrameRepresentation, LearnedRepresentation
from sfl.method.planner import Planner
from sfl.method.policy import FrozenPolicy, Walker
from sfl.method.reachability import Scout, ScoutedStates
from sfl.method.states import PsiSource, Representation
from sfl.method.tabular import TabularRepresentation
from sfl.seeding import generator_state, restore_generator, spawn


@dataclass
class Track:
    """Where one environment's agent was localized last, in this episode."""

    landmark: int | None = None
    steps: int = 0
    random: bool = False


class SFLAgent:
    """Successor Feature Landmarks."""

    def __init__(self, config: AnySFLConfig, spec: EnvSpec, seed: int, device: str) -> None:
        self.config = in_force(config)
        self.spec, self._device = spec, torch.device(device)
        self._rng = spawn(seed, ["act"])["act"]
        self.representation: Representation
        if isinstance(self.config, SFLConfig):
            self.representation = LearnedRepresentation(self.config, spec, seed, self._device)
        elif isinstance(self.config, FrameSFLConfig):
            self.representation = FrameRepresentation(self.config, spec, seed, self._device)
        else:
            self.representation = TabularRepresentation(self.config, spec)
        self._scout: Scout | None = None  # R, where nearness is not SFS
        if self.config.metric.measure == "reachability":
            self._scout = Scout.start(self.config.metric, spec, seed, self._device)
        self._source = self._scouted(self.representation)
        metric = None if self._scout is None else self._scout.metric
        self.memory = LandmarkMemory(self.config.landmarks, self._source.dim, self._device, metric)
        self.statistics = EdgeStatistics()
        self.env_steps = 0
        self._acted = self._observed = 0  # decisions so far, and those observed that are not learned from yet
        self._walker = Walker(self.config, self.memory, Planner(Edges.none(0)), self._rng, self.config.train_epsilon)
        self._tracks = [Track() for _ in range(spec.env_count)]
        self._exploring = np.ones(spec.env_count, dtype=bool)
        self._tally = {"decisions": 0, "localized": 0, "trips": 0, "reached": 0}

    @property
    def edges(self) -> Edges:
        """The landmark graph's edges as they were formed last."""
        return self._walker.planner.edges

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """Training episodes have no goal; with one, the agent goes there instead of exploring."""
        self._tracks[env_index] = Track()
        self._walker.begin_episode(env_index, self._source, goal)

    @torch.no_grad()
    def act(self, observations: Array, env_indices: Array) -> Array:
        """Localize, update the graph (Algorithm 2), then travel or explore (Algorithm 1)."""
        if not self._active:
            self.representation.perceive(observations, env_indices)
            self.representation.catch_up()
            self._exploring[env_indices] = True
            self._acted += len(env_indices)
            return self._rng.integers(self.spec.action_count, size=len(env_indices))
        states = self._source.perceive(observations, env_indices)
        routes = self._walker.routes(env_indices)
        sight = self.memory.see(self._source, states, env_indices, self.representation.catch_up, routes)
        self._propose(sight, env_indices, states)
        for env, landmark in zip(env_indices.tolist(), sight.localized, strict=True):
            self._update_graph(env, landmark)
        actions, exploring = self._walker.choose(sight, env_indices, self.env_steps, self.spec.action_count)
        self._exploring[env_indices] = exploring
        self._acted += len(env_indices)
        for env, at_random in zip(env_indices.tolist(), exploring.tolist(), strict=True):
            track = self._tracks[env]
            track.random |= at_random
            track.steps += 1
        return actions

    def observe(self, transitions: Transitions) -> None:
        """Keep the step; only what the random policy did trains psi."""
        self._observed += len(transitions.env_indices)
        self.representation.observe(transitions, self._exploring[transitions.env_indices])

    def update(self) -> Metrics:
        """Learn from what was observed since the last time, and do what is due at this number of steps."""
        before, new = self.env_steps, self._observed
        self._observed = 0
        self.env_steps += new
        metrics = self.representation.update(self.env_steps, new)
        if self._active:
            self._maintain_graph(before)
        return metrics | self._graph_metrics()

    def policy(self, seed: int) -> FrozenPolicy:
        """A frozen copy for evaluation, with a generator of its own."""
        rng = spawn(seed, ["policy"])["policy"]
        walker = Walker(self.config, self.memory.frozen(), self._walker.planner, rng, self.config.eval_epsilon)
        return FrozenPolicy(walker, self._scouted(self.representation.frozen()), self.spec.action_count)

    def explain(self, env_index: int) -> Explanation:
        """What the last action of this environment was for."""
        return self._walker.explain(env_index)

    def state_dict(self) -> AgentState:
        """Everything that going on exactly needs."""
        state = AgentState(generators={"act": generator_state(self._rng)})
        self.representation.write_state(state)
        if self._scout is not None:
            self._scout.write_state(state)
        state.graph = self.memory.state() | self.statistics.state() | self.edges.state() | self.memory.candidate_state()
        state.counters |= {
            "env_steps": self.env_steps,
            "acted": self._acted,
            "tally": dict(self._tally),
            "edge_size": self.edges.size,
            "tracks": [[track.landmark, track.steps, track.random] for track in self._tracks],
            "trips": self._walker.state(),
        }
        return state

    def load_state_dict(self, state: AgentState) -> None:
        """Take up a state made by `state_dict`."""
        restore_generator(self._rng, state.generators["act"])
        self.representation.read_state(state)
        if self._scout is not None:
            self._scout = self._scout.restored(state)
            self._source, self.memory.localizer.metric = self._scouted(self.representation), self._scout.metric
        graph, counters = state.graph, state.counters
        self.memory.load_state(graph)
        self.memory.load_candidate_state(graph)
        self.statistics.load_state(graph)
        self._walker.planner = Planner(Edges.from_state(counters["edge_size"], graph))
        self.env_steps, self._acted, self._tally = counters["env_steps"], counters["acted"], dict(counters["tally"])
        self._tracks = [Track(*row) for row in counters["tracks"]]
        self._walker.load_state(counters["trips"])

    def _scouted(self, source: PsiSource) -> PsiSource:
        """What landmarks are compared by: psi, and R's codes where the metric is R."""
        return source if self._scout is None else ScoutedStates(source, self._scout)

    @property
    def _active(self) -> bool:
        """Landmarks are collected from here on; before, the policy is uniformly random."""
        return self.env_steps >= self.config.landmarks.start_step

    def _propose(self, sight: Sight, env_indices: Array, states: Array | torch.Tensor) -> None:
        """Algorithm 2, line 4: states that are unlike every landmark are candidates to become one."""
        # The paper's appendix takes the median here as well; where W is 1 the two are the same.
        novel = [row for row, similarity in enumerate(sight.similarity) if self.memory.accepts(similarity)]
        if not novel or not self.memory.wants_candidates:
            return
        for row, state in zip(novel, as_array(states, novel), strict=True):
            track = self._tracks[int(env_indices[row])]
            self.memory.propose(Candidate(state, self._acted + row, track.landmark, track.steps, track.random))

    def _update_graph(self, env: int, landmark: int | None) -> None:
        """Algorithm 2 for one environment: count the visit, and the transition that led here."""
        self._tally["decisions"] += 1
        if landmark is None:
            return
        track = self._tracks[env]
        self._tally["localized"] += 1
        self.memory.set.visit(landmark)
        if track.landmark is not None and track.landmark != landmark:
            self.statistics.record(track.landmark, landmark, track.steps, track.random)
        self._tracks[env] = Track(landmark)

    def _maintain_graph(self, before: int) -> None:
        """Refresh, add and form edges when their intervals have passed."""
        landmarks, edges = self.config.landmarks, self.config.edges
        refreshed = self._passed(before, landmarks.update_every)
        if refreshed:
            self.representation.catch_up()
            self.memory.refresh(self._source)
            self.memory.examine(self.representation)
        add = self._rebuild if landmarks.formation == "clustered" else lambda: self._admit_candidates(refreshed)
        changed = self._passed(before, landmarks.add_every) and add()
        if changed or self._passed(before, edges.form_every):
            self._form_edges()
        for navigator in self._walker.navigators():
            if not (navigator.failures or navigator.walks or navigator.finished):
                continue
            for source, target in navigator.walks:
                self.statistics.record_walk(source, target)
            for source, target in navigator.failures:
                self.statistics.record_failure(source, target, self.env_steps)
            self._tally["trips"] += len(navigator.finished)
            self._tally["reached"] += sum(navigator.finished)
            navigator.failures.clear()
            navigator.walks.clear()
            navigator.finished.clear()

    def _admit_candidates(self, refreshed: bool) -> bool:
        """Whether any became a landmark: the graph is then another one."""
        known = self.memory.set.count
        admitted = self.memory.admit(self._source, self.env_steps, refreshed)
        for index, candidate in admitted:
            if index < known:  # it replaces another; a new number has no past
                self.statistics.clear(index)
                self._tracks = [Track() if track.landmark == index else track for track in self._tracks]
            previous = candidate.previous
            if self.config.edges.inherit_transition and previous is not None and previous != index:
                self.statistics.record(previous, index, candidate.steps, candidate.random)
        return bool(admitted)

    def _rebuild(self) -> bool:
        """Other landmarks: transitions, visits and trips of the old ones mean nothing any more."""
        if not self.memory.rebuild(self.representation, self.env_steps):
            return False
        self.statistics = EdgeStatistics()
        self._tracks = [Track() for _ in self._tracks]
        for navigator in self._walker.navigators():
            navigator.abandon()
        return True

    def _form_edges(self) -> None:
        config = self.config.edges
        if config.forget_after:
            self.statistics.forget(self.env_steps, config.forget_after)
        edges = form_edges(self.statistics, config, self.memory.set.count)
        doubted = np.flatnonzero(self.memory.doubted)
        if len(doubted):
            edges = edges.keep(~np.isin(edges.sources, doubted) & ~np.isin(edges.targets, doubted))
        self._walker.planner = Planner(edges)

    def _passed(self, before: int, interval: int) -> bool:
        """A multiple of the interval lies between the last number of steps and this one."""
        return self.env_steps // interval > before // interval

    def _graph_metrics(self) -> Metrics:
        tally = self._tally
        return {
            "graph/landmark_count": float(self.memory.set.count),
            "graph/edge_count": float(len(self.edges.weights)),
            "graph/doubted": float(self.memory.doubted.mean()) if len(self.memory.doubted) else 0.0,
            "graph/localized": tally["localized"] / max(1, tally["decisions"]),
            "explore/frontier_trips": float(tally["trips"]),
            "explore/waypoint_reached": tally["reached"] / max(1, tally["trips"]),
        }
