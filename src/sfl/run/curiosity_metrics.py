"""Metrics of Episodic Curiosity."""

from __future__ import annotations

from sfl.run.metric import Metric

CURIOSITY_METRICS: tuple[Metric, ...] = (
    Metric(
        "train/value_loss",
        "train",
        "squared reward",
        "Squared error of PPO's values, mean over the gradient steps since the last row.",
        "Grows: rewards change faster than the values follow.",
        "mean",
    ),
    Metric(
        "train/policy_entropy",
        "train",
        "nats",
        "Mean entropy of PPO's policy over the states it learned from.",
        "Near 0 early: it does one thing only; at log(actions) for good: nothing tells actions apart.",
        "mean",
    ),
    Metric(
        "train/policy_clipped",
        "train",
        "share",
        "Steps of PPO's minibatches whose odds had left the clip range.",
        "Above 0.3: the steps are too large for the clip.",
        "mean",
    ),
    Metric(
        "explore/bonus",
        "train",
        "similarity",
        "Episodic Curiosity: what a step earned before scaling (shift less similarity), mean over PPO's rollouts.",
        "At the shift (0.5) for good: everything is new to R; at minus the shift: nothing is.",
        "mean",
    ),
    Metric(
        "explore/memory_size",
        "train",
        "count",
        "Episodic Curiosity: observations in the memory of an episode, mean over environments at this moment.",
        "At 1: nothing is new; near the episode's length: everything is.",
    ),
)
