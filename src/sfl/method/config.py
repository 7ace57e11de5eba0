"""All settings of SFL, in the paper's words."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from sfl.baselines.networks import RetrievalConfig
from sfl.config import require
from sfl.method.edges import EdgeConfig
from sfl.method.features import FeatureConfig
from sfl.method.landmarks import LandmarkConfig
from sfl.method.navigator import NavigatorConfig
from sfl.method.successor import SuccessorConfig


@dataclass(frozen=True)
class MetricConfig:
    """How near two states are, wherever landmarks are found, recognised or joined to a goal."""

    measure: Literal["sfs", "reachability"] = "sfs"
    """Their SFS, or in the paper's ablation the chance, by SPTM's retrieval network R, that they are a few decisions
    apart. R stays as it is; the way between landmarks is found by SFS all the same."""
    networks: str = ""
    """The .safetensors file with R: of `sfl network train`, or networks.safetensors of a checkpoint of a run that has
    it; without one R knows nothing, which will do to try the program out."""
    retrieval: RetrievalConfig = RetrievalConfig()

    def check(self, landmarks: LandmarkConfig) -> None:
        """Which rules for landmarks go with it."""
        if self.measure == "sfs":
            given = self.networks
            require(not given, f"metric.networks goes with metric.measure reachability only, got {given}.")
            return
        only = "goes with metric.measure sfs only"
        require(landmarks.formation == "progressive", f"landmarks.formation clustered {only}.")
        require(landmarks.trust == 0, f"landmarks.trust {only}, got {landmarks.trust}.")


@dataclass(frozen=True)
class SFLConfig:
    """Successor Feature Landmarks with learned features and learned successor features."""

    features: FeatureConfig = field(default_factory=FeatureConfig)
    successor: SuccessorConfig = field(default_factory=SuccessorConfig)
    landmarks: LandmarkConfig = field(default_factory=LandmarkConfig)
    edges: EdgeConfig = field(default_factory=EdgeConfig)
    navigator: NavigatorConfig = field(default_factory=NavigatorConfig)
    replay_size: int = 20_000
    """Environment steps kept for learning, over all environments."""
    train_epsilon: float = 0.1
    """Share of random actions on a trip in training."""
    eval_epsilon: float = 0.05
    """Share of random actions in evaluation."""
    sharpness: float = 0.0
    """Actions on a trip are drawn with odds of exp(sharpness * z), z being how many standard deviations an action's SFS
    to the target lies above the mean over actions; 0 = the best action. A policy that always takes the best can walk
    into a wall for ever."""
    goal_links: int = 1
    """The goal is joined to this many most similar landmarks."""
    as_released: bool = False
    """Take the released code's side wherever it differs from the paper (docs/methods/sfl.md lists all)."""
    metric: MetricConfig = MetricConfig()

    def __post_init__(self) -> None:
        check_acting(self.train_epsilon, self.eval_epsilon, self.sharpness, self.goal_links)
        self.metric.check(self.landmarks)
        require(self.replay_size >= 100, f"replay-size must be at least 100, got {self.replay_size}.")


@dataclass(frozen=True)
class FrameConfig:
    """What the agent sees where it looks through a camera."""

    encoder: str = "place"
    """Features of a frame: a shipped encoder (place, compact) or a .safetensors file of `sfl encoder train`."""
    stack: int = 4
    """A state is made of the features of this many frames."""
    traces: tuple[float, ...] = ()
    """A state also holds means over all frames of the episode so far, in which a frame weighs so much less with each
    decision since: two places that look alike differ in what was seen before them."""
    trace_dropout: float = 0.0
    """In learning, the traces of this share of the states are replaced by their newest frame: psi must not hang on the
    way by which a place was reached, or the same place is another one at each visit."""
    phi: Literal["stack", "newest"] = "stack"
    """What psi sums up: the whole state (the paper), or the features of its newest frame. The others are the same
    features a little earlier; without them psi has a quarter of the outputs."""

    def __post_init__(self) -> None:
        require(self.stack >= 1, f"frames.stack must be at least 1, got {self.stack}.")
        decays = all(0 < decay < 1 for decay in self.traces)
        require(decays, f"frames.traces must lie between 0 and 1, got {self.traces}.")
        dropout = self.trace_dropout
        require(0 <= dropout <= 1, f"frames.trace-dropout must lie in [0, 1], got {dropout}.")
        require(not self.traces or self.phi == "newest", "frames.traces goes with frames.phi newest only.")


