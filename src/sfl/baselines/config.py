"""Settings of the networks R and L, of PPO, and of the baselines that have them.

Nothing here imports torch: the command line shows settings without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sfl.config import FORMER_KINDS, require
from sfl.method.config import NavigatorConfig, RetrievalConfig
from sfl.nn import Kind


@dataclass(frozen=True)
class LocomotionConfig:
    """The locomotion network L, and how it learns."""

    ahead: int = 5
    """Goals are 1 to this many decisions ahead."""
    batch_size: int = 64
    """Examples in a batch."""
    encoder: Kind = "resnet18"
    """What looks at the three frames (other observations have small encoders of their own)."""
    dim: int = 64
    """Features of observations that are no frames."""
    learning_rate: float = 1e-4
    """Adam's step size."""

    def __post_init__(self) -> None:
        for name in ("ahead", "batch_size", "dim"):
            value = getattr(self, name)
            require(value >= 1, f"locomotion.{name.replace('_', '-')} must be at least 1, got {value}.")
        require(self.learning_rate > 0, f"locomotion.learning-rate must be positive, got {self.learning_rate}.")


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
    extra_negatives: int = 0
    """Far pairs of each observation of R's batch with others of the batch, beside the near and the far one; 0 = none.
    With half of all pairs near, R of 0.95 says 19 to 1, while of a maze's views one in hundreds is near; each of these
    is one more to be told apart, and R the surer where it says near."""

    def __post_init__(self) -> None:
        require(self.updates_per_step >= 0, f"updates-per-step must be 0 or more, got {self.updates_per_step}.")
        require(self.replay_size >= 1, f"replay-size must be at least 1, got {self.replay_size}.")
        most, given = self.retrieval.batch_size // 2 - 1, self.extra_negatives
        require(
            0 <= given <= most, f"extra-negatives must lie in [0, {most}] (half of R's batch, less one), got {given}."
        )


ORACLE = "oracle"
"""The checkpoint of an explorer that covered most by true positions; whoever asks for it has looked at them."""


@dataclass(frozen=True)
class WalksConfig:
    """How much is walked, and how much of it is remembered."""

    steps: int = 20_000
    """Decisions whose observations go into the memory; the paper's are 100 episodes of 200 steps."""
    every: int = 4
    """Remember every so many decisions of a walk."""
    explorer: str = ""
    """The run folder of `ec` whose frozen policy walks; without one the walks are random."""
    explorer_checkpoint: str = ORACLE
    """Its checkpoint: `last`, a step count such as 000200000, or `oracle`: the one before which it covered most by true
    positions, as in the paper."""

    def __post_init__(self) -> None:
        require(self.steps >= 1, f"memory.steps must be at least 1, got {self.steps}.")
        require(self.every >= 1, f"memory.every must be at least 1, got {self.every}.")


@dataclass(frozen=True)
class FillingConfig(NetworkConfig):
    """Networks, and the walks that fill the memory."""

    updates_per_step: float = 0.0
    """Gradient steps of each network per environment step, until the memory is full; 0 = they stay as they are."""
    memory: WalksConfig = WalksConfig()


@dataclass(frozen=True)
class ControllerConfig(NetworkConfig):
    """The networks are all there is; R learns beside L, for SPTM and SGM to use."""


@dataclass(frozen=True)
class ShortcutConfig:
    """Which nodes are joined beside neighbours in time."""

    count: int = 2_000
    """The best pairs that are joined."""
    window: int = 10
    """The score of a pair is the median over this many nodes before and after, along both walks; 0 = its own."""
    distance: int = 6
    """Nodes of one walk must lie at least this far apart."""
    merge_starts: bool = True
    """Walks that begin with exactly the same view share their first node. From a fixed start they all do, but part too
    soon for a median along them to join them there."""

    def __post_init__(self) -> None:
        for name, least in {"count": 0, "window": 0, "distance": 1}.items():
            value = getattr(self, name)
            require(value >= least, f"shortcuts.{name} must be at least {least}, got {value}.")


