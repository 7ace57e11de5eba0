"""All settings of SFL, in the paper's words: those of each chapter, then of the whole, then the presets.

Nothing here imports torch: the command line shows settings without it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from sfl.config import require
from sfl.nn import Kind


@dataclass(frozen=True)
class FeatureConfig:
    """How phi is learned."""

    dim: int = 64
    """Length of a feature vector."""
    norm: float = 10.0
    """alpha: every feature vector has this Euclidean norm."""
    margin: float = 2.0
    """m: how much nearer the positive must be than the negative."""
    squared: bool = True
    """Squared distances as in the paper's equation; the released code takes plain ones."""
    positive_window: int = 2
    """K_p: positives lie at most this many steps from the anchor."""
    negative_min: int = 10
    """U_n: negatives lie at least this many steps away."""
    negative_max: int = 15
    """L_n: and at most this many."""
    learning_rate: float = 5e-4
    """Adam's step size."""
    batch_size: int = 128
    """Triplets per gradient step."""
    start_step: int = 1_000
    """Environment steps before the first gradient step."""
    stop_step: int = 40_000
    """Environment steps after which the encoder is frozen, when Algorithm 1 begins; 0 = never (the released code)."""
    updates_per_step: float = 1.0
    """Gradient steps per environment step."""

    def __post_init__(self) -> None:
        require(self.dim > 0, f"features.dim must be positive, got {self.dim}.")
        require(self.norm > 0, f"features.norm must be positive, got {self.norm}.")
        require(self.margin > 0, f"features.margin must be positive, got {self.margin}.")
        require(self.positive_window >= 1, f"features.positive-window must be at least 1, got {self.positive_window}.")
        require(
            self.positive_window < self.negative_min <= self.negative_max,
            "features: positive-window < negative-min <= negative-max must hold, "
            f"got {self.positive_window}, {self.negative_min}, {self.negative_max}.",
        )
        require(self.learning_rate > 0, f"features.learning-rate must be positive, got {self.learning_rate}.")
        require(self.batch_size >= 1, f"features.batch-size must be at least 1, got {self.batch_size}.")
        require(self.updates_per_step >= 0, f"features.updates-per-step must be >= 0, got {self.updates_per_step}.")


@dataclass(frozen=True)
class SuccessorConfig:
    """How psi is learned."""

    hidden: tuple[int, ...] = (512,)
    """Units of the hidden layers."""
    batch_norm: bool = True
    """Batch normalization after each hidden layer (the paper's text); the released MiniGrid code has none."""
    gamma: float = 0.99
    """Discount of the successor features."""
    n_step: int = 1
    """Steps of features before the bootstrap."""
    learning_rate: float = 5e-4
    """Adam's step size."""
    batch_size: int = 128
    """Transitions per gradient step."""
    target_every: int = 250
    """Gradient steps between two copies of the network to the target network."""
    weight_decay: float = 0.0
    """Each gradient step takes this share of the step size off the weights (as AdamW does)."""
    huber_delta: float = 1.0
    """Where the loss turns from squared to linear (the paper's table calls it gradient clip)."""
    start_step: int = 20_000
    """Environment steps before the first gradient step."""
    updates_per_step: float = 1.0
    """Gradient steps per environment step."""
    target_rate: float = 0.0
    """Move the target network by this share after every gradient step instead of copying it; 0 = copy."""
    count_power: float = 1.0
    """Weight of a transition that was drawn n times in a batch is n to this power; below 1 favours rare transitions."""
    whiten: bool = False
    """Decorrelate phi first (second moment = identity): psi is then learned in a tenth of the gradient steps, and no
    direction of phi dominates its cosine."""
    whiten_mean: bool = False
    """Take the mean of phi out, too. A fixed encoder's features of one maze share a large part, which makes every
    cosine high; of learned features it is better left in."""
    whiten_ridge: float = 0.0
    """Added to all moments, as a share of their mean, before features are divided by their roots: the directions of
    least variance are not blown up to the size of the others."""
    whiten_every: int = 50
    """Gradient steps between two roots of the moments; over frames, where moments are taken of every eighth step, the
    next multiple of eight."""
    unit_scale: bool = False
    """Learn (1 - gamma) psi, which has the same cosine and stays on the scale of phi."""

    def __post_init__(self) -> None:
        require(all(units > 0 for units in self.hidden), f"successor.hidden must be positive, got {self.hidden}.")
        require(0 <= self.gamma < 1, f"successor.gamma must lie in [0, 1), got {self.gamma}.")
        require(self.n_step >= 1, f"successor.n-step must be at least 1, got {self.n_step}.")
        require(self.learning_rate > 0, f"successor.learning-rate must be positive, got {self.learning_rate}.")
        require(self.batch_size >= 2, f"successor.batch-size must be at least 2, got {self.batch_size}.")
        require(self.target_every >= 1, f"successor.target-every must be at least 1, got {self.target_every}.")
        require(self.weight_decay >= 0, f"successor.weight-decay must not be negative, got {self.weight_decay}.")
        require(self.huber_delta > 0, f"successor.huber-delta must be positive, got {self.huber_delta}.")
        require(0 <= self.count_power <= 1, f"successor.count-power must lie in [0, 1], got {self.count_power}.")
        require(0 <= self.target_rate <= 1, f"successor.target-rate must lie in [0, 1], got {self.target_rate}.")
        require(self.whiten_every >= 1, f"successor.whiten-every must be at least 1, got {self.whiten_every}.")
        require(self.whiten_ridge >= 0, f"successor.whiten-ridge must not be negative, got {self.whiten_ridge}.")
        require(self.updates_per_step >= 0, f"successor.updates-per-step must be >= 0, got {self.updates_per_step}.")