@dataclass(frozen=True)
class FrameSFLConfig:
    """Successor Feature Landmarks over frames and a fixed encoder (the paper's ViZDoom settings)."""

    frames: FrameConfig = field(default_factory=FrameConfig)
    successor: SuccessorConfig = field(
        default_factory=lambda: SuccessorConfig(
            hidden=(2_048, 1_024),
            gamma=0.95,
            n_step=5,
            learning_rate=1e-4,
            target_every=1_000,
            huber_delta=5.0,
            start_step=1_000,
            updates_per_step=0.125,
        )
    )
    landmarks: LandmarkConfig = field(
        default_factory=lambda: LandmarkConfig(
            limit=5_000,
            add_threshold=0.8,
            localize_threshold=0.9,
            window=8,
            candidates_per_add=50,
            candidate_order="arrival",
            add_every=20_000,
            update_every=10_000,
            start_step=40_000,
            replace="least-visited",
        )
    )
    edges: EdgeConfig = field(
        default_factory=lambda: EdgeConfig(dynamic_threshold=True, failure_limit=1, form_every=20_000)
    )
    navigator: NavigatorConfig = field(
        default_factory=lambda: NavigatorConfig(
            frontier_steps=1_000, steps_per_landmark=30, explore_steps=500, replan_after=30
        )
    )
    replay_size: int = 100_000
    """Environment steps kept for learning, over all environments."""
    train_epsilon: float = 0.05
    """Share of random actions on a trip in training."""
    eval_epsilon: float = 0.05
    """Share of random actions in evaluation."""
    sharpness: float = 0.0
    """Actions on a trip are drawn with odds of exp(sharpness * z), z being how many standard deviations an action's SFS
    to the target lies above the mean over actions; 0 = the best action. A policy that always takes the best can walk
    into a wall for ever."""
    goal_links: int = 1
    """The goal is joined to this many most similar landmarks."""
    as_released: bool = False
    """Take the released ViZDoom code's side where it differs from the paper (docs/methods/sfl.md says how far)."""
    metric: MetricConfig = MetricConfig()

    def __post_init__(self) -> None:
        check_acting(self.train_epsilon, self.eval_epsilon, self.sharpness, self.goal_links)
        self.metric.check(self.landmarks)
        require(self.replay_size >= 100, f"replay-size must be at least 100, got {self.replay_size}.")


@dataclass(frozen=True)
class TabularConfig:
    """SFL with one-hot features and exact successor features: what is left when the representation makes no error."""

    landmarks: LandmarkConfig = field(default_factory=LandmarkConfig)
    edges: EdgeConfig = field(default_factory=EdgeConfig)
    # With exact psi the agent can stand exactly at a landmark.
    navigator: NavigatorConfig = field(
        default_factory=lambda: NavigatorConfig(frontier_among="component", reached="localized")
    )
    gamma: float = 0.99
    """Discount of the successor features."""
    states: int = 2_048
    """Room for this many distinct observations."""
    solve_every: int = 1_000
    """Environment steps between two exact solutions of psi."""
    train_epsilon: float = 0.1
    """Share of random actions on a trip in training."""
    eval_epsilon: float = 0.05
    """Share of random actions in evaluation."""
    sharpness: float = 0.0
    """Actions on a trip are drawn with odds of exp(sharpness * z), z being how many standard deviations an action's SFS
    to the target lies above the mean over actions; 0 = the best action. A policy that always takes the best can walk
    into a wall for ever."""
    goal_links: int = 1
    """The goal is joined to this many most similar landmarks."""
    metric: MetricConfig = MetricConfig()

    def __post_init__(self) -> None:
        check_acting(self.train_epsilon, self.eval_epsilon, self.sharpness, self.goal_links)
        self.metric.check(self.landmarks)
        require(0 <= self.gamma < 1, f"gamma must lie in [0, 1), got {self.gamma}.")
        require(self.states >= 2, f"states must be at least 2, got {self.states}.")
        require(self.solve_every >= 1, f"solve-every must be at least 1, got {self.solve_every}.")


def recommended_for_frames(
    encoder: str = "place", hidden: tuple[int, ...] = (1_024, 1_024), updates_per_step: float = 0.125
) -> FrameSFLConfig:
    """Our own settings over frames; docs/methods/sfl.md says what each difference from the paper's is for."""
    return FrameSFLConfig(
        frames=FrameConfig(encoder=encoder, traces=(0.9, 0.97), trace_dropout=0.5, phi="newest"),
        successor=SuccessorConfig(
            hidden=hidden,
            batch_norm=False,
            gamma=0.95,
            n_step=5,
            learning_rate=5e-4,
            target_rate=0.01,
            start_step=1_000,
            updates_per_step=updates_per_step,
            weight_decay=0.1,
            whiten=True,
            whiten_mean=True,
            whiten_ridge=0.1,
            whiten_every=250,
            unit_scale=True,
        ),
        landmarks=LandmarkConfig(
            limit=5_000,
            add_threshold=0.72,
            localize_threshold=0.85,
            window=1,
            trust=0.8,
            trust_reach=25,
            candidates_per_add=50,
            add_every=2_000,
            update_every=2_000,
            start_step=20_000,
        ),
        edges=EdgeConfig(
            threshold=0.0,
            directed=False,
            weight="steps",
            failure_steps=30.0,
            doubt=4.0,
            k_nearest=5,
            forget_after=0,
            form_every=2_000,
        ),
        navigator=_recommended_ways(),
        sharpness=4.0,
        goal_links=5,
        replay_size=400_000,
    )


