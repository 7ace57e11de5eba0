"""The landmarks' observations and psi, and the candidates to become landmarks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sfl.agents.sfl.representation import PsiSource, Representation, unit
from sfl.data.types import GOAL, Array, Observation
from sfl.graph.clustering import cluster_centres
from sfl.graph.landmarks import (
    EXACT,
    LandmarkConfig,
    LandmarkSet,
    candidate_ranking,
    is_novel,
    landmark_to_replace,
    localize,
)
from sfl.learners.device import Fetched, to_device
from sfl.learners.localizer import Localizer
from sfl.learners.trust import Trust

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


@dataclass(frozen=True)
class Sight:
    """What the agent makes of a batch of observations."""

    psi: Tensor  # [B, A, F] unit psi(s, a)
    similarity: list[float]  # [B] highest SFS to any landmark, median over the last W steps; -inf without landmarks
    localized: Sequence[int | None]  # [B]
    nearest: Sequence[int | None]  # [B] most similar landmark that is not in doubt, whatever the threshold
    ahead: Sequence[Sequence[float]]  # [B] SFS to the landmarks that were asked about
    here: Tensor  # [B, F] unit psi(s)


class Routes:
    """The landmarks ahead of some environments, the goal among them, whose SFS they want to know."""

    def __init__(self, ahead: Sequence[Sequence[int]], goals: Tensor | None) -> None:
        """`ahead`: for each environment landmarks, or `GOAL`; `goals` [B, F]: unit psi of their goals, if they have."""
        self._ahead, self._goals = ahead, goals
        self._most = max(map(len, ahead), default=0)

    def similarity(self, smoothed: Tensor, psi: Tensor) -> Tensor:
        """[B, most] SFS, given the one to all landmarks [B, L] and unit psi [B, F]; short rows are filled up."""
        table = np.array([[*row, *[0] * (self._most - len(row))] for row in self._ahead], np.int64)
        places = to_device(table.reshape(len(self._ahead), self._most), smoothed.device)
        found = smoothed.gather(1, places.clamp_min(0))
        if self._goals is None:
            return found
        return torch.where(places == GOAL, (psi * self._goals).sum(1, keepdim=True), found)

    def cut(self, numbers: list[float]) -> list[list[float]]:
        """The answer, row by row, without what filled them up."""
        starts = range(0, len(self._ahead) * self._most, self._most) if self._most else [0] * len(self._ahead)
        return [numbers[start : start + len(row)] for start, row in zip(starts, self._ahead, strict=True)]


class LandmarkMemory:
    """Landmarks with their observations; the graph room knows them by index only."""

    def __init__(self, config: LandmarkConfig, dim: int, device: torch.device) -> None:
        self.config = config
        self.set = LandmarkSet(config.limit)
        self.localizer = Localizer(dim, config.window, device)
        self.trust = Trust(config.limit if config.trust else 0, device)
        self.doubted: Array = np.zeros(0, bool)  # [L'] of the first landmarks
        self.observations: list[Observation] = []
        self._together: Array | None = None  # the same in one array, if they have not changed since
        self.candidates: dict[bytes, Candidate] = {}
        self._index: dict[bytes, int] = {}

    def frozen(self) -> LandmarkMemory:
        """A copy for other environments that later learning does not change."""
        other = LandmarkMemory(self.config, self.localizer.rows.shape[1], self.localizer.device)
        other.set.load_state(self.set.state())
        other.localizer = self.localizer.fresh()
        other.observations, other._index = list(self.observations), dict(self._index)
        other.doubted = self.doubted
        return other

    def see(
        self,
        source: PsiSource,
        states: Array | Tensor,
        env_indices: Array,
        meanwhile: Callable[[], None] | None = None,
        routes: Routes | None = None,
    ) -> Sight:
        """Psi of the states, their SFS to all landmarks, and where the agent is (Algorithm 2, lines 3 and 7).

        `meanwhile` is called when all of this was asked of the device and before its answer is waited for.
        """
        units, mean = source.directions(states)
        smoothed = self.localizer.smooth(self.localizer.similarity(mean), env_indices)
        count = len(smoothed)
        parts = [*self.localizer.sure(smoothed).max(1), smoothed.max(1).values] if self.observations else []
        if routes is not None and self.observations:
            parts.append(routes.similarity(smoothed, mean).flatten())
        # One copy from the device instead of several.
        answer = Fetched(torch.cat([part.to(mean.dtype) for part in parts]) if parts else mean[:0, 0])
        if meanwhile is not None:
            meanwhile()
        if not self.observations:
            return Sight(units, [-math.inf] * count, [None] * count, [None] * count, [()] * count, mean)
        numbers = answer.wait().tolist()
        trusted, nearest = numbers[:count], list(map(int, numbers[count : 2 * count]))
        similarity = numbers[2 * count : 3 * count]
        ahead = [()] * count if routes is None else routes.cut(numbers[3 * count :])
        if self.config.localize_threshold >= EXACT:
            localized = [self._index.get(state.tobytes()) for state in np.asarray(states)]
        else:
            threshold = self.config.localize_threshold
            localized = [localize(place, sfs, threshold) for place, sfs in zip(nearest, trusted, strict=True)]
        return Sight(units, similarity, localized, nearest, ahead, mean)

    def accepts(self, similarity: float) -> bool:
        """A state with this highest SFS to any landmark is worth keeping as a candidate."""
        if self.config.formation == "clustered":
            return True
        open_set = not self.set.is_full or self.config.replace != "never"
        return open_set and is_novel(similarity, self.config.add_threshold)

    @property
    def wants_candidates(self) -> bool:
        """There is room in the buffer of candidates."""
        return len(self.candidates) < CANDIDATE_LIMIT

    def propose(self, candidate: Candidate) -> None:
        """Keep a candidate if there is room; the same observation is kept once, where it was met first."""
        if self.wants_candidates:
            self.candidates.setdefault(candidate.observation.tobytes(), candidate)

    def refresh(self, source: PsiSource) -> None:
        """psi of the landmarks from the present networks (every N_update steps)."""
        if self.observations:
            self.localizer.set_rows(unit(source.psi(self._stacked()).mean(1)), same_landmarks=True)

    def _stacked(self) -> Array:
        """All observations [L, ...]; thousands of states over frames are not put together anew for every refresh."""
        if self._together is None or len(self._together) != len(self.observations):
            self._together = np.stack(self.observations)
        return self._together

    def examine(self, source: Representation) -> None:
        """Look visits up in the replay, and doubt the landmarks around which they disagree."""
        config = self.config
        found = source.surroundings(config.trust_samples, config.trust_reach) if config.trust else None
        if found is None or not self.observations:
            return
        states, surroundings = found
        best, places = self.localizer.similarity(unit(source.psi(states).mean(1))).max(1)
        visits = torch.nonzero(best > config.localize_threshold).squeeze(1)
        self.trust.add(places[visits], surroundings[visits])
        self._doubt(self.trust.doubted(self.set.count, config.trust).cpu().numpy())

    def admit(self, source: PsiSource, step: int, refreshed: bool = False) -> list[tuple[int, Candidate]]:
        """Up to N_cand candidates become landmarks, each tested against those before it; the buffer is emptied.

        `refreshed`: psi of the landmarks is that of the present networks already.
        """
        candidates = list(self.candidates.values())
        self.candidates.clear()
        if not candidates:
            return []
        if not refreshed:
            self.refresh(source)
        psi = unit(source.psi(np.stack([candidate.observation for candidate in candidates])).mean(1))
        ranking = self._ranking(psi)
        admission = Admission(self.localizer.rows, self.config.candidates_per_add)
        admitted: list[tuple[int, Candidate]] = []
        for first in range(0, len(ranking), BLOCK):
            block = ranking[first : first + BLOCK]
            admission.test(psi.index_select(0, torch.from_numpy(block).to(psi.device)))
            for place, candidate in enumerate(candidates[row] for row in block.tolist()):
                if len(admitted) == self.config.candidates_per_add:
                    break
                index = self._admit_one(admission, place, candidate, step)
                if index is not None:
                    admitted.append((index, candidate))
            if len(admitted) == self.config.candidates_per_add:
                break
        if admitted:
            self.localizer.set_rows(admission.rows[: self.set.count], same_landmarks=False)
        return admitted

    def rebuild(self, source: PsiSource, step: int) -> bool:
        """All landmarks make way for the centres of clusters of the candidates and themselves; False: nothing to do.

        The old landmarks take part, so that places which were not seen lately are not lost at once.
        """
        old = zip(self.observations, self.set.origin.tolist(), strict=True)
        pool = {observation.tobytes(): (observation, origin) for observation, origin in old}
        pool |= {key: (candidate.observation, candidate.origin) for key, candidate in self.candidates.items()}
        self.candidates.clear()
        if not pool:
            return False
        states = list(pool.values())
        psi = unit(source.psi(np.stack([observation for observation, _ in states])).mean(1))
        centres = cluster_centres(psi.cpu().numpy(), self.config.limit)
        self.set, self.observations, self._together = LandmarkSet(self.config.limit), [], None
        for observation, origin in (states[row] for row in centres.tolist()):
            self.set.add(origin, step)
            self.observations.append(observation)
        self._index = {observation.tobytes(): index for index, observation in enumerate(self.observations)}
        self.localizer.set_rows(psi[torch.from_numpy(centres).to(psi.device)], same_landmarks=False)
        if self.config.trust:
            self.trust = Trust(self.config.limit, self.localizer.device)
            self._doubt(np.zeros(self.set.count, bool))
        return True

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        rows = {"observations": self._stacked()} if self.observations else {}
        trust = self.trust.state() | {"doubted": self.doubted} if self.config.trust else {}
        return self.set.state() | self.localizer.state() | rows | trust

    def load_state(self, state: dict[str, Array]) -> None:
        """Take up arrays made by `state`."""
        self.set.load_state(state)
        self.observations, self._together = list(state.get("observations", [])), None
        self._index = {observation.tobytes(): index for index, observation in enumerate(self.observations)}
        self.localizer.load_state(state)
        if self.config.trust:
            self.trust.load_state(state)
            self._doubt(state["doubted"])

    def candidate_state(self) -> dict[str, Array]:
        """The candidate buffer as plain arrays."""
        waiting = list(self.candidates.values())
        if not waiting:
            return {}
        rows = [(c.origin, -1 if c.previous is None else c.previous, c.steps, int(c.random)) for c in waiting]
        observations = np.stack([candidate.observation for candidate in waiting])
        return {"candidates": np.array(rows, dtype=np.int64), "candidate_observations": observations}

    def load_candidate_state(self, state: dict[str, Array]) -> None:
        """Take up arrays made by `candidate_state`."""
        self.candidates.clear()
        rows = state.get("candidates", np.zeros((0, 4), dtype=np.int64)).tolist()
        for observation, (origin, previous, steps, random) in zip(
            state.get("candidate_observations", []), rows, strict=True
        ):
            self.propose(Candidate(observation, origin, None if previous < 0 else previous, steps, bool(random)))

    def _doubt(self, landmarks: Array) -> None:
        """These [L] bool and no others are in doubt."""
        self.doubted = landmarks
        self.localizer.doubt(torch.from_numpy(landmarks).to(self.localizer.device))

    def _ranking(self, psi: Tensor) -> Array:
        """The order in which candidates of unit psi [C, F] are tried."""
        if self.config.candidate_order == "arrival":  # no need to compare them with all landmarks
            return np.arange(len(psi))
        return candidate_ranking(self.localizer.similarity(psi).cpu().numpy(), self.config.candidate_order)

    def _admit_one(self, admission: Admission, place: int, candidate: Candidate, step: int) -> int | None:
        similarity = admission.similarity[place, : self.set.count]
        key = candidate.observation.tobytes()
        if not self.accepts(similarity.max(initial=-np.inf)) or key in self._index:
            return None
        if not self.set.is_full:
            index = self.set.add(candidate.origin, step)
            self.observations.append(candidate.observation)
        else:
            new = self.set.added_at == step  # these have had no time to be visited
            visits = np.where(new, np.iinfo(np.int64).max, self.set.visits)
            among = admission.among(self.set.count) if self.config.replace == "closest" else similarity
            index = landmark_to_replace(self.config.replace, visits, among, similarity)
            if new[index]:
                return None
            del self._index[self.observations[index].tobytes()]
            if self.config.trust:
                self.trust.clear(index)
                self._doubt(np.where(np.arange(len(self.doubted)) == index, False, self.doubted))
            self.set.replace(index, candidate.origin, step)
            self.observations[index], self._together = candidate.observation, None
        self._index[key] = index
        admission.take(place, index)
        return index


class Admission:
    """Candidates against landmarks, and against those that have become landmarks just now; a block at a time."""

    def __init__(self, rows: Tensor, most: int) -> None:
        """`rows` [L, F]: unit psi of the landmarks; there will be at most so many more."""
        self.rows = torch.cat([rows, rows.new_zeros(most, rows.shape[1])])
        self._psi = rows[:0]
        self.similarity: Array = np.zeros((0, len(self.rows)))  # [C, landmarks] SFS of a block's candidates

    def test(self, psi: Tensor) -> None:
        """The next candidates, by their unit psi [C, F]."""
        self._psi, self.similarity = psi, (psi @ self.rows.mT).cpu().numpy()

    def take(self, place: int, index: int) -> None:
        """A candidate of the block is the landmark of this index from here on."""
        self.rows[index] = self._psi[place]
        self.similarity[:, index] = (self._psi @ self._psi[place]).cpu().numpy()

    def among(self, count: int) -> Array:
        """SFS [L, L] of the first `count` landmarks."""
        return np.asarray((self.rows[:count] @ self.rows[:count].mT).cpu().numpy())


def as_array(states: Array | Tensor, rows: list[int]) -> Array:
    """Some of the states [B, ...] as numbers of their own, which outlive the step."""
    return np.asarray((states.cpu().numpy() if isinstance(states, Tensor) else states)[rows])
