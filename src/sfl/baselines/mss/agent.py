"""Mapping State Space (Huang, Liu and Su, 2019): a universal value function as policy and distance, and a map.

In training the planner and the bare policy take turns: the one leads to a landmark of the map, the other walks straight
to a state of the replay, and everything seen trains the value function. First those goals, then the agent.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from sfl.api import AgentState, Array, Decision, EnvSpec, Metrics, Observation, Transitions
from sfl.baselines.mss.config import MSSConfig
from sfl.baselines.mss.map import LandmarkMap, farthest_points
from sfl.baselines.mss.policy import DrawnMap, FrozenPolicy, MapPolicy
from sfl.baselines.mss.states import Experience, FrameExperience, GridExperience
from sfl.baselines.mss.value import UVFA, UVFALearner
from sfl.errors import CheckpointError
from sfl.fast.cuda import tensor_cores, to_device
from sfl.nn.mlp import PairNetwork
from sfl.nn.weights import adam_state, load_adam, load_module, module_state
from sfl.seeding import draw_seed, generator_state, restore_generator, spawn

PLAN, WALK = 0, 1


class TrainingGoals:
    """Two goals for every environment, one for the planner and one for the bare policy; each decision follows one."""

    def __init__(self, config: MSSConfig, blank: Tensor, count: int, rng: np.random.Generator) -> None:
        """`blank` [1, ...]: any state."""
        self._config, self._rng = config, rng
        self.goals = torch.zeros_like(blank).expand(2, count, *blank.shape[1:]).clone()
        self.onward = np.zeros((count, 0))  # values of the ways from landmarks to the planner's goals
        self._stale = np.ones((2, count), bool)  # goals to be drawn anew
        self._given = np.zeros(count, bool)  # goals that were asked for
        self._age = np.zeros(count, np.int64)  # decisions of the episode so far
        self.trips = self.arrivals = 0

    def begin_episode(self, env: int, goal: Tensor | None, drawn_map: DrawnMap | None, network: UVFA) -> None:
        """New goals, unless there is one that was asked for."""
        self.trips += int(not self._stale[PLAN, env] and not self._given[env])
        self._age[env], self._stale[:, env], self._given[env] = 0, True, goal is not None
        if goal is not None:
            self.goals[PLAN, env] = goal[0]
            self._stale[PLAN, env] = False
            if drawn_map is not None:
                self.onward[env] = drawn_map.to_goals(goal, network)[0]

    def planned(self, envs: Array) -> Array:
        """[B] bool: which decisions the planner makes, by chance or in phases; counts the decisions of the episodes."""
        if not self._config.cycle_steps:
            planned = self._rng.random(len(envs)) < self._config.plan_share
        else:
            phase, step = np.divmod(self._age[envs], self._config.cycle_steps)
            planned = phase % 2 == PLAN
            self._give_up(envs[(step == 0) & ~self._given[envs]])
        self._age[envs] += 1
        return np.asarray(planned | self._given[envs])

    def _give_up(self, envs: Array) -> None:
        """A phase is over, whatever came of it."""
        self.trips += int((~self._stale[PLAN, envs]).sum())
        self._stale[:, envs] = True

    def renew(self, envs: Array, drawn_map: DrawnMap, draw: Callable[[int], Tensor], network: UVFA) -> None:
        """Draw the goals that are due: a landmark for the planner, a state of the replay for the bare policy."""
        led, walking = envs[self._stale[PLAN, envs]], envs[self._stale[WALK, envs]]
        if len(led):
            picks = self._rng.integers(len(drawn_map.landmarks), size=len(led))
            goals = drawn_map.landmarks.index_select(0, to_device(picks, drawn_map.landmarks.device))
            self.goals[PLAN].index_copy_(0, to_device(led, goals.device), goals)
            self.onward[led] = drawn_map.to_goals(goals, network)
        if len(walking):
            goals = draw(len(walking))
            self.goals[WALK].index_copy_(0, to_device(walking, goals.device), goals)
        self._stale[:, envs] = False

    def goals_of(self, envs: Array, planned: Array) -> Tensor:
        """The goals [B, ...] of these decisions."""
        flat, kinds = self.goals.flatten(0, 1), np.where(planned, PLAN, WALK)
        return flat.index_select(0, to_device(kinds * self.goals.shape[1] + envs, flat.device))

    def arrive(self, envs: Array, planned: Array, arrived: Array) -> None:
        """Environments that have arrived get another goal, unless this one was asked for."""
        done = arrived & ~self._given[envs]
        self._stale[PLAN, envs[done & planned]] = True
        self._stale[WALK, envs[done & ~planned]] = True
        self.trips += int((done & planned).sum())
        self.arrivals += int((done & planned).sum())

    def redraw(self, drawn_map: DrawnMap, network: UVFA) -> None:
        """The map was drawn anew."""
        self.onward = drawn_map.to_goals(self.goals[PLAN], network)

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        return {
            "errand_goals": self.goals.cpu().numpy().copy(),
            "errand_onward": self.onward.copy(),
            "errand_stale": self._stale.copy(),
            "errand_given": self._given.copy(),
            "errand_age": self._age.copy(),
            "errand_tally": np.array([self.trips, self.arrivals]),
        }

    def load_state(self, state: dict[str, Array]) -> None:
        """Take up arrays made by `state`."""
        self.goals = torch.from_numpy(state["errand_goals"].copy()).to(self.goals.device)
        self.onward, self._stale = state["errand_onward"].copy(), state["errand_stale"].copy()
        self._given, self._age = state["errand_given"].copy(), state["errand_age"].copy()
        self.trips, self.arrivals = state["errand_tally"].tolist()


class MSSAgent:
    """Mapping State Space."""

    READ_EVERY = 100
    """Gradient steps on a GPU between two looks at the loss, each of which waits for it."""

    def __init__(self, config: MSSConfig, spec: EnvSpec, seed: int, device: str) -> None:
        self.config, self.spec, self._device = config, spec, torch.device(device)
        rngs = spawn(seed, ["act", "init", "replay"])
        self._rng, self._replay_rng = rngs["act"], rngs["replay"]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(draw_seed(rngs["init"]))
            self.experience: Experience = (
                GridExperience(config, spec, self._replay_rng, self._device)
                if config.states == "grid"
                else FrameExperience(config, spec, self._replay_rng, self._device)
            )
            pairs = PairNetwork(self.experience.dim, config.uvfa.hidden, spec.action_count, config.uvfa.batch_norm)
            self.learner = UVFALearner(config.uvfa, UVFA(self.experience.encoder, pairs), self._device)
        self._by_map = MapPolicy(self.learner.network, self.experience.perception, self._rng)
        blank = self.experience.perception.goal_state(np.zeros(spec.observation_shape, spec.observation_dtype))
        self._goals = TrainingGoals(config, blank, spec.env_count, self._rng)
        self.drawn_map: DrawnMap | None = None
        self._origin = self._visits = np.zeros(0, np.int64)  # of the landmarks
        self._blank = blank[:0].clone()
        self.env_steps = self._new = 0  # steps learned from, and those observed since
        self._due = 0.0
        self._unread = 0  # gradient steps since the loss was last looked at
        self._poses: tuple[Array, Array] | None = None
        self._seen = [0, 0]  # decisions by the map, and those of them near a landmark
        self._explanations = [Decision() for _ in range(spec.env_count)]

    @torch.no_grad()
    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """Training episodes have no goal; with one, the planner leads there."""
        perception = self.experience.perception
        perception.begin_episode(env_index)
        state = None if goal is None else perception.goal_state(goal)
        self._goals.begin_episode(env_index, state, self.drawn_map, self.learner.network)
        self._explanations[env_index] = Decision()

    @torch.no_grad()
    def act(self, observations: Array, env_indices: Array) -> Array:
        """Random at first; then by the map to a landmark, or straight to any state, with a share of random actions."""
        states = self.experience.perception.perceive(observations, env_indices)
        actions = self._rng.integers(self.spec.action_count, size=len(env_indices))
        if self.drawn_map is None:
            return actions
        planned = self._goals.planned(env_indices)
        self._goals.renew(env_indices, self.drawn_map, self.experience.draw_states, self.learner.network)
        goals = self._goals.goals_of(env_indices, planned)
        decision = self._by_map.decide(self.drawn_map, states, goals, self._goals.onward[env_indices], planned)
        self._goals.arrive(env_indices, planned, decision.arrived)
        for env, explanation in zip(env_indices.tolist(), decision.explanations, strict=True):
            self._explanations[env] = explanation
            if explanation.localized is not None:
                self._visits[explanation.localized] += 1
                self._seen[1] += 1
        self._seen[0] += int(planned.sum())
        exploratory = self._rng.random(len(env_indices)) < self.config.train_epsilon
        return np.where(exploratory, actions, decision.actions)

    def observe_poses(self, poses: Array, next_poses: Array) -> None:
        """Where the step that `observe` gets next truly began and ended; for the oracle only."""
        self._poses = poses, next_poses

    def observe(self, transitions: Transitions) -> None:
        """Keep the step."""
        self.experience.observe(transitions, self.env_steps + self._new, self._poses)
        self._new += len(transitions.env_indices)
        self._poses = None

    def update(self) -> Metrics:
        """Learn from what was observed since the last time, and draw another map when it is time."""
        config, before = self.config, self.env_steps
        self.env_steps, new, self._new = before + self._new, self._new, 0
        if self.env_steps <= config.uvfa.start_step:
            return self._map_metrics()
        self._due += new * config.uvfa.updates_per_step
        count = int(self._due + 1e-9)
        self._due -= count
        metrics = self._learn(count) if count else {}
        every = config.map.redraw_every
        if self.drawn_map is None or self.env_steps // every > before // every:
            self._draw_map()
        return metrics | self._map_metrics()

    def _learn(self, count: int) -> Metrics:
        with tensor_cores(self._device):
            sums = self.experience.learn(self.learner, count)
        if sums is None:
            return {}
        self._unread += count
        if self._unread < (1 if self._device.type == "cpu" else self.READ_EVERY):
            return {}
        loss, reached = (sums / self._unread).tolist()
        sums.zero_()
        self._unread = 0
        steps = float(self.learner.gradient_steps)
        return {"train/uvfa_loss": loss, "train/uvfa_reached": reached, "train/gradient_steps": steps}

    @torch.no_grad()
    def _draw_map(self) -> None:
        """Landmarks are the states farthest from each other among many of the replay."""
        config = self.config.map
        states, origin = self.experience.candidates(config.candidates)
        features = self.learner.network.embed(states)
        apart = torch.cdist(features, features).square()
        chosen = farthest_points(apart.cpu().numpy(), config.landmarks)
        landmarks = states.index_select(0, to_device(chosen, states.device))
        self._origin, self._visits = origin[chosen], np.zeros(len(chosen), np.int64)
        self.drawn_map = DrawnMap.of(landmarks, self.learner.network, config)
        self._goals.redraw(self.drawn_map, self.learner.network)

    def policy(self, seed: int) -> FrozenPolicy:
        """A frozen copy for evaluation, whose map is as the network sees it now."""
        network, perception = copy.deepcopy(self.learner.network), self.experience.snapshot()
        drawn_map = None if self.drawn_map is None else DrawnMap.of(self.drawn_map.landmarks, network, self.config.map)
        by_map = MapPolicy(network, perception, spawn(seed, ["policy"])["policy"])
        return FrozenPolicy(by_map, perception, drawn_map, self.config.eval_epsilon, self.spec.action_count)

    def explain(self, env_index: int) -> Decision:
        """What the last action of this environment was for."""
        return self._explanations[env_index]

    def _map_metrics(self) -> Metrics:
        return {
            "graph/landmark_count": float(len(self._origin)),
            "graph/edge_count": 0.0 if self.drawn_map is None else float(self.drawn_map.map.edge_count),
            "graph/localized": self._seen[1] / max(1, self._seen[0]),
            "explore/frontier_trips": float(self._goals.trips),
            "explore/waypoint_reached": self._goals.arrivals / max(1, self._goals.trips),
        }

    def state_dict(self) -> AgentState:
        """Everything that going on exactly needs."""
        learner, drawn_map = self.learner, self.drawn_map
        generators = {"act": generator_state(self._rng), "replay": generator_state(self._replay_rng)}
        drawn = LandmarkMap(np.zeros((0, 0)), self.config.map) if drawn_map is None else drawn_map.map
        graph = {
            "landmarks": (self._blank if drawn_map is None else drawn_map.landmarks).cpu().numpy().copy(),
            "straight": np.zeros((0, 0)) if drawn_map is None else drawn_map.straight,
            "origin": self._origin.copy(),
            "visits": self._visits.copy(),
        }
        return AgentState(
            networks=module_state(learner.network, "uvfa") | module_state(learner.target, "target"),
            optimisers=adam_state(learner.optimiser, "uvfa"),
            replay=self.experience.state(),
            graph=graph | drawn.arrays() | self._goals.state(),
            generators=generators,
            counters={
                "env_steps": self.env_steps,
                "due": self._due,
                "gradient_steps": learner.gradient_steps,
                "seen": list(self._seen),
                "encoder": self.experience.encoder_digest,
            },
        )

    def load_state_dict(self, state: AgentState) -> None:
        """Take up a state made by `state_dict`; a slim copy without optimiser and replay still acts."""
        learner, graph, counters = self.learner, state.graph, state.counters
        if counters["encoder"] != self.experience.encoder_digest:
            raise CheckpointError(
                "The checkpoint was learned over another encoder; give the one it was trained with as --agent.encoder."
            )
        load_module(learner.network, "uvfa", state.networks)
        load_module(learner.target, "target", state.networks)
        if state.replay:
            load_adam(learner.optimiser, "uvfa", state.optimisers)
            self.experience.load_state(state.replay)
        restore_generator(self._rng, state.generators["act"])
        restore_generator(self._replay_rng, state.generators["replay"])
        self._origin, self._visits = graph["origin"].copy(), graph["visits"].copy()
        self.drawn_map = None
        if len(self._origin):
            landmarks = to_device(graph["landmarks"].copy(), self._device)
            self.drawn_map = DrawnMap(landmarks, graph["straight"], LandmarkMap(graph["straight"], self.config.map))
        self._goals.load_state(graph)
        self.env_steps, self._due = counters["env_steps"], counters["due"]
        learner.gradient_steps, self._seen = counters["gradient_steps"], list(counters["seen"])
