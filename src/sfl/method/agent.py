"""SFL in training: Algorithm 1 with the graph update of Algorithm 2 in it, for one environment or several at once.

`act` decides, `observe` keeps what came of it, `update` learns and does to the graph what is due. What each line of the
algorithms is, is in the chapters: landmarks, candidates, edges, planner, navigator, policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from sfl.api import AgentState, Array, Decision, EnvSpec, Metrics, Observation, Transitions
from sfl.method.candidates import Candidate, Candidates
from sfl.method.config import SFLConfig
from sfl.method.edges import Edges, EdgeStatistics, form_edges
from sfl.method.landmarks import Landmarks
from sfl.method.planner import Planner
from sfl.method.policy import FrozenPolicy, LocalPolicy
from sfl.method.presets import resolve
from sfl.method.reachability import Reachability, ReachabilityStates
from sfl.method.schedule import FrameRepresentation, LearnedRepresentation
from sfl.method.states import PsiSource, Representation
from sfl.method.tabular import TabularRepresentation
from sfl.seeding import generator_state, restore_generator, spawn


@dataclass
class Previous:
    """l_prev of Algorithm 2: where one environment's agent was localized last, in this episode."""

    landmark: int | None = None
    steps: int = 0
    """Decisions since then."""
    random: bool = False
    """Whether the random policy acted in between."""


