"""What MSS sees and keeps: whole observations, or features of frames. All else is the same for both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sfl.api import Array, EnvSpec, Observation, Transitions
from sfl.baselines.mss.config import MSSConfig
from sfl.baselines.mss.value import HindsightBatch, UVFABatch, UVFALearner, distinct_pairs, every_pair, sample_hindsight
from sfl.errors import UsageError
from sfl.fast.cuda import to_device
from sfl.fast.graphed import GraphedSteps
from sfl.fast.grid import FeatureCache, WindowTable, encode_distinct
from sfl.method.states import FeatureStacks, FrozenEncoder
from sfl.nn.encoders import Encoder, GridEncoder, make_encoder
from sfl.nn.weights import load_encoder
from sfl.replay.replay import SequenceReplay
from sfl.replay.store import DistinctStore, FeatureStore, distinct


class Perception(Protocol):
    """From what environments show to states, tensors [N, ...]."""

    device: torch.device

    def begin_episode(self, env_index: int) -> None:
        """What this environment showed before is of another episode."""

    def perceive(self, observations: Array, env_indices: Array) -> Tensor:
        """States [B, ...] of environments, given what they show now; good until the next call."""

    def goal_state(self, goal: Observation) -> Tensor:
        """The state [1, ...] that a picture of the goal shows."""

    def same(self, states: Tensor, goals: Tensor) -> Tensor:
        """[B] bool: which states [B, ...] count as their goals."""

    def same_as_any(self, states: Tensor, others: Tensor) -> Tensor:
        """[L, B] bool: which states [B, ...] count as which others [L, ...]."""


class GridPerception:
    """Where an observation shows the whole state."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def begin_episode(self, env_index: int) -> None:
        """Nothing is carried over."""

    def perceive(self, observations: Array, env_indices: Array) -> Tensor:
        """The observations themselves."""
        return to_device(observations, self.device)

    def goal_state(self, goal: Observation) -> Tensor:
        """The picture itself."""
        return to_device(goal[None], self.device)

    def same(self, states: Tensor, goals: Tensor) -> Tensor:
        """Equal to the last bit."""
        return (states == goals).flatten(1).all(1)

    def same_as_any(self, states: Tensor, others: Tensor) -> Tensor:
        """Equal to the last bit."""
        return (states == others.unsqueeze(1)).flatten(2).all(2)


class FramePerception:
    """Where a state is made of the features of the last frames."""

    def __init__(self, encoder: FrozenEncoder, config: MSSConfig, device: torch.device) -> None:
        self.stacks, self._reach, self.device = FeatureStacks(encoder, config.stack, device), config.reach, device

    def begin_episode(self, env_index: int) -> None:
        """The frames before belong to another episode."""
        self.stacks.begin(env_index)

    def perceive(self, observations: Array, env_indices: Array) -> Tensor:
        """Stacks [B, S] after the newest frames [B, 120, 160, 3]."""
        return self.stacks.push(observations, env_indices)

    def goal_state(self, goal: Observation) -> Tensor:
        """The state of standing still before the goal's picture."""
        return self.stacks.still(goal)

    def same(self, states: Tensor, goals: Tensor) -> Tensor:
        """The paper's test: the cosine of the features is above delta_reach."""
        return functional.cosine_similarity(states, goals) > self._reach

    def same_as_any(self, states: Tensor, others: Tensor) -> Tensor:
        """The same of every pair."""
        return functional.normalize(others) @ functional.normalize(states).mT > self._reach


