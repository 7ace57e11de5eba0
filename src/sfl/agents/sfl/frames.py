"""SFL over frames: a fixed encoder, a state is a stack of the features of the last frames, psi is learned."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from sfl.agents.sfl.config import FrameSFLConfig
from sfl.core.errors import CheckpointError
from sfl.core.seeding import draw_seed, generator_state, restore_generator, spawn
from sfl.data.replay import NStepBatch, SequenceReplay
from sfl.data.types import AgentState, Array, EnvSpec, Metrics, Observation, Transitions
from sfl.learners.feature_store import FeatureStore
from sfl.learners.state import load_module, module_state
from sfl.learners.successor import SuccessorBatch, SuccessorLearner
from sfl.nn.frame_encoders import FrameEncoder
from sfl.nn.heads import Draws
from sfl.nn.weights import load_encoder


class FeatureStacks:
    """The features of each environment's last frames, oldest first; before an episode there was a black frame."""

    def __init__(self, encoder: FrameEncoder, stack: int, device: torch.device) -> None:
        self._encoder, self._device = encoder, device
        self.fill = self.encode(np.zeros((1, 120, 160, 3), np.uint8))[0]
        self.rows = torch.zeros(0, stack, encoder.dim, device=device)  # [environments, stack, F]

    @torch.no_grad()
    def encode(self, frames: Array) -> Tensor:
        """Features [B, F] of frames [B, 120, 160, 3]."""
        features: Tensor = self._encoder(torch.from_numpy(np.ascontiguousarray(frames)).to(self._device))
        return features

    def begin(self, env_index: int) -> None:
        """An episode of this environment starts."""
        more = env_index + 1 - len(self.rows)
        if more > 0:
            self.rows = torch.cat([self.rows, self.rows.new_zeros(more, *self.rows.shape[1:])])
        self.rows[env_index] = self.fill

    def push(self, frames: Array, env_indices: Array) -> Tensor:
        """Add the newest frames; returns the stacks as states [B, stack * F]."""
        places = torch.from_numpy(env_indices).to(self._device)
        older = self.rows.index_select(0, places)[:, 1:]
        stacks = torch.cat([older, self.encode(frames).unsqueeze(1)], dim=1)
        self.rows.index_copy_(0, places, stacks)
        return stacks.flatten(1)

    def still(self, frame: Observation) -> Tensor:
        """The state [1, stack * F] of standing still before one view."""
        return self.encode(frame[None]).repeat(1, self.rows.shape[1])


class FrameStates:
    """Frames become states; shared by the agent and its frozen copies, each with stacks of its own."""

    def __init__(self, stacks: FeatureStacks, successor: SuccessorLearner, device: torch.device) -> None:
        self.stacks, self.successor, self.device = stacks, successor, device
        self.dim = successor.network.dim

    def begin_episode(self, env_index: int) -> None:
        """The frames before belong to another episode."""
        self.stacks.begin(env_index)

    def perceive(self, observations: Array, env_indices: Array) -> Tensor:
        """States [B, stack * F] after the newest frames [B, 120, 160, 3]."""
        return self.stacks.push(observations, env_indices)

    def goal_state(self, goal: Observation) -> Tensor:
        """The state of standing still before the goal's picture."""
        return self.stacks.still(goal)

    def psi(self, states: Array | Tensor) -> Tensor:
        """psi(s, a) of every action, [B, A, F]."""
        rows = states if isinstance(states, Tensor) else torch.from_numpy(states)
        return self.successor.psi(rows.to(self.device))


