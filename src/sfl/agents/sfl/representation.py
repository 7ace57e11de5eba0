"""phi and psi as learned networks, and what training them takes."""

from __future__ import annotations

import copy
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sfl.agents.sfl.config import SFLConfig
from sfl.core.seeding import draw_seed, generator_state, restore_generator, spawn
from sfl.data.observations import ObservationTable, distinct
from sfl.data.replay import NStepBatch, SequenceReplay
from sfl.data.types import AgentState, Array, EnvSpec, Metrics, Observation, Transitions
from sfl.data.windows import WindowTable
from sfl.learners.feature_cache import FeatureCache
from sfl.learners.state import load_module, module_state
from sfl.learners.successor import SuccessorBatch, SuccessorLearner
from sfl.learners.time_contrastive import TimeContrastiveLearner
from sfl.nn.encoders import GridEncoder
from sfl.nn.heads import Draws
from sfl.nn.pullback import Pull


class PsiSource(Protocol):
    """Whatever can tell psi of a state."""

    dim: int
    """Numbers of a key."""
    device: torch.device

    def begin_episode(self, env_index: int) -> None:
        """What this environment showed before is of another episode."""

    def perceive(self, observations: Array, env_indices: Array) -> Array | Tensor:
        """States [B, ...] of environments, given what they show now; good until the next call."""

    def goal_state(self, goal: Observation) -> Array | Tensor:
        """The state [1, ...] that a picture of the goal shows."""

    def psi(self, states: Array | Tensor) -> Tensor:
        """psi(s, a) of every action, [B, A, F]; psi(s) is its mean over the actions."""

    def directions(self, states: Array | Tensor) -> tuple[Tensor, Tensor]:
        """Unit psi(s, a) [B, A, F] and the keys [B, K]; good until the next call."""
        return directions(self.psi(states))

    def keys(self, states: Array | Tensor) -> Tensor:
        """What states are compared by, [B, K]: unit psi(s), behind which another metric than SFS has its numbers."""
        return unit(self.psi(states).mean(1))


class ObservedStates(PsiSource):
    """Where an observation shows the whole state."""

    def catch_up(self) -> None:
        """Nothing is put off."""

    def begin_episode(self, env_index: int) -> None:
        """Nothing is carried over."""

    def perceive(self, observations: Array, env_indices: Array) -> Array:
        """The observations themselves."""
        return observations

    def goal_state(self, goal: Observation) -> Array:
        """The picture itself."""
        return np.asarray(goal[None])

    def surroundings(self, count: int, reach: int) -> tuple[Tensor, Tensor] | None:
        """Whole observations tell places apart by themselves."""
        return None


class Representation(PsiSource, Protocol):
    """What SFL asks of phi and psi in training."""

    def catch_up(self) -> None:
        """Make the gradient steps that `update` has put off until there is time for them."""

    def observe(self, transitions: Transitions, random: Array) -> None:
        """Keep a step of experience; `random` [B] says which actions the random policy drew."""

    def update(self, env_steps: int, new_steps: int) -> Metrics:
        """Learn as much as `new_steps` environment steps call for."""

    def surroundings(self, count: int, reach: int) -> tuple[Tensor, Tensor] | None:
        """States [N, ...] met by the random policy, about `count` of them, and the unit features [N, F] of what was
        seen up to `reach` decisions before and after; None where there is nothing to look up."""

    def frozen(self) -> PsiSource:
        """A copy that later learning does not change."""

    def write_state(self, state: AgentState) -> None:
        """Write into a checkpoint."""

    def read_state(self, state: AgentState) -> None:
        """Read from a checkpoint."""