EXACT = 1.0
"""A threshold of 1 cannot be passed by a cosine: it means that the observations are identical."""


@dataclass(frozen=True)
class LandmarkConfig:
    """How landmarks are found, kept and recognised."""

    limit: int = 10
    """At most this many landmarks."""
    add_threshold: float = 0.99
    """delta_add: a state is a candidate when its SFS to every landmark is below this."""
    localize_threshold: float = EXACT
    """delta_local: the agent is at its most similar landmark if their SFS is above this; 1 = identical observations."""
    window: int = 1
    """W: localization takes the median of the last W similarities."""
    candidates_per_add: int = 1
    """N_cand: landmarks added from the candidate buffer at a time."""
    add_every: int = 3_000
    """N_add: environment steps between two additions."""
    update_every: int = 1_000
    """N_update: environment steps between two refreshes of the landmarks' psi."""
    formation: Literal["progressive", "clustered"] = "progressive"
    """How landmarks come about: candidates are added to those there are, or every `add_every` steps all are exchanged
    for the centres of clusters of the states met since then (Successor Options), and what was known of them is lost."""
    candidate_order: Literal["least-similar", "arrival"] = "least-similar"
    """Which candidates are tried first."""
    replace: Literal["never", "least-visited", "closest"] = "never"
    """What makes room for a candidate when the limit is reached."""
    start_step: int = 40_000
    """Environment steps before the first candidate."""
    trust: float = 0.0
    """Nobody is localized to landmarks that seem to stand for several places: those around whose visits what was seen
    agrees less than this share of the median over all landmarks. 0 = trust all."""
    trust_reach: int = 20
    """Decisions before and after a visit that are its surroundings."""
    trust_samples: int = 2_048
    """Visits that are looked up in the replay at every refresh of the landmarks' psi."""

    def __post_init__(self) -> None:
        require(self.limit >= 1, f"landmarks.limit must be at least 1, got {self.limit}.")
        for name in ("add_threshold", "localize_threshold"):
            value = getattr(self, name)
            option = name.replace("_", "-")
            require(-1.0 <= value <= 1.0, f"landmarks.{option} must lie in [-1, 1] (SFS is a cosine), got {value}.")
        for name in ("window", "candidates_per_add", "add_every", "update_every", "trust_reach", "trust_samples"):
            value = getattr(self, name)
            require(value >= 1, f"landmarks.{name.replace('_', '-')} must be at least 1, got {value}.")
        require(0 <= self.trust <= 1, f"landmarks.trust must lie in [0, 1], got {self.trust}.")
        require(self.start_step >= 0, f"landmarks.start-step must not be negative, got {self.start_step}.")


