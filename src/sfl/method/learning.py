"""phi and psi as learned networks, and what training them takes."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from sfl.api import AgentState, Array, EnvSpec, Metrics, Transitions
from sfl.errors import CheckpointError
from sfl.fast.cuda import to_device
from sfl.fast.graphed import ResidentSteps
from sfl.fast.grid import FeatureCache
from sfl.fast.layers import Pull
from sfl.fast.windows import WindowTable
from sfl.method.config import FrameSFLConfig, SFLConfig
from sfl.method.features import TimeContrastiveLearner
from sfl.method.states import (
    FeatureStacks,
    FrameStates,
    FrozenEncoder,
    GridStates,
)
from sfl.method.successor import Draws, SuccessorBatch, SuccessorLearner, unit
from sfl.nn.encoders import GridEncoder
from sfl.nn.weights import load_encoder, load_module, module_state
from sfl.replay.replay import NStepBatch, SequenceReplay
from sfl.replay.store import DistinctStore, FeatureStore, distinct
from sfl.seeding import draw_seed, generator_state, restore_generator, spawn


class LearnedRepresentation(GridStates):
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
        self._table = DistinctStore(spec.observation_shape, spec.observation_dtype, windows)
        self._replay = SequenceReplay(self._table, config.replay_size, spec.env_count)
        self._cache = FeatureCache(self.dim, device)
        self._due = {"features": 0.0, "successor": 0.0}
        self._gradient_steps = 0

    def psi(self, states: Array | Tensor) -> Tensor:
        """psi(s, a) of every action, [B, A, F]."""
        return self.successor.psi(self.features.encode(np.asarray(states)))

    def observe(self, transitions: Transitions, random: Array) -> None:
        """Keep a step of experience."""
        self._replay.observe(transitions, random)

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


class FrozenRepresentation(GridStates):
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


# ---- SFL over frames: a fixed encoder, a state is a stack of the features of the last frames, psi is learned.


class FrameRepresentation(FrameStates):
    """A fixed encoder and n-step TD psi over a replay of features."""

    def __init__(self, config: FrameSFLConfig, spec: EnvSpec, seed: int, device: torch.device) -> None:
        self.config = config
        rngs = spawn(seed, ["init", "replay"])
        self._rng = rngs["replay"]
        encoder = load_encoder(config.frames.encoder, device)
        self._encoder_digest, self._encoder = encoder.digest(), FrozenEncoder(encoder, device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(draw_seed(rngs["init"]))
            parts = len(config.frames.traces) + config.frames.stack
            outputs = encoder.dim * (parts if config.frames.phi == "stack" else 1)
            successor = SuccessorLearner(config.successor, parts * encoder.dim, spec, device, outputs, parts)
        super().__init__(self._fresh_stacks(device), successor, device)
        # Each environment writes one entry before it lets go of its oldest.
        room = config.replay_size + 2 * spec.env_count
        self._store = FeatureStore(room, self.stacks.fill, len(config.frames.traces))
        self._replay = SequenceReplay(self._store, config.replay_size, spec.env_count, config.frames.stack)
        self._steps = ResidentSteps(successor, self._store, config.frames.stack, device)
        self._due = 0.0
        self._puts_off = device.type != "cpu"
        self._metrics = Metrics()

    def psi(self, states: Array | Tensor) -> Tensor:
        """psi(s, a) of every action, [B, A, F]."""
        self._steps.join()
        return super().psi(states)

    def directions(self, states: Array | Tensor) -> tuple[Tensor, Tensor]:
        """Unit psi(s, a) [B, A, F] and unit psi(s) [B, F]; good until the next call."""
        self._steps.join()
        return super().directions(states)

    def observe(self, transitions: Transitions, random: Array) -> None:
        """Keep a step: the features of the newest frame are on top of the stacks already."""
        self._steps.join()
        self.stacks.keep(transitions, random, self._replay)

    def update(self, env_steps: int, new_steps: int) -> Metrics:
        """Gradient steps of psi, as the configuration counts them; on a GPU they are left to the next `catch_up`."""
        config = self.config.successor
        if env_steps > config.start_step:
            self._due += new_steps * config.updates_per_step
        if not self._puts_off:
            self.catch_up()
        metrics, self._metrics = self._metrics, Metrics()
        return metrics

    def catch_up(self) -> None:
        """Make the gradient steps that are due, all from one draw; fractions are carried over."""
        config, count = self.config.successor, int(self._due)
        if count == 0:
            return
        self._due -= count
        batch = self._replay.sample_n_step(self._rng, count * config.batch_size, config.n_step, config.gamma)
        if batch is not None:
            dropout = self.config.frames.trace_dropout
            forgetful = self._rng.random(len(batch.actions)) < dropout if dropout else None
            self._metrics |= self._steps.update(batch, forgetful)
            self._metrics["train/gradient_steps"] = float(self.successor.gradient_steps)

    def surroundings(self, count: int, reach: int) -> tuple[Tensor, Tensor] | None:
        """States [N, S] from the middles of pieces of random walks, and the unit features [N, F] of the pieces."""
        self._settle()
        batch = self._replay.sample_n_step(self._rng, count, 2 * reach, gamma=1.0)
        if batch is None:
            return None
        rows = np.flatnonzero(batch.weights[:, reach])  # the episode had not ended by then
        if not len(rows):
            return None
        weights = to_device(batch.weights[rows], self.device)
        places = self._store.places(batch.steps[rows]).reshape(len(rows), 2 * reach, -1)  # and stack
        steps = to_device(places, self.device)
        seen = self.successor.white(self._store.at(steps[:, :, -1]))
        return self._store.states(steps[:, reach]), unit((weights.unsqueeze(2) * seen).sum(1))

    def frozen(self) -> FrameStates:
        """A copy that later learning does not change, for environments of its own."""
        self._settle()
        return FrameStates(self._fresh_stacks(self.device), copy.deepcopy(self.successor), self.device)

    def _fresh_stacks(self, device: torch.device) -> FeatureStacks:
        frames = self.config.frames
        return FeatureStacks(self._encoder, frames.stack, device, frames.traces)

    def _settle(self) -> None:
        """Nothing is due, and what is asked for next sees all gradient steps."""
        self.catch_up()
        self._steps.join()

    def write_state(self, state: AgentState) -> None:
        """Networks, optimiser, replay, stacks and counters; the encoder is fixed, so its name and digest suffice."""
        self._settle()
        learner = self.successor
        state.networks |= module_state(learner.network, "successor") | module_state(learner.target, "target")
        state.networks |= module_state(learner.whitening, "whitening")
        state.optimisers |= learner.optimiser.state("successor")
        running = {"stacks": self.stacks.rows, "trace_sums": self.stacks.sums}
        state.replay |= self._replay.state() | {name: rows.cpu().numpy().copy() for name, rows in running.items()}
        state.generators["replay"] = generator_state(self._rng)
        state.counters["representation"] = {
            "due": self._due,
            "gradient_steps": learner.gradient_steps,
            "encoder": self._encoder_digest,
        }

    def read_state(self, state: AgentState) -> None:
        """Everything that `write_state` wrote; a slim copy without optimiser and replay still acts."""
        self._steps.join()
        learner, counters = self.successor, state.counters["representation"]
        if counters["encoder"] != self._encoder_digest:
            raise CheckpointError(
                f"The checkpoint was learned over another encoder than {self.config.frames.encoder!r}; "
                "give the one it was trained with as --agent.frames.encoder."
            )
        load_module(learner.network, "successor", state.networks)
        load_module(learner.target, "target", state.networks)
        load_module(learner.whitening, "whitening", state.networks)
        if state.replay:
            learner.optimiser.load_state("successor", state.optimisers)
            self._replay.load_state(state.replay)
            running = (torch.from_numpy(state.replay[name].copy()) for name in ("stacks", "trace_sums"))
            self.stacks.load(*(part.to(self.device) for part in running))
        restore_generator(self._rng, state.generators["replay"])
        self._due, learner.gradient_steps = counters["due"], counters["gradient_steps"]
