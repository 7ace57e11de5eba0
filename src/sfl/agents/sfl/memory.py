"""The landmarks' observations and psi, and the candidates to become landmarks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sfl.agents.sfl.representation import PsiSource, unit
from sfl.data.types import Array, Observation
from sfl.graph.landmarks import (
    EXACT,
    LandmarkConfig,
    LandmarkSet,
    candidate_ranking,
    is_novel,
    landmark_to_replace,
    localize,
)
from sfl.learners.localizer import Localizer


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
    localized: list[int | None]  # [B]
    nearest: list[int | None]  # [B] most similar landmark, whatever the threshold


class LandmarkMemory:
    """Landmarks with their observations; the graph room knows them by index only."""

    def __init__(self, config: LandmarkConfig, dim: int, device: torch.device) -> None:
        self.config = config
        self.set = LandmarkSet(config.limit)
        self.localizer = Localizer(dim, config.window, device)
        self.observations: list[Observation] = []
        self.candidates: dict[bytes, Candidate] = {}
        self._index: dict[bytes, int] = {}

    def frozen(self) -> LandmarkMemory:
        """A copy for other environments that later learning does not change."""
        other = LandmarkMemory(self.config, self.localizer.rows.shape[1], self.localizer.device)
        other.set.load_state(self.set.state())
        other.localizer = self.localizer.fresh()
        other.observations, other._index = list(self.observations), dict(self._index)
        return other

    def see(self, source: PsiSource, states: Array | Tensor, env_indices: Array) -> Sight:
        """Psi of the states, their SFS to all landmarks, and where the agent is (Algorithm 2, lines 3 and 7)."""
        psi = source.psi(states)
        smoothed = self.localizer.smooth(self.localizer.similarity(unit(psi.mean(1))), env_indices)
        if not self.observations:
            return Sight(unit(psi), [-math.inf] * len(smoothed), [None] * len(smoothed), [None] * len(smoothed))
        best, places = smoothed.max(1)
        similarity, nearest = best.tolist(), places.tolist()
        if self.config.localize_threshold >= EXACT:
            localized = [self._index.get(state.tobytes()) for state in np.asarray(states)]
        else:
            threshold = self.config.localize_threshold
            localized = [localize(place, sfs, threshold) for place, sfs in zip(nearest, similarity, strict=True)]
        return Sight(unit(psi), similarity, localized, nearest)

    def accepts(self, similarity: float) -> bool:
        """A state with this highest SFS to any landmark is worth keeping as a candidate."""
        open_set = not self.set.is_full or self.config.replace != "never"
        return open_set and is_novel(similarity, self.config.add_threshold)

    def propose(self, candidate: Candidate) -> None:
        """Keep a candidate; the same observation is kept once, where it was met first."""
        self.candidates.setdefault(candidate.observation.tobytes(), candidate)

    def refresh(self, source: PsiSource) -> None:
        """psi of the landmarks from the present networks (every N_update steps)."""
        if self.observations:
            self.localizer.set_rows(unit(source.psi(np.stack(self.observations)).mean(1)), same_landmarks=True)

    def admit(self, source: PsiSource, step: int) -> list[tuple[int, Candidate]]:
        """Up to N_cand candidates become landmarks, each tested against those before it; the buffer is emptied."""
        candidates = list(self.candidates.values())
        self.candidates.clear()
        if not candidates:
            return []
        self.refresh(source)
        psi = unit(source.psi(np.stack([candidate.observation for candidate in candidates])).mean(1))
        ranking = candidate_ranking(self.localizer.similarity(psi).cpu().numpy(), self.config.candidate_order)
        admitted: list[tuple[int, Candidate]] = []
        for place in ranking.tolist():
            if len(admitted) == self.config.candidates_per_add:
                break
            index = self._admit_one(psi[place], candidates[place], step)
            if index is not None:
                admitted.append((index, candidates[place]))
        return admitted

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        rows = {"observations": np.stack(self.observations)} if self.observations else {}
        return self.set.state() | self.localizer.state() | rows

    def load_state(self, state: dict[str, Array]) -> None:
        """Take up arrays made by `state`."""
        self.set.load_state(state)
        self.observations = list(state.get("observations", []))
        self._index = {observation.tobytes(): index for index, observation in enumerate(self.observations)}
        self.localizer.load_state(state)

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

    def _admit_one(self, psi: Tensor, candidate: Candidate, step: int) -> int | None:
        similarity = self.localizer.similarity(psi).cpu().numpy()
        if not self.accepts(similarity.max(initial=-np.inf)) or candidate.observation.tobytes() in self._index:
            return None
        rows = self.localizer.rows
        if not self.set.is_full:
            index = self.set.add(candidate.origin, step)
            self.observations.append(candidate.observation)
            rows = torch.cat([rows, psi.unsqueeze(0)])
        else:
            among = self.localizer.similarity(rows).cpu().numpy()
            index = landmark_to_replace(self.config.replace, self.set.visits, among, similarity)
            if self.set.added_at[index] == step:  # it has had no time to be visited
                return None
            del self._index[self.observations[index].tobytes()]
            self.set.replace(index, candidate.origin, step)
            self.observations[index] = candidate.observation
            rows = rows.clone()
            rows[index] = psi
        self._index[candidate.observation.tobytes()] = index
        self.localizer.set_rows(rows, same_landmarks=False)
        return index


def as_array(state: Array | Tensor) -> Array:
    """A state [...] as numbers of its own, which outlive the step."""
    return state.cpu().numpy().copy() if isinstance(state, Tensor) else state.copy()
