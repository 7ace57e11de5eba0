"""Learning phi and psi: what is due after some environment steps, batches from the replay, gradient steps, checkpoints.

First grids, whose features are learned with psi (`LearnedRepresentation`), then frames, whose encoder is fixed
(`FrameRepresentation`).
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from sfl.api import AgentState, Array, EnvSpec, Metrics, Transitions
from sfl.errors import CheckpointError
from sfl.fast.cuda import SideStream, tensor_cores, to_device
from sfl.fast.graphed import GraphedSteps
from sfl.fast.grid import FeatureCache, WindowTable, encode_distinct
from sfl.method.config import SFLConfig
from sfl.method.feature_learning import FeatureLearner
from sfl.method.states import (
    FeatureStacks,
    FrameStates,
    FrozenEncoder,
    GridStates,
)
from sfl.method.successor_features import BatchStates, StepBatch, SuccessorLearner, unit
from sfl.nn.encoders import GridEncoder
from sfl.nn.weights import adam_state, load_adam, load_encoder, load_module, module_state
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
            self.features = FeatureLearner(config.features, spec, device)
            self.successor = SuccessorLearner(config.successor, self.dim, spec, device)
        windowed = isinstance(self.features.encoder, GridEncoder)
        windows = WindowTable(spec.observation_shape, spec.observation_dtype) if windowed else None
        self._store = DistinctStore(spec.observation_shape, spec.observation_dtype, windows)
        self._replay = SequenceReplay(self._store, config.replay_size, spec.env_count)
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

    def snapshot(self) -> FrozenRepresentation:
        """A copy that later learning does not change."""
        return FrozenRepresentation(copy.deepcopy(self.features), copy.deepcopy(self.successor))

    def write_state(self, state: AgentState) -> None:
        """Networks, optimisers, replay and counters."""
        learner = self.successor
        state.networks |= module_state(self.features.encoder, "encoder") | module_state(learner.network, "successor")
        state.networks |= module_state(learner.target, "target") | module_state(learner.whitening, "whitening")
        state.optimisers |= adam_state(self.features.optimiser, "encoder")
        state.optimisers |= adam_state(learner.optimiser, "successor")
        state.replay |= self._replay.state() | self._cache.state()
        state.generators["replay"] = generator_state(self._rng)
        state.counters["representation"] = {
            "due": dict(self._due),
            "gradient_steps": self._gradient_steps,
            "sf_gradient_steps": learner.gradient_steps,
        }

    def load_state(self, state: AgentState) -> None:
        """Everything that `write_state` wrote; a slim copy without optimisers and replay still acts."""
        learner, counters = self.successor, state.counters["representation"]
        load_module(self.features.encoder, "encoder", state.networks)
        load_module(learner.network, "successor", state.networks)
        load_module(learner.target, "target", state.networks)
        load_module(learner.whitening, "whitening", state.networks)
        if state.replay:
            load_adam(self.features.optimiser, "encoder", state.optimisers)
            load_adam(learner.optimiser, "successor", state.optimisers)
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
        features = self._encode(unique, learn_phi)
        metrics: dict[str, Tensor] = {}
        if batch is not None:
            rows = places[-drawn[-1].size :].reshape(drawn[-1].shape)
            metrics |= self.successor.step(self._step_batch(batch, features.detach(), rows))
            self.successor.count_step()
        if triplets is not None:
            rows = places[: triplets.size].reshape(triplets.shape)
            metrics |= self.features.update(features, self._tensor(rows))
        return {name: float(value) for name, value in metrics.items()}

    def _encode(self, slots: Array, learn_phi: bool) -> Tensor:
        """Features [U, F] of distinct slots: as the encoder makes them now when phi learns from them, else as it last
        did."""
        encoder, store, device = self.features.encoder, self._store, self.device
        if learn_phi:
            self._cache.clear()
            return encode_distinct(encoder, store, slots, device)
        with torch.no_grad():
            return self._cache.rows(store, slots, lambda new: encode_distinct(encoder, store, new, device))

    def _sample_triplets(self) -> Array | None:
        return self._replay.sample_triplets(self._rng, self.config.features.batch_size, self.features.windows)

    def _sample_steps(self) -> NStepBatch | None:
        config = self.config.successor
        batch = self._replay.sample_n_step(self._rng, config.batch_size, config.n_step, config.gamma)
        return batch.merged(config.count_power) if batch is not None and config.n_step == 1 else batch

    def _step_batch(self, batch: NStepBatch, features: Tensor, rows: Array) -> StepBatch:
        """`rows` [B, n + 1]: the features of the batch's states."""
        steps, firsts = self._tensor(rows[:, :-1]), distinct(rows[:, 0])
        if self.config.successor.whiten:
            first = self._states(features, firsts, batch.multiplicity)
            self.successor.whitening.track(first.values, first.counts)
            features = self.successor.white(features)
        return StepBatch(
            phi=features.index_select(0, steps.flatten()).unflatten(0, steps.shape),
            weights=self._tensor(batch.weights),
            first=self._states(features, firsts, batch.multiplicity),
            actions=self._tensor(batch.actions),
            last=self._states(features, distinct(rows[:, -1]), batch.multiplicity),
            last_weights=self._tensor(batch.bootstrap_weights),
            multiplicity=self._tensor(batch.multiplicity),
        )

    def _states(self, features: Tensor, found: tuple[Array, Array], multiplicity: Array) -> BatchStates:
        """The distinct rows [S] of the features that were found, and where each of the batch is among them [B]."""
        states, places = found
        counts = np.bincount(places, multiplicity).astype(np.float32)
        return BatchStates(features.index_select(0, self._tensor(states)), self._tensor(places), self._tensor(counts))

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(array).to(self.device)


