"""SFL over frames: a fixed encoder, a state is a stack of the features of the last frames, psi is learned."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from sfl.agents.sfl.config import FrameSFLConfig
from sfl.agents.sfl.representation import PsiSource, directions, unit
from sfl.core.errors import CheckpointError
from sfl.core.seeding import draw_seed, generator_state, restore_generator, spawn
from sfl.data.replay import SequenceReplay
from sfl.data.types import AgentState, Array, EnvSpec, Metrics, Observation, Transitions
from sfl.learners.device import Replayed, tensor_cores, to_device
from sfl.learners.eyes import Eyes
from sfl.learners.feature_stacks import FeatureStacks
from sfl.learners.feature_store import FeatureStore
from sfl.learners.resident import ResidentSteps
from sfl.learners.state import load_module, module_state
from sfl.learners.successor import SuccessorLearner
from sfl.nn.weights import load_encoder


class FrameStates(PsiSource):
    """Frames become states; shared by the agent and its frozen copies, each with stacks of its own."""

    def __init__(self, stacks: FeatureStacks, successor: SuccessorLearner, device: torch.device) -> None:
        self.stacks, self.successor, self.device = stacks, successor, device
        self.dim, self.state_dim = successor.network.outputs, successor.network.dim
        self._directions = Replayed(lambda states: directions(successor.psi(states)), device)

    def begin_episode(self, env_index: int) -> None:
        """The frames before belong to another episode."""
        self.stacks.begin(env_index)

    def perceive(self, observations: Array, env_indices: Array) -> Tensor:
        """States [B, S] after the newest frames [B, 120, 160, 3]; good until the next call."""
        return self.stacks.push(observations, env_indices)

    def goal_state(self, goal: Observation) -> Tensor:
        """The state of standing still before the goal's picture."""
        return self.stacks.still(goal)

    def psi(self, states: Array | Tensor) -> Tensor:
        """psi(s, a) of every action, [B, A, F]."""
        rows = states if isinstance(states, Tensor) else to_device(states, self.device)
        with tensor_cores(self.device):
            return self.successor.psi(rows)

    def directions(self, states: Array | Tensor) -> tuple[Tensor, Tensor]:
        """Unit psi(s, a) [B, A, F] and unit psi(s) [B, F]; good until the next call."""
        rows = states if isinstance(states, Tensor) else to_device(states, self.device)
        with tensor_cores(self.device):
            units, mean = self._directions(rows)
        return units, mean


class FrameRepresentation(FrameStates):
    """A fixed encoder and n-step TD psi over a replay of features."""

    def __init__(self, config: FrameSFLConfig, spec: EnvSpec, seed: int, device: torch.device) -> None:
        self.config = config
        rngs = spawn(seed, ["init", "replay"])
        self._rng = rngs["replay"]
        encoder = load_encoder(config.frames.encoder, device)
        self._encoder_digest, self._eyes = encoder.digest(), Eyes(encoder, device)
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
        self.stacks.keep(transitions, random, self._store, self._replay)

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
        return FeatureStacks(self._eyes, frames.stack, device, frames.traces)

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
            self.stacks.take_up(*(part.to(self.device) for part in running))
        restore_generator(self._rng, state.generators["replay"])
        self._due, learner.gradient_steps = counters["due"], counters["gradient_steps"]