@dataclass(frozen=True)
class EdgeConfig:
    """When a pair of landmarks is an edge, and what it costs."""

    threshold: float = 1.0
    """delta_edge: more transitions than this make an edge."""
    dynamic_threshold: bool = False
    """Take the median of all transition counts as the threshold instead (ViZDoom)."""
    inclusive: bool = False
    """At the threshold is enough (the released code)."""
    count_traverse: bool = True
    """Count transitions of the traverse phase too (Algorithm 1); the released code counts the random phase only."""
    inherit_transition: bool = False
    """A new landmark starts with one transition from the landmark before it (the released code)."""
    directed: bool = True
    """Keep the two directions apart."""
    weight: Literal["exp", "log-frequency", "steps"] = "exp"
    """Cost of an edge: exp(-N) (paper), -log of its share of the transitions that leave its source (released MiniGrid
    code), or the steps that it takes: those of a success, and for each success those of its failures."""
    failure_steps: float = 0.0
    """Steps that a failure costs (weight `steps`), for each time that the edge was walked as planned; 0 = as many as a
    success, for each transition. Where two places look alike, the agent believes to jump from one to the other at once
    and often: only the failures tell such an edge, among the times that it was meant to be walked."""
    doubt: float = 0.0
    """Multiply costs by 1 + doubt / N: an edge that was seen once may be an error of localization."""
    k_nearest: int = 0
    """Keep only each landmark's k most frequent outgoing edges; 0 = all."""
    temporal: float = 0.0
    """tau: keep only edges between landmarks added within this share of all landmarks of each other; 0 = all."""
    temporal_floor: int = 0
    """The released code's reading of the temporal filter: at most max(L // (1 / tau), this) apart; 0 = the paper's."""
    failure_limit: int = 0
    """Remove an edge that the agent failed to walk this often, in either direction where they are not kept apart; 0 =
    never."""
    forget_after: int = 80_000
    """Environment steps after which a failure is forgotten; 0 = never."""
    form_every: int = 1_000
    """N_form-edges: environment steps between two rebuilds of the edges."""

    def __post_init__(self) -> None:
        require(self.threshold >= 0, f"edges.threshold must not be negative, got {self.threshold}.")
        require(self.doubt >= 0, f"edges.doubt must not be negative, got {self.doubt}.")
        require(self.failure_steps >= 0, f"edges.failure-steps must not be negative, got {self.failure_steps}.")
        require(self.k_nearest >= 0, f"edges.k-nearest must not be negative, got {self.k_nearest}.")
        require(0 <= self.temporal <= 1, f"edges.temporal must lie in [0, 1], got {self.temporal}.")
        require(self.failure_limit >= 0, f"edges.failure-limit must not be negative, got {self.failure_limit}.")
        require(self.forget_after >= 0, f"edges.forget-after must not be negative, got {self.forget_after}.")
        require(self.form_every >= 1, f"edges.form-every must be at least 1, got {self.form_every}.")


Frontier = Literal["inverse-visits", "uniform"]
"""How trips choose their landmark: less visited ones more often, or all alike."""


