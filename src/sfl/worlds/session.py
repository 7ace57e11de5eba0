"""Environments in this process with their running episodes, which a checkpoint repeats from a seed and actions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np

from sfl.api import Array, Episode, EpisodeSource, Metrics, Observation, Policy, Step, Transitions

Env = gymnasium.Env[Any, Any]


@dataclass
class _Slot:
    """One environment and the episode it is in."""

    env: Env
    index: int
    episode: Episode | None = None
    actions: list[int] = field(default_factory=list)
    observation: Observation = field(default_factory=lambda: np.empty(0))
    pose: Array = field(default_factory=lambda: np.full(3, np.nan))
    info: dict[str, Any] = field(default_factory=dict)

    def begin(self, episode: Episode) -> Observation | None:
        """Reset; returns the picture of the goal, or None where there is no goal."""
        observation, info = self.env.reset(seed=episode.reset_seed, options=dict(episode.options))
        self.episode, self.actions = episode, []
        self._see(observation, info)
        return np.asarray(observation["desired_goal"]) if episode.has_goal else None

    def step(self, action: int) -> tuple[float, bool, bool, bool]:
        """Returns reward, terminated, truncated, succeeded."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.actions.append(action)
        self._see(observation, info)
        assert self.episode is not None
        late = self.episode.budget is not None and len(self.actions) >= self.episode.budget
        return float(reward), terminated, truncated or (late and not terminated), bool(info.get("is_success", False))

    def _see(self, observation: dict[str, Any], info: dict[str, Any]) -> None:
        self.observation = observation["observation"]
        self.info, pose = info, info.get("pose")
        self.pose = np.full(3, np.nan) if pose is None else pose

    def digest(self) -> str:
        """A fingerprint of the observation."""
        return hashlib.sha256(np.ascontiguousarray(self.observation).tobytes()).hexdigest()


class EnvSession:
    """Environments with their running episodes; what a checkpoint keeps of them is a reset seed and actions."""

    def __init__(self, envs: Sequence[Env], source: EpisodeSource) -> None:
        self._slots = [_Slot(env, index) for index, env in enumerate(envs)]
        self._source = source
        self._newest: Array | None = None  # what all running environments showed last, if no episode has ended since

    def begin_episodes(self, policy: Policy) -> list[int] | None:
        """Start an episode wherever none runs; returns the indices of the environments that have one."""
        for slot in self._slots:
            if slot.episode is None and (episode := self._source()) is not None:
                policy.begin_episode(slot.index, slot.begin(episode))
                self._newest = None
        return [slot.index for slot in self._slots if slot.episode is not None] or None

    def observations(self, indices: Sequence[int]) -> Array:
        """What the environments show now, [B, ...]."""
        return self._seen_by(indices) if self._newest is None else self._newest

    def _seen_by(self, indices: Sequence[int]) -> Array:
        return np.array([self._slots[index].observation for index in indices])

    def step(self, indices: Sequence[int], observations: Array, actions: Array) -> Step:
        """One action in each of the environments `indices`."""
        slots = [self._slots[index] for index in indices]
        poses, infos = np.array([slot.pose for slot in slots]), tuple(slot.info for slot in slots)
        outcomes = [slot.step(int(action)) for slot, action in zip(slots, actions, strict=True)]
        rewards, terminated, truncated, succeeded = (np.array(column) for column in zip(*outcomes, strict=True))
        step = Step(
            Transitions(
                env_indices=np.array(indices),
                observations=observations,
                actions=np.asarray(actions),
                rewards=rewards,
                terminated=terminated,
                truncated=truncated,
                next_observations=self._seen_by(indices),
            ),
            poses=poses,
            next_poses=np.array([slot.pose for slot in slots]),
            succeeded=succeeded,
            lengths=np.array([len(slot.actions) for slot in slots]),
            episodes=tuple(slot.episode for slot in slots if slot.episode is not None),
            ended=tuple(row for row, outcome in enumerate(outcomes) if outcome[1] or outcome[2]),
            infos=infos,
            next_infos=tuple(slot.info for slot in slots),
        )
        for row in step.ended:
            slots[row].episode = None
        self._newest = None if step.ended else step.transitions.next_observations
        return step

    def metrics(self) -> Metrics:
        """These environments report nothing."""
        return {}

    def state(self) -> list[dict[str, Any] | None]:
        """For each environment how to come back to this moment; None where no episode runs."""
        return [
            None
            if slot.episode is None
            else {
                "reset_seed": slot.episode.reset_seed,
                "options": slot.episode.options,
                "actions": slot.actions,
                "observation": slot.digest(),
            }
            for slot in self._slots
        ]

    def restore(self, state: Sequence[dict[str, Any] | None]) -> list[int]:
        """Replay the running episodes; returns the indices of environments that did not repeat and start anew."""
        return [
            slot.index
            for slot, saved in zip(self._slots, state, strict=True)
            if saved is not None and not _replay(slot, saved)
        ]

    def abandon(self) -> None:
        """Forget the running episodes, because something else has used the environments."""
        self._newest = None
        for slot in self._slots:
            slot.episode = None

    def close(self) -> None:
        """Close every environment."""
        for slot in self._slots:
            slot.env.close()


def _replay(slot: _Slot, saved: dict[str, Any]) -> bool:
    slot.begin(Episode(0, saved["reset_seed"], saved["options"]))
    ended = any(any(slot.step(action)[1:3]) for action in saved["actions"])
    if not ended and slot.digest() == saved["observation"]:
        return True
    slot.episode = None
    return False
