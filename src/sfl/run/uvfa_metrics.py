"""Metrics of the method that has a universal value function (MSS)."""

from __future__ import annotations

from sfl.run.metric import Metric

UVFA_METRICS: tuple[Metric, ...] = (
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
)
