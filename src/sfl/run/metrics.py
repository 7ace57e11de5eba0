"""What is declared of a metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


# ---- Metrics of the methods that SFL is compared with.

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


# ---- The names of all metrics, and the files that hold them. docs/reference/metrics.md is made from the table below.

LEVEL = "<level>"

METRICS: tuple[Metric, ...] = (
    Metric(
        "train/encoder_loss",
        "train",
        "feature distance",
        "Triplet loss of the encoder, mean since the last row.",
        "Stays at the margin (2): the features tell no two states apart.",
        "mean",
    ),
    Metric(
        "train/sf_loss",
        "train",
        "squared feature",
        "Huber loss of the successor features against their n-step target, mean since the last row.",
        "Grows without end: the target network follows too fast or the learning rate is too high.",
        "mean",
    ),
    Metric(
        "train/gradient_steps",
        "train",
        "count",
        "Gradient steps of all learners so far.",
        "Stands still after the warm-up: nothing is learned.",
    ),
    Metric(
        "graph/landmark_count",
        "train",
        "count",
        "Landmarks in the graph.",
        "Stays at 0 or 1: the add threshold is too low; at its limit at once: too high.",
    ),
    Metric(
        "graph/doubted",
        "train",
        "share",
        "Landmarks that nobody is localized to, because what is seen around them differs from visit to visit.",
        "Above 0.3: little of the graph is left; below the share of aliased views: they are not found out.",
    ),
    Metric(
        "graph/edge_count",
        "train",
        "count",
        "Edges that planning may use.",
        "Below the landmark count less 1: the graph cannot be connected.",
    ),
    Metric(
        "graph/localized",
        "train",
        "share",
        "Decisions so far, since landmarks are collected, at which the agent was localized at some landmark.",
        "Below 0.5: the localize threshold is too high or the landmarks too few.",
    ),
    Metric(
        "graph/localization_within_1",
        "eval",
        "share",
        "Of the localized decisions of an evaluation, those at most 1 cell from the landmark (grid worlds).",
        "Below 0.8: places far apart look alike to the successor features.",
    ),
    Metric(
        "graph/localization_within_100",
        "eval",
        "share",
        "The same with 100 map units (ViZDoom).",
        "Below 0.5: routes start from the wrong landmark.",
    ),
    Metric(
        "graph/localization_within_1_of_all",
        "eval",
        "share",
        "Of all decisions of an evaluation, those localized at a landmark at most 1 cell away (grid worlds).",
        "Far below `graph/localization_within_1`: the agent seldom holds itself localized.",
    ),
    Metric(
        "graph/localization_within_100_of_all",
        "eval",
        "share",
        "The same with 100 map units (ViZDoom).",
        "Far below `graph/localization_within_100`: the agent seldom holds itself localized.",
    ),
    Metric(
        "graph/localized_in_evaluation",
        "eval",
        "share",
        "Decisions of an evaluation at which the agent was localized at some landmark.",
        "Below 0.5: the other indicators of localization speak of the easy half only.",
    ),
    Metric(
        "graph/localization_distance_median",
        "eval",
        "cells or map units",
        "Median distance between the agent and the landmark it is localized at, over the localized decisions.",
        "Above the reach of the local policy (mazes: some 100 units): a waypoint begins where it cannot be walked to.",
    ),
    Metric(
        "graph/localization_angle_median",
        "eval",
        "degrees",
        "Median angle, 0 to 180, between the agent's heading and that in which the landmark was seen.",
        "Near 90: views do not tell headings apart; above: opposite views look alike.",
    ),
    Metric(
        "graph/landmark_distance",
        "eval",
        "cells",
        "Mean walking distance between two landmarks, by true positions (grid worlds).",
        "Falls while landmarks are added: they crowd together instead of spreading to the edge of what is known.",
    ),
    Metric(
        "graph/edge_length_median",
        "eval",
        "cells or map units",
        "Median distance between the two ends of an edge, by true positions.",
        "Far above the mean distance of neighbouring landmarks: edges jump across walls.",
    ),
    Metric(
        "graph/edges_across_walls",
        "eval",
        "share",
        "Edges whose straight line, by true positions, crosses a wall of the maze (ViZDoom).",
        "Above 0.3: edges join places that only look alike; some lead around a corner and are sound.",
    ),
    Metric(
        "explore/waypoint_reached",
        "train",
        "share",
        "Trips to the frontier so far that reached their end within the step limits.",
        "Below 0.3: the local policy does not reach its targets, or edges are wrong.",
    ),
    Metric(
        "explore/coverage",
        "train",
        "share",
        "Distinct cells (mazes: squares of 50 units) visited so far out of those that can be reached, where known.",
        "Stops below 1 early: the frontier does not move outwards.",
    ),
    Metric(
        "explore/coverage_often",
        "train",
        "share",
        "The same of those visited at least a tenth as often as if all had been visited alike.",
        "Far below the coverage: most of the time is spent in a part of the place.",
    ),
    Metric(
        "explore/goals_unseen",
        "eval",
        "share",
        "Distinct goals of the run's tasks that no environment step of training so far came near: by true poses their "
        "own cell (mazes: within 100 units), where goals are observations by the goal test.",
        "Above 0.5: most of the exam asks for places that were never seen; the other numbers follow from that.",
    ),
    Metric(
        "explore/frontier_trips",
        "train",
        "count",
        "Trips to a frontier landmark finished so far, whatever their end.",
        "Stays at 0 once there are landmarks: exploration is a plain random walk.",
    ),
    Metric(
        f"eval/success_{LEVEL}",
        "eval",
        "share",
        "Evaluation episodes of the level that reached their goal.",
        "Near that of the random policy.",
    ),
    Metric(
        f"eval/steps_{LEVEL}",
        "eval",
        "environment steps",
        "Mean length of the episodes of the level that reached their goal; empty when none did.",
        "Near the budget: goals are met by chance.",
    ),
    Metric(
        "eval/waypoint_count",
        "eval",
        "count",
        "Landmarks that the agent set out for in an evaluation. One counts until the agent believes to be at it or at "
        "one further along its route, takes another target, or the budget ends; open at the goal, it does not count.",
        "0: the graph holds no routes.",
    ),
    Metric(
        "eval/waypoint_truly_reached",
        "eval",
        "share",
        "Of those, the ones that the agent came within 1 cell of (mazes: 100 units) while they were its target, or of "
        "the one further along that it then believed to have reached; whether it knew or not.",
        "Below 0.8: edges are wrong, or the local policy fails.",
    ),
    Metric(
        "eval/waypoint_truly_reached_from_afar",
        "eval",
        "share",
        "The same of those that were farther away than that when the agent set out for them.",
        "Below 0.6: as above; the nearer ones hide it.",
    ),
    Metric(
        "eval/waypoint_belief_true",
        "eval",
        "share",
        "Of those that the agent believed to have reached, the ones that it was then within 1 cell of (mazes: 100 "
        "units).",
        "Below 0.8: it goes on to the next waypoint from a place where it is not.",
    ),
    Metric(
        "eval/waypoint_given_up",
        "eval",
        "share",
        "Waypoints given up for another target, by planning anew, or open at the end of the budget.",
        "Above 0.5: the local policy does not reach its targets, or localization jumps.",
    ),
    Metric(
        "memory/host",
        "train",
        "MB",
        "Highest memory of the training process so far, since its start or resume; games have processes of their own.",
        "Grows after the replay buffer is full: something is kept that should not be.",
    ),
    Metric(
        "memory/gpu",
        "train",
        "MB",
        "Highest memory taken on the GPU so far, since start or resume; empty without one.",
        "Near what the card has: the next allocation fails.",
    ),
    Metric(
        "time/env_steps_per_second",
        "train",
        "1/s",
        "Environment steps per second of training since the last row, evaluation and saving left out.",
        "Falls during a run: something grows that should not.",
    ),
    Metric(
        "time/game_restarts",
        "train",
        "count",
        "Games of training that died or hung and were started again so far (ViZDoom); their episodes were truncated.",
        "Grows: games die again and again; look at memory, /dev/shm and the maze.",
    ),
    Metric(
        "time/wall_seconds",
        "train",
        "s",
        "Seconds of training so far, evaluation and saving left out, summed over resumes.",
        "Above what the steps and their rate explain: the machine was busy with something else.",
    ),
    *RIVAL_METRICS,
)

MACHINE = frozenset({"memory/host", "memory/gpu", "time/env_steps_per_second", "time/wall_seconds"})
"""The only columns in which two runs of one seed may differ."""


def declared(name: str) -> Metric:
    """The table's line for a name; an undeclared name is an error of the program, not of the user."""
    for metric in METRICS:
        stem, _, level = metric.name.partition(LEVEL)
        if name == metric.name or (metric.name.endswith(LEVEL) and not level and name.startswith(stem)):
            return metric
    raise KeyError(f"metric {name!r} is not declared in sfl.run.metrics.METRICS; add it there and to docs/reference/metrics.md")