def by_reachability(config: FrameSFLConfig, networks: str) -> FrameSFLConfig:
    """The same with R of this file as the metric; docs/methods/sfl.md says why these thresholds."""
    landmarks = replace(config.landmarks, add_threshold=0.5, localize_threshold=0.7)
    return replace(config, landmarks=landmarks, metric=MetricConfig("reachability", networks))


def _recommended_ways() -> NavigatorConfig:
    """Trips over frames."""
    return NavigatorConfig(
        frontier_steps=400,
        steps_per_landmark=20,
        explore_steps=100,
        replan_after=30,
        frontier_among="component",
        reached="similar",
        reach_threshold=0.85,
        look_ahead=6,
        aim_threshold=0.5,
        off_route_patience=3,
        avoid_failed=True,
        shake_steps=4,
    )


AnySFLConfig = SFLConfig | FrameSFLConfig | TabularConfig
"""Whatever the graph and the navigation are the same for."""


def check_acting(train_epsilon: float, eval_epsilon: float, sharpness: float, goal_links: int) -> None:
    """The checks that all configurations share."""
    require(0 <= train_epsilon <= 1, f"train-epsilon must lie in [0, 1], got {train_epsilon}.")
    require(0 <= eval_epsilon <= 1, f"eval-epsilon must lie in [0, 1], got {eval_epsilon}.")
    require(sharpness >= 0, f"sharpness must not be negative, got {sharpness}.")
    require(goal_links >= 1, f"goal-links must be at least 1, got {goal_links}.")


def as_released(config: SFLConfig) -> SFLConfig:
    """The released MiniGrid code's side of every difference between it and the paper."""
    return replace(
        config,
        features=replace(config.features, squared=False, stop_step=0),
        successor=replace(config.successor, batch_norm=False),
        landmarks=replace(config.landmarks, candidate_order="least-similar"),
        edges=replace(
            config.edges,
            threshold=1.0,
            inclusive=True,
            count_traverse=False,
            inherit_transition=True,
            weight="log-frequency",
        ),
        navigator=replace(
            config.navigator,
            frontier_among="component",
            reached="localized",
            one_trip=True,
            route_choices=5,
            replan_off_route=False,
        ),
    )


def frames_as_released(config: FrameSFLConfig) -> FrameSFLConfig:
    """The released ViZDoom code's side of the differences between it and the paper that settings can express."""
    return replace(
        config,
        edges=replace(
            config.edges,
            inclusive=True,
            count_traverse=False,
            directed=False,
            temporal_floor=10,
            failure_limit=2,
            forget_after=0,
        ),
        navigator=replace(
            config.navigator,
            frontier_among="component",
            reached="similar",
            reach_threshold=0.9,
            one_trip=True,
            replan_off_route=False,
        ),
    )


def in_force(config: AnySFLConfig) -> AnySFLConfig:
    """The settings to go by: the released code's side where `as_released` asks for it."""
    if isinstance(config, TabularConfig) or not config.as_released:
        return config
    return frames_as_released(config) if isinstance(config, FrameSFLConfig) else as_released(config)


def recommended(limit: int = 30, add_threshold: float = 0.6) -> SFLConfig:
    """Our own settings; docs/methods/sfl.md says what each difference from the paper's is for."""
    return SFLConfig(
        features=FeatureConfig(dim=128, start_step=500, stop_step=5_000, updates_per_step=0.5),
        successor=SuccessorConfig(
            batch_norm=False,
            gamma=0.97,
            learning_rate=2e-3,
            batch_size=512,
            target_rate=0.05,
            start_step=2_000,
            updates_per_step=0.2,
            count_power=0.5,
            whiten=True,
            unit_scale=True,
        ),
        landmarks=LandmarkConfig(
            limit=limit,
            add_threshold=add_threshold,
            localize_threshold=0.8,
            start_step=5_000,
            add_every=500,
            update_every=250,
        ),
        edges=EdgeConfig(weight="steps", form_every=250),
        navigator=NavigatorConfig(frontier_among="component", reached="localized", avoid_failed=True, shake_steps=4),
        replay_size=400_000,
    )