class Experience(ABC):
    """A replay and what is noted beside it: the step at which each entry was seen and, for the oracle, where."""

    encoder: Encoder | None = None
    """Of states, where one is learned."""
    dim: int
    """Length of a state's features."""
    perception: Perception

    def __init__(
        self, config: MSSConfig, replay: SequenceReplay, rng: np.random.Generator, device: torch.device
    ) -> None:
        self.config, self.replay, self._rng, self.device = config, replay, rng, device
        self._origin = np.full(replay.size, -1, dtype=np.int64)
        self._positions = np.zeros((replay.size if config.oracle else 0, 2), dtype=np.float32)

    def observe(self, transitions: Transitions, origin: int, poses: tuple[Array, Array] | None) -> None:
        """Keep a step; `origin`: steps observed before; `poses` [B, 3] before and after it, for the oracle only."""
        envs, ended = transitions.env_indices, np.flatnonzero(transitions.ended)
        places, last = self.replay.upcoming(envs), self.replay.upcoming(envs[ended], 1)
        self._origin[places] = origin + np.arange(len(envs))
        self._origin[last] = -1  # the last observation of an episode is no step
        if self.config.oracle:
            self._positions[places], self._positions[last] = _positions(poses, ended)
        self._keep(transitions)

    @abstractmethod
    def _keep(self, transitions: Transitions) -> None:
        """Into the replay."""

    @abstractmethod
    def learn(self, learner: UVFALearner, count: int) -> Tensor | None:
        """So many gradient steps; the sums [2] of their losses and of their shares of goals reached, with those of
        earlier steps until the caller sets them to 0. None while there is nothing to learn from."""

    @abstractmethod
    def states(self, slots: Array) -> Tensor:
        """States [N, ...] of slots [N], or of stacks of them [N, stack]."""

    @abstractmethod
    def snapshot(self) -> Perception:
        """For environments of a frozen copy."""

    def draw_states(self, count: int) -> Tensor:
        """States [N, ...] from anywhere in the replay, which must not be empty."""
        return self.states(self._draw(count)[0])

    def candidates(self, count: int) -> tuple[Tensor, Array]:
        """States [N, ...] to choose landmarks from, each once, and the numbers [N] of the steps that saw them."""
        slots, origin = self._draw(count)
        _, rows = np.unique(slots, axis=0, return_index=True)
        rows.sort()  # the first is the first landmark, and is to be any of them
        return self.states(slots[rows]), origin[rows]

    def _draw(self, count: int) -> tuple[Array, Array]:
        found = self.replay.draw_steps(self._rng, count)
        assert found is not None
        places = self.replay.places_of(found.envs, found.at)
        return self.replay.states_from(found, 0)[:, 0], self._origin[places]

    def _sample(self, count: int) -> HindsightBatch | None:
        config = self.config.uvfa
        return sample_hindsight(self.replay, self._rng, count, config.future, config.relabel)

    def _near(self, batch: HindsightBatch) -> Array:
        """[B] bool: the oracle's word on which steps arrive at their goals."""
        apart = self._positions[batch.places[:, 1]] - self._positions[batch.places[:, 2]]
        return np.asarray(np.hypot(*apart.T) <= self.config.oracle_radius)

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        return {**self.replay.state(), "origin_of": self._origin, "positions": self._positions}

    def load_state(self, state: dict[str, Array]) -> None:
        """Take up arrays made by `state` into an empty replay."""
        self.replay.load_state(state)
        self._origin[:], self._positions[:] = state["origin_of"], state["positions"]

    @property
    def encoder_digest(self) -> str:
        """Stands for a fixed encoder, which a checkpoint does not hold; empty where none is used."""
        return ""


def _positions(poses: tuple[Array, Array] | None, ended: Array) -> tuple[Array, Array]:
    if poses is None or not np.isfinite(poses[0]).all():
        raise UsageError(
            "oracle is on, but nobody tells this agent true positions; "
            "use `sfl train` in an environment that knows them, or set --agent.oracle False."
        )
    return poses[0][:, :2], poses[1][ended, :2]


