"""From states and goals to actions: the map for where, the value function for how. Training and evaluation share it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sfl.api import GOAL, Array, Decision, Observation
from sfl.baselines.mss.config import MapConfig
from sfl.baselines.mss.map import UNREACHABLE, LandmarkMap
from sfl.baselines.mss.states import Perception
from sfl.baselines.mss.value import UVFA
from sfl.fast.cuda import Fetched, tensor_cores, to_device


@dataclass(frozen=True)
class DrawnMap:
    """A map as it was drawn: its landmarks, and the values between them."""

    landmarks: Tensor  # [L, ...] states
    straight: Array  # [L, L] values from each straight to each other
    map: LandmarkMap

    @classmethod
    @torch.no_grad()
    def of(cls, landmarks: Tensor, network: UVFA, config: MapConfig) -> DrawnMap:
        """The map of these landmarks by what a network says now."""
        features = network.embed(landmarks)
        with tensor_cores(features.device):
            straight = network.best(features, features)[0].double().cpu().numpy()
        return cls(landmarks, straight, LandmarkMap(straight, config))

    @torch.no_grad()
    def to_goals(self, goals: Tensor, network: UVFA) -> Array:
        """Values of the ways from landmarks to goals [G, ...], as [G, L]."""
        ends = network.embed(goals)
        with tensor_cores(ends.device):
            values = network.best(network.embed(self.landmarks), ends)[0]
        return self.map.to_goals(values.double().cpu().numpy()).T


@dataclass(frozen=True)
class Decisions:
    """What to do in B environments."""

    actions: Array  # [B]
    arrived: Array  # [B] bool: the state counts as the goal
    explanations: list[Decision]


class MapPolicy:
    """Chooses between walking straight to a goal and walking to a landmark on the way."""

    def __init__(self, network: UVFA, perception: Perception, rng: np.random.Generator) -> None:
        self.network, self.rng, self._perception = network, rng, perception

    @torch.no_grad()
    def decide(self, drawn_map: DrawnMap, states: Tensor, goals: Tensor, onward: Array, planned: Array) -> Decisions:
        """Where `planned` [B], go by the map, whose values from landmarks to the goals are `onward` [B, L]."""
        count, by_map = len(states), bool(planned.any())
        features = self.network.embed(torch.cat([states, goals, drawn_map.landmarks] if by_map else [states, goals]))
        here, ends, landmarks = features[:count], features[count : 2 * count], features[2 * count :]
        with tensor_cores(features.device):
            columns = [self._perception.same(states, goals), *self.network.best_each(here, ends)]
            if by_map:
                at = self._perception.same_as_any(states, drawn_map.landmarks)
                columns += [at, *(part.mT for part in self.network.best(here, landmarks))]
        numbers = Fetched(torch.cat([column.float().view(-1, count) for column in columns])).wait().double().numpy()
        arrived, value, action = numbers[0] > 0, numbers[1], numbers[2].astype(np.int64)
        if not by_map:
            return Decisions(action, arrived, [Decision() for _ in range(count)])
        reached, values, actions = np.split(numbers[3:], 3)  # [L, B] each
        chosen, worth = drawn_map.map.choose(values.T, reached.T > 0, value, onward, self.rng)
        towards = np.concatenate([actions, action[None]])[chosen, np.arange(count)].astype(np.int64)
        explanations = [Decision() for _ in range(count)]
        for row in np.flatnonzero(planned).tolist():
            thought = explain(values[:, row], drawn_map.map.config.clip, int(chosen[row]), worth[row])
            explanations[row] = replace(thought, arrived=bool(arrived[row]))
        return Decisions(np.where(planned, towards, action), arrived, explanations)


def explain(values: Array, clip: float, chosen: int, worth: float) -> Decision:
    """For values [L] from here to landmarks: the agent is at the nearest one, if that is near enough for an edge."""
    nearest = int(values.argmax())
    target = GOAL if chosen == len(values) else chosen
    return Decision(
        localized=nearest if values[nearest] >= clip else None,
        target=target,
        route=(GOAL,) if target == GOAL else (target, GOAL),
        route_found=bool(worth > UNREACHABLE / 2),
    )


class FrozenPolicy:
    """An agent as it was at one moment, with goals to go to and a generator of its own."""

    score, score_range = "value", (-math.inf, 0.0)

    def __init__(
        self, by_map: MapPolicy, perception: Perception, drawn_map: DrawnMap | None, epsilon: float, actions: int
    ) -> None:
        self._by_map, self._perception, self._drawn_map = by_map, perception, drawn_map
        self._rng, self._epsilon, self._action_count = by_map.rng, epsilon, actions
        self._goals: dict[int, tuple[Tensor, Array]] = {}  # states and the values of the ways from landmarks to them
        self._explanations: dict[int, Decision] = {}
        self._states: dict[int, Tensor] = {}  # [1, ...] from which the last decisions were made

    @torch.no_grad()
    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """A new episode to this goal; without one, or before there is a map, actions are random."""
        self._perception.begin_episode(env_index)
        self._goals.pop(env_index, None)
        self._explanations.pop(env_index, None)
        if goal is not None and self._drawn_map is not None:
            state = self._perception.goal_state(goal).clone()
            self._goals[env_index] = state, self._drawn_map.to_goals(state, self._by_map.network)[0]

    @torch.no_grad()
    def act(self, observations: Array, env_indices: Array) -> Array:
        """Actions [B] on the way to each environment's goal."""
        states = self._perception.perceive(observations, env_indices)
        actions = self._rng.integers(self._action_count, size=len(env_indices))
        exploratory = self._rng.random(len(env_indices)) < self._epsilon
        envs = env_indices.tolist()
        rows = np.array([row for row, env in enumerate(envs) if env in self._goals], np.int64)
        if self._drawn_map is None or not len(rows):
            return actions
        goals, onward = zip(*(self._goals[envs[row]] for row in rows), strict=True)
        chosen = states.index_select(0, to_device(rows, states.device))
        planned = np.ones(len(rows), bool)
        decision = self._by_map.decide(self._drawn_map, chosen, torch.cat(goals), np.stack(onward), planned)
        self._explanations |= dict(zip((envs[row] for row in rows), decision.explanations, strict=True))
        self._states = dict(zip((envs[row] for row in rows), chosen.split(1), strict=True))
        actions[rows] = np.where(exploratory[rows], actions[rows], decision.actions)
        return actions

    def explain(self, env_index: int) -> Decision:
        """What the last action of this environment was for."""
        return self._explanations.get(env_index, Decision())

    @torch.no_grad()
    def action_values(self, env_index: int) -> Decision:
        """`explain` with minus the steps that each action leaves to the target."""
        explained = self.explain(env_index)
        if env_index not in self._states or self._drawn_map is None or explained.target is None:
            return explained
        target = explained.target
        end = self._goals[env_index][0] if target == GOAL else self._drawn_map.landmarks[target : target + 1]
        network = self._by_map.network
        with tensor_cores(end.device):
            steps = network.pairs(network.embed(self._states[env_index]), network.embed(end))[0]
        return replace(explained, values=tuple((-steps).tolist()), values_name="minus the steps left")

    @torch.no_grad()
    def embed(self, observations: Array) -> Array:
        """Features [N, F] of observations [N, ...]."""
        states = torch.cat([self._perception.goal_state(row) for row in observations])
        return np.asarray(self._by_map.network.embed(states).float().cpu().numpy())

    @torch.no_grad()
    def compare(self, embedded: Array, references: Array) -> Array:
        """[N, R] minus the steps from each view to each reference, straight there."""
        device = self._perception.device
        views, goals = to_device(embedded, device), to_device(references, device)
        with tensor_cores(device):
            return np.asarray(self._by_map.network.best(views, goals)[0].float().cpu().numpy())
