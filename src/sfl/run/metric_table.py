"""What is said of a metric, and the metrics of the methods that SFL is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """One name and how to read it."""

    name: str
    file: Literal["train", "eval"]
    """The CSV file it is a column of."""
    unit: str
    meaning: str
    bad: str
    """What a bad value looks like."""
    kind: Literal["mean", "last"] = "last"
    """How the values between two rows become one: their mean, or the newest."""


OF_BASELINES: tuple[Metric, ...] = (
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
        "train/retrieval_loss",
        "train",
        "nats",
        "Cross-entropy of the retrieval network R: near or far.",
        "Stays at 0.69 (log 2): it tells nothing apart.",
        "mean",
    ),
    Metric(
        "train/retrieval_accuracy",
        "train",
        "share",
        "Pairs of its batch that R puts on the right side.",
        "Near 0.5: it guesses.",
        "mean",
    ),
    Metric(
        "train/locomotion_loss",
        "train",
        "nats",
        "Cross-entropy of the locomotion network L against the actions that were taken.",
        "Stays at log(actions): it tells no action from another.",
        "mean",
    ),
    Metric(
        "train/locomotion_accuracy",
        "train",
        "share",
        "Examples of its batch whose action L finds.",
        "Near 1 / actions: it guesses.",
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