class GridExperience(Experience):
    """Distinct observations, each kept once; the encoder is learned."""

    def __init__(self, config: MSSConfig, spec: EnvSpec, rng: np.random.Generator, device: torch.device) -> None:
        shape, dtype = spec.observation_shape, spec.observation_dtype
        self.encoder, self.dim = make_encoder(shape, config.dim, config.norm), config.dim
        windows = WindowTable(shape, dtype) if isinstance(self.encoder, GridEncoder) else None
        self._table = DistinctStore(shape, dtype, windows)
        self._target_features = FeatureCache(config.dim, device)  # good until the target network changes
        self._sums = torch.zeros(2, device=device)
        self.perception = GridPerception(device)
        super().__init__(config, SequenceReplay(self._table, config.replay_size, spec.env_count), rng, device)

    def _keep(self, transitions: Transitions) -> None:
        self.replay.observe(transitions, np.zeros(len(transitions.actions), bool))

    def learn(self, learner: UVFALearner, count: int) -> Tensor | None:
        """Batch by batch; what the encoder sees differs in number from one to the next."""
        before = learner.gradient_steps
        for batch in self._batches(learner, count):
            self._sums[0] += learner.update(batch)["loss"]
        return self._sums if learner.gradient_steps > before else None

    def _batches(self, learner: UVFALearner, count: int) -> Iterator[UVFABatch]:
        """All are drawn together. Those of one target network share what it makes of their states."""
        size = self.config.uvfa.batch_size
        drawn = self._sample(count * size)
        if drawn is None:
            return
        equal = drawn.slots[:, 1] == drawn.slots[:, 2]  # one slot holds one observation
        reached = to_device(self._near(drawn) if self.config.oracle else equal, self.device)
        actions = to_device(drawn.actions, self.device)
        first = 0
        while first < len(reached):
            last = min(first + size * learner.steps_to_target, len(reached))
            wanted = learner.wanted(*self._by_target(learner, drawn.slots[first:last, 1:]), reached[first:last])
            for at in range(first, last, size):
                batch, part = slice(at, at + size), slice(at - first, at - first + size)
                self._sums[1] += reached[batch].float().mean()
                yield UVFABatch(*self._by_network(learner, drawn.slots[batch]), actions[batch], wanted[part])
            first = last

    def _by_network(self, learner: UVFALearner, drawn: Array) -> tuple[Tensor, Tensor, Tensor]:
        """Features of the distinct states of slots [B, 3], and the pairs of them: the first fields of a batch."""
        slots, rows = distinct(drawn)
        assert learner.network.encoder is not None
        features = encode_distinct(learner.network.encoder, self._table, slots, self.device)
        pairs, places = every_pair(rows) if self.config.uvfa.batch_norm else distinct_pairs(rows)
        return features, to_device(pairs, self.device), to_device(places, self.device)

    @torch.no_grad()
    def _by_target(self, learner: UVFALearner, drawn: Array) -> tuple[Tensor, Tensor]:
        """The same of slots [N, 2] by the target network, which keeps what it has encoded until it changes."""
        slots, rows = distinct(drawn)
        encoder, table = learner.target.encoder, self._table
        assert encoder is not None
        if learner.target_is_new:
            self._target_features.clear()
        features = self._target_features.rows(
            table, slots, lambda new: encode_distinct(encoder, table, new, self.device)
        )
        return features, to_device(rows, self.device)

    def states(self, slots: Array) -> Tensor:
        """Observations [N, ...] of slots [N]."""
        return to_device(self._table.rows(slots), self.device)

    def snapshot(self) -> GridPerception:
        """There is nothing to freeze."""
        return GridPerception(self.device)

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        return super().state() | self._target_features.state()

    def load_state(self, state: dict[str, Array]) -> None:
        """Take up arrays made by `state` into an empty replay."""
        super().load_state(state)
        self._target_features.load_state(state)