@dataclass(frozen=True)
class GuideConfig:
    """Where the agent takes itself to be, and what it walks to."""

    neighbours: int = 5
    """Goal and agent are at the median of so many nearest nodes, those of the nearest one's walk."""
    local_threshold: float = 0.7
    """The agent is at the nearest node ahead on its last route if R is at least this."""
    global_threshold: float = 0.95
    """Else at one of the nearest of all nodes with at least this R; else nowhere."""
    look_ahead: int = 7
    """Nodes ahead on the route that are looked at."""
    waypoint_threshold: float = 0.95
    """The waypoint is the farthest of those with at least this R, or the next node."""
    lost_steps: int = 5
    """Random steps when it is nowhere."""

    def __post_init__(self) -> None:
        for name in ("neighbours", "look_ahead", "lost_steps"):
            value = getattr(self, name)
            require(value >= 1, f"guide.{name.replace('_', '-')} must be at least 1, got {value}.")
        for name in ("local_threshold", "global_threshold", "waypoint_threshold"):
            value, option = getattr(self, name), name.replace("_", "-")
            require(0 <= value <= 1, f"guide.{option} must lie in [0, 1] (R is a chance), got {value}.")


@dataclass(frozen=True)
class SPTMConfig(FillingConfig):
    """Networks, memory, shortcuts and the way along them."""

    shortcuts: ShortcutConfig = ShortcutConfig()
    guide: GuideConfig = GuideConfig()


@dataclass(frozen=True)
class SparseConfig:
    """When observations are one node, and when two nodes are joined. Distances lie in [0, 1]."""

    merge_cutoff: float = 0.1
    """Only observations at less than this distance from a node, there and back, may become part of it."""
    consistency_cutoff: float = 0.5
    """Two-way consistency: and only if their distances to and from all neighbours of the node differ from the node's
    by less than this; 1 = whatever the neighbours."""
    edge_cutoff: float = 0.3
    """Nodes at less than this distance are joined."""
    k_nearest: int = 5
    """Keep only each node's k nearest outgoing edges; 0 = all."""

    def __post_init__(self) -> None:
        for name in ("merge_cutoff", "consistency_cutoff", "edge_cutoff"):
            value, option = getattr(self, name), name.replace("_", "-")
            require(0 <= value <= 1, f"sparse.{option} must lie in [0, 1], got {value}.")
        require(self.k_nearest >= 0, f"sparse.k-nearest must not be negative, got {self.k_nearest}.")


ATTEMPTS = NavigatorConfig(
    frontier_steps=1_000,
    steps_per_landmark=30,
    explore_steps=1,
    frontier="uniform",
    frontier_among="component",
    reached="similar",
    reach_threshold=0.9,
    replan_off_route=False,
    replan_after=30,
    avoid_failed=True,
)
"""Cleanup: to a random node, one waypoint after the other, 30 decisions for each; then another."""


@dataclass(frozen=True)
class SGMConfig(FillingConfig):
    """Networks, memory, and what becomes of it."""

    memory: WalksConfig = WalksConfig(every=5)  # farther apart R, which calls 5 decisions near, joins too few in time
    sparse: SparseConfig = SparseConfig()
    navigator: NavigatorConfig = ATTEMPTS
    localize_threshold: float = 0.9
    """The agent is at its nearest node if R is at least this."""
    links: int = 5
    """Start and goal are joined to the first of so many nearest nodes between which there is a route."""

    def __post_init__(self) -> None:
        super().__post_init__()
        threshold = self.localize_threshold
        require(0 <= threshold <= 1, f"localize-threshold must lie in [0, 1] (R is a chance), got {threshold}.")
        require(self.links >= 1, f"links must be at least 1, got {self.links}.")