def columns(file: Literal["train", "eval"], levels: Sequence[str] = ()) -> list[str]:
    """The fixed columns of train.csv or eval.csv; one set of `<level>` columns per level."""
    names = ["env_steps"]
    for metric in METRICS:
        if metric.file == file:
            names += [metric.name.replace(LEVEL, level) for level in levels] if LEVEL in metric.name else [metric.name]
    return names


class MetricWindow:
    """What was reported since the last row: sums for means, the newest value for the rest."""

    def __init__(self) -> None:
        self._sums: dict[str, list[float]] = {}
        self._kinds: dict[str, str] = {}

    def add(self, metrics: Mapping[str, float]) -> None:
        """Take in the metrics of one step; undeclared names raise."""
        for name, value in metrics.items():
            kind = self._kinds.get(name) or self._kinds.setdefault(name, declared(name).kind)
            total = self._sums.setdefault(name, [0.0, 0])
            if kind == "mean":
                total[0] += float(value)
                total[1] += 1
            else:
                total[0], total[1] = float(value), 1

    def take(self) -> dict[str, float]:
        """The window's values; starts a new window."""
        values = {name: total / count for name, (total, count) in self._sums.items()}
        self._sums = {}
        return values

    def state(self) -> dict[str, list[float]]:
        """For a checkpoint in the middle of a window."""
        return {name: list(total) for name, total in self._sums.items()}

    def restore(self, state: Mapping[str, Sequence[float]]) -> None:
        """Go on with a saved window."""
        self._sums = {name: [float(total), int(count)] for name, (total, count) in state.items()}