class FrameExperience(Experience):
    """Features of frames by a fixed encoder; they stay on the device."""

    perception: FramePerception

    def __init__(self, config: MSSConfig, spec: EnvSpec, rng: np.random.Generator, device: torch.device) -> None:
        encoder = load_encoder(config.encoder, device)
        self._frames, self._digest, self._encoder = config, encoder.digest(), FrozenEncoder(encoder, device)
        self.dim = config.stack * encoder.dim
        self.perception = FramePerception(self._encoder, config, device)
        # Each environment writes up to two entries before it lets go of its oldest.
        self._store = FeatureStore(config.replay_size + 2 * spec.env_count, self.perception.stacks.fill)
        self._steps: GraphedSteps | None = None  # made with the first step, as the learner is made after this
        self._sums = torch.zeros(2, device=device)
        replay = SequenceReplay(self._store, config.replay_size, spec.env_count, config.stack)
        super().__init__(config, replay, rng, device)

    def _keep(self, transitions: Transitions) -> None:
        random = np.zeros(len(transitions.env_indices), bool)
        self.perception.stacks.keep(transitions, random, self.replay)

    def learn(self, learner: UVFALearner, count: int) -> Tensor | None:
        """All are drawn together; a GPU replays one step for each batch."""
        drawn = self._sample(count * self.config.uvfa.batch_size)
        if drawn is None:
            return None
        stack, whole = self._frames.stack, torch.int32
        if self._steps is None:
            columns = (((3, stack), whole), ((), whole), ((), whole))
            step = partial(self._step, learner)
            self._steps = GraphedSteps(step, self.config.uvfa.batch_size, columns, self.device)
        places = self._store.places(drawn.slots.reshape(len(drawn.actions), 3, stack))
        told = self._near(drawn) if self.config.oracle else np.zeros(len(drawn.actions), bool)
        self._steps((places, drawn.actions, told), learner.count_step)
        return self._sums

    def _step(self, learner: UVFALearner, places: Tensor, actions: Tensor, told: Tensor) -> None:
        """One gradient step on a batch."""
        batch, reached = self.batch(learner, places, actions, told)
        self._sums += torch.stack([learner.gradient_step(batch)["loss"], reached.float().mean()])

    def batch(self, learner: UVFALearner, places: Tensor, actions: Tensor, told: Tensor) -> tuple[UVFABatch, Tensor]:
        """A batch, and which goals are reached, [B] bool, of places in the store [B, 3, stack] of states, of those that
        follow and of goals; `told` [B] says it with the oracle only."""
        states = self._store.states(places)  # [B, 3, S]
        reached = told != 0 if self.config.oracle else self.perception.same(states[:, 1], states[:, 2])
        flat, rows = states.flatten(0, 1), torch.arange(places.shape[0] * 3, device=self.device).view(-1, 3)
        first, following, goals = rows.unbind(1)
        pairs = torch.stack([torch.cat([first, first]), torch.cat([goals, following])])  # (s, g) of all, then (s, s')
        in_turn = torch.arange(pairs.shape[1], device=self.device).view(2, -1)
        wanted = learner.wanted(flat, rows[:, 1:], reached)
        return UVFABatch(flat, pairs, in_turn, actions.long(), wanted), reached

    def states(self, slots: Array) -> Tensor:
        """Stacks [N, S] of slots [N, stack]."""
        stacks = slots.reshape(len(slots), self._frames.stack)
        return self._store.states(to_device(self._store.places(stacks), self.device))

    def snapshot(self) -> FramePerception:
        """Stacks of its own."""
        return FramePerception(self._encoder, self._frames, self.device)

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        stacks = self.perception.stacks
        running = {"stacks": stacks.rows, "trace_sums": stacks.sums}
        return super().state() | {name: rows.cpu().numpy().copy() for name, rows in running.items()}

    def load_state(self, state: dict[str, Array]) -> None:
        """Take up arrays made by `state` into an empty replay."""
        super().load_state(state)
        running = (torch.from_numpy(state[name].copy()).to(self.device) for name in ("stacks", "trace_sums"))
        self.perception.stacks.load(*running)

    @property
    def encoder_digest(self) -> str:
        """The same features mean the same."""
        return self._digest
