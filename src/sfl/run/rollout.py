"""The one loop in which a policy meets environments; training, evaluation and video read the same generator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sfl.api import Episode, Policy, Session, Step
from sfl.seeding import draw_seed


class FreeEpisodes:
    """Training's endless supply: no goal, a fresh reset seed each."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def __call__(self) -> Episode:
        return Episode(number=0, reset_seed=draw_seed(self._rng), options={"goal": None})


def rollout(policy: Policy, session: Session) -> Iterator[Step]:
    """Act and step until the source of episodes runs dry.

    The reader learns from a step before the next is made: environments that ended are reset, and the policy told of it,
    only when the generator goes on. `policy.explain(i)` therefore still speaks of the step just yielded. The arrays of
    a step are valid until then; whoever keeps them copies them.
    """
    while (indices := session.begin_episodes(policy)) is not None:
        observations = session.observations(indices)
        actions = policy.act(observations, np.array(indices)) if indices else np.empty(0, np.int64)
        step = session.step(indices, observations, actions)
        if step is not None:
            yield step
