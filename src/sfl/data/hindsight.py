"""Hindsight experience replay: what was seen later in an episode becomes the goal of a step before it.

(Andrychowicz and others, 2017; the strategy "future", at most so many steps ahead.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfl.data.observations import distinct
from sfl.data.replay import Entries, SequenceReplay
from sfl.data.types import Array


@dataclass(frozen=True)
class HindsightBatch:
    """Steps with a goal each."""

    slots: Array  # [B, 3] of the state, the state after it and the goal; [B, 3, stack] of stacks
    actions: Array  # [B]
    places: Array  # [B, 3] where the three lie in the replay


def sample_hindsight(
    replay: SequenceReplay, rng: np.random.Generator, batch: int, future: int, share: float
) -> HindsightBatch | None:
    """Steps drawn uniformly; None while there is none.

    A `share` of them gets a goal from the next `future` states of its own episode, each as likely; the others get a
    state from anywhere in the replay.
    """
    steps, others = replay.draw_steps(rng, batch), replay.draw_steps(rng, batch)
    if steps is None or others is None:
        return None
    later = rng.integers(steps.at + 1, np.minimum(steps.at + future, steps.high) + 1)
    own = rng.random(batch) < share
    goals = Entries(
        envs=np.where(own, steps.envs, others.envs),
        at=np.where(own, later, others.at),
        low=np.where(own, steps.low, others.low),
        high=np.where(own, steps.high, others.high),
    )
    at = np.stack([steps.at, steps.at + 1, goals.at], axis=1)
    places = replay.places_of(np.stack([steps.envs, steps.envs, goals.envs], axis=1), at)
    return HindsightBatch(
        slots=np.concatenate([replay.states_from(steps, 1), replay.states_from(goals, 0)], axis=1),
        actions=replay.actions_at(places[:, 0]),
        places=places,
    )


def distinct_pairs(rows: Array) -> tuple[Array, Array, Array]:
    """The pairs that a batch asks for, each once, given rows [B, 3] of s, s' and g.

    Returns the pairs' two rows [2, R], which of them are (s, g) and (s, s') [2, B], and how often each occurs [R].
    """
    states, following, goals = rows.T
    size = int(rows.max()) + 1
    found, places = distinct(states * size + np.stack([goals, following]))
    return np.stack(np.divmod(found, size)), places, np.bincount(places.reshape(-1)).astype(np.float32)
