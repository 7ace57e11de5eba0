"""All settings of MSS, in the words of the paper's appendix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from sfl.config import FORMER_KINDS, later, require


@dataclass(frozen=True)
class MapConfig:
    """The map and how it is planned on."""

    landmarks: int = 10
    """Max landmarks."""
    candidates: int = 1_000
    """States drawn from the replay, of which the landmarks are those farthest from each other."""
    clip: float = -3.0
    """Clip threshold: values below it make no edge, but each landmark keeps its best incoming one."""
    direct: float = -10.0
    """A goal of at least this value, and not cut off by the clip threshold, is walked to without landmarks."""
    keep_nearest: bool = True
    """The agent may walk to its nearest landmark and wherever that one has an edge to, also below the threshold: an
    edge that is kept though it is long could else be planned with and never be walked."""
    sharpness: float = 0.9
    """Ways are weighted by exp(sharpness * value), in planning and in drawing the landmark to walk to."""
    redraw_every: int = 1_000
    """Environment steps between two maps."""

    def __post_init__(self) -> None:
        require(self.landmarks >= 1, f"map.landmarks must be at least 1, got {self.landmarks}.")
        require(self.candidates >= 2, f"map.candidates must be at least 2, got {self.candidates}.")
        require(self.clip <= 0, f"map.clip is a value and must not be positive, got {self.clip}.")
        require(self.direct <= 0, f"map.direct is a value and must not be positive, got {self.direct}.")
        require(self.sharpness > 0, f"map.sharpness must be positive, got {self.sharpness}.")
        require(self.redraw_every >= 1, f"map.redraw-every must be at least 1, got {self.redraw_every}.")


@dataclass(frozen=True)
class UVFAConfig:
    """How the value function is learned."""

    hidden: tuple[int, ...] = (512,)
    """Units of the hidden layers."""
    batch_norm: bool = False
    """Batch normalization after each hidden layer."""
    gamma: float = 0.99
    """Discount."""
    learning_rate: float = 1e-4
    """Adam's step size."""
    batch_size: int = 256
    """Steps in a batch."""
    target_every: int = 50
    """Target update interval: gradient steps between two copies of the network to the target network."""
    future: int = 10
    """HER future step limit: goals in hindsight are seen at most this many steps later."""
    relabel: float = 0.8
    """Share of the steps that get a goal in hindsight; the others get any state of the replay."""
    anchor: float = 0.5
    """Weight of the loss that makes every step one step long: Q(s, a, s') = 0."""
    start_step: int = 1_000
    """Environment steps before the first gradient step; until then actions are random."""
    updates_per_step: float = 1.0
    """Gradient steps per environment step."""

    def __post_init__(self) -> None:
        units = bool(self.hidden) and all(units > 0 for units in self.hidden)
        require(units, f"uvfa.hidden must be one or more positive numbers, got {self.hidden}.")
        require(0 < self.gamma < 1, f"uvfa.gamma must lie between 0 and 1, got {self.gamma}.")
        require(self.learning_rate > 0, f"uvfa.learning-rate must be positive, got {self.learning_rate}.")
        require(self.batch_size >= 2, f"uvfa.batch-size must be at least 2, got {self.batch_size}.")
        require(self.target_every >= 1, f"uvfa.target-every must be at least 1, got {self.target_every}.")
        require(self.future >= 1, f"uvfa.future must be at least 1, got {self.future}.")
        require(0 <= self.relabel <= 1, f"uvfa.relabel must lie in [0, 1], got {self.relabel}.")
        require(self.anchor >= 0, f"uvfa.anchor must not be negative, got {self.anchor}.")
        require(self.updates_per_step >= 0, f"uvfa.updates-per-step must be >= 0, got {self.updates_per_step}.")


@dataclass(frozen=True)
class MSSConfig:
    """Mapping State Space. The defaults are the paper's for FourRoom; below are those of MultiRoom and of ViZDoom."""

    states: Literal["grid", "frames"] = later("grid")
    """What a state is: an observation that shows all of it, whose features are learned (grid: also vectors and pictures
    of any size); or the features of the last frames of a camera by a fixed encoder (frames)."""
    dim: int = later(64)
    """Grids: length of the feature vector of a state or goal."""
    norm: float = later(10.0)
    """Grids: every feature vector has this Euclidean norm."""
    encoder: str = later("place")
    """Frames: features of one by a shipped encoder (place, compact) or a .safetensors file of `sfl encoder train`."""
    stack: int = later(4)
    """Frames: a state is made of the features of this many."""
    reach: float = later(0.8)
    """Frames, delta_reach: a state counts as the goal when the cosine of their features is above this."""
    uvfa: UVFAConfig = UVFAConfig()
    map: MapConfig = MapConfig()
    replay_size: int = 100_000
    """Environment steps kept for learning, over all environments."""
    plan_share: float = later(0.75)
    """epsilon_plan: share of the training steps that follow the planner to a landmark; the others walk straight to a
    state of the replay. Without a part where there are cycle-steps."""
    cycle_steps: int = later(0)
    """Decisions that follow the planner to a landmark, and then as many straight to a state of the replay, in turn; 0 =
    each decision by chance, as plan-share says."""
    train_epsilon: float = 0.1
    """epsilon_explore: share of random actions in training."""
    eval_epsilon: float = 0.1
    """epsilon_eval: share of random actions in evaluation."""
    oracle: bool = False
    """Reward in hindsight by true positions, which no other agent gets to see."""
    oracle_radius: float = 0.5
    """With the oracle, how far from the goal still counts as there, in cells or map units."""

    def __post_init__(self) -> None:
        for name in ("train_epsilon", "eval_epsilon", "plan_share"):
            share = getattr(self, name)
            require(0 <= share <= 1, f"{name.replace('_', '-')} must lie in [0, 1], got {share}.")
        require(self.replay_size >= 100, f"replay-size must be at least 100, got {self.replay_size}.")
        require(self.oracle_radius >= 0, f"oracle-radius must not be negative, got {self.oracle_radius}.")
        require(self.dim >= 1, f"dim must be positive, got {self.dim}.")
        require(self.norm > 0, f"norm must be positive, got {self.norm}.")
        require(self.stack >= 1, f"stack must be at least 1, got {self.stack}.")
        require(-1 <= self.reach <= 1, f"reach is a cosine and must lie in [-1, 1], got {self.reach}.")
        require(self.cycle_steps >= 0, f"cycle-steps must not be negative, got {self.cycle_steps}.")


def multiroom() -> MSSConfig:
    """The appendix' column for MultiRoom."""
    return MSSConfig(
        uvfa=UVFAConfig(learning_rate=1e-3, batch_size=128, future=20),
        map=MapConfig(landmarks=30, clip=-5.0),
        eval_epsilon=0.05,
    )


def over_frames(**changes: Any) -> MSSConfig:
    """The appendix' column for ViZDoom."""
    config = MSSConfig(
        states="frames",
        uvfa=UVFAConfig(
            hidden=(2_048, 1_024),
            batch_norm=True,
            gamma=0.95,
            batch_size=128,
            target_every=100,
            future=400,
            updates_per_step=0.125,
        ),
        map=MapConfig(landmarks=250, clip=-25.0, redraw_every=10_000),
        cycle_steps=500,
        train_epsilon=0.25,
        eval_epsilon=0.05,
        oracle_radius=32.0,
    )
    return replace(config, **changes)


# Runs were made when settings over frames had a class of their own.
FORMER_KINDS["FrameMSSConfig"] = lambda body: body | {"kind": "MSSConfig", "states": "frames"}
