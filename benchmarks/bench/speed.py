"""Steps per second, ours beside a plain eager loop; cost of an observation, ours beside MiniGrid's."""

from __future__ import annotations

from statistics import median

from benchmarks.bench.eager import PlainLoop
from benchmarks.bench.loops import Subject, TrainingLoop, awake_at
from benchmarks.bench.observation import observation_cost
from benchmarks.bench.rows import Row, Sizes, row
from benchmarks.bench.timing import median_ratio, take_turns


def measure_speed(subject: Subject, sizes: Sizes) -> list[Row]:
    """Environment steps per second of both, taking turns, over replays that hold the same steps."""
    ours, plain = TrainingLoop(awake_at(subject, sizes.fill_steps)), PlainLoop(subject)
    for _ in range(sizes.fill_steps // subject.env_count):
        plain.replay.add(ours.step())
    for _ in range(sizes.settle_steps // subject.env_count):
        ours.step()
    plain.step()
    block = max(1, sizes.block_steps // subject.env_count)
    seconds = take_turns({"ours": ours.step, "plain": plain.step}, sizes.rounds, block)
    rates = {name: subject.env_count / median(turns) for name, turns in seconds.items()}
    return [
        row("speed", f"{subject.name}: ours", rates["ours"], "steps/s"),
        row("speed", f"{subject.name}: plain eager loop", rates["plain"], "steps/s"),
        row("speed", f"{subject.name}: ratio", median_ratio(seconds["plain"], seconds["ours"]), "times", at_least=3),
    ]


def measure_observation(env_id: str, sizes: Sizes) -> list[Row]:
    """What observing the whole grid adds to a step."""
    cost = observation_cost(env_id, sizes.observation_steps)
    return [
        row("observation", f"{env_id}: ours", cost["ours_us"], "us"),
        row("observation", f"{env_id}: FullyObsWrapper", cost["fully_obs_wrapper_us"], "us"),
        row("observation", f"{env_id}: ratio", cost["ratio"], "times", at_least=10),
    ]
