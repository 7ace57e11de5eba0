"""Which states become landmarks, and at which landmark the agent is (paper, section 4.2 and Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sfl.core.config import require
from sfl.data.types import Array

EXACT = 1.0
"""A threshold of 1 cannot be passed by a cosine: it means that the observations are identical."""


@dataclass(frozen=True)
class LandmarkConfig:
    """How landmarks are found, kept and recognised."""

    limit: int = 10
    """At most this many landmarks."""
    add_threshold: float = 0.99
    """delta_add: a state is a candidate when its SFS to every landmark is below this."""
    localize_threshold: float = EXACT
    """delta_local: the agent is at its most similar landmark if their SFS is above this; 1 = identical observations."""
    window: int = 1
    """W: localization takes the median of the last W similarities."""
    candidates_per_add: int = 1
    """N_cand: landmarks added from the candidate buffer at a time."""
    add_every: int = 3_000
    """N_add: environment steps between two additions."""
    update_every: int = 1_000
    """N_update: environment steps between two refreshes of the landmarks' psi."""
    formation: Literal["progressive", "clustered"] = "progressive"
    """How landmarks come about: candidates are added to those there are, or every `add_every` steps all are exchanged
    for the centres of clusters of the states met since then (Successor Options), and what was known of them is lost."""
    candidate_order: Literal["least-similar", "arrival"] = "least-similar"
    """Which candidates are tried first."""
    replace: Literal["never", "least-visited", "closest"] = "never"
    """What makes room for a candidate when the limit is reached."""
    start_step: int = 40_000
    """Environment steps before the first candidate."""
    trust: float = 0.0
    """Nobody is localized to landmarks that seem to stand for several places: those around whose visits what was seen
    agrees less than this share of the median over all landmarks. 0 = trust all."""
    trust_reach: int = 20
    """Decisions before and after a visit that are its surroundings."""
    trust_samples: int = 2_048
    """Visits that are looked up in the replay at every refresh of the landmarks' psi."""

    def __post_init__(self) -> None:
        require(self.limit >= 1, f"landmarks.limit must be at least 1, got {self.limit}.")
        for name in ("add_threshold", "localize_threshold"):
            value = getattr(self, name)
            option = name.replace("_", "-")
            require(-1.0 <= value <= 1.0, f"landmarks.{option} must lie in [-1, 1] (SFS is a cosine), got {value}.")
        for name in ("window", "candidates_per_add", "add_every", "update_every", "trust_reach", "trust_samples"):
            value = getattr(self, name)
            require(value >= 1, f"landmarks.{name.replace('_', '-')} must be at least 1, got {value}.")
        require(0 <= self.trust <= 1, f"landmarks.trust must lie in [0, 1], got {self.trust}.")
        require(self.start_step >= 0, f"landmarks.start-step must not be negative, got {self.start_step}.")


class LandmarkSet:
    """Landmarks by index, in the order in which they were added; how often the agent was at each."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        self._visits = np.zeros(limit, dtype=np.int64)
        self._origin = np.full(limit, -1, dtype=np.int64)
        self._added_at = np.full(limit, -1, dtype=np.int64)

    @property
    def visits(self) -> Array:
        """[L] decisions at which the agent was localized to each landmark."""
        return self._visits[: self.count]

    @property
    def origin(self) -> Array:
        """[L] number of the environment step whose observation became the landmark."""
        return self._origin[: self.count]

    @property
    def added_at(self) -> Array:
        """[L] environment steps at which each landmark joined the graph."""
        return self._added_at[: self.count]

    @property
    def is_full(self) -> bool:
        """No room without replacing one."""
        return self.count >= self.limit

    def add(self, origin: int, step: int) -> int:
        """A new landmark; returns its index."""
        if self.is_full:
            raise IndexError(f"the landmark set is full ({self.limit}); replace one instead")
        self.count += 1
        self.replace(self.count - 1, origin, step)
        return self.count - 1

    def replace(self, index: int, origin: int, step: int) -> None:
        """Another state takes over an index; nothing of the old one stays."""
        if not 0 <= index < self.count:
            raise IndexError(f"landmark {index} does not exist; there are {self.count}")
        self._visits[index] = 0
        self._origin[index] = origin
        self._added_at[index] = step

    def visit(self, index: int) -> None:
        """The agent was localized to this landmark at one decision."""
        self._visits[index] += 1

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        return {"visits": self.visits, "origin": self.origin, "added_at": self.added_at}

    def load_state(self, state: dict[str, Array]) -> None:
        """Take up arrays made by `state`."""
        self.count = len(state["visits"])
        for name in ("visits", "origin", "added_at"):
            getattr(self, f"_{name}")[: self.count] = state[name]


def localize(nearest: int, similarity: float, threshold: float) -> int | None:
    """Algorithm 2, lines 3 and 7: the most similar landmark if its SFS is above the threshold."""
    return nearest if similarity > threshold else None


def is_novel(similarity: float, threshold: float) -> bool:
    """Algorithm 2, line 4: below delta_add to the most similar landmark; -inf, with no landmark yet, always is."""
    return similarity < threshold


def candidate_ranking(similarity: Array, order: str) -> Array:
    """The order in which candidates are tried, given their SFS [C, L] to the present landmarks."""
    if order == "arrival" or similarity.shape[1] == 0:
        return np.arange(len(similarity))
    return np.argsort(similarity.max(axis=1), kind="stable")


def landmark_to_replace(rule: str, visits: Array, among: Array, to_candidate: Array) -> int:
    """Which landmark a candidate replaces, given SFS among landmarks [L, L] and to the candidate [L].

    "least-visited": the one with the fewest visits. "closest": of the two most similar landmarks, the one more similar
    to the candidate.
    """
    if rule == "least-visited":
        return int(np.argmin(visits))
    off_diagonal = np.where(np.eye(len(among), dtype=bool), -np.inf, among)
    first, second = np.unravel_index(int(np.argmax(off_diagonal)), among.shape)
    return int(first if to_candidate[first] >= to_candidate[second] else second)
