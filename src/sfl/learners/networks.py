"""R and L together, as the methods that need both start, train and keep them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from sfl.core.config import require
from sfl.core.errors import CheckpointError
from sfl.core.seeding import generator_state, restore_generator, spawn
from sfl.data.types import AgentState, Array, EnvSpec, Metrics, Transitions
from sfl.learners.locomotion import Locomotion, LocomotionConfig
from sfl.learners.retrieval import Retrieval, RetrievalConfig
from sfl.learners.walk_replay import WalkReplay
from sfl.nn.weights import load_networks


@dataclass(frozen=True)
class NetworkConfig:
    """Retrieval and locomotion network: where they come from, and how they go on learning."""

    networks: str = ""
    """A .safetensors file to start from: one of `sfl network train both`, or networks.safetensors of a checkpoint of a
    run that has both networks; without it they start from scratch."""
    retrieval: RetrievalConfig = RetrievalConfig()
    locomotion: LocomotionConfig = LocomotionConfig()
    updates_per_step: float = 1 / 64
    """Gradient steps of each network per environment step; 0 = the networks stay as they are."""
    replay_size: int = 50_000
    """Observations kept to learn from, on the device; a frame takes 58 kB."""
    strangers: int = 0
    """Far pairs of each observation of R's batch with others of the batch, beside the near and the far one; 0 = none.
    With half of all pairs near, R of 0.95 says 19 to 1, while of a maze's views one in hundreds is near; each stranger
    is one more to be told apart, and R the surer where it says near."""

    def __post_init__(self) -> None:
        require(self.updates_per_step >= 0, f"updates-per-step must be 0 or more, got {self.updates_per_step}.")
        require(self.replay_size >= 1, f"replay-size must be at least 1, got {self.replay_size}.")
        most, given = self.retrieval.batch_size // 2 - 1, self.strangers
        require(0 <= given <= most, f"strangers must lie in [0, {most}] (half of R's batch, less one), got {given}.")


def take_networks(path: str, arrays: dict[str, Array], networks: Iterable[Retrieval | Locomotion]) -> None:
    """Networks become those of a file at `path`, which holds these arrays."""
    for network in networks:
        try:
            network.take(arrays)
        except CheckpointError as error:
            raise CheckpointError(
                f"{path} holds another {network.name} network than the settings describe; give the encoder, sizes "
                "and actions that it was trained with."
            ) from error


def start_from(path: str, networks: Sequence[Retrieval | Locomotion]) -> None:
    """Networks become those of the same names in a file."""
    take_networks(path, load_networks(path, [network.name for network in networks]), networks)


class Networks:
    """Both networks and, where they learn, the replay that they learn from."""

    def __init__(self, config: NetworkConfig, spec: EnvSpec, seed: int, device: torch.device) -> None:
        self.config, self.device = config, device
        self.retrieval = Retrieval(config.retrieval, spec, seed, device)
        self.locomotion = Locomotion(config.locomotion, spec, seed, device)
        if config.networks:
            start_from(config.networks, [self.retrieval, self.locomotion])
        self._rng = spawn(seed, ["replay"])["replay"]
        self._replay = WalkReplay(spec, config.replay_size, device) if config.updates_per_step else None
        self._due = 0.0

    def observe(self, transitions: Transitions) -> None:
        """Keep a step to learn from."""
        if self._replay is not None:
            self._replay.observe(transitions)

    def update(self, new_steps: int) -> Metrics:
        """The gradient steps that are due after so many more environment steps; fractions are carried over."""
        self._due += new_steps * self.config.updates_per_step
        metrics = Metrics()
        while self._due >= 1.0:
            self._due -= 1.0
            metrics |= self._learn()
        return metrics

    def _learn(self) -> Metrics:
        assert self._replay is not None
        retrieval, locomotion = self.config.retrieval, self.config.locomotion
        triplets = self._replay.triplets(self._rng, retrieval.batch_size // 2, retrieval.near, retrieval.far)
        chases = self._replay.chases(self._rng, locomotion.batch_size, locomotion.ahead)
        metrics = Metrics()
        if triplets is not None:
            metrics |= self.retrieval.update(triplets, self.config.strangers)
        if chases is not None:
            metrics |= self.locomotion.update(*chases)
        steps = self.retrieval.gradient_steps + self.locomotion.gradient_steps
        return metrics | {"train/gradient_steps": float(steps)}

    def write_state(self, state: AgentState) -> None:
        """Networks, optimisers, replay, generator and what is due."""
        self.retrieval.write_state(state)
        self.locomotion.write_state(state)
        if self._replay is not None:
            state.replay |= self._replay.state()
        state.generators["replay"] = generator_state(self._rng)
        state.counters["due"] = self._due

    def read_state(self, state: AgentState) -> None:
        """Everything that `write_state` wrote."""
        self.retrieval.read_state(state)
        self.locomotion.read_state(state)
        if self._replay is not None:
            self._replay.load_state(state.replay)
        restore_generator(self._rng, state.generators["replay"])
        self._due = state.counters["due"]
