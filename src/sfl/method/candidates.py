"""How states become landmarks (Algorithm 2, lines 4-6; appendix C.5).

States that are unlike every landmark wait in a buffer; every N_add steps up to N_cand of them are admitted, each tested
against those before it. When there is no room, they replace landmarks or are refused. In the ablation of landmark
formation all landmarks are exchanged for the centres of clusters instead, as in Successor Options.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sfl.api import Array, Observation
from sfl.method.landmarks import Landmarks
from sfl.method.states import PsiSource

CANDIDATE_LIMIT = 4_096
"""Candidates that are kept between two additions, the first ones met. Early on every state is one; a state over frames
takes 4 kB, and of thousands a few dozen become landmarks."""

BLOCK = 256
"""Candidates that are compared with all landmarks at a time: most are never looked at."""


@dataclass(frozen=True)
class Candidate:
    """A state that was unlike every landmark when it was met."""

    observation: Observation
    origin: int
    """Number of the environment step at which it was observed."""
    previous: int | None
    """The landmark the agent had last been at, in the same episode."""
    steps: int
    """Decisions since then."""
    random: bool
    """Whether the random policy acted in between."""


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


class Candidates:
    """The buffer of candidates, and how it is emptied into the landmarks."""

    def __init__(self, landmarks: Landmarks) -> None:
        self.landmarks, self.config = landmarks, landmarks.config
        self.waiting: dict[bytes, Candidate] = {}

    def accepts(self, similarity: float) -> bool:
        """A state with this highest SFS to any landmark is worth keeping."""
        if self.config.formation == "clustered":
            return True
        open_set = not self.landmarks.set.is_full or self.config.replace != "never"
        return open_set and is_novel(similarity, self.config.add_threshold)

    @property
    def is_full(self) -> bool:
        """No room for more."""
        return len(self.waiting) >= CANDIDATE_LIMIT

    def propose(self, candidate: Candidate) -> None:
        """Keep a candidate if there is room; the same observation is kept once, where it was met first."""
        if not self.is_full:
            self.waiting.setdefault(candidate.observation.tobytes(), candidate)

    def admit(self, source: PsiSource, step: int, refreshed: bool = False) -> list[tuple[int, Candidate]]:
        """Up to N_cand candidates become landmarks; returns them with their indices, and empties the buffer.

        `refreshed`: psi of the landmarks is that of the present networks already.
        """
        candidates = list(self.waiting.values())
        self.waiting.clear()
        if not candidates:
            return []
        landmarks, most = self.landmarks, self.config.candidates_per_add
        if not refreshed:
            landmarks.refresh(source)
        keys = source.keys(np.stack([candidate.observation for candidate in candidates]))
        if self.config.candidate_order == "arrival":  # no need to compare them with all landmarks
            ranking = np.arange(len(candidates))
        else:
            ranking = candidate_ranking(landmarks.similarity(keys).cpu().numpy(), self.config.candidate_order)
        admission = _Admission(landmarks, most)
        admitted: list[tuple[int, Candidate]] = []
        for first in range(0, len(ranking), BLOCK):
            block = ranking[first : first + BLOCK]
            admission.compare(keys.index_select(0, torch.from_numpy(block).to(keys.device)))
            for place, candidate in enumerate(candidates[row] for row in block.tolist()):
                if len(admitted) == most:
                    break
                index = self._admit_one(admission, place, candidate, step)
                if index is not None:
                    admitted.append((index, candidate))
            if len(admitted) == most:
                break
        if admitted:
            landmarks.set_keys(admission.keys[: landmarks.set.count], same_landmarks=False)
        return admitted

    def _admit_one(self, admission: _Admission, place: int, candidate: Candidate, step: int) -> int | None:
        """The index that a candidate gets as a landmark; None: it is like one by now, or none may be replaced."""
        landmarks, similarity = self.landmarks, admission.similarity[place, : self.landmarks.set.count]
        known = landmarks.at_same_observation(candidate.observation) is not None
        if known or not self.accepts(similarity.max(initial=-np.inf)):
            return None
        if not landmarks.set.is_full:
            index = landmarks.add(candidate.observation, candidate.origin, step)
        else:
            new = landmarks.set.added_at == step  # these have had no time to be visited
            visits = np.where(new, np.iinfo(np.int64).max, landmarks.set.visits)
            among = admission.among(landmarks.set.count) if self.config.replace == "closest" else similarity
            index = landmark_to_replace(self.config.replace, visits, among, similarity)
            if new[index]:
                return None
            landmarks.replace(index, candidate.observation, candidate.origin, step)
        admission.take(place, index)
        return index

    def rebuild(self, source: PsiSource, step: int) -> bool:
        """All landmarks make way for the centres of clusters of the candidates and themselves; False: nothing to do.

        The old landmarks take part, so that places which were not seen lately are not lost at once.
        """
        landmarks = self.landmarks
        old = zip(landmarks.observations, landmarks.set.origin.tolist(), strict=True)
        pool = {observation.tobytes(): (observation, origin) for observation, origin in old}
        pool |= {key: (candidate.observation, candidate.origin) for key, candidate in self.waiting.items()}
        self.waiting.clear()
        if not pool:
            return False
        states = list(pool.values())
        psi = source.keys(np.stack([observation for observation, _ in states]))
        centres = cluster_centres(psi.cpu().numpy(), self.config.limit)
        landmarks.remove_all()
        for observation, origin in (states[row] for row in centres.tolist()):
            landmarks.add(observation, origin, step)
        landmarks.set_keys(psi[torch.from_numpy(centres).to(psi.device)], same_landmarks=False)
        return True

    def state(self) -> dict[str, Array]:
        """The buffer as plain arrays."""
        waiting = list(self.waiting.values())
        if not waiting:
            return {}
        rows = [(c.origin, -1 if c.previous is None else c.previous, c.steps, int(c.random)) for c in waiting]
        observations = np.stack([candidate.observation for candidate in waiting])
        return {"candidates": np.array(rows, dtype=np.int64), "candidate_observations": observations}

    def load_state(self, state: dict[str, Array]) -> None:
        """Go on with arrays made by `state`."""
        self.waiting.clear()
        rows = state.get("candidates", np.zeros((0, 4), dtype=np.int64)).tolist()
        for observation, (origin, previous, steps, random) in zip(
            state.get("candidate_observations", []), rows, strict=True
        ):
            self.propose(Candidate(observation, origin, None if previous < 0 else previous, steps, bool(random)))


class _Admission:
    """Candidates against landmarks, and against those that have become landmarks just now; a block at a time."""

    def __init__(self, landmarks: Landmarks, most: int) -> None:
        """`most`: so many landmarks may come."""
        keys, self._compare = landmarks.keys, landmarks.compare
        self.keys = torch.cat([keys, keys.new_zeros(most, keys.shape[1])])  # [landmarks, K]
        self._candidates = keys[:0]
        self.similarity: Array = np.zeros((0, len(self.keys)))  # [C, landmarks] of a block's candidates

    def compare(self, candidates: Tensor) -> None:
        """The next candidates, by their keys [C, K]."""
        self._candidates, self.similarity = candidates, self._compare(candidates, self.keys).cpu().numpy()

    def take(self, place: int, index: int) -> None:
        """A candidate of the block is the landmark of this index from here on."""
        self.keys[index] = self._candidates[place]
        taken = self._compare(self._candidates, self._candidates[place : place + 1])
        self.similarity[:, index] = taken[:, 0].cpu().numpy()

    def among(self, count: int) -> Array:
        """SFS [L, L] of the first `count` landmarks."""
        return np.asarray(self._compare(self.keys[:count], self.keys[:count]).cpu().numpy())


# ---- The ablation: clusters as in Successor Options.

ROUNDS = 50
"""Most rounds of k-means; a few hundred states settle in fewer."""


def cluster_centres(directions: Array, count: int) -> Array:
    """Spherical k-means: the rows of unit vectors [N, F] nearest to the centres of `count` clusters, ascending.

    The first centres are the row nearest to the mean and then, one by one, the row least like all before it: no
    chance is needed. Rows that are nearest to several centres come once, so there may be fewer than `count`.
    """
    centres = directions[_spread_out(directions, min(count, len(directions)))]
    labels = np.full(len(directions), -1)
    for _ in range(ROUNDS):
        before, labels = labels, (directions @ centres.T).argmax(1)
        if np.array_equal(before, labels):
            break
        centres = np.stack([_mean_direction(directions[labels == k], centres[k]) for k in range(len(centres))])
    return np.unique((directions @ centres.T).argmax(0))


def _spread_out(directions: Array, count: int) -> Array:
    chosen = [int((directions @ directions.mean(0)).argmax())]
    nearest = directions @ directions[chosen[0]]
    while len(chosen) < count:
        chosen.append(int(nearest.argmin()))
        nearest = np.maximum(nearest, directions @ directions[chosen[-1]])
    return np.array(chosen)


def _mean_direction(members: Array, otherwise: Array) -> Array:
    """The unit vector of their mean; a cluster without members stays where it was."""
    mean = members.sum(0)
    length = np.linalg.norm(mean)
    return np.asarray(mean / length if length > 0 else otherwise)
