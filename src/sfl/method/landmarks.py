"""Which states become landmarks, and at which landmark the agent is (paper, section 4.2 and Algorithm 2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sfl.api import GOAL, Array, Observation
from sfl.fast.cuda import Fetched, to_device
from sfl.method.aliasing import Trust
from sfl.method.candidates import cluster_centres
from sfl.method.config import EXACT, LandmarkConfig
from sfl.method.metric import Cosine, Metric
from sfl.method.states import PsiSource, Representation


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


# ---- SFS of the agent's state to every landmark, and its median over the last steps (paper, appendix: aggregating
# SFS).
#
# In the ablation of the metric it is another nearness than SFS.

UNSEEN = 1e9
"""Stands for a similarity not seen yet: above every cosine, and finite, because it takes part in differences."""


class Localizer:
    """Keys of the landmarks (unit psi), and the last W similarities of every environment."""

    def __init__(self, dim: int, window: int, device: torch.device, metric: Metric | None = None) -> None:
        """`dim`: numbers of a key; without a metric nearness is SFS."""
        self.window, self.device, self.metric = window, device, metric or Cosine()
        self._dim, self._count = dim, 0
        self._laid = self.metric.lay_out(torch.zeros(0, dim, device=device))
        self._doubted: Tensor | None = None  # [L'] bool of the first landmarks
        self._groups: dict[tuple[int, ...], SlidingGroup] = {}  # environments that come together
        self._group_of: dict[int, SlidingGroup] = {}

    def fresh(self) -> Localizer:
        """The same landmarks for other environments."""
        other = Localizer(self._dim, self.window, self.device, self.metric)
        other.set_rows(self.rows, same_landmarks=False)
        other._doubted = self._doubted
        return other

    def doubt(self, landmarks: Tensor) -> None:
        """Nobody is localized to these landmarks, [L] bool, until others are named."""
        self._doubted = landmarks

    def sure(self, similarity: Tensor) -> Tensor:
        """SFS [..., L], below every cosine at landmarks in doubt."""
        if self._doubted is None:
            return similarity
        more = similarity.shape[-1] - len(self._doubted)
        doubted = functional.pad(self._doubted, (0, more)) if more else self._doubted
        return similarity.masked_fill(doubted, -2.0)

    @property
    def rows(self) -> Tensor:
        """Keys of the landmarks, [L, K]."""
        return self.metric.rows(self._laid)

    def set_rows(self, keys: Tensor, same_landmarks: bool) -> None:
        """New keys [L, K] of all landmarks; when some are others than before, the medians start afresh."""
        self._laid, self._count = self.metric.lay_out(keys.to(self.device)), len(keys)
        if not same_landmarks:
            for envs in list(self._groups):
                self._keep(self._unseen(envs))

    def state(self) -> dict[str, Array]:
        """Plain arrays: keys of the landmarks and the history of every environment."""
        everybody = self._gathered(sorted(self._group_of))
        # How many were seen, and the place of the oldest in the history.
        rings = np.array([everybody.seen, [0] * len(everybody.seen)], dtype=np.int64)
        psi, rest = self.rows.cpu().split([self._dim - self.metric.extra, self.metric.extra], dim=1)
        return {
            "psi": psi.numpy().copy(),
            "history": everybody.planes()[0].cpu().numpy(),
            "rings": rings.reshape(2, -1),
            **({"metric_keys": rest.numpy().copy()} if self.metric.extra else {}),
        }

    def load_state(self, state: dict[str, Array]) -> None:
        """Take up arrays made by `state`."""
        parts = [state["psi"], state["metric_keys"]] if self.metric.extra else [state["psi"]]
        self.set_rows(torch.from_numpy(np.concatenate(parts, axis=1)), same_landmarks=False)
        seen, oldest = state["rings"]
        order = (np.arange(self.window)[:, None] + oldest) % self.window  # [W, environments]
        history = torch.from_numpy(state["history"][order, np.arange(len(seen))]).to(self.device)
        self._groups.clear()
        self._group_of.clear()
        if len(seen):
            self._keep(SlidingGroup(range(len(seen)), history, history.sort(dim=0).values, seen.tolist()))

    def reset(self, env_index: int) -> None:
        """An episode of this environment starts: similarities of another place say nothing here."""
        if env_index not in self._group_of:
            self._keep(self._unseen(range(len(self._group_of), env_index + 1)))
        self._group_of[env_index].reset(env_index)

    def similarity(self, keys: Tensor) -> Tensor:
        """Nearness [B, L] of states with keys [B, K] to all landmarks."""
        return self.metric.table(keys, self._laid)

    def smooth(self, similarity: Tensor, env_indices: Array) -> Tensor:
        """Median over the last W similarities [B, L]; the newest alone until W were seen in the episode.

        The similarities are kept as they are, not copied: the caller must not change them afterwards.
        """
        if self.window == 1:
            return similarity
        envs = tuple(env_indices.tolist())
        return (self._groups.get(envs) or self._regroup(envs)).slide(similarity)

    def _regroup(self, envs: tuple[int, ...]) -> SlidingGroup:
        """Those who come together are a group from here on, and so are those whom they leave behind."""
        group, torn = self._gathered(envs), {self._group_of[env].envs for env in envs}
        for old in torn:
            rest = tuple(env for env in old if env not in envs)
            kept = self._gathered(rest) if rest else None
            del self._groups[old]
            if kept is not None:
                self._keep(kept)
        self._keep(group)
        return group

    def _keep(self, group: SlidingGroup) -> None:
        self._groups[group.envs] = group
        self._group_of |= dict.fromkeys(group.envs, group)

    def _gathered(self, envs: Sequence[int]) -> SlidingGroup:
        """A group of these environments with what they have seen in theirs."""
        if not envs:
            return self._unseen(envs)
        groups = list({id(group): group for group in (self._group_of[env] for env in envs)}.values())
        places = {env: place for place, env in enumerate(env for group in groups for env in group.envs)}
        rows = [places[env] for env in envs]
        seen = [count for group in groups for count in group.seen]
        history, ordered = (
            torch.cat(planes, dim=1)[:, rows] for planes in zip(*(group.planes() for group in groups), strict=True)
        )
        return SlidingGroup(envs, history, ordered, [seen[row] for row in rows])

    def _unseen(self, envs: Sequence[int]) -> SlidingGroup:
        """A group that has seen nothing yet."""
        nothing = torch.full((self.window, len(envs), self._count), UNSEEN, device=self.device)
        return SlidingGroup(envs, nothing, nothing.clone(), [0] * len(envs))


class SlidingGroup:
    """Environments that come together: their last W similarities, and the same sorted."""

    def __init__(self, envs: Sequence[int], history: Tensor, ordered: Tensor, seen: list[int]) -> None:
        """`history` [W, environments, L], oldest first; `ordered` the same sorted, which becomes the group's own."""
        self.envs, self.seen = tuple(envs), seen  # seen: of each environment in its episode, counted up to W
        self._ring = list(history.unbind(0))  # an index into a tensor costs as much as the arithmetic on it
        self._oldest = 0
        self._ordered = OrderedWindow(ordered)
        self._all_ripe = min(seen, default=0) >= len(history)
        self._begun: set[int] = set()  # rows of environments whose history is to be forgotten

    def reset(self, env: int) -> None:
        """What this environment has seen does not count any more; done for all such at once when it matters."""
        row = self.envs.index(env)
        self.seen[row] = 0
        self._begun.add(row)
        self._all_ripe = False

    def planes(self) -> tuple[Tensor, Tensor]:
        """Copies of the history [W, environments, L], oldest first, and of the same sorted."""
        self._forget()
        return torch.stack(self._ring[self._oldest :] + self._ring[: self._oldest]), self._ordered.planes.clone()

    def slide(self, similarity: Tensor) -> Tensor:
        """The newest similarities [B, L] come and the oldest go; the medians, or the newest where W were not seen."""
        self._forget()
        self._ordered.remove(self._ring[self._oldest])
        self._ring[self._oldest] = similarity
        self._oldest = (self._oldest + 1) % len(self._ring)
        medians = self._ordered.insert(similarity)
        return medians if self._all_ripe else self._newest_of_young(medians, similarity)

    def _newest_of_young(self, medians: Tensor, newest: Tensor) -> Tensor:
        window = len(self._ring)
        self.seen = [min(count + 1, window) for count in self.seen]
        self._all_ripe = min(self.seen) >= window
        young = to_device(np.array(self.seen) < window, newest.device)
        return torch.where(young.unsqueeze(1), newest, medians)

    def _forget(self) -> None:
        if not self._begun:
            return
        rows = to_device(np.array(sorted(self._begun)), self._ring[0].device)
        for plane in (*self._ring, *self._ordered.planes.unbind(0)):
            plane.index_fill_(0, rows, UNSEEN)
        self._begun.clear()