class LearnedRepresentation(ObservedStates):
    """Time-contrastive phi and n-step TD psi over one replay of distinct observations."""

    def __init__(self, config: SFLConfig, spec: EnvSpec, seed: int, device: torch.device) -> None:
        self.config, self.dim, self.device = config, config.features.dim, device
        rngs = spawn(seed, ["init", "replay"])
        self._rng = rngs["replay"]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(draw_seed(rngs["init"]))
            self.features = TimeContrastiveLearner(config.features, spec, device)
            self.successor = SuccessorLearner(config.successor, self.dim, spec, device)
        windowed = isinstance(self.features.encoder, GridEncoder)
        windows = WindowTable(spec.observation_shape, spec.observation_dtype) if windowed else None
        self._table = ObservationTable(spec.observation_shape, spec.observation_dtype, windows)
        self._replay = SequenceReplay(self._table, config.replay_size, spec.env_count)
        self._cache = FeatureCache(self.dim, device)
        self._due = {"features": 0.0, "successor": 0.0}
        self._gradient_steps = 0

    def psi(self, states: Array | Tensor) -> Tensor:
        """psi(s, a) of every action, [B, A, F]."""
        return self.successor.psi(self.features.encode(np.asarray(states)))

    def observe(self, transitions: Transitions, random: Array) -> None:
        """Keep a step of experience."""
        self._replay.add(transitions, random)

    def update(self, env_steps: int, new_steps: int) -> Metrics:
        """Gradient steps of phi and of psi, as the configuration counts them."""
        metrics: Metrics = {}
        features, successor = self.config.features, self.config.successor
        learning = env_steps > features.start_step and (not features.stop_step or env_steps <= features.stop_step)
        phi_steps = self._count("features", learning, new_steps * features.updates_per_step)
        learning = env_steps > successor.start_step
        psi_steps = self._count("successor", learning, new_steps * successor.updates_per_step)
        for step in range(max(phi_steps, psi_steps)):
            metrics |= self._gradient_step(step < phi_steps, step < psi_steps)
        if metrics:
            metrics["train/gradient_steps"] = float(self._gradient_steps)
        return metrics

    def frozen(self) -> FrozenRepresentation:
        """A copy that later learning does not change."""
        return FrozenRepresentation(copy.deepcopy(self.features), copy.deepcopy(self.successor))

    def write_state(self, state: AgentState) -> None:
        """Networks, optimisers, replay and counters."""
        learner = self.successor
        state.networks |= module_state(self.features.encoder, "encoder") | module_state(learner.network, "successor")
        state.networks |= module_state(learner.target, "target") | module_state(learner.whitening, "whitening")
        state.optimisers |= self.features.optimiser.state("encoder") | learner.optimiser.state("successor")
        state.replay |= self._replay.state() | self._cache.state()
        state.generators["replay"] = generator_state(self._rng)
        state.counters["representation"] = {
            "due": dict(self._due),
            "gradient_steps": self._gradient_steps,
            "sf_gradient_steps": learner.gradient_steps,
        }

    def read_state(self, state: AgentState) -> None:
        """Everything that `write_state` wrote; a slim copy without optimisers and replay still acts."""
        learner, counters = self.successor, state.counters["representation"]
        load_module(self.features.encoder, "encoder", state.networks)
        load_module(learner.network, "successor", state.networks)
        load_module(learner.target, "target", state.networks)
        load_module(learner.whitening, "whitening", state.networks)
        if state.replay:
            self.features.optimiser.load_state("encoder", state.optimisers)
            learner.optimiser.load_state("successor", state.optimisers)
            self._replay.load_state(state.replay)
            self._cache.load_state(state.replay)
        restore_generator(self._rng, state.generators["replay"])
        self._due, self._gradient_steps = dict(counters["due"]), counters["gradient_steps"]
        learner.gradient_steps = counters["sf_gradient_steps"]

    def _count(self, name: str, active: bool, amount: float) -> int:
        """How many whole gradient steps are due; fractions are carried over."""
        if not active:
            return 0
        self._due[name] += amount
        whole = int(self._due[name] + 1e-9)
        self._due[name] -= whole
        self._gradient_steps += whole
        return whole

    def _gradient_step(self, learn_phi: bool, learn_psi: bool) -> Metrics:
        """One step of phi, of psi, or of both; every distinct observation of both batches is encoded once."""
        triplets = self._sample_triplets() if learn_phi else None
        batch = self._sample_steps() if learn_psi else None
        drawn = ([] if triplets is None else [triplets]) + ([] if batch is None else [batch.slots])
        if not drawn:
            return {}
        unique, places = distinct(np.concatenate([slots.reshape(-1) for slots in drawn]))
        features, pull = self._encode(unique, learn_phi)
        metrics: Metrics = {}
        if batch is not None:
            rows = places[-drawn[-1].size :].reshape(drawn[-1].shape)
            metrics |= self.successor.update(self._successor_batch(batch, features, rows))
        if triplets is not None and pull is not None:
            rows = places[: triplets.size].reshape(triplets.shape)
            metrics |= self.features.update(features, pull, self._tensor(rows))
        return metrics

    def _encode(self, slots: Array, learn_phi: bool) -> tuple[Tensor, Pull | None]:
        """Features [U, F] of distinct slots, with their pull when phi learns from them."""
        if learn_phi:
            self._cache.clear()
            return self.features.encode_slots(self._table, slots)
        with torch.no_grad():
            features = self._cache.rows(self._table, slots, lambda new: self.features.encode_slots(self._table, new)[0])
        return features, None

    def _sample_triplets(self) -> Array | None:
        return self._replay.sample_triplets(self._rng, self.config.features.batch_size, self.features.windows)

    def _sample_steps(self) -> NStepBatch | None:
        config = self.config.successor
        batch = self._replay.sample_n_step(self._rng, config.batch_size, config.n_step, config.gamma)
        if batch is None:
            return None
        if config.n_step == 1:
            batch = batch.merged(config.count_power)
        return batch.by_action(self.successor.network.action_count)

    def _successor_batch(self, batch: NStepBatch, features: Tensor, rows: Array) -> SuccessorBatch:
        """`rows` [B, n + 1]: the features of the batch's states."""
        return SuccessorBatch(
            features=features,
            steps=self._tensor(rows[:, :-1]),
            weights=self._tensor(batch.weights),
            first=self._draws(rows[:, 0], batch.multiplicity),
            bootstrap=self._draws(rows[:, -1], batch.multiplicity),
            bootstrap_weights=self._tensor(batch.bootstrap_weights),
            multiplicity=self._tensor(batch.multiplicity),
        )

    def _draws(self, rows: Array, multiplicity: Array) -> Draws:
        states, places = distinct(rows)
        counts = np.bincount(places, multiplicity).astype(np.float32)
        return Draws(self._tensor(states), self._tensor(places), self._tensor(counts))

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(array).to(self.device)