class SFLAgent:
    """Successor Feature Landmarks."""

    def __init__(self, config: SFLConfig, spec: EnvSpec, seed: int, device: str) -> None:
        self.config = resolve(config)
        self.spec, self._device = spec, torch.device(device)
        self._rng = spawn(seed, ["act"])["act"]
        self.representation: Representation
        if self.config.states == "one-hot":
            self.representation = TabularRepresentation(self.config.exact, spec)
        else:
            learned = FrameRepresentation if self.config.states == "frames" else LearnedRepresentation
            self.representation = learned(self.config, spec, seed, self._device)
        self._reachability: Reachability | None = None  # R, in the ablation of the metric
        if self.config.metric.measure == "reachability":
            self._reachability = Reachability.start(self.config.metric, spec, seed, self._device)
        self._states = self._compared_states(self.representation)
        self.landmarks = Landmarks(self.config.landmarks, self._states.dim, self._device, self._reachability)
        self.candidates = Candidates(self.landmarks)
        self.statistics = EdgeStatistics()
        self.local_policy = LocalPolicy(
            self.config, self.landmarks, Planner(Edges.none(0)), self._rng, self.config.train_epsilon
        )
        self.env_steps = 0
        self._acted = self._observed = 0  # decisions so far, and those observed that are not learned from yet
        self._previous = [Previous() for _ in range(spec.env_count)]
        self._exploring = np.ones(spec.env_count, dtype=bool)
        self._tally = {"decisions": 0, "localized": 0, "trips": 0, "reached": 0}

    @property
    def edges(self) -> Edges:
        """The landmark graph's edges as they were formed last."""
        return self.local_policy.planner.edges

    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """Training episodes have no goal; with one, the agent goes there instead of exploring."""
        self._previous[env_index] = Previous()
        self.local_policy.begin_episode(env_index, self._states, goal)

    # ---- act

    @torch.no_grad()
    def act(self, observations: Array, env_indices: Array) -> Array:
        """One decision for each environment; until landmarks are collected, all of them at random."""
        if self.env_steps < self.config.landmarks.start_step:
            self.representation.perceive(observations, env_indices)
            self.representation.learn_due()
            self._exploring[env_indices] = True
            self._acted += len(env_indices)
            return self._rng.integers(self.spec.action_count, size=len(env_indices))
        states = self._states.perceive(observations, env_indices)
        here = self.local_policy.localize(self._states, states, env_indices)
        # On a GPU, gradient steps that are due are asked for now: the device makes them after it has answered where
        # the agents are, while they decide and act. On the CPU nothing is due here.
        self.representation.learn_due()
        decisions = here.decisions()  # Algorithm 2, line 3
        self._collect_candidates(decisions, states, env_indices)  # lines 4-6
        for env, decision in zip(env_indices.tolist(), decisions, strict=True):
            self._count_transition(env, decision.localized)  # lines 7-9 and 14; edges (10-12) are formed in `update`
        actions = self.local_policy.act(here, decisions, env_indices, self.spec.action_count)  # Algorithm 1
        for env, decision in zip(env_indices.tolist(), decisions, strict=True):
            previous, self._exploring[env] = self._previous[env], decision.heading is None
            previous.random |= decision.heading is None
            previous.steps += 1
        self._acted += len(env_indices)
        return actions

    def _collect_candidates(
        self, decisions: Sequence[Decision], states: Array | torch.Tensor, env_indices: Array
    ) -> None:
        """Algorithm 2, lines 4-6: states that are unlike every landmark are candidates to become one."""
        # The paper's appendix takes the median here as well; where W is 1 the two are the same.
        novel = [row for row, decision in enumerate(decisions) if self.candidates.accepts(decision.similarity)]
        if not novel or self.candidates.is_full:
            return
        kept = np.asarray(states.cpu().numpy() if isinstance(states, torch.Tensor) else states)[novel]
        for row, state in zip(novel, kept, strict=True):
            previous = self._previous[int(env_indices[row])]
            candidate = Candidate(state, self._acted + row, previous.landmark, previous.steps, previous.random)
            self.candidates.propose(candidate)

    def _count_transition(self, env: int, landmark: int | None) -> None:
        """Algorithm 2, lines 7-9 and 14: count the visit, and the transition that led to this landmark."""
        self._tally["decisions"] += 1
        if landmark is None:
            return
        previous = self._previous[env]
        self._tally["localized"] += 1
        self.landmarks.set.visit(landmark)
        if previous.landmark is not None and previous.landmark != landmark:
            self.statistics.record(previous.landmark, landmark, previous.steps, previous.random)
        self._previous[env] = Previous(landmark)

    # ---- observe and update

    def observe(self, transitions: Transitions) -> None:
        """Algorithm 1, line 11: keep the step; only what the random policy did trains psi."""
        self._observed += len(transitions.env_indices)
        self.representation.observe(transitions, self._exploring[transitions.env_indices])

    def update(self) -> Metrics:
        """Learn (Algorithm 1, line 12) from what came since the last time, and do what is due to the graph."""
        before, new = self.env_steps, self._observed
        self._observed = 0
        self.env_steps += new
        metrics = self.representation.update(self.env_steps, new)
        if self.env_steps >= self.config.landmarks.start_step:
            self._update_graph(before)
            self._book_outcomes()
        return metrics | self._graph_metrics()

    def _update_graph(self, before: int) -> None:
        """Refresh landmarks, add some, and form edges, each when a multiple of its interval has passed."""
        landmarks, edges = self.config.landmarks, self.config.edges

        def due(interval: int) -> bool:
            return self.env_steps // interval > before // interval

        refreshed = due(landmarks.update_every)
        if refreshed:
            self.representation.learn_due()
            self.landmarks.refresh(self._states)
            self.landmarks.find_aliases(self.representation)
        changed = False
        if due(landmarks.add_every):
            changed = self._rebuild() if landmarks.formation == "clustered" else self._admit_candidates(refreshed)
        if changed or due(edges.form_every):
            self._form_edges()

    def _admit_candidates(self, refreshed: bool) -> bool:
        """Algorithm 2, line 5; whether any became a landmark: the graph is then another one."""
        known = self.landmarks.set.count
        admitted = self.candidates.admit(self._states, self.env_steps, refreshed)
        for index, candidate in admitted:
            if index < known:  # it replaces another; a new number has no past
                self.statistics.clear(index)
                self._previous = [Previous() if one.landmark == index else one for one in self._previous]
            previous = candidate.previous
            if self.config.edges.inherit_transition and previous is not None and previous != index:
                self.statistics.record(previous, index, candidate.steps, candidate.random)
        return bool(admitted)

    def _rebuild(self) -> bool:
        """Other landmarks: transitions, visits and trips of the old ones mean nothing any more."""
        if not self.candidates.rebuild(self.representation, self.env_steps):
            return False
        self.statistics = EdgeStatistics()
        self._previous = [Previous() for _ in self._previous]
        for navigator in self.local_policy.navigators.values():
            navigator.abandon()
        self.local_policy.outcomes.walked.clear()
        self.local_policy.outcomes.failed.clear()
        return True

    def _form_edges(self) -> None:
        """Algorithm 2, lines 10-12, with the filters of appendix D.3."""
        config = self.config.edges
        if config.forget_after:
            self.statistics.forget(self.env_steps, config.forget_after)
        edges = form_edges(self.statistics, config, self.landmarks.set.count)
        aliased = np.flatnonzero(self.landmarks.aliasing.aliased)
        if len(aliased):
            edges = edges.keep(~np.isin(edges.sources, aliased) & ~np.isin(edges.targets, aliased))
        self.local_policy.planner = Planner(edges)

    def _book_outcomes(self) -> None:
        """What became of legs and trips since the last time."""
        outcomes = self.local_policy.outcomes
        for source, target in outcomes.walked:
            self.statistics.record_walk(source, target)
        for source, target in outcomes.failed:
            self.statistics.record_failure(source, target, self.env_steps)
        self._tally["trips"] += len(outcomes.trips)
        self._tally["reached"] += sum(outcomes.trips)
        outcomes.clear()

    def _graph_metrics(self) -> Metrics:
        tally, aliased = self._tally, self.landmarks.aliasing.aliased
        return {
            "graph/landmark_count": float(self.landmarks.set.count),
            "graph/edge_count": float(len(self.edges.weights)),
            "graph/doubted": float(aliased.mean()) if len(aliased) else 0.0,
            "graph/localized": tally["localized"] / max(1, tally["decisions"]),
            "explore/frontier_trips": float(tally["trips"]),
            "explore/waypoint_reached": tally["reached"] / max(1, tally["trips"]),
        }

    # ---- frozen copies and checkpoints

    def policy(self, seed: int) -> FrozenPolicy:
        """A frozen copy for evaluation, with a generator of its own."""
        rng, epsilon = spawn(seed, ["policy"])["policy"], self.config.eval_epsilon
        local = LocalPolicy(self.config, self.landmarks.snapshot(), self.local_policy.planner, rng, epsilon)
        return FrozenPolicy(local, self._compared_states(self.representation.snapshot()), self.spec.action_count)

    def explain(self, env_index: int) -> Decision:
        """The last decision of this environment."""
        return self.local_policy.explain(env_index)

    def state_dict(self) -> AgentState:
        """Everything that going on exactly needs."""
        state = AgentState(generators={"act": generator_state(self._rng)})
        self.representation.write_state(state)
        if self._reachability is not None:
            self._reachability.write_state(state)
        state.graph = self.landmarks.state() | self.statistics.state() | self.edges.state() | self.candidates.state()
        state.counters |= {
            "env_steps": self.env_steps,
            "acted": self._acted,
            "tally": dict(self._tally),
            "edge_size": self.edges.size,
            "tracks": [[one.landmark, one.steps, one.random] for one in self._previous],
            "trips": self.local_policy.state(),
        }
        return state

    def load_state_dict(self, state: AgentState) -> None:
        """Go on with a state made by `state_dict`."""
        restore_generator(self._rng, state.generators["act"])
        self.representation.load_state(state)
        if self._reachability is not None:
            self._reachability = self.landmarks.reachability = self._reachability.restored(state)
            self._states = self._compared_states(self.representation)
        graph, counters = state.graph, state.counters
        self.landmarks.load_state(graph)
        self.candidates.load_state(graph)
        self.statistics.load_state(graph)
        self.local_policy.planner = Planner(Edges.from_state(counters["edge_size"], graph))
        self.env_steps, self._acted, self._tally = counters["env_steps"], counters["acted"], dict(counters["tally"])
        self._previous = [Previous(*row) for row in counters["tracks"]]
        self.local_policy.load_state(counters["trips"])

    def _compared_states(self, source: PsiSource) -> PsiSource:
        """States that are compared by psi, and in the ablation of the metric by R's codes."""
        return source if self._reachability is None else ReachabilityStates(source, self._reachability)