class FrameRepresentation(FrameStates):
    """A fixed encoder and n-step TD psi over a replay of features."""

    def __init__(self, config: FrameSFLConfig, spec: EnvSpec, seed: int, device: torch.device) -> None:
        self.config = config
        rngs = spawn(seed, ["init", "replay"])
        self._rng = rngs["replay"]
        encoder = load_encoder(config.frames.encoder, device)
        self._encoder = encoder
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(draw_seed(rngs["init"]))
            successor = SuccessorLearner(config.successor, config.frames.stack * encoder.dim, spec, device)
        super().__init__(FeatureStacks(encoder, config.frames.stack, device), successor, device)
        # Each environment writes one entry before it lets go of its oldest.
        self._store = FeatureStore(config.replay_size + 2 * spec.env_count, self.stacks.fill)
        self._replay = SequenceReplay(self._store, config.replay_size, spec.env_count, config.frames.stack)
        self._due = 0.0

    def observe(self, transitions: Transitions, random: Array) -> None:
        """Keep a step: the features of the newest frame are on top of the stacks already."""
        envs = transitions.env_indices
        newest = self.stacks.rows[torch.from_numpy(envs).to(self.device), -1]
        slots = self._store.hold_rows(newest)
        ended = np.flatnonzero(transitions.ended)
        last = self.stacks.encode(transitions.next_observations[ended]) if len(ended) else newest[:0]
        last_slots = dict(zip(ended.tolist(), self._store.hold_rows(last), strict=True))
        for row, env in enumerate(envs.tolist()):
            self._replay.append(env, slots[row], int(transitions.actions[row]), bool(random[row]))
            if row in last_slots:
                self._replay.close_episode(env, last_slots[row])

    def update(self, env_steps: int, new_steps: int) -> Metrics:
        """Gradient steps of psi, as the configuration counts them."""
        config, metrics = self.config.successor, Metrics()
        if env_steps <= config.start_step:
            return metrics
        self._due += new_steps * config.updates_per_step
        while self._due >= 1.0:
            self._due -= 1.0
            batch = self._replay.sample_n_step(self._rng, config.batch_size, config.n_step, config.gamma)
            if batch is not None:
                metrics = self.successor.update(self._successor_batch(batch))
        if metrics:
            metrics["train/gradient_steps"] = float(self.successor.gradient_steps)
        return metrics

    def frozen(self) -> FrameStates:
        """A copy that later learning does not change, for environments of its own."""
        stacks = FeatureStacks(self._encoder, self.config.frames.stack, self.device)
        return FrameStates(stacks, copy.deepcopy(self.successor), self.device)

    def write_state(self, state: AgentState) -> None:
        """Networks, optimiser, replay, stacks and counters; the encoder is fixed, so its name and print suffice."""
        learner = self.successor
        state.networks |= module_state(learner.network, "successor") | module_state(learner.target, "target")
        state.networks |= module_state(learner.whitening, "whitening")
        state.optimisers |= learner.optimiser.state("successor")
        state.replay |= self._replay.state() | {"stacks": self.stacks.rows.cpu().numpy().copy()}
        state.generators["replay"] = generator_state(self._rng)
        state.counters["representation"] = {
            "due": self._due,
            "gradient_steps": learner.gradient_steps,
            "encoder": self._fingerprint(),
        }

    def read_state(self, state: AgentState) -> None:
        """Everything that `write_state` wrote; a slim copy without optimiser and replay still acts."""
        learner, counters = self.successor, state.counters["representation"]
        if counters["encoder"] != self._fingerprint():
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
            self.stacks.rows = torch.from_numpy(state.replay["stacks"].copy()).to(self.device)
        restore_generator(self._rng, state.generators["replay"])
        self._due, learner.gradient_steps = counters["due"], counters["gradient_steps"]

    def _fingerprint(self) -> list[float]:
        """What the encoder makes of a black frame, coarsely: another encoder makes something else of it."""
        return [round(value, 2) for value in self.stacks.fill[:8].tolist()]

    def _successor_batch(self, batch: NStepBatch) -> SuccessorBatch:
        """No two states are equal here, so that each is computed for itself."""
        batch = batch.by_action(self.successor.network.action_count)
        slots = batch.slots()  # [B, n + 1, stack]
        count = slots.shape[0] * slots.shape[1]
        rows = torch.arange(count, device=self.device).unflatten(0, slots.shape[:2])
        weights, ahead, times = (
            torch.from_numpy(column).to(self.device)
            for column in (batch.weights, batch.bootstrap_weights, batch.multiplicity)
        )
        places = torch.arange(len(slots), device=self.device)
        return SuccessorBatch(
            features=self._store.rows(slots).flatten(2).flatten(0, 1),
            steps=rows[:, :-1],
            weights=weights,
            first=Draws(rows[:, 0], places, times),
            bootstrap=Draws(rows[:, -1], places, times),
            bootstrap_weights=ahead,
            multiplicity=times,
        )