class OrderedWindow:
    """The last W values of many series, sorted; one goes and one comes in a few operations, without sorting."""

    def __init__(self, planes: Tensor) -> None:
        """`planes` [W, ...], sorted; they are changed in place."""
        window = len(planes)
        self.planes = planes
        self._lower, self._upper = planes[:-1], planes[1:]
        self._low, self._high = planes[(window - 1) // 2], planes[window // 2]
        rest = torch.full((window + 1, *planes.shape[1:]), UNSEEN, device=planes.device)
        rest[0] = -UNSEEN
        self._rest, self._below, self._above = rest[1:-1], rest[:-1], rest[1:]

    def remove(self, value: Tensor) -> None:
        """Take out a value that is among them; `insert` must follow."""
        # What lies above it moves down one place. Weights of exactly 0 and 1 select as a mask does, but faster; they go
        # where the result will, because memory that the product has driven from the cache is dear.
        torch.gt(self._upper, value, out=self._rest)
        torch.lerp(self._lower, self._upper, self._rest, out=self._rest)

    def insert(self, value: Tensor) -> Tensor:
        """Put in a value; returns the mean of the two in the middle, or of an odd number the one."""
        # Each place takes the value if it lies between the two neighbours there, and else the nearer one.
        torch.clamp(value, self._below, self._above, out=self.planes)
        return torch.lerp(self._low, self._high, 0.5)


# ---- The landmarks' observations and psi, and the candidates to become landmarks.

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
    here: Tensor  # [B, K] the keys of the states


class Routes:
    """The landmarks ahead of some environments, the goal among them, whose nearness they want to know."""

    def __init__(self, ahead: Sequence[Sequence[int]], goals: Tensor | None) -> None:
        """`ahead`: for each environment landmarks, or `GOAL`; `goals` [B, K]: keys of their goals, if they have."""
        self._ahead, self._goals = ahead, goals
        self._most = max(map(len, ahead), default=0)

    def similarity(self, smoothed: Tensor, keys: Tensor, metric: Metric) -> Tensor:
        """[B, most] nearness, given the one to all landmarks [B, L] and keys [B, K]; short rows are filled up."""
        table = np.array([[*row, *[0] * (self._most - len(row))] for row in self._ahead], np.int64)
        places = to_device(table.reshape(len(self._ahead), self._most), smoothed.device)
        found = smoothed.gather(1, places.clamp_min(0))
        if self._goals is None:
            return found
        return torch.where(places == GOAL, metric.each(keys, self._goals).unsqueeze(1), found)

    def cut(self, numbers: list[float]) -> list[list[float]]:
        """The answer, row by row, without what filled them up."""
        starts = range(0, len(self._ahead) * self._most, self._most) if self._most else [0] * len(self._ahead)
        return [numbers[start : start + len(row)] for start, row in zip(starts, self._ahead, strict=True)]


class LandmarkMemory:
    """Landmarks with their observations; the graph room knows them by index only."""

    def __init__(self, config: LandmarkConfig, dim: int, device: torch.device, metric: Metric | None = None) -> None:
        """`dim`: numbers of a key; without a metric nearness is SFS."""
        self.config = config
        self.set = LandmarkSet(config.limit)
        self.localizer = Localizer(dim, config.window, device, metric)
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
        """Psi of the states, their nearness to all landmarks, and where the agent is (Algorithm 2, lines 3 and 7).

        `meanwhile` is called when all of this was asked of the device and before its answer is waited for.
        """
        units, keys = source.directions(states)
        smoothed = self.localizer.smooth(self.localizer.similarity(keys), env_indices)
        count = len(smoothed)
        parts = [*self.localizer.sure(smoothed).max(1), smoothed.max(1).values] if self.observations else []
        if routes is not None and self.observations:
            parts.append(routes.similarity(smoothed, keys, self.localizer.metric).flatten())
        # One copy from the device instead of several.
        answer = Fetched(torch.cat([part.to(keys.dtype) for part in parts]) if parts else keys[:0, 0])
        if meanwhile is not None:
            meanwhile()
        if not self.observations:
            return Sight(units, [-math.inf] * count, [None] * count, [None] * count, [()] * count, keys)
        numbers = answer.wait().tolist()
        trusted, nearest = numbers[:count], list(map(int, numbers[count : 2 * count]))
        similarity = numbers[2 * count : 3 * count]
        ahead = [()] * count if routes is None else routes.cut(numbers[3 * count :])
        if self.config.localize_threshold >= EXACT:
            localized = [self._index.get(state.tobytes()) for state in np.asarray(states)]
        else:
            threshold = self.config.localize_threshold
            localized = [localize(place, sfs, threshold) for place, sfs in zip(nearest, trusted, strict=True)]
        return Sight(units, similarity, localized, nearest, ahead, keys)

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
        """Keys of the landmarks from the present networks (every N_update steps)."""
        if self.observations:
            self.localizer.set_rows(source.keys(self._stacked()), same_landmarks=True)

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
        best, places = self.localizer.similarity(source.keys(states)).max(1)
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
        keys = source.keys(np.stack([candidate.observation for candidate in candidates]))
        ranking = self._ranking(keys)
        admission = Admission(self.localizer.rows, self.config.candidates_per_add, self.localizer.metric)
        admitted: list[tuple[int, Candidate]] = []
        for first in range(0, len(ranking), BLOCK):
            block = ranking[first : first + BLOCK]
            admission.test(keys.index_select(0, torch.from_numpy(block).to(keys.device)))
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
        psi = source.keys(np.stack([observation for observation, _ in states]))
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

    def _ranking(self, keys: Tensor) -> Array:
        """The order in which candidates of these keys [C, K] are tried."""
        if self.config.candidate_order == "arrival":  # no need to compare them with all landmarks
            return np.arange(len(keys))
        return candidate_ranking(self.localizer.similarity(keys).cpu().numpy(), self.config.candidate_order)

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

    def __init__(self, rows: Tensor, most: int, metric: Metric) -> None:
        """`rows` [L, K]: keys of the landmarks; there will be at most so many more."""
        self.rows, self._metric = torch.cat([rows, rows.new_zeros(most, rows.shape[1])]), metric
        self._keys = rows[:0]
        self.similarity: Array = np.zeros((0, len(self.rows)))  # [C, landmarks] of a block's candidates

    def test(self, keys: Tensor) -> None:
        """The next candidates, by their keys [C, K]."""
        self._keys, self.similarity = keys, self._metric.between(keys, self.rows).cpu().numpy()

    def take(self, place: int, index: int) -> None:
        """A candidate of the block is the landmark of this index from here on."""
        self.rows[index] = self._keys[place]
        self.similarity[:, index] = self._metric.between(self._keys, self._keys[place : place + 1])[:, 0].cpu().numpy()

    def among(self, count: int) -> Array:
        """Nearness [L, L] of the first `count` landmarks."""
        return np.asarray(self._metric.between(self.rows[:count], self.rows[:count]).cpu().numpy())


def as_array(states: Array | Tensor, rows: list[int]) -> Array:
    """Some of the states [B, ...] as numbers of their own, which outlive the step."""
    return np.asarray((states.cpu().numpy() if isinstance(states, Tensor) else states)[rows])
