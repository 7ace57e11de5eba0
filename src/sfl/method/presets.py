"""Sets of settings in use: the paper's, the released code's side of each difference, and ours; on grids, over frames.

docs/methods/sfl.md says what each difference from the paper is for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sfl.method.config import (
    EdgeConfig,
    FeatureConfig,
    FrameConfig,
    LandmarkConfig,
    MetricConfig,
    NavigatorConfig,
    SFLConfig,
    SuccessorConfig,
)

# ---- the paper; on MiniGrid (section 5 and the tables of appendix C.4) it is the defaults, SFLConfig()


def paper_frames(encoder: str = "place", **changes: Any) -> SFLConfig:
    """ViZDoom: section 5 and the tables of appendix C.4, but for the edge filters, which depend on the spawn."""
    config = SFLConfig(
        states="frames",
        frames=FrameConfig(encoder=encoder),
        successor=SuccessorConfig(
            hidden=(2_048, 1_024),
            gamma=0.95,
            n_step=5,
            learning_rate=1e-4,
            target_every=1_000,
            huber_delta=5.0,
            start_step=1_000,
            updates_per_step=0.125,
        ),
        landmarks=LandmarkConfig(
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
        ),
        edges=EdgeConfig(dynamic_threshold=True, failure_limit=1, form_every=20_000),
        navigator=NavigatorConfig(frontier_steps=1_000, steps_per_landmark=30, explore_steps=500, replan_after=30),
        replay_size=100_000,
        train_epsilon=0.05,
    )
    return replace(config, **changes)


def tabular(**changes: Any) -> SFLConfig:
    """One-hot features and exact psi: what is left of the method when its representation makes no error."""
    # With exact psi the agent can stand exactly at a landmark.
    navigator = NavigatorConfig(frontier_among="component", reached="localized")
    return replace(SFLConfig(states="one-hot", navigator=navigator), **changes)


def by_reachability(config: SFLConfig, networks: str) -> SFLConfig:
    """The ablation of the metric: R of this file; docs/methods/sfl.md says why these thresholds."""
    landmarks = replace(config.landmarks, add_threshold=0.5, localize_threshold=0.7)
    return replace(config, landmarks=landmarks, metric=MetricConfig("reachability", networks))


# ---- the released code


def resolve(config: SFLConfig) -> SFLConfig:
    """The settings to go by: the released code's side where `as_released` asks for it."""
    return as_released(config) if config.as_released else config


def as_released(config: SFLConfig) -> SFLConfig:
    """The released code's side of the differences between it and the paper that settings can express."""
    return _frames_as_released(config) if config.states == "frames" else _grid_as_released(config)


def _grid_as_released(config: SFLConfig) -> SFLConfig:
    """MiniGrid: all differences."""
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


def _frames_as_released(config: SFLConfig) -> SFLConfig:
    """ViZDoom."""
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


# ---- ours


def ours_grid(limit: int = 30, add_threshold: float = 0.6) -> SFLConfig:
    """Where an observation shows the whole state."""
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


def ours_frames(
    encoder: str = "place", hidden: tuple[int, ...] = (1_024, 1_024), updates_per_step: float = 0.125
) -> SFLConfig:
    """In mazes, through a camera."""
    return SFLConfig(
        states="frames",
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
        navigator=NavigatorConfig(
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
        ),
        sharpness=4.0,
        goal_links=5,
        replay_size=400_000,
        train_epsilon=0.05,
    )