class FrozenRepresentation(ObservedStates):
    """phi and psi as they were; each distinct observation is computed once."""

    def __init__(self, features: TimeContrastiveLearner, successor: SuccessorLearner) -> None:
        self._features, self._successor = features, successor
        self.dim, self.device = features.config.dim, features.device
        self._known: dict[bytes, Tensor] = {}

    def psi(self, states: Array | Tensor) -> Tensor:
        """psi(s, a) of every action, [B, A, F]."""
        observations = np.asarray(states)
        keys = [observation.tobytes() for observation in observations]
        new = {key: row for row, key in enumerate(keys) if key not in self._known}
        if new:
            rows = self._successor.psi(self._features.encode(observations[list(new.values())]))
            self._known.update(zip(new, rows, strict=True))
        result = torch.stack([self._known[key] for key in keys])
        if len(self._known) > 50_000:
            self._known.clear()
        return result


def directions(psi: Tensor) -> tuple[Tensor, Tensor]:
    """Unit psi(s, a) [B, A, F] and unit psi(s) [B, F] of psi(s, a) [B, A, F]."""
    return unit(psi), unit(psi.mean(1))


def unit(psi: Tensor) -> Tensor:
    """Rows of length 1, so that a product of two is their SFS."""
    return functional.normalize(psi, dim=-1)
