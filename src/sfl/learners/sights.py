"""Nodes of a memory and goals as they look: R says what is near, L which way to go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sfl.data.types import GOAL, AgentState, Array, EnvSpec, Observation
from sfl.learners.device import to_device
from sfl.learners.locomotion import Chooser, LastViews, Locomotion
from sfl.learners.retrieval import Retrieval


@dataclass(frozen=True)
class NodeViews:
    """What was seen at each node, and R's features of it."""

    observations: Tensor  # [N, ...]
    features: Tensor  # [N, F]

    @classmethod
    def of(cls, observations: Array, retrieval: Retrieval) -> NodeViews:
        """Of observations [N, ...] in an order that stays."""
        seen = to_device(observations, retrieval.device)
        return cls(seen, retrieval.features(seen))

    def __len__(self) -> int:
        return len(self.features)

    def at(self, nodes: Array) -> NodeViews:
        """Some of them, [K], in that order."""
        places = to_device(nodes, self.features.device)
        return NodeViews(self.observations[places], self.features[places])

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        return {"observations": self.observations.cpu().numpy(), "features": self.features.cpu().numpy()}

    @classmethod
    def from_state(cls, state: dict[str, Array], device: torch.device) -> NodeViews:
        """Take up arrays made by `state`."""
        return cls(to_device(state["observations"], device), to_device(state["features"], device))


class Sights:
    """Several environments among nodes, each with a goal or without."""

    def __init__(self, networks: tuple[Retrieval, Locomotion], spec: EnvSpec, rng: np.random.Generator) -> None:
        self._retrieval, self._chooser = networks[0], Chooser(networks[1], rng)
        self._views = LastViews(spec, self._retrieval.device)
        self._goals: dict[int, tuple[Tensor, Tensor]] = {}  # what the goal looks like, and its features

    def begin(self, env_index: int, goal: Observation | None, nodes: NodeViews) -> Array | None:
        """An episode starts; R of all nodes with the goal [N], where there is one."""
        self._views.begin(env_index)
        self._goals.pop(env_index, None)
        if goal is None:
            return None
        picture = to_device(goal, self._retrieval.device)
        features = self._retrieval.features(picture.unsqueeze(0))
        self._goals[env_index] = (picture, features[0])
        return self._retrieval.reachable(features, nodes.features)[0].cpu().numpy()

    def look(self, observations: Array, env_indices: Array, nodes: NodeViews) -> tuple[Tensor, Array, Array]:
        """Previous and current observations [2, B, ...], R of these with all nodes [B, N], and with their goals [B], 0
        where there is none."""
        views, envs = self._views.push(observations, env_indices), env_indices.tolist()
        features = self._retrieval.features(views[1])
        goals = torch.stack([self._goals[env][1] if env in self._goals else features[0] for env in envs])
        chances = self._retrieval.reachable(features, torch.cat([nodes.features, goals])).cpu().numpy()
        has_goal = np.array([env in self._goals for env in envs])
        return views, chances[:, : len(nodes)], np.where(has_goal, chances[:, len(nodes) :].diagonal(), 0.0)

    def forget(self) -> None:
        """Another decision begins."""
        self._chooser.forget()

    def odds(self, env_index: int) -> tuple[float, ...]:
        """The probability of each action in this decision; empty where L was not asked."""
        return self._chooser.odds(env_index)

    def walk(
        self, views: Tensor, env_indices: Array, targets: Sequence[int | None], nodes: NodeViews
    ) -> tuple[list[int], Array]:
        """The rows [K] that have a target, a node or `GOAL`, and actions [K] drawn from L, which lead there."""
        rows = [row for row, target in enumerate(targets) if target is not None]
        if not rows:
            return rows, np.zeros(0, np.int64)
        envs = env_indices.tolist()
        wanted = torch.stack([self._picture(envs[row], targets[row], nodes) for row in rows])
        asked = torch.cat([views[:, rows], wanted.unsqueeze(0)])
        return rows, self._chooser.draw(asked, [envs[row] for row in rows])

    def _picture(self, env: int, target: int | None, nodes: NodeViews) -> Tensor:
        return self._goals[env][0] if target == GOAL else nodes.observations[target]

    def write_state(self, state: AgentState) -> None:
        """What was seen last; goals are a policy's business."""
        state.replay |= self._views.state()

    def read_state(self, state: AgentState) -> None:
        """Everything that `write_state` wrote."""
        self._views.load_state(state.replay)
