"""Metrics of the methods that have a retrieval and a locomotion network."""

from __future__ import annotations

from sfl.run.metric import Metric

NETWORK_METRICS: tuple[Metric, ...] = (
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
)