@dataclass(frozen=True)
class NavigatorConfig:
    """Trips, their limits and re-planning."""

    frontier_steps: int = 40
    """N_front: a trip to a frontier landmark ends after this many steps."""
    steps_per_landmark: int = 8
    """n_land: and after this many steps per landmark of its first route."""
    explore_steps: int = 40
    """N_explore: random steps after a trip."""
    frontier: Frontier = "inverse-visits"
    """Frontiers are drawn with probability proportional to 1 / max(1, visits), or uniformly (the ablation)."""
    frontier_among: Literal["all", "component"] = "all"
    """Frontiers are drawn from all landmarks (Algorithm 1), or from those to which routes lead there and back (the
    released code)."""
    reached: Literal["nearest", "localized", "similar"] = "nearest"
    """A landmark on the route is reached when it is the most similar of all (Algorithm 3), when the agent is localized
    to it (the released MiniGrid code), or then and also when its own SFS is at least `reach_threshold`."""
    reach_threshold: float = 0.9
    """The SFS at which a landmark counts as reached, whatever other landmarks are more similar (reached `similar`)."""
    look_ahead: int = 1
    """So many of the next landmarks of the route may be reached or aimed at (reached `similar`)."""
    aim_threshold: float = 1.0
    """Go straight to the farthest of those with at least this SFS (reached `similar`); 1 = to the next."""
    replan_off_route: bool = True
    """Plan anew when localized to landmarks that are not on the route."""
    off_route_patience: int = 1
    """So many times in a row, before that is believed (replan_off_route)."""
    replan_after: int = 8
    """Plan anew when the next landmark was not reached within this many steps; 0 = never."""
    blame: Literal["leg", "both"] = "leg"
    """What a failure is booked on: the leg that failed, or also the one before it, as where places look alike the agent
    had not arrived where it believed."""
    avoid_failed: bool = False
    """Plan around edges that failed in the same episode, where there is a way around."""
    shake_steps: int = 0
    """Random steps after the next landmark was not reached in time: they free a greedy policy that is stuck."""
    one_trip: bool = False
    """One trip per episode, then random steps to its end (the released code)."""
    route_choices: int = 1
    """Draw among this many shortest routes in training, rank r with weight exp(-r) (the released code: 5)."""

    def __post_init__(self) -> None:
        counts = ("frontier_steps", "steps_per_landmark", "explore_steps", "route_choices", "look_ahead")
        for name in (*counts, "off_route_patience"):
            value = getattr(self, name)
            require(value >= 1, f"navigator.{name.replace('_', '-')} must be at least 1, got {value}.")
        for name in ("reach_threshold", "aim_threshold"):
            value, option = getattr(self, name), name.replace("_", "-")
            require(-1.0 <= value <= 1.0, f"navigator.{option} must lie in [-1, 1] (SFS is a cosine), got {value}.")
        require(self.shake_steps >= 0, f"navigator.shake-steps must not be negative, got {self.shake_steps}.")
        require(self.replan_after >= 0, f"navigator.replan-after must not be negative, got {self.replan_after}.")


@dataclass(frozen=True)
class ReachabilityConfig:
    """How reachability is learned."""

    near: int = 5
    """Positives are 1 to this many decisions apart."""
    far: int = 25
    """Negatives are more than this many decisions apart, in the same walk."""
    hidden: int = 512
    """Units of each layer of the head."""
    layers: int = 4
    """Hidden layers of the head."""
    batch_size: int = 512
    """Pairs in a batch, half of them positive."""

    def __post_init__(self) -> None:
        require(1 <= self.near < self.far, f"reachability: 1 <= near < far must hold, got {self.near} and {self.far}.")
        require(self.hidden >= 1, f"reachability.hidden must be at least 1, got {self.hidden}.")
        require(self.layers >= 0, f"reachability.layers must be 0 or more, got {self.layers}.")
        require(self.batch_size >= 2, f"reachability.batch-size must be at least 2, got {self.batch_size}.")


@dataclass(frozen=True)
class RetrievalConfig(ReachabilityConfig):
    """The retrieval network R, and how it learns."""

    far: int = 24
    """Negatives are more than this many decisions apart, in the same walk."""
    batch_size: int = 64
    """Pairs in a batch, half of them positive."""
    encoder: Kind = "resnet18"
    """What looks at either frame (other observations have small encoders of their own)."""
    dim: int = 64
    """Features of observations that are no frames."""
    learning_rate: float = 1e-4
    """Adam's step size."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.dim >= 1, f"retrieval.dim must be at least 1, got {self.dim}.")
        require(self.learning_rate > 0, f"retrieval.learning-rate must be positive, got {self.learning_rate}.")


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
