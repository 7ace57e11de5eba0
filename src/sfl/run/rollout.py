"""The one loop in which a policy meets environments: act, step and, in training, observe and update.

Training, evaluation, videos, the class `SFL` and the benchmarks all read the same generator, `rollout`. What goes
through it (`Episode`, `Step`) and what it asks (`Session`) are in `sfl.api`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import numpy as np

from sfl.api import Agent, Episode, OracleAgent, Policy, Session, Step
from sfl.seeding import draw_seed


class FreeEpisodes:
    """Training's endless supply: no goal, a fresh reset seed each."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def __call__(self) -> Episode:
        return Episode(number=0, reset_seed=draw_seed(self._rng), options={"goal": None})


def rollout(policy: Policy, session: Session, learner: Agent | None = None, tell_poses: bool = False) -> Iterator[Step]:
    """Act and step until the source of episodes runs dry; a `learner`, the agent that acts, learns from each step.

    The next step is made only when the generator goes on: environments that ended are reset, and the policy told of it,
    then. `policy.explain(i)` therefore still speaks of the step just yielded. The arrays of a step are valid until
    then; a reader that keeps them copies them. With `tell_poses` the learner is an `OracleAgent`.
    """
    while (indices := session.begin_episodes(policy)) is not None:
        observations = session.observations(indices)
        actions = policy.act(observations, np.array(indices)) if indices else np.empty(0, np.int64)
        step = session.step(indices, observations, actions)
        if step is None:
            continue
        if learner is not None:
            if tell_poses:
                cast(OracleAgent, learner).observe_poses(step.poses, step.next_poses)
            learner.observe(step.transitions)
            step = replace(step, metrics=learner.update())
        yield step