class FrozenRepresentation(GridStates):
    """phi and psi as they were; each distinct observation is computed once."""

    def __init__(self, features: FeatureLearner, successor: SuccessorLearner) -> None:
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

    REPORT_EVERY = 100
    """Gradient steps between two looks at the loss, which make this process wait for a GPU."""
    TRACK_EVERY = 8
    """Gradient steps between two looks at the moments of the features, which hardly move from one to the next."""

    def __init__(self, config: SFLConfig, spec: EnvSpec, seed: int, device: torch.device) -> None:
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
        n, stack = config.successor.n_step, config.frames.stack
        whole, real = torch.int32, torch.float32
        columns = (((n + 1, stack), whole), ((), whole), ((), whole), ((n,), real), ((), real))
        self._steps = GraphedSteps(self._step, config.successor.batch_size, columns, device)
        self._side = SideStream(device)  # gradient steps are queued beside what acting asks of the GPU
        self._loss = torch.zeros((), device=device)  # sum of the losses not yet reported
        self._unreported = 0
        self._due = 0.0
        self._puts_off = device.type != "cpu"
        self._metrics = Metrics()

    def psi(self, states: Array | Tensor) -> Tensor:
        """psi(s, a) of every action, [B, A, F]."""
        self._side.join()
        return super().psi(states)

    def directions(self, states: Array | Tensor) -> tuple[Tensor, Tensor]:
        """Unit psi(s, a) [B, A, F] and unit psi(s) [B, F]; good until the next call."""
        self._side.join()
        return super().directions(states)

    def observe(self, transitions: Transitions, random: Array) -> None:
        """Keep a step: the features of the newest frame are on top of the stacks already."""
        self._side.join()
        self.stacks.keep(transitions, random, self._replay)

    def update(self, env_steps: int, new_steps: int) -> Metrics:
        """Gradient steps of psi, as the configuration counts them; on a GPU they are left to the next `learn_due`."""
        config = self.config.successor
        if env_steps > config.start_step:
            self._due += new_steps * config.updates_per_step
        if not self._puts_off:
            self.learn_due()
        metrics, self._metrics = self._metrics, Metrics()
        return metrics

    def learn_due(self) -> None:
        """Make the gradient steps that are due, all from one draw; fractions are carried over."""
        config, count = self.config.successor, int(self._due)
        if count == 0:
            return
        self._due -= count
        batch = self._replay.sample_n_step(self._rng, count * config.batch_size, config.n_step, config.gamma)
        if batch is not None:
            dropout = self.config.frames.trace_dropout
            forgetful = self._rng.random(len(batch.actions)) < dropout if dropout else None
            self._learn(batch, forgetful)
            self._metrics["train/gradient_steps"] = float(self.successor.gradient_steps)

    def _learn(self, batch: NStepBatch, forgetful: Array | None) -> None:
        """A gradient step for every B rows of the batch; `forgetful` says which of all rows go without their traces."""
        steps = len(batch.actions) // self.config.successor.batch_size
        forgets = np.zeros(len(batch.actions), np.int32) if forgetful is None else forgetful
        columns = (self._store.places(batch.slots), batch.actions, forgets, batch.weights, batch.bootstrap_weights)
        with tensor_cores(self.device), self._side.queue():
            if self._unreported >= self.REPORT_EVERY:
                self._report()
            if self.config.successor.whiten:
                self._track(batch, steps)
            self._steps(columns, self.successor.count_step)
            self._unreported += steps
        if self.device.type == "cpu":
            self._report()

    def _track(self, batch: NStepBatch, steps: int) -> None:
        """Moments of the newest frame of the first state of every row of the batch, where they are due."""
        before, whitening = self.successor.gradient_steps, self.successor.whitening
        due = (before + steps) // self.TRACK_EVERY - before // self.TRACK_EVERY
        if due or not whitening.count:
            places = to_device(self._store.places(batch.slots[:, 0, -1]), self.device)
            whitening.track(self._store.at(places), batches=max(1, due * self.TRACK_EVERY))

    def _report(self) -> None:
        self._metrics["train/sf_loss"] = float(self._loss) / self._unreported
        self._loss.zero_()
        self._unreported = 0

    def _step(self, places: Tensor, actions: Tensor, forgetful: Tensor, weights: Tensor, last_weights: Tensor) -> None:
        """One gradient step: places in the store [B, n + 1, stack], and whether to go without traces [B]."""
        learner, store = self.successor, self._store
        ends = store.states(places[:, :: places.shape[1] - 1], forgetful.view(-1, 1, 1))
        states = learner.white(ends)  # [B, 2, S], first and last
        if learner.network.outputs == states.shape[2]:
            phi = learner.white(store.states(places[:, :-1]))
        else:  # psi is of the newest frames alone
            phi = learner.white(store.at(places[:, :-1, -1]))
        batch = StepBatch(phi, weights, BatchStates(states[:, 0]), actions, BatchStates(states[:, 1]), last_weights)
        self._loss += learner.step(batch)["train/sf_loss"]

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

    def snapshot(self) -> FrameStates:
        """A copy that later learning does not change, for environments of its own."""
        self._settle()
        return FrameStates(self._fresh_stacks(self.device), copy.deepcopy(self.successor), self.device)

    def _fresh_stacks(self, device: torch.device) -> FeatureStacks:
        frames = self.config.frames
        return FeatureStacks(self._encoder, frames.stack, device, frames.traces)

    def _settle(self) -> None:
        """Nothing is due, and what is asked for next sees all gradient steps."""
        self.learn_due()
        self._side.join()

    def write_state(self, state: AgentState) -> None:
        """Networks, optimiser, replay, stacks and counters; the encoder is fixed, so its name and digest suffice."""
        self._settle()
        learner = self.successor
        state.networks |= module_state(learner.network, "successor") | module_state(learner.target, "target")
        state.networks |= module_state(learner.whitening, "whitening")
        state.optimisers |= adam_state(learner.optimiser, "successor")
        running = {"stacks": self.stacks.rows, "trace_sums": self.stacks.sums}
        state.replay |= self._replay.state() | {name: rows.cpu().numpy().copy() for name, rows in running.items()}
        state.generators["replay"] = generator_state(self._rng)
        state.counters["representation"] = {
            "due": self._due,
            "gradient_steps": learner.gradient_steps,
            "encoder": self._encoder_digest,
        }

    def load_state(self, state: AgentState) -> None:
        """Everything that `write_state` wrote; a slim copy without optimiser and replay still acts."""
        self._side.join()
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
            load_adam(learner.optimiser, "successor", state.optimisers)
            self._replay.load_state(state.replay)
            running = (torch.from_numpy(state.replay[name].copy()) for name in ("stacks", "trace_sums"))
            self.stacks.load(*(part.to(self.device) for part in running))
        restore_generator(self._rng, state.generators["replay"])
        self._due, learner.gradient_steps = counters["due"], counters["gradient_steps"]
