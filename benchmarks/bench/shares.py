"""Where the time of a training step goes."""

from __future__ import annotations

import time
from dataclasses import replace

from benchmarks.bench.loops import Subject, TrainingLoop, awake_at
from benchmarks.bench.rows import Row, Sizes, row
from benchmarks.bench.timing import Stopwatch

from sfl.method.agent import SFLAgent
from sfl.method.features import TimeContrastiveLearner
from sfl.method.learning import LearnedRepresentation
from sfl.method.successor import SuccessorLearner
from sfl.replay.replay import SequenceReplay
from sfl.worlds import GridWorld
from sfl.worlds.session import EnvSession

SPANS: dict[str, list[tuple[type, str]]] = {
    "environment": [(EnvSession, "begin_episodes"), (EnvSession, "step")],
    "observation": [(GridWorld, "gen_obs")],
    "replay": [(SFLAgent, "observe"), (SequenceReplay, "sample_triplets"), (SequenceReplay, "sample_n_step")],
    "encoder": [(LearnedRepresentation, "update"), (TimeContrastiveLearner, "encode")],
    "learner": [(SuccessorLearner, "update")],
    "graph": [(SFLAgent, "act"), (SFLAgent, "update")],
}
"""The methods that make up each part. A method's time is without that of those listed that it calls: what is left of
`LearnedRepresentation.update` is encoding for both losses and the encoder's gradient, and what is left of the agent's
methods is localizing, planning and acting."""


def measure_shares(subject: Subject, sizes: Sizes) -> list[Row]:
    """Milliseconds and percent of an environment step for each part, while everything learns.

    Where the encoder is frozen after some steps, also with the encoder frozen.
    """
    awake = awake_at(subject, sizes.fill_steps)
    rows = _shares(awake, subject.name, sizes)
    if subject.agent.features.stop_step:
        features = replace(awake.agent.features, updates_per_step=0.0)
        frozen = replace(awake, agent=replace(awake.agent, features=features))
        rows += _shares(frozen, f"{subject.name}, encoder frozen", sizes)
    return rows


def _shares(subject: Subject, name: str, sizes: Sizes) -> list[Row]:
    loop = TrainingLoop(subject)
    for _ in range((sizes.fill_steps + sizes.settle_steps) // subject.env_count):
        loop.step()
    watch, count = Stopwatch(), sizes.share_steps // subject.env_count
    with watch.watching(SPANS):
        begin = time.perf_counter()
        for _ in range(count):
            loop.step()
        total = time.perf_counter() - begin
    parts = {part: watch.seconds[part] for part in SPANS}
    parts["rest"] = total - sum(parts.values())
    per_step = 1e3 / (count * subject.env_count)
    rows = [row("step", f"{name}: all", total * per_step, "ms")]
    for part, seconds in parts.items():
        rows.append(row("step", f"{name}: {part}", seconds * per_step, "ms"))
        rows.append(row("step", f"{name}: {part}", 100 * seconds / total, "percent"))
    return rows
