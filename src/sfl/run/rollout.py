"""The one loop in which a policy meets environments; training, evaluation and video read the same generator."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import gymnasium
import numpy as np

from sfl.api import Array, Metrics, Observation, Policy, Transitions
from sfl.seeding import draw_seed

Env = gymnasium.Env[Any, Any]


@dataclass(frozen=True)
class Episode:
    """How to start one episode; together with the actions that follow, enough to repeat it."""

    number: int
    reset_seed: int
    options: dict[str, Any]
    budget: int | None = None
    """Steps after which the episode is cut off; None leaves that to the environment."""

    @property
    def has_goal(self) -> bool:
        """An explicit goal of None means free exploration; no mention of it means the environment's own goal."""
        return self.options.get("goal", ...) is not None


EpisodeSource = Callable[[], Episode | None]
"""Gives the next episode to whichever environment is free, or None when there are no more."""


@dataclass(frozen=True)
class Step:
    """One decision of environments that step together, and what came of it."""

    transitions: Transitions
    poses: Array  # [B, 3] where `transitions.observations` were seen; NaN where the environment does not say
    next_poses: Array  # [B, 3]
    succeeded: Array  # [B] bool
    lengths: Array  # [B] int: steps of the episode, this one included
    episodes: tuple[Episode, ...]
    ended: tuple[int, ...]
    """Rows whose episode is over; their environments are reset when the next step is asked for."""
    broken: tuple[int, ...] = ()
    """Those of them whose world broke down: how the episode would have gone on is not known."""
    infos: tuple[dict[str, Any], ...] = ()
    """What the environments said beside `transitions.observations`; empty where they say nothing but poses."""
    next_infos: tuple[dict[str, Any], ...] = ()


class Session(Protocol):
    """Environments with their running episodes, as `rollout` and checkpoints see them."""

    def begin_episodes(self, policy: Policy) -> list[int] | None:
        """Tell the policy what has begun; the indices of the environments that wait for an action, None: all is over.

        An empty list: nothing to decide now, but `step` brings on environments that are under way.
        """

    def observations(self, indices: Sequence[int]) -> Array:
        """What those environments show, [B, ...]."""

    def step(self, indices: Sequence[int], observations: Array, actions: Array) -> Step | None:
        """Carry out actions; returns what came of these or of earlier ones, None: nothing yet."""

    def metrics(self) -> Metrics:
        """What went wrong in the worlds so far."""

    def state(self) -> Any:
        """How to come back to this moment, as JSON."""

    def restore(self, state: Any) -> list[int]:
        """Come back to it; the indices of environments that do not show the same again."""

    def close(self) -> None:
        """Close every environment."""


class FreeEpisodes:
    """Training's endless supply: no goal, a fresh reset seed each."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def __call__(self) -> Episode:
        return Episode(number=0, reset_seed=draw_seed(self._rng), options={"goal": None})


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
        """A fingerprint of what is seen now."""
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


def rollout(policy: Policy, session: Session) -> Iterator[Step]:
    """Act and step until the source of episodes runs dry.

    The reader learns from a step before the next is made: environments that ended are reset, and the policy told of it,
    only when the generator goes on. `policy.explain(i)` therefore still speaks of the step just yielded. The arrays of
    a step are valid until then; whoever keeps them copies them.
    """
    while (indices := session.begin_episodes(policy)) is not None:
        observations = session.observations(indices)
        actions = policy.act(observations, np.array(indices)) if indices else np.empty(0, np.int64)
        step = session.step(indices, observations, actions)
        if step is not None:
            yield step
