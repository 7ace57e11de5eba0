"""All settings of MSS, in the words of the paper's appendix."""

from __future__ import annotations

from dataclasses import dataclass, field

from sfl.baselines.mss.map import MapConfig
from sfl.baselines.mss.value import UVFAConfig
from sfl.config import require


@dataclass(frozen=True)
class MSSConfig:
    """Mapping State Space over whole observations (the paper's MiniGrid settings)."""

    uvfa: UVFAConfig = field(default_factory=UVFAConfig)
    map: MapConfig = field(default_factory=MapConfig)
    dim: int = 64
    """Length of the feature vector of a state or goal."""
    norm: float = 10.0
    """Every feature vector has this Euclidean norm."""
    replay_size: int = 100_000
    """Environment steps kept for learning, over all environments."""
    plan_share: float = 0.75
    """epsilon_plan: share of the training steps that follow the planner to a landmark; the others walk straight to a
    state of the replay."""
    train_epsilon: float = 0.1
    """epsilon_explore: share of random actions in training."""
    eval_epsilon: float = 0.1
    """epsilon_eval: share of random actions in evaluation."""
    oracle: bool = False
    """Reward in hindsight by true positions, which no other agent gets to see."""
    oracle_radius: float = 0.5
    """With the oracle, how far from the goal still counts as there, in cells."""

    def __post_init__(self) -> None:
        _check(self.train_epsilon, self.eval_epsilon, self.replay_size, self.oracle_radius)
        require(self.dim >= 1, f"dim must be positive, got {self.dim}.")
        require(self.norm > 0, f"norm must be positive, got {self.norm}.")
        require(0 <= self.plan_share <= 1, f"plan-share must lie in [0, 1], got {self.plan_share}.")


@dataclass(frozen=True)
class FrameMSSConfig:
    """Mapping State Space over frames and a fixed encoder (the paper's ViZDoom settings)."""

    encoder: str = "place"
    """Features of a frame: a shipped encoder (place, compact) or a .safetensors file of `sfl encoder train`."""
    stack: int = 4
    """A state is made of the features of this many frames."""
    uvfa: UVFAConfig = field(
        default_factory=lambda: UVFAConfig(
            hidden=(2_048, 1_024),
            batch_norm=True,
            gamma=0.95,
            batch_size=128,
            target_every=100,
            future=400,
            updates_per_step=0.125,
        )
    )
    map: MapConfig = field(default_factory=lambda: MapConfig(landmarks=250, clip=-25.0, redraw_every=10_000))
    replay_size: int = 100_000
    """Environment steps kept for learning, over all environments."""
    cycle_steps: int = 500
    """Decisions that follow the planner to a landmark, and then as many straight to a state of the replay, in turn."""
    reach: float = 0.8
    """delta_reach: a state counts as the goal when the cosine of their features is above this."""
    train_epsilon: float = 0.25
    """epsilon_explore: share of random actions in training."""
    eval_epsilon: float = 0.05
    """epsilon_eval: share of random actions in evaluation."""
    oracle: bool = False
    """Reward in hindsight by true positions, which no other agent gets to see."""
    oracle_radius: float = 32.0
    """With the oracle, how far from the goal still counts as there, in map units."""

    def __post_init__(self) -> None:
        _check(self.train_epsilon, self.eval_epsilon, self.replay_size, self.oracle_radius)
        require(self.stack >= 1, f"stack must be at least 1, got {self.stack}.")
        require(self.cycle_steps >= 1, f"cycle-steps must be at least 1, got {self.cycle_steps}.")
        require(-1 <= self.reach <= 1, f"reach is a cosine and must lie in [-1, 1], got {self.reach}.")


def multiroom() -> MSSConfig:
    """The appendix' column for MultiRoom; that for FourRoom is what `MSSConfig` begins with."""
    return MSSConfig(
        uvfa=UVFAConfig(learning_rate=1e-3, batch_size=128, future=20),
        map=MapConfig(landmarks=30, clip=-5.0),
        eval_epsilon=0.05,
    )


AnyMSSConfig = MSSConfig | FrameMSSConfig


def _check(train_epsilon: float, eval_epsilon: float, replay_size: int, oracle_radius: float) -> None:
    require(0 <= train_epsilon <= 1, f"train-epsilon must lie in [0, 1], got {train_epsilon}.")
    require(0 <= eval_epsilon <= 1, f"eval-epsilon must lie in [0, 1], got {eval_epsilon}.")
    require(replay_size >= 100, f"replay-size must be at least 100, got {replay_size}.")
    require(oracle_radius >= 0, f"oracle-radius must not be negative, got {oracle_radius}.")
