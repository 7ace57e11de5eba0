"""The same experiment, smaller: in seconds, or with another budget."""

from __future__ import annotations

from dataclasses import replace

from sfl.registry import method_of
from sfl.run.settings import Experiment, require_scale


def tiny(experiment: Experiment) -> Experiment:
    """The same experiment in seconds: every part runs, nothing is learned well."""
    train = replace(experiment.train, steps=1_200, eval_every=600, checkpoint_every=600, log_every=200)
    env, tasks = experiment.env, replace(experiment.eval, episodes=4, exam_steps=2_000)
    if env.kind == "maze":  # games take a second each to start
        env, tasks = replace(env, max_steps=150), replace(tasks, episodes=3, parallel=4)
        train = replace(train, env_count=min(train.env_count, 4))
    return replace(
        experiment, env=env, agent=method_of(experiment.agent).tiny(experiment.agent), train=train, eval=tasks
    )


def scaled(experiment: Experiment, factor: float) -> Experiment:
    """The same experiment with another budget of environment steps."""
    require_scale(factor)
    train, agent = experiment.train, experiment.agent
    steps = max(1, round(train.steps * factor))
    if factor < 1:  # as many evaluations and checkpoints as ever, not fewer: curves keep their points
        intervals = {name: getattr(train, name) for name in ("eval_every", "checkpoint_every", "log_every")}
        train = replace(train, **{name: max(1, round(every * factor)) for name, every in intervals.items() if every})
    agent = method_of(agent).scaled(agent, factor, steps)
    return replace(experiment, agent=agent, train=replace(train, steps=steps))
