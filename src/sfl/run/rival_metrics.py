"""Metrics of the methods that SFL is compared with."""

from __future__ import annotations

from sfl.run.metric import Metric

RIVAL_METRICS: tuple[Metric, ...] = (
    Metric(
        "train/retrieval_loss",
        "train",
        "nats",
        "Cross-entropy of the retrieval network R over near and far pairs, mean since the last row.",
        "Stays at 0.69 (log 2): it tells near from far no better than a coin.",
        "mean",
    ),
    Metric(
        "train/retrieval_accuracy",
        "train",
        "share",
        "Pairs of a batch that R takes for what they are, half of them near, mean since the last row.",
        "Below 0.8: shortcuts and localization follow the wrong half; 1.0 early: the replay is too small.",
        "mean",
    ),
    Metric(
        "train/locomotion_loss",
        "train",
        "nats",
        "Cross-entropy of the locomotion network L against the action that was taken, mean since the last row.",
        "Stays at the logarithm of the number of actions (ViZDoom: 1.95): it sees no movement.",
        "mean",
    ),
    Metric(
        "train/locomotion_accuracy",
        "train",
        "share",
        "Examples of a batch whose action L finds most likely, mean since the last row.",
        "Near one over the number of actions: nothing is learned (goals several decisions ahead keep it well below 1).",
        "mean",
    ),
    Metric(
        "graph/edges_removed",
        "train",
        "count",
        "Edges that cleanup has removed so far, because an attempt to walk them failed (SGM).",
        "Near all edges: the walker fails everywhere, not the graph; 0 at the end: nothing was tried.",
    ),
    Metric(
        "train/uvfa_loss",
        "train",
        "squared value",
        "Squared error of MSS's values against their targets and of single steps against 0, mean since the last row.",
        "Grows without end: the target network follows too fast or the learning rate is too high.",
        "mean",
    ),
    Metric(
        "train/uvfa_reached",
        "train",
        "share",
        "Steps of MSS's batches whose next state counts as their goal, mean since the last row.",
        "Above 0.5: states count as alike that are far apart; near 0: nothing is ever reached.",
        "mean",
    ),
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