@dataclass(frozen=True)
class PPOConfig:
    """How the policy is improved."""

    horizon: int = 256
    """Steps of each environment between two improvements."""
    epochs: int = 4
    """Passes over those steps."""
    minibatches: int = 4
    """Gradient steps in a pass."""
    gamma: float = 0.99
    """Discount of rewards."""
    trace: float = 0.95
    """lambda of generalized advantage estimation: 0 trusts the value of the next state, 1 only rewards."""
    learning_rate: float = 2.5e-4
    """Adam's step size at the beginning."""
    clip: float = 0.1
    """At the beginning, how far the odds of an action may move from what they were before a gradient no longer
    follows."""
    decay_steps: int = 0
    """Learning rate and clip fall linearly to 0 over this many environment steps; 0 = they stay."""
    entropy: float = 0.01
    """Weight of the policy's entropy."""
    value_weight: float = 0.5
    """Weight of the squared error of the values."""
    gradient_norm: float = 0.5
    """Gradients are scaled down to at most this norm."""
    dim: int = 512
    """Features that policy and value share."""

    def __post_init__(self) -> None:
        for name in ("horizon", "epochs", "minibatches", "dim"):
            require(getattr(self, name) >= 1, f"ppo.{name} must be at least 1, got {getattr(self, name)}.")
        for name in ("gamma", "trace"):
            require(0 <= getattr(self, name) <= 1, f"ppo.{name} must lie in [0, 1], got {getattr(self, name)}.")
        for name in ("learning_rate", "clip", "gradient_norm"):
            option, value = name.replace("_", "-"), getattr(self, name)
            require(value > 0, f"ppo.{option} must be positive, got {value}.")
        for name in ("decay_steps", "entropy", "value_weight"):
            option, value = name.replace("_", "-"), getattr(self, name)
            require(value >= 0, f"ppo.{option} must not be negative, got {value}.")


@dataclass(frozen=True)
class BonusConfig:
    """What novelty is worth."""

    scale: float = 0.03
    """alpha: the reward is this times (shift - similarity)."""
    shift: float = 0.5
    """beta: at this similarity nothing is earned, above it the reward is negative."""
    capacity: int = 400
    """Observations of an episode that are remembered; then the oldest goes."""
    novelty_threshold: float = 0.1
    """b_novelty: an observation is remembered when shift - similarity is above this."""
    percentile: float = 90.0
    """F: the similarity to the memory is this percentile of those to its members."""

    def __post_init__(self) -> None:
        require(self.scale >= 0, f"bonus.scale must not be negative, got {self.scale}.")
        require(0 <= self.shift <= 1, f"bonus.shift must lie in [0, 1] (similarity does), got {self.shift}.")
        require(self.capacity >= 1, f"bonus.capacity must be at least 1, got {self.capacity}.")
        threshold = self.novelty_threshold
        require(
            threshold < self.shift, f"bonus.novelty-threshold must be below the shift, {self.shift}; got {threshold}."
        )
        require(0 <= self.percentile <= 100, f"bonus.percentile must lie in [0, 100], got {self.percentile}.")


@dataclass(frozen=True)
class ECConfig(NetworkConfig):
    """Episodic Curiosity: an explorer, which has no use for goals.

    R says what is new. L learns beside it, so that SPTM and SGM can start from the networks of such a run.
    """

    replay_size: int = 20_000
    """Observations kept to learn R and L from, on the device; a frame takes 58 kB."""
    train_every: int = 20_000
    """Environment steps between two trainings of R and L; in between, what is new stays what it is."""
    bonus: BonusConfig = BonusConfig()
    ppo: PPOConfig = PPOConfig()

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.train_every >= 1, f"train-every must be at least 1, got {self.train_every}.")
        known = bool(self.networks) or self.updates_per_step > 0
        require(known, "ec needs a retrieval network: name one as networks, or let one learn (updates-per-step > 0).")


def _with_present_names(body: dict[str, Any]) -> dict[str, Any]:
    """Settings in JSON as they are called now: `extra_negatives` were `strangers` once."""
    return {"extra_negatives" if name == "strangers" else name: value for name, value in body.items()}


FORMER_KINDS |= {kind.__name__: _with_present_names for kind in (ControllerConfig, ECConfig, SPTMConfig, SGMConfig)}
